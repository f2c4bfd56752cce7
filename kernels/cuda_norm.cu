/* cuda_norm - residual add with LayerNorm or RMSNorm, forward and backward, a
 * row in the registers of G threads of NV vectors of 8 each. Rows that do not
 * fit (width not a multiple of 8, or wide) take the plain kernels.
 */
#include "kernels/cuda_device.cuh"

template <class T, int G, int NV>
__global__ void norm_fwd_kernel(T *y, T *sum, float *mean_out, float *rstd_out, const T *res,
                                const T *delta, const T *w, const T *b, bool layer, float eps,
                                int64_t N, int C)
{
    int lane = threadIdx.x % G, rows = blockDim.x / G;
    int64_t n = blockIdx.x * (int64_t)rows + threadIdx.x / G;
    float x[NV][8], t[8], s = 0, mean = 0;

    if (n >= N)
        return; /* whole groups: G = 32, or one row a block */
#pragma unroll
    for (int v = 0; v < NV; v++) {
        int c = (v * G + lane) * 8;
        if (c >= C)
            continue;
        load8(x[v], res + n * C + c);
        if (delta) {
            load8(t, delta + n * C + c);
            for (int i = 0; i < 8; i++)
                x[v][i] = to_float(from_float<T>(x[v][i] + t[i]));
        }
        if (sum && (delta || sum != res))
            store8(sum + n * C + c, x[v]);
        for (int i = 0; i < 8; i++)
            s += x[v][i];
    }
    if (layer)
        mean = group_sum<G>(s) / C;
    s = 0;
#pragma unroll
    for (int v = 0; v < NV; v++)
        if ((v * G + lane) * 8 < C)
            for (int i = 0; i < 8; i++)
                s += (x[v][i] - mean) * (x[v][i] - mean);
    float rstd = rsqrtf(group_sum<G>(s) / C + eps);
    if (lane == 0 && layer && mean_out)
        mean_out[n] = mean;
    if (lane == 0 && rstd_out)
        rstd_out[n] = rstd;
#pragma unroll
    for (int v = 0; v < NV; v++) {
        int c = (v * G + lane) * 8;
        float o[8], bias[8] = {0};
        if (c >= C)
            continue;
        load8(t, w + c);
        if (b)
            load8(bias, b + c);
        for (int i = 0; i < 8; i++)
            o[i] = (x[v][i] - mean) * rstd * t[i] + bias[i];
        store8(y + n * C + c, o);
    }
}

/* Any width: a block a row, three passes. */
template <class T>
__global__ void norm_fwd_plain(T *y, T *sum, float *mean_out, float *rstd_out, const T *res,
                               const T *delta, const T *w, const T *b, bool layer, float eps,
                               int C)
{
    int64_t at = blockIdx.x * (int64_t)C;
    float s = 0, mean = 0;

    for (int c = threadIdx.x; c < C; c += 256) {
        T x = res[at + c];
        if (delta)
            x = from_float<T>(to_float(x) + to_float(delta[at + c]));
        if (sum)
            sum[at + c] = x;
        s += to_float(x);
    }
    const T *x = sum ? sum : res; /* each thread reads what it wrote */
    if (layer)
        mean = group_sum<256>(s) / C;
    s = 0;
    for (int c = threadIdx.x; c < C; c += 256)
        s += (to_float(x[at + c]) - mean) * (to_float(x[at + c]) - mean);
    float rstd = rsqrtf(group_sum<256>(s) / C + eps);
    if (threadIdx.x == 0 && layer && mean_out)
        mean_out[blockIdx.x] = mean;
    if (threadIdx.x == 0 && rstd_out)
        rstd_out[blockIdx.x] = rstd;
    for (int c = threadIdx.x; c < C; c += 256)
        y[at + c] = from_float<T>((to_float(x[at + c]) - mean) * rstd * to_float(w[c]) +
                                  (b ? to_float(b[c]) : 0.f));
}

