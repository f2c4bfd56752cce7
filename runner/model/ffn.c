/* ffn - the feed-forward blocks, by enum shape_act. */
#include "runner/model/layers.h"

/* ---- GELU: down(gelu(up(y))) ------------------------------------------- */
static enum kstatus gelu_forward(struct model *m, const struct weight *w,
                                 const struct acts *a, void *delta, int64_t N)
{
    struct exec *ex = m->ex;
    enum kstatus k = ex->ops->linear_fwd(
        ex, a->at[A_ACT], a->at[A_UP], a->at[A_Y2], &w[P_UP],
        weight_or_null(&w[P_UP_B]), N, EPI_GELU);
    if (k == K_OK && delta)
        k = ex->ops->linear_fwd(ex, delta, NULL, a->at[A_ACT], &w[P_DOWN],
                                tensor_bias(m, &w[P_DOWN_B]), N, EPI_NONE);
    return k;
}

static enum kstatus gelu_backward(struct model *m, const struct weight *w,
                                  const struct weight *last_b,
                                  const struct acts *a, const void *ddelta,
                                  void *dy2, int64_t N)
{
    struct exec *ex = m->ex;
    void *dup = m->scratch.at[S_WIDE];
    enum kstatus k = ex->ops->linear_bwd(
        ex, dup, a->at[A_UP], weight_or_null(&w[P_UP_B]), false, ddelta,
        a->at[A_ACT], &w[P_DOWN], last_b, N);
    if (k == K_OK)
        k = ex->ops->linear_bwd(ex, dy2, NULL, NULL, false, dup, a->at[A_Y2],
                                &w[P_UP], NULL, N);
    return k;
}

static enum kstatus gelu_recompute(struct model *m, const struct acts *a,
                                   int64_t N)
{
    return m->ex->ops->gelu_fwd(m->ex, a->at[A_ACT], a->at[A_UP],
                                N * m->s->F);
}

/* ---- SwiGLU: down(silu(gate(y)) * up(y)) -------------------------------- */
static enum kstatus swiglu_recompute(struct model *m, const struct acts *a,
                                     int64_t N)
{
    return m->ex->ops->swiglu_fwd(m->ex, a->at[A_ACT], a->at[A_UP], N,
                                  m->s->F);
}

static enum kstatus swiglu_forward(struct model *m, const struct weight *w,
                                   const struct acts *a, void *delta,
                                   int64_t N)
{
    struct exec *ex = m->ex;
    enum kstatus k = ex->ops->linear_fwd(
        ex, a->at[A_UP], NULL, a->at[A_Y2], &w[P_UP],
        weight_or_null(&w[P_UP_B]), N, EPI_NONE);
    if (k == K_OK)
        k = swiglu_recompute(m, a, N);
    if (k == K_OK && delta)
        k = ex->ops->linear_fwd(ex, delta, NULL, a->at[A_ACT], &w[P_DOWN],
                                tensor_bias(m, &w[P_DOWN_B]), N, EPI_NONE);
    return k;
}

static enum kstatus swiglu_backward(struct model *m, const struct weight *w,
                                    const struct weight *last_b,
                                    const struct acts *a, const void *ddelta,
                                    void *dy2, int64_t N)
{
    struct exec *ex = m->ex;
    void *dact = m->scratch.at[S_WIDE], *dup = m->scratch.at[S_PACKED];
    enum kstatus k = ex->ops->linear_bwd(
        ex, dact, NULL, NULL, false, ddelta, a->at[A_ACT], &w[P_DOWN], last_b,
        N);
    if (k == K_OK)
        k = ex->ops->swiglu_bwd(ex, dup, dact, a->at[A_UP], N, m->s->F);
    if (k == K_OK)
        k = ex->ops->linear_bwd(ex, dy2, NULL, NULL, false, dup, a->at[A_Y2],
                                &w[P_UP], weight_or_null(&w[P_UP_B]), N);
    return k;
}

const struct ffn ffn_table[] = {
    [SHAPE_GELU] = {gelu_forward, gelu_backward, gelu_recompute},
    [SHAPE_SWIGLU] = {swiglu_forward, swiglu_backward, swiglu_recompute},
};
