/* cuda_update - square sums and AdamW over many tensors in one launch. The
 * tensors' table travels as a kernel parameter (BATCH tensors a launch); a
 * block is CHUNK numbers of one tensor; partial sums are added in order.
 */
#include "kernels/cuda_device.cuh"

#define CHUNK 32768
#define THREADS 256
#define BATCH 400

struct squares_batch {
    const void *data[BATCH];
    int64_t n[BATCH];
    int first[BATCH + 1]; /* chunk where the tensor begins */
    int tensors_n;
};

struct adamw_batch {
    void *param[BATCH];
    float *master[BATCH], *m[BATCH], *v[BATCH];
    const void *grad[BATCH];
    int64_t n[BATCH];
    float decay[BATCH];
    int first[BATCH + 1];
    int tensors_n;
};

/* The tensor of a chunk: first[t] <= chunk < first[t + 1]. */
__device__ static int find(const int *first, int tensors_n, int chunk)
{
    int lo = 0, hi = tensors_n;

    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (first[mid] <= chunk)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

__device__ static double block_sum(double x)
{
    __shared__ double part[THREADS / 32];

    x = warp_sum_f64(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < THREADS / 32; i++)
        x += part[i];
    return x;
}

/* A thread's numbers: at most 128, so float keeps them well before they go to
 * double; overflow to infinity is what the caller looks for. */
template <class T>
__global__ void squares_kernel(const __grid_constant__ struct squares_batch b, double *part)
{
    int t = find(b.first, b.tensors_n, blockIdx.x);
    int64_t from = (blockIdx.x - b.first[t]) * (int64_t)CHUNK;
    int64_t n = b.n[t] - from < CHUNK ? b.n[t] - from : CHUNK;
    const T *x = (const T *)b.data[t] + from;
    double s = 0;

    if ((uintptr_t)x % 16 == 0) {
        for (int64_t i = threadIdx.x * 8; i + 8 <= n; i += THREADS * 8) {
            float v[8], f = 0;
            load8(v, x + i);
            for (int k = 0; k < 8; k++)
                f += v[k] * v[k];
            s += f;
        }
        for (int64_t i = n / 8 * 8 + threadIdx.x; i < n; i += THREADS)
            s += (double)to_float(x[i]) * to_float(x[i]);
    } else {
        for (int64_t i = threadIdx.x; i < n; i += THREADS)
            s += (double)to_float(x[i]) * to_float(x[i]);
    }
    s = block_sum(s);
    if (threadIdx.x == 0)
        part[blockIdx.x] = s;
}

__global__ void squares_sum_kernel(double *sum, const double *part, int64_t n)
{
    double s = 0;

    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        s += part[i];
    s = block_sum(s);
    if (threadIdx.x == 0)
        *sum = s;
}

static int chunks(int64_t n) { return (int)ceil_div(n, CHUNK); }

enum kstatus cuda_sum_squares(struct exec *ex, double *sum, void *const *data, const int64_t *n,
                              int tensors_n, enum dtype dtype)
{
    static_assert(sizeof(struct squares_batch) < 32000, "kernel parameters");
    struct squares_batch b;
    int64_t done = 0, total = 0;

    for (int t = 0; t < tensors_n; t++)
        total += chunks(n[t]);
    double *part = (double *)cuda_scratch(ex, sizeof(double) * total);
    if (!part)
        return K_NOMEM;
    for (int t = 0; t < tensors_n;) {
        b.first[0] = 0;
        for (b.tensors_n = 0; b.tensors_n < BATCH && t < tensors_n; t++) {
            if (n[t] == 0)
                continue;
            b.data[b.tensors_n] = data[t];
            b.n[b.tensors_n] = n[t];
            b.first[b.tensors_n + 1] = b.first[b.tensors_n] + chunks(n[t]);
            b.tensors_n++;
        }
        int blocks = b.first[b.tensors_n];
        if (!blocks)
            continue;
        WITH_TYPE(dtype, T,
                  squares_kernel<T><<<blocks, THREADS, 0, stream_of(ex)>>>(b, part + done));
        done += blocks;
    }
    squares_sum_kernel<<<1, THREADS, 0, stream_of(ex)>>>(sum, part, total);
    return cuda_launched(ex, "sum_squares");
}

struct adamw_one {
    float lr, beta1, beta2, eps, c1, c2, factor, keep;
};

__device__ static float root(float x)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Root and quotient to 2 ulp: exact ones would cost more than the memory. */
template <bool STATS>
__device__ static float adamw_step(const struct adamw_one &a, float g, float w, float &m, float &v,
                                   float *stats)
{
    g *= a.factor;
    m = a.beta1 * m + (1 - a.beta1) * g;
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    float vh = v * a.c2;
    float next = w * a.keep - a.lr * __fdividef(m * a.c1, root(vh) + a.eps);
    if (STATS) {
        stats[0] += (next - w) * (next - w);
        stats[1] += w * w;
        stats[2] += vh > 0 ? __fdividef(g * g, vh) : 0;
    }
    return next;
}

/* W numbers at i of a tensor. */
template <class T, class G, int W, bool STATS>
__device__ static void adamw_at(const struct adamw_batch &b, int t, int64_t i,
                                const struct adamw_one &a, float *stats)
{
    T *param = (T *)b.param[t];
    const G *grad = (const G *)b.grad[t];
    float g[W], w[W], m[W], v[W];

    if constexpr (W == 4) {
        load4(g, grad + i);
        load4(w, b.master[t] + i);
        load4(m, b.m[t] + i);
        load4(v, b.v[t] + i);
    } else {
        g[0] = to_float(grad[i]);
        w[0] = b.master[t][i];
        m[0] = b.m[t][i];
        v[0] = b.v[t][i];
    }
    for (int k = 0; k < W; k++)
        w[k] = adamw_step<STATS>(a, g[k], w[k], m[k], v[k], stats);
    if constexpr (W == 4) {
        store4(b.m[t] + i, m);
        store4(b.v[t] + i, v);
        store4(b.master[t] + i, w);
        if ((void *)param != (void *)b.master[t])
            store4(param + i, w);
    } else {
        b.m[t][i] = m[0];
        b.v[t][i] = v[0];
        b.master[t][i] = w[0];
        if ((void *)param != (void *)b.master[t])
            param[i] = from_float<T>(w[0]);
    }
}

template <class T, class G, bool STATS>
__global__ __launch_bounds__(THREADS) void adamw_kernel(
    const __grid_constant__ struct adamw_batch b, const struct adamw_scalars *scalars,
    const double *factor, double *part)
{
    int t = find(b.first, b.tensors_n, blockIdx.x);
    int64_t from = (blockIdx.x - b.first[t]) * (int64_t)CHUNK;
    int64_t to = from + CHUNK < b.n[t] ? from + CHUNK : b.n[t];
    float stats[3] = {0};
    double f = *factor;

    if (isfinite(f) && f != 0) {
        struct adamw_one a;
        a.lr = (float)scalars->lr;
        a.beta1 = (float)scalars->beta1;
        a.beta2 = (float)scalars->beta2;
        a.eps = (float)scalars->eps;
        a.c1 = 1 / (float)scalars->correction1;
        a.c2 = 1 / (float)scalars->correction2;
        a.factor = (float)f;
        a.keep = 1 - a.lr * b.decay[t];
        bool vec = ((uintptr_t)b.param[t] | (uintptr_t)b.master[t] | (uintptr_t)b.m[t] |
                    (uintptr_t)b.v[t] | (uintptr_t)b.grad[t]) % 16 == 0;
        int64_t whole = vec ? from + (to - from) / 4 * 4 : from;
#pragma unroll 2
        for (int64_t i = from + threadIdx.x * 4; i < whole; i += THREADS * 4)
            adamw_at<T, G, 4, STATS>(b, t, i, a, stats);
        for (int64_t i = whole + threadIdx.x; i < to; i += THREADS)
            adamw_at<T, G, 1, STATS>(b, t, i, a, stats);
    }
    if constexpr (STATS)
        for (int k = 0; k < 3; k++) {
            double sum = block_sum(stats[k]);
            if (threadIdx.x == 0)
                part[(int64_t)blockIdx.x * 3 + k] = sum;
        }
}

__global__ void adamw_stats_kernel(const __grid_constant__ struct adamw_batch b, double *stats,
                                   const double *part)
{
    for (int k = 0; k < 3; k++) {
        double s = 0;
        for (int c = b.first[blockIdx.x] + threadIdx.x; c < b.first[blockIdx.x + 1]; c += THREADS)
            s += part[(int64_t)c * 3 + k];
        s = block_sum(s);
        if (threadIdx.x == 0)
            stats[blockIdx.x * 3 + k] = s;
    }
}

static enum kstatus adamw_launch(struct exec *ex, const struct adamw_batch *b,
                                 const struct adamw_scalars *scalars, const double *factor,
                                 double *stats)
{
    int blocks = b->first[b->tensors_n];
    double *part = NULL;

    if (stats && !(part = (double *)cuda_scratch(ex, sizeof(double) * 3 * blocks)))
        return K_NOMEM;
    WITH_TYPE(ex->act, T, WITH_GRAD(ex->grad, G, if (blocks) {
                  if (part)
                      adamw_kernel<T, G, true><<<blocks, THREADS, 0, stream_of(ex)>>>(
                          *b, scalars, factor, part);
                  else
                      adamw_kernel<T, G, false><<<blocks, THREADS, 0, stream_of(ex)>>>(
                          *b, scalars, factor, part);
              }));
    if (stats)
        adamw_stats_kernel<<<b->tensors_n, THREADS, 0, stream_of(ex)>>>(*b, stats, part);
    return cuda_launched(ex, "adamw");
}

enum kstatus cuda_adamw(struct exec *ex, const struct adamw_tensor *tensors, int tensors_n,
                        const struct adamw_scalars *scalars, const double *factor, double *stats)
{
    static_assert(sizeof(struct adamw_batch) < 32000, "kernel parameters");
    struct adamw_batch b;

    for (int t0 = 0; t0 < tensors_n; t0 += BATCH) {
        b.tensors_n = tensors_n - t0 < BATCH ? tensors_n - t0 : BATCH;
        b.first[0] = 0;
        for (int i = 0; i < b.tensors_n; i++) {
            const struct adamw_tensor *t = &tensors[t0 + i];
            b.param[i] = t->param;
            b.master[i] = (float *)t->master;
            b.m[i] = (float *)t->m;
            b.v[i] = (float *)t->v;
            b.grad[i] = t->grad;
            b.n[i] = t->n;
            b.decay[i] = t->decay;
            b.first[i + 1] = b.first[i] + chunks(t->n);
        }
        enum kstatus s = adamw_launch(ex, &b, scalars, factor, stats ? stats + 3 * t0 : NULL);
        if (s)
            return s;
    }
    return K_OK;
}
