/* ops - the operations of a transformer, one table, a CPU and a CUDA
 * implementation each, with the granularity of the fused one.
 *
 * Convention: activations and their gradients are written (=); gradients of
 * parameters are added to (+=). Pointers are device memory. Activations have
 * dtype ex->act, parameter gradients ex->grad, statistics (mean, rstd, lse)
 * ex->stat: on the CPU all are F32 or all F64 (ops_cpu_f32, ops_cpu_f64, one
 * source compiled twice), on CUDA act is BF16, F16 or F32, grad F32 or BF16,
 * stat F32. No operation allocates; scratch comes from ex->ws.
 * Sums run in a fixed order when ex->deterministic (always on the CPU).
 * Shapes in the dimension alphabet of runner/plan/shape.h; N = tokens.
 */
#ifndef KB_KERNELS_OPS_H
#define KB_KERNELS_OPS_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ops;
struct exec {
    const struct ops *ops;
    struct device *device;
    stream_t stream;
    void *ws;              /* scratch of one operation */
    size_t ws_bytes;
    bool deterministic;
    enum dtype act, grad, stat;
    void *backend;         /* the backend's own: plans, handles, tuning */
};

/* A parameter in memory, in Hugging Face's orientation: [out, in] (Linear), or
 * [in, out] when in_out is set (GPT-2's Conv1D). */
struct weight {
    void *data;            /* ex->act, what products read */
    void *grad;            /* ex->grad, added to */
    int out, in;           /* out: rows of y; 1-D weights: out = n, in = 1 */
    bool in_out;
    /* Embedding and head shared by ranks: rows before these, and all of them;
     * rows_all 0: these are all. */
    int row0, rows_all;
    void *quant[2];        /* fp8 copies, later */
    float *quant_scale[2];
    int id;                /* index in the model's parameter table */
};

enum epilogue {
    EPI_NONE,
    EPI_GELU,              /* y = gelu(x W + b), aux = x W + b */
};

enum norm_kind { NORM_LAYER, NORM_RMS };

/* q, k, v inside one packed buffer or apart: element (token n, head h, d) is at
 * ptr[n * row + h * D + d], in elements. */
struct attn_args {
    const void *q, *k, *v; /* rows: q_row, k_row, v_row elements apart */
    int64_t q_row, k_row, v_row;
    void *o;               /* [Nq, H, D], row o_row */
    int64_t o_row;
    void *lse;             /* [B, H, Tq] stat ([H, N] with cu_seqlens), natural
                            * log; NULL in decode */
    int H, K, D;
    int B;                 /* sequences; each Tq queries against Tk keys */
    int Tq, Tk;            /* causal, aligned at the end: query i of Tq sees
                            * keys 0 .. Tk - Tq + i */
    int64_t k_seq;         /* tokens between sequences in k, v: >= Tk (cache) */
    const int32_t *cu_seqlens; /* [docs + 1] token starts, NULL: B equal ones;
                            * documents do not see each other; Tq == Tk */
    int docs, doc_max;     /* with cu_seqlens: number, longest */
    float scale;           /* 1 / sqrt(D) */
};
struct attn_grad {
    const void *dout;      /* as o */
    void *dq, *dk, *dv;    /* written, rows as q, k, v */
};

/* Ranks that share a head's rows. Of each token a rank has four numbers: the
 * largest logit, the sum of exp(logit - it), the label's logit if the row is
 * here, the largest one's token. */
struct head_peers {
    int rank, size;
    int V;                 /* rows of all ranks that are not padding */
    double *shares;        /* [size, N, 4] device */
    /* Rank r's n numbers lie at shares + r * n: this rank's to all others,
     * theirs to here, in ex->stream's order. */
    enum kstatus (*gather)(void *ctx, double *shares, int64_t n);
    void *ctx;
};
#define HEAD_SHARE 4

struct adamw_tensor {
    void *param;           /* act copy, written; may equal master */
    void *master, *m, *v;  /* ex->stat */
    const void *grad;      /* ex->grad */
    int64_t n;
    float decay;           /* weight decay of it: 0 for norms and biases */
};
/* Read on the device: filled by optim before the step. */
struct adamw_scalars {     /* in ex->stat */
    double lr, beta1, beta2, eps;
    double correction1, correction2; /* 1 - beta^t */
};

