/* cuda_rows - bias, GELU and column sums: the small passes around products. */
#include "kernels/cuda_device.cuh"

#define GELU_A 1.5957691216057308f /* 2 sqrt(2/pi): see cpu_linear.c */
#define GELU_B 0.044715f

template <class T>
__global__ void bias_kernel(T *y, const T *b, int64_t n, int64_t width)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x)
        y[i] = from_float<T>(to_float(y[i]) + to_float(b[i % width]));
}

template <class T> __global__ void gelu_kernel(T *y, const T *x, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        float v = to_float(x[i]), u = GELU_A * (v + GELU_B * v * v * v);
        y[i] = from_float<T>(v / (1 + exp_for<T>(-u)));
    }
}

template <class T> __global__ void gelu_bwd_kernel(T *dx, const T *x, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        float v = to_float(x[i]), u = GELU_A * (v + GELU_B * v * v * v);
        float s = 1 / (1 + exp_for<T>(-u)), du = GELU_A * (1 + 3 * GELU_B * v * v);
        dx[i] = from_float<T>(to_float(dx[i]) * (s + v * s * (1 - s) * du));
    }
}

static unsigned grid_of(const struct exec *ex, int64_t n, int per_block)
{
    int64_t blocks = ceil_div(n, per_block), most = cuda_state(ex)->sms * 16;
    return (unsigned)(blocks < most ? blocks : most);
}

enum kstatus cuda_bias(struct exec *ex, void *y, const void *b, int64_t N, int64_t width)
{
    WITH_TYPE(ex->act, T,
              bias_kernel<T><<<grid_of(ex, N * width, 256), 256, 0, stream_of(ex)>>>(
                  (T *)y, (const T *)b, N * width, width));
    return cuda_launched(ex, "bias");
}

enum kstatus cuda_gelu(struct exec *ex, void *y, const void *x, int64_t n)
{
    WITH_TYPE(ex->act, T,
              gelu_kernel<T><<<grid_of(ex, n, 256), 256, 0, stream_of(ex)>>>((T *)y, (const T *)x,
                                                                             n));
    return cuda_launched(ex, "gelu");
}

enum kstatus cuda_gelu_bwd(struct exec *ex, void *dx, const void *x, int64_t n)
{
    WITH_TYPE(ex->act, T,
              gelu_bwd_kernel<T><<<grid_of(ex, n, 256), 256, 0, stream_of(ex)>>>(
                  (T *)dx, (const T *)x, n));
    return cuda_launched(ex, "gelu_bwd");
}

/* A block sums 256 columns (32 lanes of VEC) over its share of the rows. */
template <class T, int VEC>
__global__ void column_sums_kernel(float *part, const T *dy, int64_t N, int width)
{
    __shared__ float all[8][32 * VEC];
    int lane = threadIdx.x, c = (blockIdx.x * 32 + lane) * VEC;
    float s[VEC] = {0}, v[VEC];

    if (c < width)
        for (int64_t n = blockIdx.y * 8 + threadIdx.y; n < N; n += 8 * gridDim.y) {
            if (VEC == 8)
                load8(v, dy + n * width + c);
            else
                v[0] = to_float(dy[n * width + c]);
            for (int i = 0; i < VEC; i++)
                s[i] += v[i];
        }
    for (int i = 0; i < VEC; i++)
        all[threadIdx.y][lane * VEC + i] = s[i];
    __syncthreads();
    for (int i = threadIdx.y * 32 + lane; i < 32 * VEC; i += 256) {
        float t = 0;
        for (int r = 0; r < 8; r++)
            t += all[r][i];
        int col = blockIdx.x * 32 * VEC + i;
        if (col < width)
            part[(int64_t)blockIdx.y * width + col] = t;
    }
}

template <class G>
__global__ void add_partials_kernel(G *grad, const float *part, int rows, int64_t n)
{
    __shared__ float all[8][33];
    int64_t c = blockIdx.x * 32 + threadIdx.x;
    float s = 0;

    if (c < n)
        for (int r = threadIdx.y; r < rows; r += 8)
            s += part[r * n + c];
    all[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y || c >= n)
        return;
    s = 0;
    for (int r = 0; r < 8; r++)
        s += all[r][threadIdx.x];
    grad[c] = from_float<G>(to_float(grad[c]) + s);
}

enum kstatus cuda_add_partials(struct exec *ex, void *grad, const float *part, int rows, int64_t n)
{
    dim3 block(32, 8);
    WITH_GRAD(ex->grad, G,
              add_partials_kernel<G><<<(unsigned)ceil_div(n, 32), block, 0, stream_of(ex)>>>(
                  (G *)grad, part, rows, n));
    return cuda_launched(ex, "add_partials");
}

enum kstatus cuda_column_sums(struct exec *ex, void *db, const void *dy, int64_t N, int width)
{
    bool vec = width % 8 == 0 && aligned16(dy);
    unsigned across = (unsigned)ceil_div(width, vec ? 256 : 32);
    unsigned down = (unsigned)(cuda_state(ex)->sms * 4 / across + 1);
    if (down > ceil_div(N, 8))
        down = (unsigned)ceil_div(N, 8);
    float *part = (float *)cuda_scratch(ex, sizeof(float) * down * width);
    dim3 block(32, 8), grid(across, down);

    if (!part)
        return K_NOMEM;
    if (vec) {
        WITH_TYPE(ex->act, T,
                  column_sums_kernel<T, 8><<<grid, block, 0, stream_of(ex)>>>(part, (const T *)dy,
                                                                              N, width));
    } else {
        WITH_TYPE(ex->act, T,
                  column_sums_kernel<T, 1><<<grid, block, 0, stream_of(ex)>>>(part, (const T *)dy,
                                                                              N, width));
    }
    return cuda_add_partials(ex, db, part, (int)down, width);
}
