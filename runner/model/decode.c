/* decode - generation: the blocks' own forward, with keys and values kept.
 *
 * A prompt goes through in pieces of at most DECODE_PIECE tokens a sequence,
 * so that the scratch stays small.
 */
#include "runner/model/layers.h"

#include <stdlib.h>

#define DECODE_PIECE 64

struct kv_cache {
    int B, T;               /* sequences, tokens each */
    int64_t N;              /* tokens of the largest piece */
    char *kv;               /* [L, B, T, 2, K, D] */
    int64_t layer_bytes;
    struct acts acts;
    struct scratch scratch;
    void *sumf, *yf, *meanf, *rstdf, *last;
    int32_t *tokens, *positions;
    void *logits;
    /* host */
    int32_t *h_tokens, *h_positions;
    void *h_logits;
};

static int64_t piece_tokens(int B, int T)
{
    return (int64_t)B * (T < DECODE_PIECE ? T : DECODE_PIECE);
}

static enum dtype logits_dtype(const struct model *m)
{
    return m->ex->act == DT_F64 ? DT_F64 : DT_F32;
}

static void cache_carve(const struct shape *s, int B, int T, enum dtype act,
                        enum dtype stat, enum dtype logits,
                        struct carver *carver, struct kv_cache *c)
{
    int64_t a = (int64_t)dtype_bytes(act), N = piece_tokens(B, T);
    int ab = (int)a, sb = (int)dtype_bytes(stat);
    int64_t layer = (int64_t)B * T * 2 * s->K * s->D * a;
    struct kv_cache made = {.B = B, .T = T, .N = N, .layer_bytes = layer};

    made.kv = carve(carver, layer * s->L);
    acts_carve(s, N, act, stat, KEEP_NOTHING, false, carver, &made.acts);
    scratch_carve(s, N, act, false, carver, &made.scratch);
    made.sumf = carve(carver, N * s->C * a);
    made.yf = carve(carver, N * s->C * a);
    made.meanf = carve(carver, act_bytes(s, A_MEAN1, N, ab, sb));
    made.rstdf = carve(carver, act_bytes(s, A_RSTD1, N, ab, sb));
    made.last = carve(carver, B * s->C * a);
    made.tokens = carve(carver, N * 4);
    made.positions = carve(carver, N * 4);
    made.logits = carve(carver, (int64_t)B * s->V *
                                    (int64_t)dtype_bytes(logits));
    if (c)
        *c = made;
}

int64_t model_cache_bytes(const struct plan *plan, enum dtype act, int B,
                          int T_cache)
{
    struct carver carver = {0};
    enum dtype stat = act == DT_F64 ? DT_F64 : DT_F32;
    cache_carve(&plan->shape, B, T_cache, act, stat, stat, &carver, NULL);
    return carver.bytes;
}

struct kv_cache *model_cache_create(struct model *m, int B, int T_cache,
                                    struct err *err)
{
    struct carver carver = {.device = m->ex->device};
    struct kv_cache *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(err, "model: no memory for a cache");
        return NULL;
    }
    cache_carve(m->s, B, T_cache, m->ex->act, m->ex->stat, logits_dtype(m),
                &carver, c);
    c->h_tokens = device_alloc_host(m->ex->device, (size_t)c->N * 4);
    c->h_positions = device_alloc_host(m->ex->device, (size_t)c->N * 4);
    c->h_logits = device_alloc_host(
        m->ex->device, (size_t)B * m->s->V * dtype_bytes(logits_dtype(m)));
    if (carver.failed || !c->h_tokens || !c->h_positions || !c->h_logits) {
        err_set(err, "model: cache of %d x %d tokens: %lld bytes do not fit",
                B, T_cache, (long long)carver.bytes);
        free(c);
        return NULL;
    }
    return c;
}

void model_cache_destroy(struct kv_cache *cache)
{
    free(cache);
}

/* Tokens first .. first + n of each sequence, and their positions. */
static enum kstatus piece_in(struct model *m, struct kv_cache *c, int B, int T,
                             int past, const int32_t *tokens, int first, int n)
{
    for (int b = 0; b < B; b++)
        for (int i = 0; i < n; i++) {
            c->h_tokens[b * n + i] = tokens[b * T + first + i];
            c->h_positions[b * n + i] = past + first + i;
        }
    struct exec *ex = m->ex;
    size_t bytes = (size_t)B * n * 4;
    enum kstatus k = device_copy_in(ex->device, c->tokens, c->h_tokens, bytes,
                                    ex->stream);
    if (k == K_OK)
        k = device_copy_in(ex->device, c->positions, c->h_positions, bytes,
                           ex->stream);
    return k;
}

