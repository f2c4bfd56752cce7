/* block - one layer: norm, attention, norm, feed-forward; and back.
 *
 * The same code serves training, evaluation and decoding with a cache; only
 * struct attend differs.
 */
#include "runner/model/layers.h"

#include <math.h>

const struct weight *weight_or_null(const struct weight *w)
{
    return w->data ? w : NULL;
}

static enum norm_kind norm_of(const struct shape *s)
{
    return s->norm == SHAPE_LAYERNORM ? NORM_LAYER : NORM_RMS;
}

/* ---- Attention ---------------------------------------------------------- */
static struct attn_args attention_args(const struct model *m,
                                       const struct acts *a,
                                       const struct attend *t)
{
    const struct shape *s = m->s;
    int64_t row = (int64_t)(s->H + 2 * s->K) * s->D;
    size_t e = dtype_bytes(m->ex->act);
    char *qkv = a->at[A_QKV];
    struct attn_args args = {
        .q = qkv, .q_row = row,
        .k = qkv + (size_t)s->H * s->D * e, .k_row = row,
        .v = qkv + (size_t)(s->H + s->K) * s->D * e, .v_row = row,
        .o = a->at[A_O], .o_row = (int64_t)s->H * s->D,
        .lse = a->at[A_LSE],
        .H = s->H, .K = s->K, .D = s->D,
        .B = t->B, .Tq = t->T, .Tk = t->T, .k_seq = t->T,
        .cu_seqlens = t->cu_seqlens, .docs = t->docs, .doc_max = t->doc_max,
        .scale = 1.0f / sqrtf((float)s->D),
    };
    if (t->kv) {
        args.k = t->kv;
        args.v = (char *)t->kv + (size_t)s->K * s->D * e;
        args.k_row = args.v_row = 2 * (int64_t)s->K * s->D;
        args.Tk = t->past + t->T;
        args.k_seq = t->T_cache;
        args.lse = NULL;
    }
    return args;
}

/* New keys and values, which lie side by side in a packed row, to the cache. */
static enum kstatus cache_append(struct model *m, const struct acts *a,
                                 const struct attend *t)
{
    const struct shape *s = m->s;
    size_t e = dtype_bytes(m->ex->act);
    size_t from = (size_t)(s->H + 2 * s->K) * s->D * e;
    size_t to = 2 * (size_t)s->K * s->D * e;
    const char *src = (char *)a->at[A_QKV] + (size_t)s->H * s->D * e;
    char *dst = t->kv;

    for (int b = 0; b < t->B; b++)
        for (int i = 0; i < t->T; i++) {
            enum kstatus k = device_copy(
                m->ex->device,
                dst + ((size_t)b * t->T_cache + t->past + i) * to,
                src + ((size_t)b * t->T + i) * from, to, m->ex->stream);
            if (k != K_OK)
                return k;
        }
    return K_OK;
}

static bool qk_wanted(const struct shape *s)
{
    return s->qk_norm || s->pos == SHAPE_ROPE;
}

static enum kstatus attention_forward(struct model *m, const struct weight *w,
                                      const struct acts *a, void *delta,
                                      const struct attend *t)
{
    const struct shape *s = m->s;
    struct exec *ex = m->ex;
    const struct ops *ops = ex->ops;
    int64_t N = (int64_t)t->B * t->T;

    enum kstatus k = ops->linear_fwd(ex, a->at[A_QKV], NULL, a->at[A_Y1],
                                     &w[P_QKV], weight_or_null(&w[P_QKV_B]), N,
                                     EPI_NONE);
    if (k == K_OK && qk_wanted(s))
        k = ops->qk_fwd(ex, a->at[A_QKV], a->at[A_PRE], a->at[A_QK_RSTD],
                        weight_or_null(&w[P_QNORM]),
                        weight_or_null(&w[P_KNORM]), s->norm_eps,
                        t->positions, m->inv_freq, N, s->H, s->K, s->D);
    if (k == K_OK && t->kv)
        k = cache_append(m, a, t);
    if (k != K_OK)
        return k;
    struct attn_args args = attention_args(m, a, t);
    k = ops->attn_fwd(ex, &args);
    if (k == K_OK)
        k = ops->linear_fwd(ex, delta, NULL, a->at[A_O], &w[P_O],
                            tensor_bias(m, &w[P_O_B]), N, EPI_NONE);
    return k;
}

