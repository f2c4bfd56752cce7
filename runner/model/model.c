/* model - making a model in the arena, and the forward and backward over its
 * chunks of layers. */
#include "runner/model/layers.h"

#include <math.h>
#include <stdlib.h>

#include "runner/plan/share.h"

int model_failed(const struct model *m, const char *what, enum kstatus k,
                 struct err *err)
{
    static const char *const words[] = {
        [K_OK] = "nothing", [K_NOMEM] = "the arena is full",
        [K_INVALID] = "arguments that the operation does not take",
        [K_UNSUPPORTED] = "not on this device", [K_DEVICE] = "device failed",
    };
    const char *said = device_error(m->ex->device);
    if (m->err.class != ERR_NONE) { /* a collective told */
        if (err)
            *err = m->err;
        return -1;
    }
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

static void slot_carve(const struct plan *plan, const struct shape *s,
                       enum dtype act, enum dtype stat, bool train,
                       struct carver *carver, struct slot *slot)
{
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    int ab = (int)dtype_bytes(act), sb = (int)dtype_bytes(stat);
    int layers = share_chunk_layers(plan, plan->stage);
    for (int l = 0; l < layers; l++)
        acts_carve(s, N, act, stat, keep_of(plan, train, l), true, carver,
                   slot ? &slot->layer[l] : NULL);
    if (s->no_head)
        return;
    struct slot made = {
        .layer = slot ? slot->layer : NULL,
        .sumf = carve(carver, act_bytes(s, A_SUM1, N, ab, sb)),
        .yf = carve(carver, act_bytes(s, A_Y1, N, ab, sb)),
        .meanf = carve(carver, act_bytes(s, A_MEAN1, N, ab, sb)),
        .rstdf = carve(carver, act_bytes(s, A_RSTD1, N, ab, sb)),
    };
    if (slot)
        *slot = made;
}

/* All that a model takes, in this order; m NULL: count only. */
static void model_carve(const struct plan *plan, const struct shape *s,
                        enum dtype act, enum dtype grad, enum dtype stat,
                        bool train, int slots, struct carver *carver,
                        struct model *m)
{
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    weights_carve(s, act, grad, train, carver, m ? &m->weights : NULL);
    for (int i = 0; i < slots; i++)
        slot_carve(plan, s, act, stat, train, carver,
                   m ? &m->slots[i] : NULL);
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
    struct shape share;
    share_shape(plan, plan->stage, plan->tensor_rank, &share);
    model_carve(plan, &share, act, grad, stat, train, slots, &carver, NULL);
    return carver.bytes;
}

/* Layers that keep nothing of a kind use the shared one. */
static void share_acts(struct model *m)
{
    int layers = share_chunk_layers(m->plan, m->plan->stage);
    for (int i = 0; i < m->slots_n; i++)
        for (int l = 0; l < layers; l++)
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
    for (int i = 0; m->at.tensor > 1 && i < 2; i++) {
        struct weight *w = &m->weights.top[i ? P_HEAD : P_WTE];
        w->row0 = m->at.tensor_rank * m->s->Vp;
        w->rows_all = m->at.whole->Vp;
    }
}

/* Which layers lie here, and their numbers in the whole model. */
static void find_layers(struct model *m)
{
    const struct plan *plan = m->plan;
    int at = 0;
    for (int c = 0; c < m->chunks_n; c++) {
        int first, n;
        share_layers(plan, plan->stage, c, &first, &n);
        m->chunks[c] = (struct chunk){at, n};
        for (int i = 0; i < n; i++)
            m->layer_number[at++] = first + i;
    }
    m->at = (struct whereabouts){
        .whole = &plan->shape, .share = &m->share,
        .tensor = plan->tensor > 1 ? plan->tensor : 1,
        .tensor_rank = plan->tensor_rank, .replicas = share_replicas(plan),
        .tied_copy = plan->shape.tied && m->share.no_embed,
        .layer_number = m->layer_number,
    };
}

/* Tables whose sizes are known before anything is carved. */
static bool tables_alloc(struct model *m)
{
    size_t L = (size_t)m->s->L;
    size_t ranks = m->plan->tensor > 1 ? (size_t)m->plan->tensor : 1;
    m->weights.layer = calloc(L, sizeof *m->weights.layer);
    m->slots = calloc((size_t)m->slots_n, sizeof *m->slots);
    m->chunks = calloc((size_t)m->chunks_n, sizeof *m->chunks);
    m->layer_number = calloc(L, sizeof *m->layer_number);
    m->part_first = calloc(2 * ranks, sizeof *m->part_first);
    if (!m->weights.layer || !m->slots || !m->chunks || !m->layer_number ||
        !m->part_first)
        return false;
    m->part_n = m->part_first + ranks;
    for (int i = 0; i < m->slots_n; i++)
        if (!(m->slots[i].layer = calloc(L, sizeof(struct acts))))
            return false;
    return true;
}

/* Tables over what was carved. */
static bool tables_make(struct model *m)
{
    share_acts(m);
    number_weights(m);
    m->params_n = params_list(&m->at, &m->weights, m->ex->act, m->ex->grad,
                              &m->params);
    m->sums_n = sums_list(&m->at, &m->weights, m->ex->grad, &m->sums);
    return m->params_n >= 0 && m->sums_n >= 0;
}

struct model *model_create(const struct plan *plan, struct comm *comm,
                           struct exec *ex, bool train, int slots,
                           struct err *err)
{
    struct carver carver = {.device = ex->device};
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        goto nomem;
    *m = (struct model){.plan = plan, .s = &m->share, .comm = comm, .ex = ex,
                        .train = train, .slots_n = slots,
                        .chunks_n = plan->chunks > 1 ? plan->chunks : 1,
                        .N = (int64_t)plan->micro_batch * plan->seq_len};
    share_shape(plan, plan->stage, plan->tensor_rank, &m->share);
    if (!tables_alloc(m))
        goto nomem;
    find_layers(m);
    model_carve(plan, m->s, ex->act, ex->grad, ex->stat, train, slots, &carver,
                m);
    if (carver.failed) {
        err_set(err, "model: %lld bytes do not fit the arena",
                (long long)carver.bytes);
        goto fail;
    }
    if (!tables_make(m))
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
    free(m->chunks);
    free(m->layer_number);
    free(m->part_first);
    free(m->params);
    free(m->sums);
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

static bool is_first(const struct model *m, int chunk)
{
    return chunk == 0 && !m->s->no_embed;
}

static bool is_last(const struct model *m, int chunk)
{
    return chunk == m->chunks_n - 1 && !m->s->no_head;
}

/* What a caller hands must be what this chunk needs. */
static int check_call(const struct model *m, int chunk, int slot, int64_t N,
                      const void *before, const void *after, struct err *err)
{
    if (N <= m->N && chunk >= 0 && chunk < m->chunks_n && slot >= 0 &&
        slot < m->slots_n && !before == is_first(m, chunk) &&
        !after == is_last(m, chunk))
        return 0;
    return err_set(err, "model: %lld tokens, chunk %d, slot %d do not fit the "
                   "plan", (long long)N, chunk, slot);
}

void *model_inbox(const struct model *m, int slot)
{
    return m->slots[slot].layer[0].at[A_SUM1];
}

void *model_back_inbox(const struct model *m)
{
    return m->scratch.at[S_DRES];
}

int64_t model_message(const struct model *m, const struct batch *batch)
{
    return tensor_tokens(m, (int64_t)batch->B * batch->T) * m->s->C;
}

/* Rows of the vocabulary here, and one rank the positions; each rank its tokens
 * of the sum. */
static enum kstatus embed(struct model *m, void *x, const struct batch *batch,
                          int64_t N)
{
    struct exec *ex = m->ex;
    bool whole = m->at.tensor == 1;
    void *sum = whole ? x : m->scratch.at[S_DELTA];
    enum kstatus k = ex->ops->embed_fwd(
        ex, sum, batch->tokens, batch->positions, &m->weights.top[P_WTE],
        tensor_bias(m, &m->weights.top[P_WPE]), N, m->s->C);
    if (k == K_OK && !whole)
        k = tensor_scatter(m, sum, N);
    if (k == K_OK && !whole)
        k = device_copy(ex->device, x, tensor_own(m, sum, N),
                        (size_t)(tensor_tokens(m, N) * m->s->C) *
                            dtype_bytes(ex->act),
                        ex->stream);
    return k;
}

static enum kstatus layers_forward(struct model *m, const struct chunk *chunk,
                                   struct slot *slot, const struct attend *t,
                                   const void *in)
{
    enum kstatus k = K_OK;
    const void *res = in, *delta = NULL;
    int64_t N = (int64_t)t->B * t->T;
    for (int i = 0; i < chunk->n && k == K_OK; i++) {
        const struct acts *a = &slot->layer[i];
        k = block_forward(m, chunk->first + i, a, &m->scratch, res, delta, t,
                          false);
        res = a->at[A_SUM2];
        delta = tensor_own(m, m->scratch.at[S_DELTA], N);
    }
    return k;
}

static enum kstatus head_forward(struct model *m, struct slot *slot,
                                 const void *res, int64_t N)
{
    const struct shape *s = m->s;
    enum kstatus k = m->ex->ops->norm_fwd(
        m->ex, tensor_own(m, slot->yf, N), slot->sumf, slot->meanf,
        slot->rstdf, res, tensor_own(m, m->scratch.at[S_DELTA], N),
        &m->weights.top[P_NORMF], weight_or_null(&m->weights.top[P_NORMF_B]),
        norm_of(s), s->norm_eps, tensor_tokens(m, N), s->C);
    return k == K_OK ? tensor_gather(m, slot->yf, N) : k;
}

/* The last layer's two terms as one, for the next stage. */
static enum kstatus hand_on(struct model *m, void *out, void *res, int64_t N)
{
    void *terms[2] = {res, tensor_own(m, m->scratch.at[S_DELTA], N)};
    return m->ex->ops->sum_in_order(m->ex, out, terms, 2,
                                    tensor_tokens(m, N) * m->s->C,
                                    m->ex->act);
}

int model_forward(struct model *m, int chunk_at, int slot_at,
                  enum model_mode mode, const struct batch *batch,
                  const void *in, void *out, double *sums, struct err *err)
{
    struct exec *ex = m->ex;
    struct attend t = attend_of(batch);
    int64_t N = (int64_t)batch->B * batch->T;
    if (check_call(m, chunk_at, slot_at, N, in, out, err) != 0)
        return -1;
    const struct chunk *chunk = &m->chunks[chunk_at];
    struct slot *slot = &m->slots[slot_at];
    void *x = slot->layer[0].at[A_SUM1];
    void *res = slot->layer[chunk->n - 1].at[A_SUM2];

    enum kstatus k = in ? K_OK : embed(m, x, batch, N);
    if (k == K_OK)
        k = layers_forward(m, chunk, slot, &t, in ? in : x);
    if (k == K_OK)
        k = out ? hand_on(m, out, res, N) : head_forward(m, slot, res, N);
    /* In training the loss comes with its gradient, in backward. */
    if (k == K_OK && !out && mode == MODEL_EVAL)
        k = ex->ops->head_loss(ex, sums, NULL, slot->yf, model_head(m),
                               batch->labels, batch->loss_mask, 0.0,
                               m->plan->z_loss, N, m->s->V, tensor_peers(m));
    return k == K_OK ? 0 : model_failed(m, "forward", k, err);
}

/* Loss and its gradient, to the gradient of the last layer's output. */
static enum kstatus head_backward(struct model *m, struct slot *slot,
                                  const struct batch *batch, double *sums,
                                  double scale, int64_t N)
{
    struct exec *ex = m->ex;
    void *dy = m->scratch.at[S_DELTA];
    enum kstatus k = ex->ops->head_loss(
        ex, sums, dy, slot->yf, model_head(m), batch->labels,
        batch->loss_mask, scale, m->plan->z_loss, N, m->s->V,
        tensor_peers(m));
    if (k == K_OK)
        k = tensor_scatter(m, dy, N);
    if (k == K_OK)
        k = ex->ops->norm_bwd(
            ex, m->scratch.at[S_DRES], true, tensor_own(m, dy, N), slot->sumf,
            slot->meanf, slot->rstdf, &m->weights.top[P_NORMF],
            weight_or_null(&m->weights.top[P_NORMF_B]),
            bias_below(m, m->s->L), norm_of(m->s), tensor_tokens(m, N),
            m->s->C);
    return k;
}

static enum kstatus embed_backward(struct model *m, const struct batch *batch,
                                   int64_t N)
{
    void *dx;
    enum kstatus k = tensor_whole(m, m->scratch.at[S_DRES], N, &dx);
    if (k == K_OK)
        k = m->ex->ops->embed_bwd(m->ex, dx, batch->tokens, batch->positions,
                                  &m->weights.top[P_WTE],
                                  tensor_bias(m, &m->weights.top[P_WPE]), N,
                                  m->s->C);
    return k;
}

/* Who is told of complete gradients; f NULL: they are not. */
struct telling { grad_ready_f f; void *ctx; };

static enum kstatus tell(struct model *m, const struct telling *t, int bucket)
{
    enum kstatus k = t->f ? tensor_sums(m, bucket) : K_OK;
    if (k == K_OK && t->f)
        t->f(t->ctx, bucket);
    return k;
}

static enum kstatus layers_backward(struct model *m, const struct chunk *chunk,
                                    struct slot *slot, const struct attend *t,
                                    const struct telling *telling)
{
    enum kstatus k = K_OK;
    for (int i = chunk->n - 1; i >= 0 && k == K_OK; i--) {
        int l = chunk->first + i;
        k = block_recompute(m, l, &slot->layer[i], t,
                            keep_of(m->plan, true, i));
        if (k == K_OK)
            k = block_backward(m, l, &slot->layer[i], t);
        if (k == K_OK)
            k = tell(m, telling, m->s->L - l);
    }
    return k;
}

/* The gradient goes on to the stage before, or ends in the embedding. */
static enum kstatus input_backward(struct model *m, const struct batch *batch,
                                   void *din, int64_t N)
{
    if (!din)
        return embed_backward(m, batch, N);
    return device_copy(m->ex->device, din, m->scratch.at[S_DRES],
                       (size_t)(tensor_tokens(m, N) * m->s->C) *
                           dtype_bytes(m->ex->act),
                       m->ex->stream);
}

int model_backward(struct model *m, int chunk_at, int slot_at,
                   const struct batch *batch, const void *dout, void *din,
                   double *sums, double scale, grad_ready_f ready, void *ctx,
                   struct err *err)
{
    struct telling telling = {ready, ctx};
    struct attend t = attend_of(batch);
    int64_t N = (int64_t)batch->B * batch->T;
    if (check_call(m, chunk_at, slot_at, N, din, dout, err) != 0)
        return -1;
    const struct chunk *chunk = &m->chunks[chunk_at];
    struct slot *slot = &m->slots[slot_at];

    enum kstatus k = K_OK;
    if (!dout) {
        k = head_backward(m, slot, batch, sums, scale, N);
        if (k == K_OK)
            k = tell(m, &telling, 0);
    }
    if (k == K_OK)
        k = layers_backward(m, chunk, slot, &t, &telling);
    if (k == K_OK)
        k = input_backward(m, batch, din, N);
    return k == K_OK ? 0 : model_failed(m, "backward", k, err);
}

int model_backward_end(struct model *m, grad_ready_f ready, void *ctx,
                       struct err *err)
{
    struct telling telling = {ready, ctx};
    enum kstatus k = tell(m, &telling, m->s->L + 1);
    return k == K_OK ? 0 : model_failed(m, "backward", k, err);
}
