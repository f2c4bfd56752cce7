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

template <class T> __device__ static float gelu(float v)
{
    float u = GELU_A * (v + GELU_B * v * v * v);
    return v / (1 + exp_for<T>(-u));
}

template <class T> __device__ static float gelu_slope(float v)
{
    float u = GELU_A * (v + GELU_B * v * v * v), du = GELU_A * (1 + 3 * GELU_B * v * v);
    float s = 1 / (1 + exp_for<T>(-u));
    return s + v * s * (1 - s) * du;
}

/* V numbers at p, V 1 or 8. */
template <class T, int V> __device__ static void load_some(float *v, const T *p)
{
    if constexpr (V == 8)
        load8(v, p);
    else
        v[0] = to_float(*p);
}
template <class T, int V> __device__ static void store_some(T *p, const float *v)
{
    if constexpr (V == 8)
        store8(p, v);
    else
        *p = from_float<T>(v[0]);
}

/* n vectors of V. */
template <class T, int V> __global__ void gelu_kernel(T *y, const T *x, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        float v[V];
        load_some<T, V>(v, x + i * V);
        for (int k = 0; k < V; k++)
            v[k] = gelu<T>(v[k]);
        store_some<T, V>(y + i * V, v);
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
    bool vec = n % 8 == 0 && aligned16(y, x);
    int64_t parts = vec ? n / 8 : n;

    WITH_TYPE(ex->act, T, {
        if (vec)
            gelu_kernel<T, 8><<<grid_of(ex, parts, 256), 256, 0, stream_of(ex)>>>(
                (T *)y, (const T *)x, parts);
        else
            gelu_kernel<T, 1><<<grid_of(ex, parts, 256), 256, 0, stream_of(ex)>>>(
                (T *)y, (const T *)x, parts);
    });
    return cuda_launched(ex, "gelu");
}

/* A block sums 256 columns (32 lanes of VEC) over its share of the rows, AHEAD
 * of them on their way at once. With GELU the rows are first multiplied by the
 * slope at x, and written; part NULL: no sums. */
template <class T, int VEC, bool GELU>
__global__ __launch_bounds__(256, 4) void column_sums_kernel(float *part, T *dy, const T *x,
                                                             int64_t N, int width)
{
    constexpr int AHEAD = GELU ? 2 : 4;
    __shared__ float all[8][32 * VEC];
    int lane = threadIdx.x, c = (blockIdx.x * 32 + lane) * VEC;
    float s[VEC] = {0}, v[AHEAD][VEC], at[GELU ? AHEAD : 1][VEC];
    int64_t step = 8 * gridDim.y;

    for (int64_t n = blockIdx.y * 8 + threadIdx.y; c < width && n < N; n += AHEAD * step) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (n + a * step < N) {
                load_some<T, VEC>(v[a], dy + (n + a * step) * width + c);
                if constexpr (GELU)
                    load_some<T, VEC>(at[a], x + (n + a * step) * width + c);
            }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (n + a * step >= N)
                continue;
            if constexpr (GELU) {
                for (int i = 0; i < VEC; i++)
                    v[a][i] = to_float(from_float<T>(v[a][i] * gelu_slope<T>(at[a][i])));
                store_some<T, VEC>(dy + (n + a * step) * width + c, v[a]);
            }
            for (int i = 0; i < VEC; i++)
                s[i] += v[a][i];
        }
    }
    if (!part)
        return;
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

/* db NULL: no sums; x NULL: no GELU. */
static enum kstatus columns(struct exec *ex, void *db, void *dy, const void *x, int64_t N,
                            int width)
{
    bool vec = width % 8 == 0 && aligned16(dy, x);
    unsigned across = (unsigned)ceil_div(width, vec ? 256 : 32);
    /* four blocks a multiprocessor run at once: no more, or they wait */
    unsigned down = (unsigned)(cuda_state(ex)->sms * 4) / across;
    if (down > ceil_div(N, 8))
        down = (unsigned)ceil_div(N, 8);
    if (down < 1)
        down = 1;
    float *part = NULL;
    dim3 block(32, 8), grid(across, down);

    if (N == 0)
        return K_OK;
    if (db && !(part = (float *)cuda_scratch(ex, sizeof(float) * down * width)))
        return K_NOMEM;
    WITH_TYPE(ex->act, T, {
        if (vec && x)
            column_sums_kernel<T, 8, true><<<grid, block, 0, stream_of(ex)>>>(
                part, (T *)dy, (const T *)x, N, width);
        else if (vec)
            column_sums_kernel<T, 8, false><<<grid, block, 0, stream_of(ex)>>>(
                part, (T *)dy, NULL, N, width);
        else if (x)
            column_sums_kernel<T, 1, true><<<grid, block, 0, stream_of(ex)>>>(
                part, (T *)dy, (const T *)x, N, width);
        else
            column_sums_kernel<T, 1, false><<<grid, block, 0, stream_of(ex)>>>(
                part, (T *)dy, NULL, N, width);
    });
    enum kstatus s = cuda_launched(ex, "columns");
    return s || !db ? s : cuda_add_partials(ex, db, part, (int)down, width);
}

enum kstatus cuda_column_sums(struct exec *ex, void *db, const void *dy, int64_t N, int width)
{
    return columns(ex, db, (void *)dy, NULL, N, width);
}

enum kstatus cuda_gelu_bwd(struct exec *ex, void *dx, const void *x, void *db, int64_t N,
                           int width)
{
    return columns(ex, db, dx, x, N, width);
}
