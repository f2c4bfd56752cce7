/* cuda_attention - plain causal attention: any width up to 256, any dtype,
 * grouped heads, documents, Tq != Tk. The proof and the last fallback, behind
 * cuDNN (sdpa.h) and the tensor cores (cuda_flash.cu).
 *
 * A block is ROWS rows (queries; keys in the backward of k and v), a warp has
 * R of them. Columns come in tiles of 32 through shared memory: a lane has one
 * column for scores, and every 32nd number of the width for sums.
 */
#include "kernels/cuda_attention.cuh"

#define R 4
#define WARPS 4
#define ROWS (R * WARPS)

/* A tile of 32 rows of width D, from row j0, zero behind row_n. */
template <class T>
__device__ static void load_tile(float *tile, const T *base, int64_t row, int j0, int row_n, int D)
{
    for (int i = threadIdx.x; i < 32 * D; i += 32 * WARPS) {
        int j = i / D, d = i % D;
        tile[j * (D + 1) + d] = j0 + j < row_n ? to_float(base[(j0 + j) * row + d]) : 0;
    }
}

/* Rows of one warp into shared memory, times f. */
template <class T>
__device__ static void load_rows(float *mine, const T *base, int64_t row, int i0, int row_n, int D,
                                 float f)
{
    for (int r = 0; r < R; r++)
        for (int d = threadIdx.x % 32; d < D; d += 32)
            mine[r * D + d] = i0 + r < row_n ? to_float(base[(i0 + r) * row + d]) * f : 0;
}

/* s[r] = rows[r] . tile[lane] */
__device__ static void dots(float *s, const float *rows, const float *tile, int D)
{
    int lane = threadIdx.x % 32;
    for (int r = 0; r < R; r++)
        s[r] = 0;
    for (int d = 0; d < D; d++) {
        float t = tile[lane * (D + 1) + d];
        for (int r = 0; r < R; r++)
            s[r] += rows[r * D + d] * t;
    }
}

/* acc[r] += sum over the tile's rows j of p[r] (lane j) times tile[j] */
template <int ND>
__device__ static void accumulate(float (*acc)[ND], const float *p, const float *tile, int D)
{
    int lane = threadIdx.x % 32;
    for (int j = 0; j < 32; j++) {
        float w[R];
#pragma unroll
        for (int r = 0; r < R; r++)
            w[r] = __shfl_sync(0xffffffffu, p[r], j);
#pragma unroll
        for (int k = 0; k < ND; k++) {
            int d = lane + 32 * k;
            float t = d < D ? tile[j * (D + 1) + d] : 0;
#pragma unroll
            for (int r = 0; r < R; r++)
                acc[r][k] += w[r] * t;
        }
    }
}

template <class T, int ND> __global__ void attn_fwd_kernel(struct attn_dev a)
{
    extern __shared__ float shared[];
    float *kt = shared, *vt = kt + 32 * (a.D + 1), *qs = vt + 32 * (a.D + 1);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, h = blockIdx.y;
    int kh = h / (a.H / a.K), D = a.D;
    struct attn_span s = attn_span_of(a, blockIdx.z);
    int block0 = blockIdx.x * ROWS, i0 = block0 + warp * R;
    float acc[R][ND] = {}, m[R], sum[R];

    if (block0 >= s.Tq)
        return;
    qs += warp * R * D;
    load_rows(qs, (const T *)a.q + s.q0 * a.q_row + h * D, a.q_row, i0, s.Tq, D, a.scale);
    for (int r = 0; r < R; r++) {
        m[r] = -INFINITY;
        sum[r] = 0;
    }
    int last = min(s.Tq, block0 + ROWS) - 1 + s.Tk - s.Tq; /* key of the last row */
    for (int j0 = 0; j0 <= last; j0 += 32) {
        __syncthreads();
        load_tile(kt, (const T *)a.k + s.k0 * a.k_row + kh * D, a.k_row, j0, s.Tk, D);
        load_tile(vt, (const T *)a.v + s.k0 * a.v_row + kh * D, a.v_row, j0, s.Tk, D);
        __syncthreads();
        float p[R];
        dots(p, qs, kt, D);
        for (int r = 0; r < R; r++) {
            bool sees = j0 + lane <= i0 + r + s.Tk - s.Tq;
            float x = sees ? p[r] : -INFINITY, top = fmaxf(m[r], warp_max(x));
            float old = m[r] == -INFINITY ? 0 : expf(m[r] - top);
            p[r] = sees ? expf(x - top) : 0;
            sum[r] = sum[r] * old + warp_sum(p[r]);
            m[r] = top;
            for (int k = 0; k < ND; k++)
                acc[r][k] *= old;
        }
        accumulate<ND>(acc, p, vt, D);
    }
    for (int r = 0; r < R; r++) {
        if (i0 + r >= s.Tq)
            continue;
        T *o = (T *)a.out + (s.q0 + i0 + r) * a.o_row + h * D;
        for (int k = 0; k < ND; k++)
            if (lane + 32 * k < D)
                o[lane + 32 * k] = from_float<T>(acc[r][k] / sum[r]);
        if (lane == 0 && a.lse)
            a.lse[s.lse0 + h * s.lse_head + i0 + r] = m[r] + logf(sum[r]);
    }
}