static enum kstatus attention_backward(struct model *m, const struct weight *w,
                                       const struct acts *a,
                                       const void *ddelta, void *dy1,
                                       const struct attend *t)
{
    const struct shape *s = m->s;
    struct exec *ex = m->ex;
    const struct ops *ops = ex->ops;
    int64_t N = (int64_t)t->B * t->T;
    size_t e = dtype_bytes(ex->act);
    char *dqkv = m->scratch.at[S_PACKED];
    void *dO = m->scratch.at[S_WIDE];

    /* at size 1 the norm above sums the bias gradient */
    enum kstatus k = ops->linear_bwd(
        ex, dO, NULL, NULL, false, ddelta, a->at[A_O], &w[P_O],
        s->tensor > 1 ? tensor_bias(m, &w[P_O_B]) : NULL, N);
    if (k != K_OK)
        return k;
    struct attn_args args = attention_args(m, a, t);
    struct attn_grad grad = {
        .dout = dO, .dq = dqkv, .dk = dqkv + (size_t)s->H * s->D * e,
        .dv = dqkv + (size_t)(s->H + s->K) * s->D * e,
    };
    k = ops->attn_bwd(ex, &args, &grad);
    if (k == K_OK && qk_wanted(s))
        k = ops->qk_bwd(ex, dqkv, a->at[A_PRE], a->at[A_QK_RSTD],
                        weight_or_null(&w[P_QNORM]),
                        weight_or_null(&w[P_KNORM]), t->positions,
                        m->inv_freq, N, s->H, s->K, s->D);
    if (k == K_OK)
        k = ops->linear_bwd(ex, dy1, NULL, NULL, false, dqkv, a->at[A_Y1],
                            &w[P_QKV], weight_or_null(&w[P_QKV_B]), N);
    return k;
}

/* ---- The block ---------------------------------------------------------- */
/* Own tokens in, all out. */
static enum kstatus norm1(struct model *m, const struct weight *w,
                          const struct acts *a, const void *res,
                          const void *delta, int64_t N)
{
    enum kstatus k = m->ex->ops->norm_fwd(
        m->ex, tensor_own(m, a->at[A_Y1], N), a->at[A_SUM1], a->at[A_MEAN1],
        a->at[A_RSTD1], res, delta, &w[P_NORM1], weight_or_null(&w[P_NORM1_B]),
        norm_of(m->s), m->s->norm_eps, tensor_tokens(m, N), m->s->C);
    return k == K_OK ? tensor_gather(m, a->at[A_Y1], N) : k;
}

static enum kstatus norm2(struct model *m, const struct weight *w,
                          const struct acts *a, const void *res,
                          const void *delta, int64_t N)
{
    enum kstatus k = m->ex->ops->norm_fwd(
        m->ex, tensor_own(m, a->at[A_Y2], N), a->at[A_SUM2], a->at[A_MEAN2],
        a->at[A_RSTD2], res, delta, &w[P_NORM2], weight_or_null(&w[P_NORM2_B]),
        norm_of(m->s), m->s->norm_eps, tensor_tokens(m, N), m->s->C);
    return k == K_OK ? tensor_gather(m, a->at[A_Y2], N) : k;
}

