/* cuda_flash - causal attention on the tensor cores (mma m16n8k16), for bf16
 * and f16 with a width of 16, 32, 64, 80, 96 or 128: grouped heads, documents,
 * Tq != Tk. For what cuDNN does not take; no atomics, no scratch but delta.
 *
 * A block is 64 rows (queries; keys in the backward of k and v), a warp has 16;
 * the other side streams through shared memory in tiles of BN rows, two stages.
 * Rows in shared memory lie D + 8 apart, so that ldmatrix meets no conflicts.
 *
 * Fragments (g = lane / 4, t = lane % 4): an accumulator tile 16 x 8 holds rows
 * g and g + 8, columns 2t and 2t + 1; two neighbours are, packed, the A operand
 * of the next product.
 */
#include "kernels/cuda_attention.cuh"

#define ROWS 64
#define WARPS 4
#define THREADS (32 * WARPS)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

template <class T> struct mma;
template <> struct mma<__nv_bfloat16> {
    __device__ static void run(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    __device__ static uint32_t pack(float lo, float hi)
    {
        __nv_bfloat162 p = __floats2bfloat162_rn(lo, hi);
        return *reinterpret_cast<uint32_t *>(&p);
    }
};
template <> struct mma<__half> {
    __device__ static void run(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    __device__ static uint32_t pack(float lo, float hi)
    {
        __half2 p = __floats2half2_rn(lo, hi);
        return *reinterpret_cast<uint32_t *>(&p);
    }
};

__device__ static void ldmatrix(uint32_t *r, const void *p)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ static void ldmatrix_t(uint32_t *r, const void *p)
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* Operands out of shared memory, 16 x 16 at (row, col) of a tile with rows
 * D + 8 apart. A: rows are the product's. B: rows are columns of the product
 * (n), as K in Q K'. C: rows are summed over (k), as V in P V. */
template <class T, int D>
__device__ static void take_a(uint32_t *r, const T *tile, int row, int col)
{
    int lane = threadIdx.x % 32;
    ldmatrix(r, tile + (row + lane % 8 + 8 * (lane / 8 % 2)) * (D + 8) + col + 8 * (lane / 16));
}
template <class T, int D>
__device__ static void take_b(uint32_t *r, const T *tile, int row, int col)
{
    int lane = threadIdx.x % 32;
    ldmatrix(r, tile + (row + lane % 8 + 8 * (lane / 16)) * (D + 8) + col + 8 * (lane / 8 % 2));
}
template <class T, int D>
__device__ static void take_c(uint32_t *r, const T *tile, int row, int col)
{
    int lane = threadIdx.x % 32;
    ldmatrix_t(r, tile + (row + lane % 8 + 8 * (lane / 8 % 2)) * (D + 8) + col + 8 * (lane / 16));
}

/* Rows r0.. of a sequence's row_n into a tile, zero behind the end. */
template <class T, int D, int N>
__device__ static void stream(T *tile, const T *base, int64_t row, int r0, int row_n)
{
    constexpr int PARTS = D / 8;
    for (int i = threadIdx.x; i < N * PARTS; i += THREADS) {
        int r = i / PARTS, c = i % PARTS * 8, live = r0 + r < row_n ? 16 : 0;
        const T *from = base + (live ? r0 + r : 0) * row + c;
        uint32_t to = (uint32_t)__cvta_generic_to_shared(tile + r * (D + 8) + c);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(live)
                     : "memory");
    }
}
__device__ static void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ static void wait_all_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

/* acc[16 x BN] = rows of `a` (this warp's 16, from row) times rows of `b`. */
template <class T, int D, int BN>
__device__ static void scores(float (*acc)[4], const T *a, int row, const T *b)
{
#pragma unroll
    for (int n = 0; n < BN / 8; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t af[4], bf[4];
        take_a<T, D>(af, a, row, k);
#pragma unroll
        for (int n = 0; n < BN / 16; n++) {
            take_b<T, D>(bf, b, 16 * n, k);
            mma<T>::run(acc[2 * n], af, bf[0], bf[1]);
            mma<T>::run(acc[2 * n + 1], af, bf[2], bf[3]);
        }
    }
}

/* acc[16 x D] += p[16 x BN] times tile[BN x D]. */
template <class T, int D, int BN>
__device__ static void add_product(float (*acc)[4], const float (*p)[4], const T *tile)
{
#pragma unroll
    for (int k = 0; k < BN / 16; k++) {
        uint32_t af[4], cf[4];
        af[0] = mma<T>::pack(p[2 * k][0], p[2 * k][1]);
        af[1] = mma<T>::pack(p[2 * k][2], p[2 * k][3]);
        af[2] = mma<T>::pack(p[2 * k + 1][0], p[2 * k + 1][1]);
        af[3] = mma<T>::pack(p[2 * k + 1][2], p[2 * k + 1][3]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            take_c<T, D>(cf, tile, 16 * k, 16 * d);
            mma<T>::run(acc[2 * d], af, cf[0], cf[1]);
            mma<T>::run(acc[2 * d + 1], af, cf[2], cf[3]);
        }
    }
}

/* acc[16 x D] times f0 (rows g) and f1 (rows g + 8) to global rows. */
template <class T, int D>
__device__ static void put(T *base, int64_t row, int r0, int row_n, const float (*acc)[4], float f0,
                           float f1)
{
    int lane = threadIdx.x % 32, g = r0 + lane / 4, c = lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; d++) {
        if (g < row_n)
            *reinterpret_cast<uint32_t *>(base + g * row + 8 * d + c) =
                mma<T>::pack(acc[d][0] * f0, acc[d][1] * f0);
        if (g + 8 < row_n)
            *reinterpret_cast<uint32_t *>(base + (g + 8) * row + 8 * d + c) =
                mma<T>::pack(acc[d][2] * f1, acc[d][3] * f1);
    }
}