/* delta[h, n] = o . dout: a warp each. */
template <class T> __global__ void attn_delta_kernel(struct attn_dev a)
{
    int64_t i = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    float s = 0;

    if (i >= a.Nq * a.H)
        return;
    int64_t n = i / a.H, h = i % a.H;
    for (int d = lane; d < a.D; d += 32)
        s += to_float(((const T *)a.o)[n * a.o_row + h * a.D + d]) *
             to_float(((const T *)a.dout)[n * a.o_row + h * a.D + d]);
    s = warp_sum(s);
    if (lane == 0)
        a.delta[h * a.Nq + n] = s;
}

template <class T, int ND> __global__ void attn_dq_kernel(struct attn_dev a)
{
    extern __shared__ float shared[];
    float *kt = shared, *vt = kt + 32 * (a.D + 1), *qs = vt + 32 * (a.D + 1);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, h = blockIdx.y;
    int kh = h / (a.H / a.K), D = a.D;
    struct attn_span s = attn_span_of(a, blockIdx.z);
    int block0 = blockIdx.x * ROWS, i0 = block0 + warp * R;
    float acc[R][ND] = {}, lse[R], delta[R];
    float *ds = qs + (WARPS + warp) * R * D;

    if (block0 >= s.Tq)
        return;
    qs += warp * R * D;
    load_rows(qs, (const T *)a.q + s.q0 * a.q_row + h * D, a.q_row, i0, s.Tq, D, a.scale);
    load_rows(ds, (const T *)a.dout + s.q0 * a.o_row + h * D, a.o_row, i0, s.Tq, D, 1);
    for (int r = 0; r < R; r++) {
        bool live = i0 + r < s.Tq;
        lse[r] = live ? a.lse[s.lse0 + h * s.lse_head + i0 + r] : 0;
        delta[r] = live ? a.delta[h * a.Nq + s.q0 + i0 + r] : 0;
    }
    int last = min(s.Tq, block0 + ROWS) - 1 + s.Tk - s.Tq;
    for (int j0 = 0; j0 <= last; j0 += 32) {
        __syncthreads();
        load_tile(kt, (const T *)a.k + s.k0 * a.k_row + kh * D, a.k_row, j0, s.Tk, D);
        load_tile(vt, (const T *)a.v + s.k0 * a.v_row + kh * D, a.v_row, j0, s.Tk, D);
        __syncthreads();
        float p[R], dp[R];
        dots(p, qs, kt, D);
        dots(dp, ds, vt, D);
        for (int r = 0; r < R; r++) {
            bool sees = j0 + lane <= i0 + r + s.Tk - s.Tq && i0 + r < s.Tq;
            p[r] = sees ? expf(p[r] - lse[r]) * (dp[r] - delta[r]) * a.scale : 0;
        }
        accumulate<ND>(acc, p, kt, D);
    }
    for (int r = 0; r < R; r++)
        for (int k = 0; k < ND; k++)
            if (i0 + r < s.Tq && lane + 32 * k < D)
                ((T *)a.dq)[(s.q0 + i0 + r) * a.q_row + h * D + lane + 32 * k] =
                    from_float<T>(acc[r][k]);
}

/* Rows are keys here, tiles are queries, over all heads of the group. */
template <class T, int ND> __global__ void attn_dkv_kernel(struct attn_dev a)
{
    extern __shared__ float shared[];
    float *qt = shared, *dt = qt + 32 * (a.D + 1), *ks = dt + 32 * (a.D + 1);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, kh = blockIdx.y;
    int group = a.H / a.K, D = a.D;
    struct attn_span s = attn_span_of(a, blockIdx.z);
    int block0 = blockIdx.x * ROWS, j0 = block0 + warp * R;
    float dk[R][ND] = {}, dv[R][ND] = {};
    float *vs = ks + (WARPS + warp) * R * D;

    if (block0 >= s.Tk)
        return;
    ks += warp * R * D;
    load_rows(ks, (const T *)a.k + s.k0 * a.k_row + kh * D, a.k_row, j0, s.Tk, D, a.scale);
    load_rows(vs, (const T *)a.v + s.k0 * a.v_row + kh * D, a.v_row, j0, s.Tk, D, 1);
    int first = max(0, block0 - (s.Tk - s.Tq)) / 32 * 32; /* query that sees block0 */
    for (int h = kh * group; h < (kh + 1) * group; h++)
        for (int i0 = first; i0 < s.Tq; i0 += 32) {
            __syncthreads();
            load_tile(qt, (const T *)a.q + s.q0 * a.q_row + h * D, a.q_row, i0, s.Tq, D);
            load_tile(dt, (const T *)a.dout + s.q0 * a.o_row + h * D, a.o_row, i0, s.Tq, D);
            __syncthreads();
            int i = i0 + lane;
            float lse = i < s.Tq ? a.lse[s.lse0 + h * s.lse_head + i] : 0;
            float delta = i < s.Tq ? a.delta[h * a.Nq + s.q0 + i] : 0;
            float p[R], dp[R];
            dots(p, ks, qt, D);
            dots(dp, vs, dt, D);
            for (int r = 0; r < R; r++) {
                bool sees = j0 + r <= i + s.Tk - s.Tq && i < s.Tq;
                p[r] = sees ? expf(p[r] - lse) : 0;
                dp[r] = p[r] * (dp[r] - delta) * a.scale;
            }
            accumulate<ND>(dv, p, dt, D);
            accumulate<ND>(dk, dp, qt, D);
        }
    for (int r = 0; r < R; r++)
        for (int k = 0; k < ND; k++)
            if (j0 + r < s.Tk && lane + 32 * k < D) {
                int64_t n = s.k0 + j0 + r;
                int c = kh * D + lane + 32 * k;
                ((T *)a.dk)[n * a.k_row + c] = from_float<T>(dk[r][k]);
                ((T *)a.dv)[n * a.v_row + c] = from_float<T>(dv[r][k]);
            }
}