static enum kstatus piece_forward(struct model *m, struct kv_cache *c, int B,
                                  int n, int past)
{
    const struct shape *s = m->s;
    struct exec *ex = m->ex;
    int64_t N = (int64_t)B * n;
    struct attend t = {.B = B, .T = n, .positions = c->positions,
                       .T_cache = c->T, .past = past};
    const void *res = c->acts.at[A_SUM1], *delta = NULL;

    enum kstatus k = ex->ops->embed_fwd(
        ex, c->acts.at[A_SUM1], c->tokens, c->positions,
        &m->weights.top[P_WTE], weight_or_null(&m->weights.top[P_WPE]), N,
        s->C);
    for (int l = 0; l < s->L && k == K_OK; l++) {
        t.kv = c->kv + l * c->layer_bytes;
        k = block_forward(m, l, &c->acts, &c->scratch, res, delta, &t, false);
        res = c->acts.at[A_SUM2];
        delta = c->scratch.at[S_DELTA];
    }
    if (k == K_OK)
        k = ex->ops->norm_fwd(
            ex, c->yf, c->sumf, c->meanf, c->rstdf, res, delta,
            &m->weights.top[P_NORMF],
            weight_or_null(&m->weights.top[P_NORMF_B]),
            s->norm == SHAPE_LAYERNORM ? NORM_LAYER : NORM_RMS, s->norm_eps,
            N, s->C);
    return k;
}

/* Logits of each sequence's last position to host floats. */
static enum kstatus last_logits(struct model *m, struct kv_cache *c, int B,
                                int n, float *logits)
{
    struct exec *ex = m->ex;
    size_t row = (size_t)m->s->C * dtype_bytes(ex->act);
    int64_t all = (int64_t)B * m->s->V;
    enum kstatus k = K_OK;

    for (int b = 0; b < B && k == K_OK; b++)
        k = device_copy(ex->device, (char *)c->last + (size_t)b * row,
                        (char *)c->yf + ((size_t)b * n + n - 1) * row, row,
                        ex->stream);
    if (k == K_OK)
        k = ex->ops->head_logits(ex, c->logits, c->last, model_head(m), B,
                                 m->s->V);
    if (k == K_OK)
        k = device_copy_out(ex->device, c->h_logits, c->logits,
                            (size_t)all * dtype_bytes(logits_dtype(m)),
                            ex->stream);
    if (k == K_OK)
        k = device_sync(ex->device, ex->stream);
    if (k != K_OK)
        return k;
    for (int64_t i = 0; i < all; i++)
        logits[i] = logits_dtype(m) == DT_F64
                        ? (float)((double *)c->h_logits)[i]
                        : ((float *)c->h_logits)[i];
    return K_OK;
}

int model_decode(struct model *m, struct kv_cache *c, int B, int T, int past,
                 const int32_t *tokens, float *logits, struct err *err)
{
    if (B < 1 || B > c->B || T < 1 || past < 0 || past + T > c->T)
        return err_set_class(err, ERR_REQUEST,
                             "model: %d sequences of %d + %d tokens do not fit "
                             "a cache of %d x %d", B, past, T, c->B, c->T);
    if (m->s->pos == SHAPE_LEARNED && past + T > m->s->T_max)
        return err_set_class(err, ERR_REQUEST,
                             "model: position %d: it knows only %d",
                             past + T - 1, m->s->T_max);
    int most = (int)(c->N / B), done = 0, n = 0;
    enum kstatus k = K_OK;
    for (; done < T && k == K_OK; done += n) {
        n = T - done < most ? T - done : most;
        k = piece_in(m, c, B, T, past, tokens, done, n);
        if (k == K_OK)
            k = piece_forward(m, c, B, n, past + done);
        if (k == K_OK && done + n < T) /* the host buffers are used again */
            k = device_sync(m->ex->device, m->ex->stream);
    }
    if (k == K_OK)
        k = last_logits(m, c, B, n, logits);
    return k == K_OK ? 0 : model_failed(m, "decoding", k, err);
}
