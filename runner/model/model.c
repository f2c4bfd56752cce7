/* model - making a model in the arena, and the forward and backward over its
 * layers. With one stage chunk is 0, `in` and `out` are NULL. */
#include "runner/model/layers.h"

#include <math.h>
#include <stdlib.h>

int model_failed(const struct model *m, const char *what, enum kstatus k,
                 struct err *err)
{
    static const char *const words[] = {
        [K_OK] = "nothing", [K_NOMEM] = "the arena is full",
        [K_INVALID] = "arguments that the operation does not take",
        [K_UNSUPPORTED] = "not on this device", [K_DEVICE] = "device failed",
    };
    const char *said = device_error(m->ex->device);
    return err_set_class(err, k == K_DEVICE ? ERR_GPU : ERR_RANK,
                         "model: %s failed: %s%s%s", what, words[k],
                         said && *said ? ": " : "", said ? said : "");
}

/* ---- Making -------------------------------------------------------------- */
static enum keep keep_of(const struct plan *plan, bool train, int layer)
{
    return train ? layer_keep(layer, plan->recompute_whole,
                              plan->recompute_cheap)
                 : KEEP_NOTHING;
}

static enum dtype act_of(const struct plan *plan)
{
    switch (plan->precision) {
    case PLAN_FP64: return DT_F64;
    case PLAN_BF16: return DT_BF16;
    case PLAN_FP16: return DT_F16;
    default: return DT_F32;
    }
}

static enum dtype stat_of(const struct plan *plan)
{
    return plan->precision == PLAN_FP64 ? DT_F64 : DT_F32;
}

static void slot_carve(const struct plan *plan, enum dtype act,
                       enum dtype stat, bool train, struct carver *carver,
                       struct slot *slot)
{
    const struct shape *s = &plan->shape;
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    int ab = (int)dtype_bytes(act), sb = (int)dtype_bytes(stat);
    int64_t wide = act_bytes(s, A_SUM1, N, ab, sb);
    for (int l = 0; l < s->L; l++)
        acts_carve(s, N, act, stat, keep_of(plan, train, l), true, carver,
                   slot ? &slot->layer[l] : NULL);
    struct slot made = {
        .layer = slot ? slot->layer : NULL,
        .sumf = carve(carver, wide),
        .yf = carve(carver, wide),
        .meanf = carve(carver, act_bytes(s, A_MEAN1, N, ab, sb)),
        .rstdf = carve(carver, act_bytes(s, A_RSTD1, N, ab, sb)),
    };
    if (slot)
        *slot = made;
}

/* All that a model takes, in this order; m NULL: count only. */
static void model_carve(const struct plan *plan, enum dtype act,
                        enum dtype grad, enum dtype stat, bool train,
                        int slots, struct carver *carver, struct model *m)
{
    const struct shape *s = &plan->shape;
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    weights_carve(s, act, grad, train, carver, m ? &m->weights : NULL);
    for (int i = 0; i < slots; i++)
        slot_carve(plan, act, stat, train, carver, m ? &m->slots[i] : NULL);
    /* the first layer keeps least: what it does not is shared */
    acts_carve(s, N, act, stat, keep_of(plan, train, 0), false, carver,
               m ? &m->shared : NULL);
    scratch_carve(s, N, act, train, carver, m ? &m->scratch : NULL);
    if (s->pos == SHAPE_ROPE) {
        void *p = carve(carver, s->D / 2 * (int64_t)dtype_bytes(stat));
        if (m)
            m->inv_freq = p;
    }
}

int64_t model_arena_bytes(const struct plan *plan, bool train, int slots)
{
    struct carver carver = {0};
    enum dtype act = act_of(plan), stat = stat_of(plan);
    enum dtype grad = plan->grads_bf16 ? DT_BF16 : stat;
    model_carve(plan, act, grad, stat, train, slots, &carver, NULL);
    return carver.bytes;
}

/* Layers that keep nothing of a kind use the shared one. */
static void share_acts(struct model *m)
{
    for (int i = 0; i < m->slots_n; i++)
        for (int l = 0; l < m->s->L; l++)
            for (int id = 0; id < A_N; id++)
                if (!m->slots[i].layer[l].at[id])
                    m->slots[i].layer[l].at[id] = m->shared.at[id];
}

