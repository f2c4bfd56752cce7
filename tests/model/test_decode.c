/* Generation through the cache gives what the whole forward gives: the logits
 * of each position, whatever pieces the tokens come in. */
#include "tests/tap.h"
#include "tests/model/tiny.h"

#include "runner/model/layers.h"

enum { B = 2, T = 10 };

/* Logits of every position by the full forward, as the reference. */
static void full_logits(struct tiny *t, double *logits, struct err *err)
{
    memset(t->sums, 0, 4 * sizeof(double));
    model_forward(t->model, 0, 0, MODEL_EVAL, &t->batch, NULL, NULL, t->sums,
                  err);
    t->ex.ops->head_logits(&t->ex, logits, t->model->slots[0].yf,
                           model_head(t->model), B * T, t->plan.shape.V);
}

static double worst_of(const float *got, const double *all, int at, int V)
{
    double worst = 0;
    for (int b = 0; b < B; b++)
        for (int v = 0; v < V; v++)
            worst = fmax(worst, fabs(got[b * V + v] -
                                     all[((size_t)b * T + at) * V + v]));
    return worst;
}

static void check(const char *what, const struct shape *s)
{
    struct err err = ERR_INIT;
    struct tiny t;
    int V = s->V;
    ok(tiny_open(&t, s, PLAN_FP64, B, T, &err) == 0, "%s: opens", what);
    t.model = model_create(&t.plan, NULL, &t.ex, false, 1, &err);
    model_init_weights(t.model, 3, &err);
    tiny_shake(&t);
    double *all = calloc((size_t)B * T * V, sizeof *all);
    float *got = calloc((size_t)B * V, sizeof *got);
    full_logits(&t, all, &err);
    int64_t before = (int64_t)device_arena_used(t.ex.device);
    struct kv_cache *cache = model_cache_create(t.model, B, T, &err);
    is_int((int64_t)device_arena_used(t.ex.device) - before,
           model_cache_bytes(&t.plan, t.ex.act, B, T),
           "the cache is as computed");

    /* 4 tokens, then 1, then 2, then one by one */
    static const int pieces[] = {4, 1, 2, 1, 1, 1};
    int past = 0;
    double worst = 0;
    int32_t piece[B * T];
    for (int i = 0; i < 6; past += pieces[i++]) {
        int n = pieces[i];
        for (int b = 0; b < B; b++)
            memcpy(piece + b * n, t.batch.tokens + b * T + past,
                   (size_t)n * 4);
        if (model_decode(t.model, cache, B, n, past, piece, got, &err) != 0)
            break;
        worst = fmax(worst, worst_of(got, all, past + n - 1, V));
    }
    is_int(past, T, "all pieces taken");
    if (!ok(worst < 1e-5, "%s: logits as in the whole forward: %g", what,
            worst))
        printf("# %s\n", err.msg);
    ok(model_decode(t.model, cache, B, 1, T, piece, got, &err) == -1 &&
           err.class == ERR_REQUEST, "past the cache's end is refused");
    free(all);
    free(got);
    model_cache_destroy(cache);
    tiny_close(&t);
}

/* A prompt longer than a piece of the cache's scratch. */
static void check_long(void)
{
    enum { LONG = 150 };
    struct err err = ERR_INIT;
    struct tiny t;
    struct shape s = tiny_llama;
    int32_t tokens[LONG];
    float *whole = calloc((size_t)s.V, sizeof *whole);
    float *steps = calloc((size_t)s.V, sizeof *steps);
    uint32_t r = 1;
    for (int i = 0; i < LONG; i++)
        tokens[i] = (int)(tiny_random(&r) % (uint32_t)s.V);
    tiny_open(&t, &s, PLAN_FP32, 1, LONG, &err);
    t.model = model_create(&t.plan, NULL, &t.ex, false, 1, &err);
    model_init_weights(t.model, 3, &err);
    struct kv_cache *a = model_cache_create(t.model, 1, LONG, &err);
    struct kv_cache *b = model_cache_create(t.model, 1, LONG, &err);
    ok(a && b && model_decode(t.model, a, 1, LONG, 0, tokens, whole, &err) ==
                     0, "a long prompt at once");
    for (int i = 0; i < LONG; i++)
        model_decode(t.model, b, 1, 1, i, tokens + i, steps, &err);
    double worst = 0;
    for (int v = 0; v < s.V; v++)
        worst = fmax(worst, fabs(whole[v] - steps[v]));
    ok(worst < 1e-4, "and token by token: the same logits: %g", worst);
    free(whole);
    free(steps);
    model_cache_destroy(a);
    model_cache_destroy(b);
    tiny_close(&t);
}

int main(void)
{
    struct shape qwen = tiny_llama;
    qwen.qk_norm = true;
    check("gpt2", &tiny_gpt2);
    check("llama", &tiny_llama);
    check("qwen3", &qwen);
    check_long();
    return tap_done();
}
