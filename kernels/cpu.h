/* cpu - what the CPU operations share. Each cpu_*.c is compiled twice: with
 * KB_REAL_F64 into the table ops_cpu_f64, without into ops_cpu_f32.
 *
 * Rules: bits depend on shapes alone, never on threads or on how wide the
 * machine's vectors are (OpenBLAS's core type is pinned by the plan). So no
 * fused multiply-add (-ffp-contract=off), no libm in loops over elements, and
 * sums over elements run in LANES partial sums of fixed order.
 * Private to kernels.
 */
#ifndef KB_KERNELS_CPU_H
#define KB_KERNELS_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/exact.h"
#include "kernels/ops.h"
#include "kernels/pool.h"

#ifdef KB_REAL_F64
typedef double real;
#define REAL_DTYPE DT_F64
#define CPU_NAME(name) name##_f64
#else
typedef float real;
#define REAL_DTYPE DT_F32
#define CPU_NAME(name) name##_f32
#endif

/* One body compiled for several vector widths, chosen at load. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&         \
    !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

#define LANES 16

/* e^x to about 1 ulp; below -87 (-708) 0, NaN stays. */
#ifdef KB_REAL_F64
INLINE real real_exp(real x)
{
    real lo = x < -708.0 ? -708.0 : x, n, r, p;
    int64_t bits;

    lo = lo > 709.0 ? 709.0 : lo;
    n = (lo * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0;
    r = lo - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    p = 1.6059043836821613e-10;
    p = p * r + 2.0876756987868099e-09;
    p = p * r + 2.5052108385441720e-08;
    p = p * r + 2.7557319223985888e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.4801587301587302e-05;
    p = p * r + 1.9841269841269841e-04;
    p = p * r + 1.3888888888888889e-03;
    p = p * r + 8.3333333333333332e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = 1.0 + (r + r * r * p);
    /* the low bits of n + 1.5 * 2^52 are the integer n */
    n = n + 6755399441055744.0;
    memcpy(&bits, &n, 8);
    bits = (int64_t)(((uint64_t)bits + 1023) << 52);
    memcpy(&n, &bits, 8);
    p = p * n;
    return x < -708.0 ? 0.0 : p;
}
#else
INLINE real real_exp(real x)
{
    real lo = x < -87.0f ? -87.0f : x, n, r, p;
    uint32_t bits;

    lo = lo > 88.0f ? 88.0f : lo;
    n = (lo * 1.44269504f + 12582912.0f) - 12582912.0f;
    r = lo - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = 1.0f + (r + r * r * p);
    n = n + 12582912.0f;
    memcpy(&bits, &n, 4);
    bits = (bits + 127) << 23;
    memcpy(&n, &bits, 4);
    p = p * n;
    return x < -87.0f ? 0.0f : p;
}
#endif

/* The lanes of a sum, added in a fixed tree. */
INLINE real lanes_sum(const real *s)
{
    real t[LANES];

    memcpy(t, s, sizeof t);
    for (int w = LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] += t[i + w];
    return t[0];
}

/* C[M,N] = alpha * op(A) op(B) + beta * C, row major, on the calling thread:
 * the building block of the operations that cut themselves into tasks. */
void CPU_NAME(cpu_gemm)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                        real alpha, const real *A, int64_t lda, const real *B,
                        int64_t ldb, real beta, real *C, int64_t ldc);

/* Called on each finished tile of a product: rows [m, m + mn), columns
 * [n, n + nn) of C. */
typedef void (*CPU_NAME(tile_done))(void *ctx, int64_t m, int64_t mn,
                                    int64_t n, int64_t nn);
/* The same, cut into tiles over the pool; done may be NULL. */
void CPU_NAME(cpu_matmul)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                          const real *A, int64_t lda, const real *B,
                          int64_t ldb, real beta, real *C, int64_t ldc,
                          CPU_NAME(tile_done) done, void *ctx);
#define cpu_gemm CPU_NAME(cpu_gemm)
#define cpu_matmul CPU_NAME(cpu_matmul)

/* db[width] += column sums of dy[N, width]. */
void CPU_NAME(cpu_column_sums)(real *db, const real *dy, int64_t N,
                               int64_t width);
#define cpu_column_sums CPU_NAME(cpu_column_sums)