/* Of pair i, in turns of 2 pi a token. */
static double inv_freq(const struct shape *s, int i)
{
    double f = pow(s->rope_theta, -2.0 * i / s->D);
    if (s->rope_factor <= 0)
        return f;
    /* waves in the positions of the first training */
    double waves = s->rope_positions * f / (2 * 3.14159265358979323846);
    double keep = (waves - s->rope_low) / (s->rope_high - s->rope_low);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return f * (keep + (1 - keep) / s->rope_factor);
}

static int fill_inv_freq(struct model *m, struct err *err)
{
    const struct shape *s = m->s;
    int half = s->D / 2;
    size_t e = dtype_bytes(m->ex->stat);
    if (!m->inv_freq)
        return 0;
    double *wide = calloc((size_t)half, sizeof *wide);
    float *narrow = calloc((size_t)half, sizeof *narrow);
    int rc = -1;
    if (!wide || !narrow) {
        err_set(err, "model: no memory for RoPE's table");
        goto out;
    }
    for (int i = 0; i < half; i++) {
        wide[i] = inv_freq(s, i);
        narrow[i] = (float)wide[i];
    }
    enum kstatus k = device_copy_in(
        m->ex->device, m->inv_freq,
        m->ex->stat == DT_F64 ? (void *)wide : (void *)narrow,
        (size_t)half * e, m->ex->stream);
    if (k == K_OK)
        k = device_sync(m->ex->device, m->ex->stream);
    rc = k == K_OK ? 0 : model_failed(m, "copying RoPE's table", k, err);
out:
    free(wide);
    free(narrow);
    return rc;
}

static void number_weights(struct model *m)
{
    int id = 0;
    for (int l = 0; l < m->s->L; l++)
        for (int p = 0; p < P_LAYER_N; p++)
            m->weights.layer[l][p].id = id++;
    for (int p = P_WTE; p < P_N; p++)
        m->weights.top[p].id = id++;
}

struct model *model_create(const struct plan *plan, struct comm *comm,
                           struct exec *ex, bool train, int slots,
                           struct err *err)
{
    const struct shape *s = &plan->shape;
    struct carver carver = {.device = ex->device};
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        goto nomem;
    *m = (struct model){.plan = plan, .s = s, .comm = comm, .ex = ex,
                        .train = train, .slots_n = slots,
                        .N = (int64_t)plan->micro_batch * plan->seq_len};
    m->weights.layer = calloc((size_t)s->L, sizeof *m->weights.layer);
    m->slots = calloc((size_t)slots, sizeof *m->slots);
    if (!m->weights.layer || !m->slots)
        goto nomem;
    for (int i = 0; i < slots; i++)
        if (!(m->slots[i].layer = calloc((size_t)s->L, sizeof(struct acts))))
            goto nomem;
    model_carve(plan, ex->act, ex->grad, ex->stat, train, slots, &carver, m);
    if (carver.failed) {
        err_set(err, "model: %lld bytes do not fit the arena",
                (long long)carver.bytes);
        goto fail;
    }
    share_acts(m);
    number_weights(m);
    m->params_n = params_list(s, &m->weights, ex->act, ex->grad, &m->params);
    if (m->params_n < 0)
        goto nomem;
    if (fill_inv_freq(m, err) != 0)
        goto fail;
    return m;
nomem:
    err_set(err, "model: no memory for its tables");
fail:
    model_destroy(m);
    return NULL;
}

void model_destroy(struct model *m)
{
    if (!m)
        return;
    for (int i = 0; m->slots && i < m->slots_n; i++)
        free(m->slots[i].layer);
    free(m->slots);
    free(m->weights.layer);
    free(m->params);
    free(m);
}

int model_params(const struct model *m, struct param **ret)
{
    *ret = m->params;
    return m->params_n;
}

int model_zero_grads(struct model *m, struct err *err)
{
    enum kstatus k = device_zero(m->ex->device, m->weights.grad,
                                 (size_t)m->weights.grad_bytes, m->ex->stream);
    return k == K_OK ? 0 : model_failed(m, "zeroing gradients", k, err);
}

/* ---- Forward and backward ----------------------------------------------- */
const struct weight *model_head(const struct model *m)
{
    return &m->weights.top[m->s->tied ? P_WTE : P_HEAD];
}

static struct attend attend_of(const struct batch *batch)
{
    return (struct attend){
        .B = batch->B, .T = batch->T, .positions = batch->positions,
        .cu_seqlens = batch->cu_seqlens, .docs = batch->docs,
        .doc_max = batch->doc_max,
    };
}