struct ops {
    const char *name;      /* "cpu-f32", "cpu-f64", "cuda" */

    /* Backend state for exec->backend; see also kernels/exec.h. */
    enum kstatus (*open)(struct exec *ex);
    void (*close)(struct exec *ex);
    /* See ops_workspace_bytes. */
    size_t (*workspace_bytes)(enum dtype act, int64_t N, int C, int F, int H,
                              int K, int D, int Vp, int B, int T,
                              bool deterministic);

    /* y[N,out] = x[N,in] * W (+ b), then the epilogue. b [out] or NULL; aux
     * [N,out] with EPI_GELU. */
    enum kstatus (*linear_fwd)(struct exec *ex, void *y, void *aux,
                               const void *x, const struct weight *w,
                               const struct weight *b, int64_t N,
                               enum epilogue epi);
    /* dx[N,in] = dy * W^T, NULL: not wanted; with gelu_aux [N,in] dx is then
     * multiplied by gelu'(gelu_aux), and gelu_b, if given, is the bias [in]
     * before the GELU: its gradient += the column sums of dx. dx_add: dx +=
     * instead. W.grad += , b.grad += (skipped when w->grad is NULL). */
    enum kstatus (*linear_bwd)(struct exec *ex, void *dx, const void *gelu_aux,
                               const struct weight *gelu_b, bool dx_add,
                               const void *dy, const void *x,
                               const struct weight *w, const struct weight *b,
                               int64_t N);

    /* sum[N,C] = res + delta (delta NULL: sum is res, may be the same buffer);
     * y = norm(sum) * w (+ b). mean (LayerNorm), rstd: [N] stat. */
    enum kstatus (*norm_fwd)(struct exec *ex, void *y, void *sum, void *mean,
                             void *rstd, const void *res, const void *delta,
                             const struct weight *w, const struct weight *b,
                             enum norm_kind kind, double eps, int64_t N, int C);
    /* dres[N,C] += gradient of sum through the norm (dres already holds what
     * comes from the residual path; with set, dres = it). sum: as saved.
     * below, or NULL: the bias [C] of the layer whose output was delta; its
     * gradient += the column sums of dres as written. */
    enum kstatus (*norm_bwd)(struct exec *ex, void *dres, bool set,
                             const void *dy, const void *sum, const void *mean,
                             const void *rstd, const struct weight *w,
                             const struct weight *b, const struct weight *below,
                             enum norm_kind kind, int64_t N, int C);

    /* In place on packed qkv [N, (H + 2K) * D] (q heads, then k, then v): QK
     * norm when qw, kw ([D]) are given, with rstd [N, H + K] stat saved and the
     * heads before the norm kept in pre [N, (H + K) * D] (needed only with
     * norm); then RoPE, half-split, by positions [N] when theta > 0. inv_freq
     * [D/2] in stat, device memory. */
    enum kstatus (*qk_fwd)(struct exec *ex, void *qkv, void *pre, void *rstd,
                           const struct weight *qw, const struct weight *kw,
                           double eps, const int32_t *positions,
                           const void *inv_freq, int64_t N, int H, int K,
                           int D);
    /* dqkv in place: gradient after to gradient before. */
    enum kstatus (*qk_bwd)(struct exec *ex, void *dqkv, const void *pre,
                           const void *rstd, const struct weight *qw,
                           const struct weight *kw, const int32_t *positions,
                           const void *inv_freq, int64_t N, int H, int K,
                           int D);

    enum kstatus (*attn_fwd)(struct exec *ex, const struct attn_args *a);
    enum kstatus (*attn_bwd)(struct exec *ex, const struct attn_args *a,
                             const struct attn_grad *g);

    /* gate_up [N, 2F] = [gate | up]; y[N,F] = silu(gate) * up. */
    enum kstatus (*swiglu_fwd)(struct exec *ex, void *y, const void *gate_up,
                               int64_t N, int F);
    enum kstatus (*swiglu_bwd)(struct exec *ex, void *dgate_up, const void *dy,
                               const void *gate_up, int64_t N, int F);
    /* y[n] = gelu(x), as EPI_GELU makes it from aux. */
    enum kstatus (*gelu_fwd)(struct exec *ex, void *y, const void *x,
                             int64_t n);

