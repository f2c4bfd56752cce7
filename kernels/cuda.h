/* cuda - what the CUDA files share: the backend's state, scratch, failures, and
 * the launchers of kernels/cuda_*.cu. Private to kernels.
 *
 * Bits: every sum has an order fixed by shapes and by the card's number of
 * multiprocessors; there are no atomics on numbers.
 */
#ifndef KB_KERNELS_CUDA_H
#define KB_KERNELS_CUDA_H

#include <cuda_runtime_api.h>

#include "kernels/cuda_sizes.h"
#include "kernels/device_backend.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_products; /* cuda_product.c: handle, descriptors, algorithms */
struct sdpa;          /* sdpa.h: attention by cuDNN, or NULL */
struct cuda_state {
    int sms, major;       /* multiprocessors, compute capability */
    struct cuda_products *products;
    struct sdpa *sdpa;
};

static inline struct cuda_state *cuda_state(const struct exec *ex)
{
    return (struct cuda_state *)ex->backend;
}
/* Scratch behind the products' part; NULL when it is smaller than bytes. */
void *cuda_scratch(const struct exec *ex, size_t bytes);
/* K_OK, or K_DEVICE with a text in the device. */
enum kstatus cuda_status(const struct exec *ex, const char *what,
                         cudaError_t error);
enum kstatus cuda_launched(const struct exec *ex, const char *what);
enum kstatus cuda_failed(const struct exec *ex, enum kstatus status,
                         const char *what, const char *why);

/* cuda_product.c */
enum kstatus cuda_products_open(struct exec *ex);
void cuda_products_close(struct exec *ex);
/* D[M,N] = op(A) op(B) + beta C, row major as cpu.h's cpu_matmul; D has dtype
 * out, A and B ex->act. */
struct product {
    bool ta, tb;
    int64_t M, N, K;
    const void *A, *B;
    int64_t lda, ldb, ldc;
    void *C;
    enum dtype out;
    bool add;               /* beta 1 */
    const void *bias;       /* [N], ex->act, or NULL */
    void *gelu_aux;         /* [M,N] written: C = gelu(aux) */
    const void *dgelu_aux;  /* [M,N] read: C = product * gelu'(aux) */
    float *bias_grad;       /* [N] or [M], written: sums over K of B or A */
    bool bias_grad_of_a;
    size_t scratch_used;    /* not for timing: the caller has it */
};
/* K_UNSUPPORTED: cuBLASLt has nothing for it; nothing was done. */
enum kstatus cuda_product(struct exec *ex, const struct product *p);
/* What its algorithm took when it was chosen; 0: not timed; -1: has none. */
float cuda_product_ms(struct exec *ex, const struct product *p);

/* cuda_table.c: cuDNN's version, 0: not used. */
size_t cuda_attention_version(void);

/* cuda_linear.c */
enum kstatus cuda_linear_fwd(struct exec *ex, void *y, void *aux,
                             const void *x, const struct weight *w,
                             const struct weight *b, int64_t N,
                             enum epilogue epi);
enum kstatus cuda_linear_bwd(struct exec *ex, void *dx, const void *gelu_aux,
                             const struct weight *gelu_b, bool dx_add,
                             const void *dy, const void *x,
                             const struct weight *w, const struct weight *b,
                             int64_t N);

/* cuda_rows.cu: small passes that products do not fuse. */
enum kstatus cuda_bias(struct exec *ex, void *y, const void *b, int64_t N,
                       int64_t width);
enum kstatus cuda_gelu(struct exec *ex, void *y, const void *x, int64_t n);
/* dx[N, width] *= gelu'(x); db[width] (ex->grad), or NULL, += column sums of
 * dx as written. */
enum kstatus cuda_gelu_bwd(struct exec *ex, void *dx, const void *x, void *db,
                           int64_t N, int width);
/* db[width] (ex->grad) += column sums of dy[N, width]. */
enum kstatus cuda_column_sums(struct exec *ex, void *db, const void *dy,
                              int64_t N, int width);
/* grad[n] (ex->grad) += sum over rows of part[rows, n], rows in order. */
enum kstatus cuda_add_partials(struct exec *ex, void *grad, const float *part,
                               int rows, int64_t n);

enum kstatus cuda_norm_fwd(struct exec *ex, void *y, void *sum, void *mean,
                           void *rstd, const void *res, const void *delta,
                           const struct weight *w, const struct weight *b,
                           enum norm_kind kind, double eps, int64_t N, int C);
enum kstatus cuda_norm_bwd(struct exec *ex, void *dres, bool set,
                           const void *dy, const void *sum, const void *mean,
                           const void *rstd, const struct weight *w,
                           const struct weight *b, const struct weight *below,
                           enum norm_kind kind, int64_t N, int C);