static enum norm_kind norm_of(const struct shape *s)
{
    return s->norm == SHAPE_LAYERNORM ? NORM_LAYER : NORM_RMS;
}

static enum kstatus layers_forward(struct model *m, struct slot *slot,
                                   const struct attend *t, const void *in)
{
    enum kstatus k = K_OK;
    const void *res = in, *delta = NULL;
    for (int l = 0; l < m->s->L && k == K_OK; l++) {
        const struct acts *a = &slot->layer[l];
        k = block_forward(m, l, a, &m->scratch, res, delta, t, false);
        res = a->at[A_SUM2];
        delta = m->scratch.at[S_DELTA];
    }
    return k;
}

int model_forward(struct model *m, int chunk, int slot_at,
                  enum model_mode mode, const struct batch *batch,
                  const void *in, void *out, double *sums, struct err *err)
{
    struct exec *ex = m->ex;
    const struct shape *s = m->s;
    struct slot *slot = &m->slots[slot_at];
    struct attend t = attend_of(batch);
    int64_t N = (int64_t)batch->B * batch->T;
    if (N > m->N || chunk != 0 || in || out)
        return err_set(err, "model: a batch of %d x %d, chunk %d does not fit "
                       "the plan", batch->B, batch->T, chunk);

    void *x = slot->layer[0].at[A_SUM1];
    enum kstatus k = ex->ops->embed_fwd(
        ex, x, batch->tokens, batch->positions, &m->weights.top[P_WTE],
        weight_or_null(&m->weights.top[P_WPE]), N, s->C);
    if (k == K_OK)
        k = layers_forward(m, slot, &t, x);
    if (k == K_OK)
        k = ex->ops->norm_fwd(
            ex, slot->yf, slot->sumf, slot->meanf, slot->rstdf,
            slot->layer[s->L - 1].at[A_SUM2], m->scratch.at[S_DELTA],
            &m->weights.top[P_NORMF],
            weight_or_null(&m->weights.top[P_NORMF_B]), norm_of(s),
            s->norm_eps, N, s->C);
    /* In training the loss comes with its gradient, in backward. */
    if (k == K_OK && mode == MODEL_EVAL)
        k = ex->ops->head_loss(ex, sums, NULL, slot->yf, model_head(m),
                               batch->labels, batch->loss_mask, 0.0,
                               m->plan->z_loss, N, s->V);
    return k == K_OK ? 0 : model_failed(m, "forward", k, err);
}

int model_backward(struct model *m, int chunk, int slot_at,
                   const struct batch *batch, const void *dout, void *din,
                   double *sums, double scale, grad_ready_f ready, void *ctx,
                   struct err *err)
{
    struct exec *ex = m->ex;
    const struct shape *s = m->s;
    struct slot *slot = &m->slots[slot_at];
    struct attend t = attend_of(batch);
    int64_t N = (int64_t)batch->B * batch->T;
    if (N > m->N || chunk != 0 || dout || din)
        return err_set(err, "model: a batch of %d x %d, chunk %d does not fit "
                       "the plan", batch->B, batch->T, chunk);

    enum kstatus k = ex->ops->head_loss(
        ex, sums, m->scratch.at[S_DELTA], slot->yf, model_head(m),
        batch->labels, batch->loss_mask, scale, m->plan->z_loss, N, s->V);
    if (k == K_OK)
        k = ex->ops->norm_bwd(
            ex, m->scratch.at[S_DRES], true, m->scratch.at[S_DELTA], slot->sumf,
            slot->meanf, slot->rstdf, &m->weights.top[P_NORMF],
            weight_or_null(&m->weights.top[P_NORMF_B]), norm_of(s), N, s->C);
    if (k == K_OK && ready)
        ready(ctx, 0);
    for (int l = s->L - 1; l >= 0 && k == K_OK; l--) {
        k = block_recompute(m, l, &slot->layer[l], &t);
        if (k == K_OK)
            k = block_backward(m, l, &slot->layer[l], &t);
        if (k == K_OK && ready)
            ready(ctx, s->L - l);
    }
    if (k == K_OK)
        k = ex->ops->embed_bwd(ex, m->scratch.at[S_DRES], batch->tokens,
                               batch->positions, &m->weights.top[P_WTE],
                               weight_or_null(&m->weights.top[P_WPE]), N,
                               s->C);
    if (k == K_OK && ready)
        ready(ctx, s->L + 1);
    return k == K_OK ? 0 : model_failed(m, "backward", k, err);
}