/* Which (threads a row, vectors a thread) hold a row of C. */
#define WITH_ROW(C, ...)                                                                           \
    if ((C) <= 256) {                                                                              \
        constexpr int G = 32, NV = 1;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 512) {                                                                       \
        constexpr int G = 32, NV = 2;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 768) {                                                                       \
        constexpr int G = 32, NV = 3;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 1024) {                                                                      \
        constexpr int G = 32, NV = 4;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 2048) {                                                                      \
        constexpr int G = 128, NV = 2;                                                             \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 4096) {                                                                      \
        constexpr int G = 256, NV = 2;                                                             \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr int G = 256, NV = 4;                                                             \
        __VA_ARGS__;                                                                               \
    }
#define ROW_WIDEST 8192

enum kstatus cuda_norm_fwd(struct exec *ex, void *y, void *sum, void *mean, void *rstd,
                           const void *res, const void *delta, const struct weight *w,
                           const struct weight *b, enum norm_kind kind, double eps, int64_t N,
                           int C)
{
    const void *bias = b ? b->data : NULL;
    bool layer = kind == NORM_LAYER;

    if (delta && !sum)
        return K_INVALID;
    if (N == 0)
        return K_OK;
    if (C % 8 || C > ROW_WIDEST || !aligned16(y, sum, res, delta) || !aligned16(w->data, bias)) {
        WITH_TYPE(ex->act, T,
                  norm_fwd_plain<T><<<(unsigned)N, 256, 0, stream_of(ex)>>>(
                      (T *)y, (T *)sum, (float *)mean, (float *)rstd, (const T *)res,
                      (const T *)delta, (const T *)w->data, (const T *)bias, layer, (float)eps,
                      C));
        return cuda_launched(ex, "norm_fwd_plain");
    }
    WITH_TYPE(ex->act, T, WITH_ROW(C, {
                  int block = G == 32 ? 128 : G;
                  norm_fwd_kernel<T, G, NV>
                      <<<(unsigned)ceil_div(N, block / G), block, 0, stream_of(ex)>>>(
                          (T *)y, (T *)sum, (float *)mean, (float *)rstd, (const T *)res,
                          (const T *)delta, (const T *)w->data, (const T *)bias, layer,
                          (float)eps, N, C);
              }));
    return cuda_launched(ex, "norm_fwd");
}

/* The backward keeps two sums for each of its columns beside the row: fewer
 * columns a thread, so that many rows are under way. */
#define WITH_ROW_BWD(C, ...)                                                                       \
    if ((C) <= 256) {                                                                              \
        constexpr int G = 32, NV = 1;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 512) {                                                                       \
        constexpr int G = 64, NV = 1;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 768) {                                                                       \
        constexpr int G = 96, NV = 1;                                                              \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 1024) {                                                                      \
        constexpr int G = 128, NV = 1;                                                             \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 1792) {                                                                      \
        constexpr int G = 224, NV = 1;                                                             \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 2048) {                                                                      \
        constexpr int G = 256, NV = 1;                                                             \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 3072) {                                                                      \
        constexpr int G = 384, NV = 1;                                                             \
        __VA_ARGS__;                                                                               \
    } else if ((C) <= 4096) {                                                                      \
        constexpr int G = 256, NV = 2;                                                             \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr int G = 256, NV = 4;                                                             \
        __VA_ARGS__;                                                                               \
    }

/* What a thread with one vector reads of a row: on its way while the row before
 * is worked on, which waits for all its threads. */
template <class T> struct norm_row {
    struct raw8<T> x, dy, dres;
    float mean, rstd;

    __device__ void fetch(int64_t n, int c, bool set, const T *dres_in, const T *dy_in,
                          const T *x_in, const float *mean_in, const float *rstd_in, bool layer,
                          int64_t N, int C)
    {
        if (n >= N)
            return;
        if (c < C) {
            x = fetch8(x_in + n * C + c);
            dy = fetch8(dy_in + n * C + c);
            if (!set)
                dres = fetch8(dres_in + n * C + c);
        }
        mean = layer ? mean_in[n] : 0;
        rstd = rstd_in[n];
    }
};