enum kstatus cuda_qk_fwd(struct exec *ex, void *qkv, void *pre, void *rstd,
                         const struct weight *qw, const struct weight *kw,
                         double eps, const int32_t *positions,
                         const void *inv_freq, int64_t N, int H, int K, int D);
enum kstatus cuda_qk_bwd(struct exec *ex, void *dqkv, const void *pre,
                         const void *rstd, const struct weight *qw,
                         const struct weight *kw, const int32_t *positions,
                         const void *inv_freq, int64_t N, int H, int K, int D);
enum kstatus cuda_swiglu_fwd(struct exec *ex, void *y, const void *gate_up,
                             int64_t N, int F);
enum kstatus cuda_swiglu_bwd(struct exec *ex, void *dgate_up, const void *dy,
                             const void *gate_up, int64_t N, int F);
enum kstatus cuda_embed_fwd(struct exec *ex, void *x, const int32_t *tokens,
                            const int32_t *positions,
                            const struct weight *wte,
                            const struct weight *wpe, int64_t N, int C);
enum kstatus cuda_embed_bwd(struct exec *ex, const void *dx,
                            const int32_t *tokens, const int32_t *positions,
                            const struct weight *wte,
                            const struct weight *wpe, int64_t N, int C);

/* Tensor cores (cuda_flash.cu): K_UNSUPPORTED for F32, for widths that it does
 * not have, and where rows are no multiples of 8 numbers. */
enum kstatus cuda_attn_flash_fwd(struct exec *ex, const struct attn_args *a);
enum kstatus cuda_attn_flash_bwd(struct exec *ex, const struct attn_args *a,
                                 const struct attn_grad *g);
/* Plain attention: any width, for proof and as the last fallback. */
enum kstatus cuda_attn_plain_fwd(struct exec *ex, const struct attn_args *a);
enum kstatus cuda_attn_plain_bwd(struct exec *ex, const struct attn_args *a,
                                 const struct attn_grad *g);
enum kstatus cuda_head_loss(struct exec *ex, double *sums, void *dx,
                            const void *x, const struct weight *w,
                            const int32_t *labels, const uint8_t *mask,
                            double scale, double z, int64_t N, int V,
                            const struct head_peers *peers);
enum kstatus cuda_head_logits(struct exec *ex, void *logits, const void *x,
                              const struct weight *w, int64_t N, int V);
/* One chunk: logits [rows, Vp] to their gradient in place; row [rows][4]. */
/* K_UNSUPPORTED: not on this card, or not these rows. */
enum kstatus cuda_head_rows_cluster(struct exec *ex, void *logits, double *row,
                                    const int32_t *labels,
                                    const uint8_t *mask, double scale,
                                    double z, int rows, int V, int Vp,
                                    bool grad);
enum kstatus cuda_head_rows(struct exec *ex, void *logits, double *row,
                            const int32_t *labels, const uint8_t *mask,
                            double scale, double z, int rows, int V, int Vp,
                            bool grad);
/* The same in two steps, with other ranks' shares between them. */
enum kstatus cuda_head_share(struct exec *ex, const void *logits,
                             double *share, const int32_t *labels,
                             const uint8_t *mask, int rows, int V, int Vp,
                             int row0);
enum kstatus cuda_head_join(struct exec *ex, void *logits, double *row,
                            const double *shares,
                            const struct head_peers *peers,
                            const int32_t *labels, const uint8_t *mask,
                            double scale, double z, int rows, int V, int Vp,
                            int row0, bool grad);
enum kstatus cuda_head_sums(struct exec *ex, double *sums, const double *row,
                            int rows);

enum kstatus cuda_sum_squares(struct exec *ex, double *sum, void *const *data,
                              const int64_t *n, int tensors_n,
                              enum dtype dtype);
enum kstatus cuda_adamw(struct exec *ex, const struct adamw_tensor *tensors,
                        int tensors_n, const struct adamw_scalars *scalars,
                        const double *factor, double *stats);
enum kstatus cuda_sum_in_order(struct exec *ex, void *dst, void *const *srcs,
                               int srcs_n, int64_t n, enum dtype dtype);
enum kstatus cuda_cast(struct exec *ex, void *dst, enum dtype dst_dtype,
                       const void *src, enum dtype src_dtype, int64_t n);
enum kstatus cuda_fill_normal(struct exec *ex, void *dst, enum dtype dtype,
                              uint64_t key, uint64_t first, int64_t n,
                              double std);
enum kstatus cuda_fill_value(struct exec *ex, void *dst, enum dtype dtype,
                             int64_t n, double value);

#ifdef __cplusplus
}
#endif
#endif