#define cpu_linear_fwd CPU_NAME(cpu_linear_fwd)
#define cpu_linear_bwd CPU_NAME(cpu_linear_bwd)
#define cpu_gelu_fwd CPU_NAME(cpu_gelu_fwd)
#define cpu_norm_fwd CPU_NAME(cpu_norm_fwd)
#define cpu_norm_bwd CPU_NAME(cpu_norm_bwd)
#define cpu_qk_fwd CPU_NAME(cpu_qk_fwd)
#define cpu_qk_bwd CPU_NAME(cpu_qk_bwd)
#define cpu_attn_fwd CPU_NAME(cpu_attn_fwd)
#define cpu_attn_bwd CPU_NAME(cpu_attn_bwd)
#define cpu_attn_ws CPU_NAME(cpu_attn_ws)
#define cpu_swiglu_fwd CPU_NAME(cpu_swiglu_fwd)
#define cpu_swiglu_bwd CPU_NAME(cpu_swiglu_bwd)
#define cpu_embed_fwd CPU_NAME(cpu_embed_fwd)
#define cpu_embed_bwd CPU_NAME(cpu_embed_bwd)
#define cpu_head_loss CPU_NAME(cpu_head_loss)
#define cpu_head_logits CPU_NAME(cpu_head_logits)
#define cpu_head_ws CPU_NAME(cpu_head_ws)
#define cpu_sum_squares CPU_NAME(cpu_sum_squares)
#define cpu_adamw CPU_NAME(cpu_adamw)
#define cpu_update_ws CPU_NAME(cpu_update_ws)

enum kstatus cpu_linear_fwd(struct exec *ex, void *y, void *aux,
                            const void *x, const struct weight *w,
                            const struct weight *b, int64_t N,
                            enum epilogue epi);
enum kstatus cpu_linear_bwd(struct exec *ex, void *dx, const void *gelu_aux,
                            const struct weight *gelu_b, bool dx_add,
                            const void *dy, const void *x,
                            const struct weight *w, const struct weight *b,
                            int64_t N);
enum kstatus cpu_gelu_fwd(struct exec *ex, void *y, const void *x, int64_t n);
enum kstatus cpu_norm_fwd(struct exec *ex, void *y, void *sum, void *mean,
                          void *rstd, const void *res, const void *delta,
                          const struct weight *w, const struct weight *b,
                          enum norm_kind kind, double eps, int64_t N, int C);
enum kstatus cpu_norm_bwd(struct exec *ex, void *dres, bool set,
                          const void *dy, const void *sum, const void *mean,
                          const void *rstd, const struct weight *w,
                          const struct weight *b, const struct weight *below,
                          enum norm_kind kind, int64_t N, int C);
enum kstatus cpu_qk_fwd(struct exec *ex, void *qkv, void *pre, void *rstd,
                        const struct weight *qw, const struct weight *kw,
                        double eps, const int32_t *positions,
                        const void *inv_freq, int64_t N, int H, int K, int D);
enum kstatus cpu_qk_bwd(struct exec *ex, void *dqkv, const void *pre,
                        const void *rstd, const struct weight *qw,
                        const struct weight *kw, const int32_t *positions,
                        const void *inv_freq, int64_t N, int H, int K, int D);
enum kstatus cpu_attn_fwd(struct exec *ex, const struct attn_args *a);
enum kstatus cpu_attn_bwd(struct exec *ex, const struct attn_args *a,
                          const struct attn_grad *g);
size_t cpu_attn_ws(int64_t T);
enum kstatus cpu_swiglu_fwd(struct exec *ex, void *y, const void *gate_up,
                            int64_t N, int F);
enum kstatus cpu_swiglu_bwd(struct exec *ex, void *dgate_up, const void *dy,
                            const void *gate_up, int64_t N, int F);
enum kstatus cpu_embed_fwd(struct exec *ex, void *x, const int32_t *tokens,
                           const int32_t *positions, const struct weight *wte,
                           const struct weight *wpe, int64_t N, int C);
enum kstatus cpu_embed_bwd(struct exec *ex, const void *dx,
                           const int32_t *tokens, const int32_t *positions,
                           const struct weight *wte, const struct weight *wpe,
                           int64_t N, int C);
enum kstatus cpu_head_loss(struct exec *ex, double *sums, void *dx,
                           const void *x, const struct weight *w,
                           const int32_t *labels, const uint8_t *mask,
                           double scale, double z, int64_t N, int V,
                           const struct head_peers *peers);
enum kstatus cpu_head_logits(struct exec *ex, void *logits, const void *x,
                             const struct weight *w, int64_t N, int V);
size_t cpu_head_ws(int Vp);
enum kstatus cpu_sum_squares(struct exec *ex, double *sum, void *const *data,
                             const int64_t *n, int tensors_n,
                             enum dtype dtype);
enum kstatus cpu_adamw(struct exec *ex, const struct adamw_tensor *tensors,
                       int tensors_n, const struct adamw_scalars *scalars,
                       const double *factor, double *stats);
size_t cpu_update_ws(int64_t n);

/* Not compiled twice (cpu_fill.c). */
enum kstatus cpu_sum_in_order(struct exec *ex, void *dst, void *const *srcs,
                              int srcs_n, int64_t n, enum dtype dtype);
enum kstatus cpu_cast(struct exec *ex, void *dst, enum dtype dst_dtype,
                      const void *src, enum dtype src_dtype, int64_t n);
enum kstatus cpu_fill_normal(struct exec *ex, void *dst, enum dtype dtype,
                             uint64_t key, uint64_t first, int64_t n,
                             double std);
enum kstatus cpu_fill_value(struct exec *ex, void *dst, enum dtype dtype,
                            int64_t n, double value);

#endif