#define WITH_WIDTH(D, ...)                                                                         \
    if ((D) <= 64) {                                                                               \
        constexpr int ND = 2;                                                                      \
        __VA_ARGS__;                                                                               \
    } else if ((D) <= 96) {                                                                        \
        constexpr int ND = 3;                                                                      \
        __VA_ARGS__;                                                                               \
    } else if ((D) <= 128) {                                                                       \
        constexpr int ND = 4;                                                                      \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr int ND = 8;                                                                      \
        __VA_ARGS__;                                                                               \
    }

static size_t tiles_bytes(int D, int row_sets)
{
    return sizeof(float) * (2 * 32 * (D + 1) + row_sets * ROWS * D);
}

template <class F> static void allow(F *kernel, size_t bytes)
{
    if (bytes > 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

enum kstatus cuda_attn_plain_fwd(struct exec *ex, const struct attn_args *a)
{
    struct attn_dev p;
    if (attn_dev_of(&p, a))
        return K_INVALID;
    int longest = a->cu_seqlens ? a->doc_max : a->Tq;
    dim3 grid((unsigned)ceil_div(longest, ROWS), a->H, a->cu_seqlens ? a->docs : a->B);
    size_t bytes = tiles_bytes(a->D, 1);
    WITH_TYPE(ex->act, T, WITH_WIDTH(a->D, {
                  allow(attn_fwd_kernel<T, ND>, bytes);
                  attn_fwd_kernel<T, ND><<<grid, 32 * WARPS, bytes, stream_of(ex)>>>(p);
              }));
    return cuda_launched(ex, "attn_fwd");
}

enum kstatus attn_delta(struct exec *ex, struct attn_dev *p)
{
    p->delta = (float *)cuda_scratch(ex, sizeof(float) * p->Nq * p->H);
    if (!p->delta)
        return cuda_failed(ex, K_NOMEM, "attn_bwd", "scratch too small");
    WITH_TYPE(ex->act, T,
              attn_delta_kernel<T><<<(unsigned)ceil_div(p->Nq * p->H, WARPS), 32 * WARPS, 0,
                                     stream_of(ex)>>>(*p));
    return cuda_launched(ex, "attn_delta");
}

enum kstatus cuda_attn_plain_bwd(struct exec *ex, const struct attn_args *a,
                                 const struct attn_grad *g)
{
    struct attn_dev p;
    if (attn_dev_of(&p, a) || !a->lse)
        return K_INVALID;
    p.dout = g->dout;
    p.dq = g->dq;
    p.dk = g->dk;
    p.dv = g->dv;
    enum kstatus s = attn_delta(ex, &p);
    if (s)
        return s;
    int sequences = a->cu_seqlens ? a->docs : a->B;
    unsigned rows_q = (unsigned)ceil_div(a->cu_seqlens ? a->doc_max : a->Tq, ROWS);
    unsigned rows_k = (unsigned)ceil_div(a->cu_seqlens ? a->doc_max : a->Tk, ROWS);
    size_t bytes = tiles_bytes(a->D, 2);
    WITH_TYPE(ex->act, T, WITH_WIDTH(a->D, {
                  allow(attn_dq_kernel<T, ND>, bytes);
                  attn_dq_kernel<T, ND>
                      <<<dim3(rows_q, a->H, sequences), 32 * WARPS, bytes, stream_of(ex)>>>(p);
                  allow(attn_dkv_kernel<T, ND>, bytes);
                  attn_dkv_kernel<T, ND>
                      <<<dim3(rows_k, a->K, sequences), 32 * WARPS, bytes, stream_of(ex)>>>(p);
              }));
    return cuda_launched(ex, "attn_bwd");
}
