/* cuda_qk - QK norm and RoPE in place on packed qkv. A block takes some tokens
 * at a time: their sines and cosines are made once for all heads; a head
 * belongs to P threads, each with 8 numbers of the first half and their
 * partners of the second. Widths that do not divide so take P = 32 and single
 * numbers. Without the norm (NORM false) nothing of it is in the kernel.
 */
#include "kernels/cuda_device.cuh"

#define THREADS 128
#define HALF_MAX 256
/* Tokens of a block at a time, by the width of half a head. */
#define TOKENS(half) ((half) <= 64 ? 4 : 2)
#define ANGLES 512

/* As cpu_qk.c: the angle in turns, reduced in double. */
__device__ static void angles(float *sn, float *cs, const float *inv_freq, const int32_t *position,
                              int tokens, int half)
{
    for (int i = threadIdx.x; i < tokens * half; i += THREADS) {
        double turns = (double)position[i / half] * inv_freq[i % half] * 0.15915494309189535;
        float t = (float)(turns - floor(turns)), s, c;
        sincospif(2 * t, &s, &c);
        sn[i] = s;
        cs[i] = c;
    }
}

/* V numbers at a of the first half, and their partners. */
template <class T, int V>
__device__ static void load_pair(float *x, const T *head, int d, int half)
{
    if constexpr (V == 8) {
        load8(x, head + d);
        load8(x + 8, head + half + d);
    } else {
        x[0] = to_float(head[d]);
        x[1] = to_float(head[half + d]);
    }
}
template <class T, int V>
__device__ static void store_pair(T *head, const float *x, int d, int half)
{
    if constexpr (V == 8) {
        store8(head + d, x);
        store8(head + half + d, x + 8);
    } else {
        head[d] = from_float<T>(x[0]);
        head[half + d] = from_float<T>(x[1]);
    }
}

template <int P> __device__ static float head_sum(float x)
{
#pragma unroll
    for (int w = P / 2; w; w /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, w);
    return x;
}

struct qk_args {
    void *qkv, *pre;
    float *rstd;
    const void *qw, *kw;
    const int32_t *positions;
    const float *inv_freq;
    float eps, *part; /* [blocks][2][D] */
    int64_t N;
    int H, K, D;
};

/* Head number `at` of these tokens. */
struct place {
    int64_t n;
    int h, token;
    bool live;
};
__device__ static struct place place_of(int64_t first, int tokens, int heads, int at)
{
    struct place p;
    p.live = at < tokens * heads;
    p.token = p.live ? at / heads : 0;
    p.h = p.live ? at % heads : 0;
    p.n = first + p.token;
    return p;
}

/* E: pairs of vectors a thread, so that P * V * E >= D / 2. */
template <class T, int P, int V, int E, bool NORM> __global__ void qk_fwd_kernel(struct qk_args a)
{
    __shared__ float sin_of[ANGLES], cos_of[ANGLES];
    int half = a.D / 2, lane = threadIdx.x % P, slot = threadIdx.x / P;
    int slots = THREADS / P, heads = a.H + a.K, most = TOKENS(half);

    for (int64_t first = blockIdx.x * (int64_t)most; first < a.N;
         first += (int64_t)gridDim.x * most) {
        int tokens = first + most < a.N ? most : (int)(a.N - first);
        if (a.inv_freq) {
            __syncthreads();
            angles(sin_of, cos_of, a.inv_freq, a.positions + first, tokens, half);
            __syncthreads();
        }
        for (int at = 0; at < tokens * heads; at += slots) {
            struct place p = place_of(first, tokens, heads, at + slot);
            int64_t n = p.n;
            int h = p.h;
            bool live = p.live;
            const float *sn = sin_of + p.token * half, *cs = cos_of + p.token * half;
            T *head = (T *)a.qkv + (n * (a.H + 2 * a.K) + h) * a.D;
            const T *w = NORM ? (const T *)(h < a.H ? a.qw : a.kw) : NULL;
            float x[E][2 * V], f[2 * V], ss = 0, rstd = 1;
#pragma unroll
            for (int e = 0; e < E; e++) {
                int d = (e * P + lane) * V;
                if (!live || d >= half)
                    continue;
                load_pair<T, V>(x[e], head, d, half);
                for (int i = 0; i < 2 * V; i++)
                    ss += x[e][i] * x[e][i];
            }
            if (w) {
                rstd = rsqrtf(head_sum<P>(ss) / a.D + a.eps);
                if (live && lane == 0)
                    a.rstd[n * heads + h] = rstd;
            }
#pragma unroll
            for (int e = 0; e < E; e++) {
                int d = (e * P + lane) * V;
                if (!live || d >= half)
                    continue;
                if (w) {
                    store_pair<T, V>((T *)a.pre + (n * heads + h) * a.D, x[e], d, half);
                    load_pair<T, V>(f, w, d, half);
                    for (int i = 0; i < 2 * V; i++)
                        x[e][i] *= rstd * f[i];
                }
                for (int i = 0; i < V && a.inv_freq; i++) {
                    float u = x[e][i], v = x[e][V + i];
                    x[e][i] = u * cs[d + i] - v * sn[d + i];
                    x[e][V + i] = v * cs[d + i] + u * sn[d + i];
                }
                store_pair<T, V>(head, x[e], d, half);
            }
        }
    }
}