    /* x[N,C] = wte[token] (+ wpe[position]); wte [Vp,C], wpe [T_max,C]. With
     * rows_all tokens of other ranks' rows count as zero. */
    enum kstatus (*embed_fwd)(struct exec *ex, void *x, const int32_t *tokens,
                              const int32_t *positions,
                              const struct weight *wte,
                              const struct weight *wpe, int64_t N, int C);
    enum kstatus (*embed_bwd)(struct exec *ex, const void *dx,
                              const int32_t *tokens, const int32_t *positions,
                              const struct weight *wte,
                              const struct weight *wpe, int64_t N, int C);

    /* Head and cross-entropy in chunks; logits never exist whole. w [Vp,C],
     * columns >= V masked. For each token with mask != 0 (mask NULL: all):
     * loss = lse - logit[label] (+ z * lse^2). sums [4] in F64, added to: loss,
     * tokens, z part, correct predictions. With dx (or NULL: forward only):
     * dx[N,C] and w.grad += gradients of scale * loss. peers: the rows are
     * shared, V of them here are real; then dx is this rank's part of the sum
     * over all, and the first rank alone adds to sums. NULL: all are here. */
    enum kstatus (*head_loss)(struct exec *ex, double *sums, void *dx,
                              const void *x, const struct weight *w,
                              const int32_t *labels, const uint8_t *mask,
                              double scale, double z, int64_t N, int V,
                              const struct head_peers *peers);
    /* logits[N,V] in F32 (F64 on cpu-f64). */
    enum kstatus (*head_logits)(struct exec *ex, void *logits, const void *x,
                                const struct weight *w, int64_t N, int V);

    /* *sum (F64, device) = sum of squares over the tensors, in fixed order. */
    enum kstatus (*sum_squares)(struct exec *ex, double *sum,
                                void *const *data, const int64_t *n,
                                int tensors_n, enum dtype dtype);
    /* AdamW, decoupled decay, over all tensors. factor (F64, device): what
     * gradients are multiplied by (clipping, unscaling); 0 or not finite: the
     * update is skipped and nothing changes. stats (F64 [tensors][3], device,
     * or NULL), written: sums of (new - old)^2, old^2, and grad^2 / v with the
     * factor in grad and the correction in v; zero when skipped. */
    enum kstatus (*adamw)(struct exec *ex, const struct adamw_tensor *tensors,
                          int tensors_n, const struct adamw_scalars *scalars,
                          const double *factor, double *stats);

    /* dst[n] = src0 + src1 + ... in that order (also dst == src0). */
    enum kstatus (*sum_in_order)(struct exec *ex, void *dst,
                                 void *const *srcs, int srcs_n, int64_t n,
                                 enum dtype dtype);
    enum kstatus (*cast)(struct exec *ex, void *dst, enum dtype dst_dtype,
                         const void *src, enum dtype src_dtype, int64_t n);
    /* Counter-based normal numbers: element i of dst is a function of (key,
     * first + i) alone, mean 0, the given std. Same bits on every backend in
     * F32 before rounding. */
    enum kstatus (*fill_normal)(struct exec *ex, void *dst, enum dtype dtype,
                                uint64_t key, uint64_t first, int64_t n,
                                double std);
    enum kstatus (*fill_value)(struct exec *ex, void *dst, enum dtype dtype,
                               int64_t n, double value);
};

extern const struct ops ops_cpu_f32, ops_cpu_f64;
/* NULL when built without CUDA. */
const struct ops *ops_cuda(void);
/* Scratch for these shapes, the largest of all operations. */
size_t ops_workspace_bytes(const struct ops *ops, enum dtype act, int64_t N,
                           int C, int F, int H, int K, int D, int Vp, int B,
                           int T, bool deterministic);
/* Threads of the CPU operations (and of BLAS): set once, pinned by the plan.
 * Results do not depend on the machine's cores, only on this number. */
void ops_cpu_threads(int threads);
/* OpenBLAS's name of the processor's core, as it chose or was told. */
const char *ops_cpu_core(void);
/* The core type to pin: OpenBLAS's own choice, but for processors newer than
 * the library, which it takes for very old ones. */
const char *ops_cpu_core_best(void);

#ifdef __cplusplus
}
#endif
#endif