enum kstatus block_forward(struct model *m, int layer, const struct acts *a,
                           const struct scratch *scratch, const void *res,
                           const void *delta, const struct attend *t,
                           bool again)
{
    const struct weight *w = m->weights.layer[layer];
    int64_t N = (int64_t)t->B * t->T;
    void *d = scratch->at[S_DELTA];

    enum kstatus k = norm1(m, w, a, res, delta, N);
    if (k == K_OK)
        k = attention_forward(m, w, a, d, t);
    if (k == K_OK)
        k = tensor_scatter(m, d, N);
    if (k == K_OK)
        k = norm2(m, w, a, a->at[A_SUM1], tensor_own(m, d, N), N);
    if (k == K_OK)
        k = ffn_table[m->s->act].forward(m, w, a, again ? NULL : d, N);
    if (k == K_OK && !again)
        k = tensor_scatter(m, d, N);
    return k;
}

enum kstatus block_recompute(struct model *m, int layer, const struct acts *a,
                             const struct attend *t, enum keep keep)
{
    const struct weight *w = m->weights.layer[layer];
    int64_t N = (int64_t)t->B * t->T;
    enum kstatus k = K_OK;

    if (keep == KEEP_INPUT)
        return block_forward(m, layer, a, &m->scratch, a->at[A_SUM1], NULL, t,
                             true);
    if (keep == KEEP_COSTLY) {
        k = norm1(m, w, a, a->at[A_SUM1], NULL, N);
        if (k == K_OK)
            k = norm2(m, w, a, a->at[A_SUM2], NULL, N);
        if (k == K_OK)
            k = ffn_table[m->s->act].recompute(m, a, N);
    }
    return k;
}

static bool in_one_chunk(const struct model *m, int layer)
{
    for (int i = 0; i < m->chunks_n; i++)
        if (layer > m->chunks[i].first &&
            layer < m->chunks[i].first + m->chunks[i].n)
            return true;
    return layer == m->s->L && !m->s->no_head;
}

const struct weight *bias_below(const struct model *m, int layer)
{
    return m->s->tensor <= 1 && in_one_chunk(m, layer)
               ? weight_or_null(&m->weights.layer[layer - 1][P_DOWN_B])
               : NULL;
}

enum kstatus block_backward(struct model *m, int layer, const struct acts *a,
                            const struct attend *t)
{
    const struct weight *w = m->weights.layer[layer];
    const struct shape *s = m->s;
    const struct ops *ops = m->ex->ops;
    int64_t N = (int64_t)t->B * t->T, own = tensor_tokens(m, N);
    void *dres = m->scratch.at[S_DRES], *dy = m->scratch.at[S_DELTA], *all;
    const struct weight *down_b =
        bias_below(m, layer + 1) ? NULL : tensor_bias(m, &w[P_DOWN_B]);
    const struct weight *o_b = s->tensor > 1 ? NULL : weight_or_null(&w[P_O_B]);

    enum kstatus k = tensor_whole(m, dres, N, &all);
    if (k == K_OK)
        k = ffn_table[s->act].backward(m, w, down_b, a, all, dy, N);
    if (k == K_OK)
        k = tensor_scatter(m, dy, N);
    if (k == K_OK)
        k = ops->norm_bwd(m->ex, dres, false, tensor_own(m, dy, N),
                          a->at[A_SUM2], a->at[A_MEAN2], a->at[A_RSTD2],
                          &w[P_NORM2], weight_or_null(&w[P_NORM2_B]), o_b,
                          norm_of(s), own, s->C);
    if (k == K_OK)
        k = tensor_whole(m, dres, N, &all);
    if (k == K_OK)
        k = attention_backward(m, w, a, all, dy, t);
    if (k == K_OK)
        k = tensor_scatter(m, dy, N);
    if (k == K_OK)
        k = ops->norm_bwd(m->ex, dres, false, tensor_own(m, dy, N),
                          a->at[A_SUM1], a->at[A_MEAN1], a->at[A_RSTD1],
                          &w[P_NORM1], weight_or_null(&w[P_NORM1_B]),
                          bias_below(m, layer), norm_of(s), own, s->C);
    return k;
}