/* Each block takes rows in turn and keeps the parameters' sums in registers;
 * part [blocks][2][C], with BELOW [blocks][3][C]: column sums of dres last. */
template <class T, int G, int NV, bool BELOW>
__global__ __launch_bounds__(G == 32 ? 128 : G, NV > 2 ? 1 : 768 / NV / (G == 32 ? 128 : G)) void
norm_bwd_kernel(T *dres, bool set, const T *dy, const T *x, const float *mean_in,
                                const float *rstd_in, const T *w, float *part, bool layer,
                                int64_t N, int C)
{
    extern __shared__ float fold[]; /* G = 32: [rows of the block][P][C] */
    constexpr int P = BELOW ? 3 : 2;
    int lane = threadIdx.x % G, rows = blockDim.x / G, group = threadIdx.x / G;
    int64_t step = (int64_t)gridDim.x * rows;
    float dw[NV][8] = {}, db[NV][8] = {}, below[BELOW ? NV : 1][8] = {};
    struct norm_row<T> next;
    constexpr bool EARLY = NV == 1; /* more would need too many registers */

    if (EARLY)
        next.fetch(blockIdx.x * (int64_t)rows + group, lane * 8, set, dres, dy, x, mean_in,
                   rstd_in, layer, N, C);
    for (int64_t n = blockIdx.x * (int64_t)rows + group; n < N; n += step) {
        float xs[NV][8], gs[NV][8], old[NV][8], weight[8];
        float mean, rstd;
        float2 s = make_float2(0, 0);
        if constexpr (EARLY) {
            mean = next.mean;
            rstd = next.rstd;
            unpack8<T>(xs[0], next.x);
            unpack8<T>(gs[0], next.dy);
            unpack8<T>(old[0], next.dres);
            next.fetch(n + step, lane * 8, set, dres, dy, x, mean_in, rstd_in, layer, N, C);
        } else {
            mean = layer ? mean_in[n] : 0;
            rstd = rstd_in[n];
        }
#pragma unroll
        for (int v = 0; v < NV; v++) {
            int c = (v * G + lane) * 8;
            if (c >= C)
                continue;
            if constexpr (!EARLY) {
                load8(xs[v], x + n * C + c);
                load8(gs[v], dy + n * C + c);
                if (!set)
                    load8(old[v], dres + n * C + c);
            }
            load8(weight, w + c);
            for (int i = 0; i < 8; i++) {
                float h = (xs[v][i] - mean) * rstd, g = gs[v][i];
                dw[v][i] += g * h;
                db[v][i] += g;
                xs[v][i] = h;
                gs[v][i] = g * weight[i];
                s.x += gs[v][i];
                s.y += gs[v][i] * h;
            }
        }
        s = group_sum2<G>(s);
        s.x = layer ? s.x / C : 0;
        s.y /= C;
#pragma unroll
        for (int v = 0; v < NV; v++) {
            int c = (v * G + lane) * 8;
            float o[8];
            if (c >= C)
                continue;
            for (int i = 0; i < 8; i++)
                o[i] = rstd * (gs[v][i] - s.x - xs[v][i] * s.y) + (set ? 0.f : old[v][i]);
            store8(dres + n * C + c, o);
            if constexpr (BELOW)
                for (int i = 0; i < 8; i++)
                    below[v][i] += to_float(from_float<T>(o[i]));
        }
    }
    if (!part)
        return;
    float *out = part + (int64_t)blockIdx.x * P * C;
    float *mine = G == 32 ? fold + (int64_t)group * P * C : out;
#pragma unroll
    for (int v = 0; v < NV; v++) {
        int c = (v * G + lane) * 8;
        if (c >= C)
            continue;
        store8(mine + c, dw[v]);
        store8(mine + C + c, db[v]);
        if constexpr (BELOW)
            store8(mine + 2 * C + c, below[v]);
    }
    if (G != 32)
        return;
    __syncthreads();
    for (int c = threadIdx.x; c < P * C; c += blockDim.x) {
        float s = 0;
        for (int r = 0; r < rows; r++)
            s += fold[(int64_t)r * P * C + c];
        out[c] = s;
    }
}