__device__ static float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ static float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <class T, int D>
__global__ __launch_bounds__(THREADS) void flash_fwd_kernel(struct attn_dev a)
{
    constexpr int BN = 64, TILE = BN * (D + 8);
    extern __shared__ uint4 raw[];
    T *qs = (T *)raw, *ks = qs + ROWS * (D + 8), *vs = ks + 2 * TILE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, h = blockIdx.y;
    int kh = h / (a.H / a.K), g = lane / 4, t = lane % 4;
    struct attn_span s = attn_span_of(a, blockIdx.z);
    int block0 = (gridDim.x - 1 - blockIdx.x) * ROWS, off = s.Tk - s.Tq;
    if (block0 >= s.Tq)
        return;
    const T *q = (const T *)a.q + s.q0 * a.q_row + h * D;
    const T *k = (const T *)a.k + s.k0 * a.k_row + kh * D;
    const T *v = (const T *)a.v + s.k0 * a.v_row + kh * D;
    int i0 = block0 + warp * 16 + g; /* this thread's rows: i0, i0 + 8 */
    int tiles = (min(s.Tq, block0 + ROWS) - 1 + off) / BN + 1;
    float acc[D / 8][4] = {}, m[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    float scale = a.scale * LOG2E;

    stream<T, D, ROWS>(qs, q, a.q_row, block0, s.Tq);
    stream<T, D, BN>(ks, k, a.k_row, 0, s.Tk);
    stream<T, D, BN>(vs, v, a.v_row, 0, s.Tk);
    commit();
    for (int j = 0; j < tiles; j++) {
        T *kt = ks + j % 2 * TILE, *vt = vs + j % 2 * TILE;
        if (j + 1 < tiles) {
            stream<T, D, BN>(ks + (j + 1) % 2 * TILE, k, a.k_row, (j + 1) * BN, s.Tk);
            stream<T, D, BN>(vs + (j + 1) % 2 * TILE, v, a.v_row, (j + 1) * BN, s.Tk);
        }
        commit();
        wait_all_but_one();
        __syncthreads();
        float p[BN / 8][4], top[2] = {-INFINITY, -INFINITY};
        scores<T, D, BN>(p, qs, warp * 16, kt);
#pragma unroll
        for (int n = 0; n < BN / 8; n++)
            for (int i = 0; i < 4; i++) {
                int key = j * BN + 8 * n + 2 * t + i % 2, row = i0 + i / 2 * 8;
                p[n][i] = key <= row + off ? p[n][i] * scale : -INFINITY;
                top[i / 2] = fmaxf(top[i / 2], p[n][i]);
            }
        for (int r = 0; r < 2; r++) {
            /* a row sees its first key in tile 0: never -inf against -inf */
            float best = fmaxf(m[r], quad_max(top[r])), f = exp2f(m[r] - best);
            m[r] = best;
            sum[r] *= f;
#pragma unroll
            for (int d = 0; d < D / 8; d++) {
                acc[d][2 * r] *= f;
                acc[d][2 * r + 1] *= f;
            }
        }
#pragma unroll
        for (int n = 0; n < BN / 8; n++)
            for (int i = 0; i < 4; i++) {
                p[n][i] = exp2f(p[n][i] - m[i / 2]);
                sum[i / 2] += p[n][i];
            }
        add_product<T, D, BN>(acc, p, vt);
        __syncthreads();
    }
    sum[0] = quad_sum(sum[0]);
    sum[1] = quad_sum(sum[1]);
    put<T, D>((T *)a.out + s.q0 * a.o_row + h * D, a.o_row, block0 + warp * 16, s.Tq, acc,
              1 / sum[0], 1 / sum[1]);
    for (int r = 0; r < 2; r++)
        if (a.lse && t == 0 && i0 + 8 * r < s.Tq)
            a.lse[s.lse0 + h * s.lse_head + i0 + 8 * r] = (m[r] + log2f(sum[r])) * LN2;
}

template <class T, int D, int BN>
__global__ __launch_bounds__(THREADS) void flash_dq_kernel(struct attn_dev a)
{
    constexpr int TILE = BN * (D + 8);
    extern __shared__ uint4 raw[];
    T *qs = (T *)raw, *os = qs + ROWS * (D + 8), *ks = os + ROWS * (D + 8), *vs = ks + 2 * TILE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, h = blockIdx.y;
    int kh = h / (a.H / a.K), g = lane / 4, t = lane % 4;
    struct attn_span s = attn_span_of(a, blockIdx.z);
    int block0 = (gridDim.x - 1 - blockIdx.x) * ROWS, off = s.Tk - s.Tq;
    if (block0 >= s.Tq)
        return;
    const T *k = (const T *)a.k + s.k0 * a.k_row + kh * D;
    const T *v = (const T *)a.v + s.k0 * a.v_row + kh * D;
    int i0 = block0 + warp * 16 + g;
    int tiles = (min(s.Tq, block0 + ROWS) - 1 + off) / BN + 1;
    float acc[D / 8][4] = {}, lse[2], delta[2], scale = a.scale * LOG2E;

    for (int r = 0; r < 2; r++) {
        bool live = i0 + 8 * r < s.Tq;
        lse[r] = live ? a.lse[s.lse0 + h * s.lse_head + i0 + 8 * r] * LOG2E : INFINITY;
        delta[r] = live ? a.delta[h * a.Nq + s.q0 + i0 + 8 * r] : 0;
    }
    stream<T, D, ROWS>(qs, (const T *)a.q + s.q0 * a.q_row + h * D, a.q_row, block0, s.Tq);
    stream<T, D, ROWS>(os, (const T *)a.dout + s.q0 * a.o_row + h * D, a.o_row, block0, s.Tq);
    stream<T, D, BN>(ks, k, a.k_row, 0, s.Tk);
    stream<T, D, BN>(vs, v, a.v_row, 0, s.Tk);
    commit();
    for (int j = 0; j < tiles; j++) {
        T *kt = ks + j % 2 * TILE, *vt = vs + j % 2 * TILE;
        if (j + 1 < tiles) {
            stream<T, D, BN>(ks + (j + 1) % 2 * TILE, k, a.k_row, (j + 1) * BN, s.Tk);
            stream<T, D, BN>(vs + (j + 1) % 2 * TILE, v, a.v_row, (j + 1) * BN, s.Tk);
        }
        commit();
        wait_all_but_one();
        __syncthreads();
        float p[BN / 8][4], dp[BN / 8][4];
        scores<T, D, BN>(p, qs, warp * 16, kt);
        scores<T, D, BN>(dp, os, warp * 16, vt);
#pragma unroll
        for (int n = 0; n < BN / 8; n++)
            for (int i = 0; i < 4; i++) {
                int key = j * BN + 8 * n + 2 * t + i % 2, row = i0 + i / 2 * 8;
                float e = key <= row + off ? exp2f(p[n][i] * scale - lse[i / 2]) : 0;
                p[n][i] = e * (dp[n][i] - delta[i / 2]);
            }
        add_product<T, D, BN>(acc, p, kt);
        __syncthreads();
    }
    put<T, D>((T *)a.dq + s.q0 * a.q_row + h * D, a.q_row, block0 + warp * 16, s.Tq, acc, a.scale,
              a.scale);
}

/* Rows are keys, tiles are queries, over all heads of the group. */
template <class T, int D, int BN>
__global__ __launch_bounds__(THREADS) void flash_dkv_kernel(struct attn_dev a)
{
    constexpr int TILE = BN * (D + 8);
    extern __shared__ uint4 raw[];
    T *ks = (T *)raw, *vs = ks + ROWS * (D + 8), *qs = vs + ROWS * (D + 8), *os = qs + 2 * TILE;
    float *lse = (float *)(os + 2 * TILE), *delta = lse + 2 * BN; /* [2][BN] each */
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, kh = blockIdx.y;
    int group = a.H / a.K, g = lane / 4, t = lane % 4;
    struct attn_span s = attn_span_of(a, blockIdx.z);
    int block0 = blockIdx.x * ROWS, off = s.Tk - s.Tq;
    if (block0 >= s.Tk)
        return;
    int j0 = block0 + warp * 16 + g; /* this thread's keys: j0, j0 + 8 */
    int first = max(0, block0 - off) / BN; /* tile whose queries see block0 */
    int tiles = (s.Tq + BN - 1) / BN - first, rounds = max(tiles, 0) * group;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {}, scale = a.scale * LOG2E;

    auto load = [&](int round, int stage) {
        int h = kh * group + round / tiles, q0 = (first + round % tiles) * BN;
        stream<T, D, BN>(qs + stage * TILE, (const T *)a.q + s.q0 * a.q_row + h * D, a.q_row, q0,
                         s.Tq);
        stream<T, D, BN>(os + stage * TILE, (const T *)a.dout + s.q0 * a.o_row + h * D, a.o_row,
                         q0, s.Tq);
        for (int i = threadIdx.x; i < BN; i += THREADS) {
            bool live = q0 + i < s.Tq;
            lse[stage * BN + i] =
                live ? a.lse[s.lse0 + h * s.lse_head + q0 + i] * LOG2E : INFINITY;
            delta[stage * BN + i] = live ? a.delta[h * a.Nq + s.q0 + q0 + i] : 0;
        }
    };
    stream<T, D, ROWS>(ks, (const T *)a.k + s.k0 * a.k_row + kh * D, a.k_row, block0, s.Tk);
    stream<T, D, ROWS>(vs, (const T *)a.v + s.k0 * a.v_row + kh * D, a.v_row, block0, s.Tk);
    if (rounds)
        load(0, 0);
    commit();
    for (int round = 0; round < rounds; round++) {
        int stage = round % 2, q0 = (first + round % tiles) * BN;
        T *qt = qs + stage * TILE, *ot = os + stage * TILE;
        if (round + 1 < rounds)
            load(round + 1, 1 - stage);
        commit();
        wait_all_but_one();
        __syncthreads();
        float p[BN / 8][4], dp[BN / 8][4];
        scores<T, D, BN>(p, ks, warp * 16, qt);
        scores<T, D, BN>(dp, vs, warp * 16, ot);
#pragma unroll
        for (int n = 0; n < BN / 8; n++)
            for (int i = 0; i < 4; i++) {
                int at = 8 * n + 2 * t + i % 2, key = j0 + i / 2 * 8;
                float e = key <= q0 + at + off
                              ? exp2f(p[n][i] * scale - lse[stage * BN + at])
                              : 0;
                p[n][i] = e;
                dp[n][i] = e * (dp[n][i] - delta[stage * BN + at]);
            }
        add_product<T, D, BN>(dv, p, ot);
        add_product<T, D, BN>(dk, dp, qt);
        __syncthreads();
    }
    put<T, D>((T *)a.dk + s.k0 * a.k_row + kh * D, a.k_row, block0 + warp * 16, s.Tk, dk, a.scale,
              a.scale);
    put<T, D>((T *)a.dv + s.k0 * a.v_row + kh * D, a.v_row, block0 + warp * 16, s.Tk, dv, 1, 1);
}

#define CASE_WIDTH(N, ...)                                                                         \
    case N: {                                                                                      \
        constexpr int D = N;                                                                       \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }
#define WITH_FLASH(ex, width, T, ...)                                                              \
    switch (width) {                                                                               \
        CASE_WIDTH(16, FLASH_TYPE(ex, T, __VA_ARGS__))                                             \
        CASE_WIDTH(32, FLASH_TYPE(ex, T, __VA_ARGS__))                                             \
        CASE_WIDTH(64, FLASH_TYPE(ex, T, __VA_ARGS__))                                             \
        CASE_WIDTH(80, FLASH_TYPE(ex, T, __VA_ARGS__))                                             \
        CASE_WIDTH(96, FLASH_TYPE(ex, T, __VA_ARGS__))                                             \
        CASE_WIDTH(128, FLASH_TYPE(ex, T, __VA_ARGS__))                                            \
    default:                                                                                       \
        return K_UNSUPPORTED;                                                                      \
    }
#define FLASH_TYPE(ex, T, ...)                                                                     \
    if ((ex)->act == DT_BF16) {                                                                    \
        using T = __nv_bfloat16;                                                                   \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        using T = __half;                                                                          \
        __VA_ARGS__;                                                                               \
    }

/* 16 bytes a copy: rows and starts must be multiples of 8 numbers. */
static bool flash_takes(const struct exec *ex, const struct attn_args *a)
{
    return (ex->act == DT_BF16 || ex->act == DT_F16) && aligned16(a->q, a->k, a->v, a->o) &&
           (a->q_row | a->k_row | a->v_row | a->o_row) % 8 == 0;
}

template <class F> static void allow(F *kernel, size_t bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

static size_t tiles_bytes(int D, int fixed_rows, int streamed_rows, int more)
{
    return (size_t)(fixed_rows + 2 * streamed_rows) * (D + 8) * 2 + more;
}

enum kstatus cuda_attn_flash_fwd(struct exec *ex, const struct attn_args *a)
{
    struct attn_dev p;
    if (!flash_takes(ex, a))
        return K_UNSUPPORTED;
    if (attn_dev_of(&p, a))
        return K_INVALID;
    int longest = a->cu_seqlens ? a->doc_max : a->Tq;
    dim3 grid((unsigned)ceil_div(longest, ROWS), a->H, a->cu_seqlens ? a->docs : a->B);
    size_t bytes = tiles_bytes(a->D, ROWS, 2 * 64, 0);
    WITH_FLASH(ex, a->D, T, {
        allow(flash_fwd_kernel<T, D>, bytes);
        flash_fwd_kernel<T, D><<<grid, THREADS, bytes, stream_of(ex)>>>(p);
    });
    return cuda_launched(ex, "flash_fwd");
}

enum kstatus cuda_attn_flash_bwd(struct exec *ex, const struct attn_args *a,
                                 const struct attn_grad *g)
{
    struct attn_dev p;
    if (!flash_takes(ex, a) || !aligned16(g->dout, g->dq, g->dk, g->dv) || a->D % 16 ||
        a->D > 128)
        return K_UNSUPPORTED;
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
    WITH_FLASH(ex, a->D, T, {
        constexpr int BN = D <= 64 ? 64 : 32;
        size_t bytes = tiles_bytes(D, 2 * ROWS, 2 * BN, 4 * BN * 4);
        allow(flash_dq_kernel<T, D, BN>, bytes);
        flash_dq_kernel<T, D, BN>
            <<<dim3(rows_q, a->H, sequences), THREADS, bytes, stream_of(ex)>>>(p);
        allow(flash_dkv_kernel<T, D, BN>, bytes);
        flash_dkv_kernel<T, D, BN>
            <<<dim3(rows_k, a->K, sequences), THREADS, bytes, stream_of(ex)>>>(p);
    });
    return cuda_launched(ex, "flash_bwd");
}
