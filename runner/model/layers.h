/* layers - private to model: activations, scratch and the block's functions.
 *
 * A layer's activations are rows of one table (plan/sizes.h): which are kept
 * from forward to backward depends on the recompute mode, the rest lies in one
 * set shared by all layers and is computed again.
 */
#ifndef KB_MODEL_LAYERS_H
#define KB_MODEL_LAYERS_H

#include "runner/model/params.h"

struct acts { void *at[A_N]; };

struct slot {
    struct acts *layer;                 /* [L] */
    void *sumf, *yf, *meanf, *rstdf;    /* final norm, as A_SUM1.. */
};

struct scratch { void *at[S_N]; };

struct chunk { int first, n; };          /* layers here */

struct model {
    const struct plan *plan;
    struct shape share;     /* of plan's model, what lies here */
    const struct shape *s;  /* it */
    struct whereabouts at;
    int *layer_number;      /* [L]: at's */
    struct chunk *chunks;
    int chunks_n;
    int64_t *part_first, *part_n; /* [tensor], for parts of tokens */
    struct head_peers peers;
    struct sum_run *sums;
    int sums_n;
    struct err err;         /* of a collective that failed */
    struct comm *comm;      /* may be NULL */
    struct exec *ex;
    bool train;
    int64_t N;              /* tokens of a micro-batch */
    struct weights weights;
    struct param *params;
    int params_n;
    struct slot *slots;
    int slots_n;
    struct acts shared;     /* of the layer at work */
    struct scratch scratch;
    void *inv_freq;         /* [D/2] stat, RoPE only */
};

/* Who attends to whom, and with which cache. */
struct attend {
    int B, T;
    const int32_t *positions, *cu_seqlens;
    int docs, doc_max;
    void *kv;               /* [B, T_cache, 2, K, D] of this layer, or NULL */
    int T_cache, past;
};

/* A block's input is res + delta (delta NULL: res); its output is the sum of
 * acts' A_SUM2 and tensor_own of the scratch's S_DELTA: own tokens all. res may
 * be acts' A_SUM1. again: for backward, which wants the acts alone. */
enum kstatus block_forward(struct model *m, int layer, const struct acts *a,
                           const struct scratch *scratch, const void *res,
                           const void *delta, const struct attend *attend,
                           bool again);
/* scratch.dres: gradient of the output, then of the input. */
enum kstatus block_backward(struct model *m, int layer, const struct acts *a,
                            const struct attend *attend);
/* What was not kept of the layer, from A_SUM1. */
enum kstatus block_recompute(struct model *m, int layer, const struct acts *a,
                             const struct attend *attend, enum keep keep);

/* The feed-forward block is a table entry: GELU and SwiGLU here. */
struct ffn {
    /* delta = block(y2), NULL: not wanted; fills A_UP, A_ACT */
    enum kstatus (*forward)(struct model *m, const struct weight *w,
                            const struct acts *a, void *delta, int64_t N);
    /* dy2 = gradient of y2 from ddelta; last_b: the last bias, whose gradient
     * is ddelta's sum over tokens, NULL: summed elsewhere */
    enum kstatus (*backward)(struct model *m, const struct weight *w,
                             const struct weight *last_b, const struct acts *a,
                             const void *ddelta, void *dy2, int64_t N);
    /* A_ACT again from A_UP */
    enum kstatus (*recompute)(struct model *m, const struct acts *a,
                              int64_t N);
};
extern const struct ffn ffn_table[]; /* by enum shape_act */

/* ---- tensor.c ------------------------------------------------------------ */
/* Of N tokens, those of this rank; and where in [N, C] they lie. */
int64_t tensor_tokens(const struct model *m, int64_t N);
void *tensor_own(const struct model *m, void *buf, int64_t N);
/* buf [N, C]: all tokens from the ranks that have them; or their sums over the
 * ranks to those that shall have them. */
enum kstatus tensor_gather(struct model *m, void *buf, int64_t N);
enum kstatus tensor_scatter(struct model *m, void *buf, int64_t N);
/* All tokens of what is here of own ones: itself at size 1, else S_WHOLE. */
enum kstatus tensor_whole(struct model *m, void *own, int64_t N, void **ret);
/* What is added after a sum over the ranks: one of them adds it. */
const struct weight *tensor_bias(const struct model *m,
                                 const struct weight *b);
const struct head_peers *tensor_peers(struct model *m);
/* Gradients of a bucket that other groups have parts of. */
enum kstatus tensor_sums(struct model *m, int bucket);

/* NULL when this shape has no such weight. */
const struct weight *weight_or_null(const struct weight *w);
/* The last bias of the layer before this one (L: before the final norm), if the
 * norm between them sums its gradient, which is that of the norm's input: with
 * all tokens here, and both layers in one chunk. */
const struct weight *bias_below(const struct model *m, int layer);
const struct weight *model_head(const struct model *m);
void acts_carve(const struct shape *s, int64_t N, enum dtype act,
                enum dtype stat, enum keep keep, bool kept,
                struct carver *carver, struct acts *ret);
void scratch_carve(const struct shape *s, int64_t N, enum dtype act,
                   bool train, struct carver *carver, struct scratch *ret);
int model_failed(const struct model *m, const char *what, enum kstatus k,
                 struct err *err);

#endif