/* Gradients [C] each, dw, db and what is below, from the blocks' parts
 * [blocks][P][C], blocks in order (by eighths). */
template <class G> struct norm_grads {
    G *at[3];
};
template <class G>
__global__ void norm_param_kernel(struct norm_grads<G> grads, const float *part, int blocks, int P,
                                  int C)
{
    __shared__ float all[8][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    float s = 0;

    if (c < P * C)
#pragma unroll 8
        for (int r = threadIdx.y; r < blocks; r += 8)
            s += part[(int64_t)r * P * C + c];
    all[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y || c >= P * C)
        return;
    s = 0;
    for (int r = 0; r < 8; r++)
        s += all[r][threadIdx.x];
    G *grad = c < C ? grads.at[0] : c < 2 * C ? grads.at[1] : grads.at[2];
    if (grad)
        grad[c % C] = from_float<G>(to_float(grad[c % C]) + s);
}

template <class T>
__global__ void norm_bwd_plain(T *dres, bool set, const T *dy, const T *x, const float *mean_in,
                               const float *rstd_in, const T *w, bool layer, int C)
{
    int64_t n = blockIdx.x, at = n * C;
    float mean = layer ? mean_in[n] : 0, rstd = rstd_in[n];
    float2 s = make_float2(0, 0);

    for (int c = threadIdx.x; c < C; c += 256) {
        float g = to_float(dy[at + c]) * to_float(w[c]);
        s.x += g;
        s.y += g * (to_float(x[at + c]) - mean) * rstd;
    }
    s = group_sum2<256>(s);
    s.x = layer ? s.x / C : 0;
    s.y /= C;
    for (int c = threadIdx.x; c < C; c += 256) {
        float g = to_float(dy[at + c]) * to_float(w[c]);
        float h = (to_float(x[at + c]) - mean) * rstd;
        float o = rstd * (g - s.x - h * s.y);
        dres[at + c] = from_float<T>(set ? o : o + to_float(dres[at + c]));
    }
}

/* part [gridDim.y][2][C], rows shared among blocks in y. */
template <class T>
__global__ void norm_param_plain(float *part, const T *dy, const T *x, const float *mean_in,
                                 const float *rstd_in, bool layer, int64_t N, int C)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float dw = 0, db = 0;

    if (c >= C)
        return;
    for (int64_t n = blockIdx.y; n < N; n += gridDim.y) {
        float g = to_float(dy[n * C + c]);
        dw += g * (to_float(x[n * C + c]) - (layer ? mean_in[n] : 0)) * rstd_in[n];
        db += g;
    }
    part[(int64_t)blockIdx.y * 2 * C + c] = dw;
    part[(int64_t)blockIdx.y * 2 * C + C + c] = db;
}

/* below NULL: parts of two. */
static enum kstatus norm_params(struct exec *ex, const struct weight *w, const struct weight *b,
                                const struct weight *below, const float *part, int blocks, int C)
{
    int P = below ? 3 : 2;
    dim3 block(32, 8);
    WITH_GRAD(ex->grad, G, {
        struct norm_grads<G> grads = {{(G *)w->grad, (G *)(b ? b->grad : NULL),
                                       (G *)(below ? below->grad : NULL)}};
        norm_param_kernel<G><<<(unsigned)ceil_div(P * C, 32), block, 0, stream_of(ex)>>>(
            grads, part, blocks, P, C);
    });
    return cuda_launched(ex, "norm_params");
}

