/* cuda_swiglu - y = silu(gate) * up on [gate | up]. */
#include "kernels/cuda_device.cuh"

/* VEC numbers a thread along a row; rows in y. */
template <class T, int VEC>
__global__ void swiglu_fwd_kernel(T *y, const T *gate_up, int64_t N, int F)
{
    int64_t parts = F / VEC, total = N * parts;

    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < total;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t n = i / parts, c = i % parts * VEC;
        const T *row = gate_up + n * 2 * F;
        float g[VEC], u[VEC];
        if constexpr (VEC == 8) {
            load8(g, row + c);
            load8(u, row + F + c);
        } else {
            g[0] = to_float(row[c]);
            u[0] = to_float(row[F + c]);
        }
#pragma unroll
        for (int k = 0; k < VEC; k++)
            g[k] = g[k] / (1 + exp_for<T>(-g[k])) * u[k];
        if constexpr (VEC == 8)
            store8(y + n * F + c, g);
        else
            y[n * F + c] = from_float<T>(g[0]);
    }
}

template <class T, int VEC>
__global__ void swiglu_bwd_kernel(T *dgate_up, const T *dy, const T *gate_up, int64_t N, int F)
{
    int64_t parts = F / VEC, total = N * parts;

    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < total;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t n = i / parts, c = i % parts * VEC;
        const T *row = gate_up + n * 2 * F;
        T *out = dgate_up + n * 2 * F;
        float g[VEC], u[VEC], d[VEC];
        if constexpr (VEC == 8) {
            load8(g, row + c);
            load8(u, row + F + c);
            load8(d, dy + n * F + c);
        } else {
            g[0] = to_float(row[c]);
            u[0] = to_float(row[F + c]);
            d[0] = to_float(dy[n * F + c]);
        }
#pragma unroll
        for (int k = 0; k < VEC; k++) {
            float s = 1 / (1 + exp_for<T>(-g[k])), up = u[k];
            u[k] = d[k] * g[k] * s;
            g[k] = d[k] * up * (s + g[k] * s * (1 - s));
        }
        if constexpr (VEC == 8) {
            store8(out + c, g);
            store8(out + F + c, u);
        } else {
            out[c] = from_float<T>(g[0]);
            out[F + c] = from_float<T>(u[0]);
        }
    }
}

static unsigned grid_of(int64_t total) { return (unsigned)ceil_div(total, 256); }

enum kstatus cuda_swiglu_fwd(struct exec *ex, void *y, const void *gate_up, int64_t N, int F)
{
    if (N == 0)
        return K_OK;
    if (F % 8 == 0 && aligned16(y, gate_up)) {
        WITH_TYPE(ex->act, T,
                  swiglu_fwd_kernel<T, 8><<<grid_of(N * F / 8), 256, 0, stream_of(ex)>>>(
                      (T *)y, (const T *)gate_up, N, F));
    } else {
        WITH_TYPE(ex->act, T,
                  swiglu_fwd_kernel<T, 1><<<grid_of(N * F), 256, 0, stream_of(ex)>>>(
                      (T *)y, (const T *)gate_up, N, F));
    }
    return cuda_launched(ex, "swiglu_fwd");
}

enum kstatus cuda_swiglu_bwd(struct exec *ex, void *dgate_up, const void *dy, const void *gate_up,
                             int64_t N, int F)
{
    if (N == 0)
        return K_OK;
    if (F % 8 == 0 && aligned16(dgate_up, dy, gate_up)) {
        WITH_TYPE(ex->act, T,
                  swiglu_bwd_kernel<T, 8><<<grid_of(N * F / 8), 256, 0, stream_of(ex)>>>(
                      (T *)dgate_up, (const T *)dy, (const T *)gate_up, N, F));
    } else {
        WITH_TYPE(ex->act, T,
                  swiglu_bwd_kernel<T, 1><<<grid_of(N * F), 256, 0, stream_of(ex)>>>(
                      (T *)dgate_up, (const T *)dy, (const T *)gate_up, N, F));
    }
    return cuda_launched(ex, "swiglu_bwd");
}