/* The block's gradients of both norm weights, slots in order, to its part. */
template <int P, int V, int E>
__device__ static void put_sums(const struct qk_args &a, const float (*dw)[E][2 * V], float *sums)
{
    int half = a.D / 2, lane = threadIdx.x % P, slot = threadIdx.x / P, slots = THREADS / P;

#pragma unroll
    for (int e = 0; e < E; e++) {
        int d = (e * P + lane) * V;
        if (d >= half)
            continue;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < V; i++) {
                sums[(slot * 2 + k) * a.D + d + i] = dw[k][e][i];
                sums[(slot * 2 + k) * a.D + half + d + i] = dw[k][e][V + i];
            }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < 2 * a.D; c += THREADS) {
        float s = 0;
        for (int r = 0; r < slots; r++)
            s += sums[r * 2 * a.D + c];
        /* [q or k][blocks][D] */
        int k = c / a.D;
        a.part[((int64_t)k * gridDim.x + blockIdx.x) * a.D + c % a.D] = s;
    }
}

template <class T, int P, int V, int E, bool NORM> __global__ void qk_bwd_kernel(struct qk_args a)
{
    __shared__ float sin_of[ANGLES], cos_of[ANGLES];
    extern __shared__ float sums[]; /* [slots][2][D] */
    int half = a.D / 2, lane = threadIdx.x % P, slot = threadIdx.x / P;
    int slots = THREADS / P, heads = a.H + a.K, most = TOKENS(half);
    float dw[2][E][2 * V] = {};

    for (int64_t first = blockIdx.x * (int64_t)most; first < a.N;
         first += (int64_t)gridDim.x * most) {
        int tokens = first + most < a.N ? most : (int)(a.N - first);
        if (a.inv_freq) {
            __syncthreads();
            angles(sin_of, cos_of, a.inv_freq, a.positions + first, tokens, half);
            __syncthreads();
        }
        for (int at = 0; at < tokens * heads; at += slots) {
            struct place p = place_of(first, tokens, heads, at + slot);
            int64_t n = p.n;
            int h = p.h;
            bool live = p.live;
            const float *sn = sin_of + p.token * half, *cs = cos_of + p.token * half;
            T *head = (T *)a.qkv + (n * (a.H + 2 * a.K) + h) * a.D;
            const T *pre = NORM ? (const T *)a.pre + (n * heads + h) * a.D : NULL;
            const T *w = NORM ? (const T *)(h < a.H ? a.qw : a.kw) : NULL;
            float dy[E][2 * V], x[E][2 * V], f[2 * V], dot = 0, rstd = 1;
            if (w)
                rstd = live ? a.rstd[n * heads + h] : 0;
#pragma unroll
            for (int e = 0; e < E; e++) {
                int d = (e * P + lane) * V;
                if (!live || d >= half)
                    continue;
                load_pair<T, V>(dy[e], head, d, half);
                for (int i = 0; i < V && a.inv_freq; i++) {
                    float u = dy[e][i], v = dy[e][V + i];
                    dy[e][i] = u * cs[d + i] + v * sn[d + i];
                    dy[e][V + i] = v * cs[d + i] - u * sn[d + i];
                }
                if (!w)
                    continue;
                load_pair<T, V>(x[e], pre, d, half);
                load_pair<T, V>(f, w, d, half);
                for (int i = 0; i < 2 * V; i++) {
                    float g = dy[e][i], xh = x[e][i] * rstd;
                    /* both written out: registers have no run-time index */
                    dw[0][e][i] += h < a.H ? g * xh : 0;
                    dw[1][e][i] += h < a.H ? 0 : g * xh;
                    dy[e][i] = g * f[i];
                    x[e][i] = xh;
                    dot += dy[e][i] * xh;
                }
            }
            if (w)
                dot = head_sum<P>(dot) / a.D;
#pragma unroll
            for (int e = 0; e < E; e++) {
                int d = (e * P + lane) * V;
                if (!live || d >= half)
                    continue;
                for (int i = 0; i < 2 * V && w; i++)
                    dy[e][i] = rstd * (dy[e][i] - x[e][i] * dot);
                store_pair<T, V>(head, dy[e], d, half);
            }
        }
    }
    if (NORM && a.part)
        put_sums<P, V, E>(a, dw, sums);
}