static enum kstatus norm_bwd_any(struct exec *ex, void *dres, bool set, const void *dy,
                                 const void *sum, const void *mean, const void *rstd,
                                 const struct weight *w, const struct weight *b, bool layer,
                                 int64_t N, int C)
{
    unsigned down = N < 64 ? (unsigned)N : 64;
    float *part = (float *)cuda_scratch(ex, sizeof(float) * 2 * C * down);
    dim3 grid((unsigned)ceil_div(C, 128), down);

    if (!part)
        return K_NOMEM;
    /* First the parameters: dres may be the buffer of dy. */
    WITH_TYPE(ex->act, T,
              norm_param_plain<T><<<grid, 128, 0, stream_of(ex)>>>(
                  part, (const T *)dy, (const T *)sum, (const float *)mean, (const float *)rstd,
                  layer, N, C));
    WITH_TYPE(ex->act, T,
              norm_bwd_plain<T><<<(unsigned)N, 256, 0, stream_of(ex)>>>(
                  (T *)dres, set, (const T *)dy, (const T *)sum, (const float *)mean,
                  (const float *)rstd, (const T *)w->data, layer, C));
    enum kstatus s = cuda_launched(ex, "norm_bwd_plain");
    if (!s && w->grad)
        s = norm_params(ex, w, b, NULL, part, (int)down, C);
    return s;
}

/* As many blocks as run at once: a second wave would be mostly idle. */
template <class F>
static int64_t norm_blocks(const struct exec *ex, F *kernel, int threads, size_t shared)
{
    int each = 1;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared);
    return (int64_t)cuda_state(ex)->sms * (each > 0 ? each : 1);
}

/* The kernel for this row, its threads and shared memory. */
template <class T, bool BELOW>
static enum kstatus norm_bwd_rows(struct exec *ex, T *dres, bool set, const T *dy, const T *sum,
                                  const float *mean, const float *rstd, const struct weight *w,
                                  const struct weight *b, const struct weight *below, bool layer,
                                  int64_t N, int C)
{
    float *part = NULL;
    int64_t blocks = 0;

    WITH_ROW_BWD(C, {
        constexpr int threads = G == 32 ? 128 : G, P = BELOW ? 3 : 2;
        size_t fold = G == 32 ? sizeof(float) * 4 * P * C : 0;
        blocks = norm_blocks(ex, norm_bwd_kernel<T, G, NV, BELOW>, threads, fold);
        if (blocks > ceil_div(N, threads / G))
            blocks = ceil_div(N, threads / G);
        if ((w->grad || BELOW) &&
            !(part = (float *)cuda_scratch(ex, sizeof(float) * P * C * blocks)))
            return K_NOMEM;
        norm_bwd_kernel<T, G, NV, BELOW><<<(unsigned)blocks, threads, fold, stream_of(ex)>>>(
            dres, set, dy, sum, mean, rstd, (const T *)w->data, part, layer, N, C);
    });
    enum kstatus s = cuda_launched(ex, "norm_bwd");
    return s || !part ? s : norm_params(ex, w, b, below, part, (int)blocks, C);
}

enum kstatus cuda_norm_bwd(struct exec *ex, void *dres, bool set, const void *dy, const void *sum,
                           const void *mean, const void *rstd, const struct weight *w,
                           const struct weight *b, const struct weight *below, enum norm_kind kind,
                           int64_t N, int C)
{
    bool layer = kind == NORM_LAYER;
    enum kstatus s = K_OK;

    if (N == 0)
        return K_OK;
    if (below && !below->grad)
        below = NULL;
    if (C % 8 || C > ROW_WIDEST || !aligned16(dres, dy, sum, w->data)) {
        s = norm_bwd_any(ex, dres, set, dy, sum, mean, rstd, w, b, layer, N, C);
        return s || !below ? s : cuda_column_sums(ex, below->grad, dres, N, C);
    }
    WITH_TYPE(ex->act, T, {
        if (below)
            s = norm_bwd_rows<T, true>(ex, (T *)dres, set, (const T *)dy, (const T *)sum,
                                       (const float *)mean, (const float *)rstd, w, b, below,
                                       layer, N, C);
        else
            s = norm_bwd_rows<T, false>(ex, (T *)dres, set, (const T *)dy, (const T *)sum,
                                        (const float *)mean, (const float *)rstd, w, b, NULL,
                                        layer, N, C);
    });
    return s;
}