#define WITH_HEAD(D, vec, ...)                                                                     \
    if ((vec) && (D) == 128) {                                                                     \
        constexpr int P = 8, V = 8, E = 1;                                                         \
        __VA_ARGS__;                                                                               \
    } else if ((vec) && (D) == 64) {                                                               \
        constexpr int P = 4, V = 8, E = 1;                                                         \
        __VA_ARGS__;                                                                               \
    } else if ((D) <= 128) {                                                                       \
        constexpr int P = 32, V = 1, E = 2;                                                        \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr int P = 32, V = 1, E = 8;                                                        \
        __VA_ARGS__;                                                                               \
    }

static enum kstatus qk_check(const struct qk_args *a, bool norm)
{
    if (a->D > 2 * HALF_MAX || a->D % 2 || (a->inv_freq && !a->positions) ||
        (norm && (!a->qw || !a->kw || !a->pre || !a->rstd)))
        return K_INVALID;
    return K_OK;
}

static unsigned qk_grid(const struct exec *ex, int64_t N, int D)
{
    int64_t blocks = ceil_div(N, TOKENS(D / 2)), most = cuda_state(ex)->sms * 16;
    return (unsigned)(blocks < most ? blocks : most);
}

enum kstatus cuda_qk_fwd(struct exec *ex, void *qkv, void *pre, void *rstd,
                         const struct weight *qw, const struct weight *kw, double eps,
                         const int32_t *positions, const void *inv_freq, int64_t N, int H, int K,
                         int D)
{
    struct qk_args a = {};
    a.qkv = qkv;
    a.pre = pre;
    a.rstd = (float *)rstd;
    a.qw = qw ? qw->data : NULL;
    a.kw = kw ? kw->data : NULL;
    a.positions = positions;
    a.inv_freq = (const float *)inv_freq;
    a.eps = (float)eps;
    a.N = N;
    a.H = H;
    a.K = K;
    a.D = D;
    if (qk_check(&a, qw || kw))
        return K_INVALID;
    if (N == 0 || (!qw && !inv_freq))
        return K_OK;
    bool vec = aligned16(qkv, pre, a.qw, a.kw);
    unsigned grid = qk_grid(ex, N, D);
    WITH_TYPE(ex->act, T, WITH_HEAD(D, vec, {
                  if (qw)
                      qk_fwd_kernel<T, P, V, E, true><<<grid, THREADS, 0, stream_of(ex)>>>(a);
                  else
                      qk_fwd_kernel<T, P, V, E, false><<<grid, THREADS, 0, stream_of(ex)>>>(a);
              }));
    return cuda_launched(ex, "qk_fwd");
}

enum kstatus cuda_qk_bwd(struct exec *ex, void *dqkv, const void *pre, const void *rstd,
                         const struct weight *qw, const struct weight *kw,
                         const int32_t *positions, const void *inv_freq, int64_t N, int H, int K,
                         int D)
{
    struct qk_args a = {};
    a.qkv = dqkv;
    a.pre = (void *)pre;
    a.rstd = (float *)rstd;
    a.qw = qw ? qw->data : NULL;
    a.kw = kw ? kw->data : NULL;
    a.positions = positions;
    a.inv_freq = (const float *)inv_freq;
    a.N = N;
    a.H = H;
    a.K = K;
    a.D = D;
    if (qk_check(&a, qw || kw))
        return K_INVALID;
    if (N == 0 || (!qw && !inv_freq))
        return K_OK;
    unsigned grid = qk_grid(ex, N, D);
    if (qw && qw->grad && !(a.part = (float *)cuda_scratch(ex, sizeof(float) * 2 * D * grid)))
        return K_NOMEM;
    bool vec = aligned16(dqkv, pre, a.qw, a.kw);
    WITH_TYPE(ex->act, T, WITH_HEAD(D, vec, {
                  size_t fold = a.part ? sizeof(float) * (THREADS / P) * 2 * D : 0;
                  if (qw)
                      qk_bwd_kernel<T, P, V, E, true><<<grid, THREADS, fold, stream_of(ex)>>>(a);
                  else
                      qk_bwd_kernel<T, P, V, E, false><<<grid, THREADS, fold, stream_of(ex)>>>(a);
              }));
    enum kstatus s = cuda_launched(ex, "qk_bwd");
    if (!s && a.part)
        s = cuda_add_partials(ex, qw->grad, a.part, (int)grid, D);
    if (!s && a.part)
        s = cuda_add_partials(ex, kw->grad, a.part + (int64_t)grid * D, (int)grid, D);
    return s;
}
