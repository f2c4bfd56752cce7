/* Gradients of whole models against finite differences, in fp64: every tensor
 * of every shape, some elements each, in all recompute modes. */
#include "tests/tap.h"
#include "tests/model/tiny.h"

#define Z 1e-3

struct row {
    const char *what;
    const struct shape *base;
    void (*change)(struct shape *s);
    enum plan_recompute recompute;
    bool docs;
};

static void as_is(struct shape *s) {}
static void untied_bare(struct shape *s)
{
    s->tied = s->bias_qkv = s->bias_o = s->bias_ffn = s->bias_norm = false;
}
static void wide_heads(struct shape *s) { s->D = 6; }
static void gpt_rope_gqa(struct shape *s)
{
    s->pos = SHAPE_ROPE, s->rope_theta = 100, s->K = 1;
}
static void qwen(struct shape *s) { s->qk_norm = s->tied = true; }
static void qwen2(struct shape *s) { s->bias_qkv = s->tied = true; }
static void all_biases(struct shape *s)
{
    s->bias_qkv = s->bias_o = s->bias_ffn = s->bias_norm = true;
    s->norm = SHAPE_LAYERNORM;
}
static void llama_gelu(struct shape *s)
{
    s->act = SHAPE_GELU, s->K = s->H, s->pos = SHAPE_LEARNED;
}
static void gpt_swiglu(struct shape *s) { s->act = SHAPE_SWIGLU; }

static const struct row rows[] = {
    {"gpt2", &tiny_gpt2, as_is, PLAN_RECOMPUTE_NONE, false},
    {"gpt2, selective", &tiny_gpt2, as_is, PLAN_RECOMPUTE_SELECTIVE, false},
    {"gpt2, full", &tiny_gpt2, as_is, PLAN_RECOMPUTE_FULL, false},
    {"gpt2, documents", &tiny_gpt2, as_is, PLAN_RECOMPUTE_NONE, true},
    {"gpt2 untied, no biases", &tiny_gpt2, untied_bare, 0, false},
    {"gpt2, D*H != C", &tiny_gpt2, wide_heads, 0, false},
    {"gpt2, RoPE, one kv head", &tiny_gpt2, gpt_rope_gqa, 0, false},
    {"gpt2, SwiGLU", &tiny_gpt2, gpt_swiglu, 0, false},
    {"llama, GQA, D*H != C", &tiny_llama, as_is, 0, false},
    {"llama, selective", &tiny_llama, as_is, PLAN_RECOMPUTE_SELECTIVE, false},
    {"llama, full", &tiny_llama, as_is, PLAN_RECOMPUTE_FULL, false},
    {"llama, documents", &tiny_llama, as_is, 0, true},
    {"qwen3: QK norm, tied", &tiny_llama, qwen, 0, false},
    {"qwen3, full", &tiny_llama, qwen, PLAN_RECOMPUTE_FULL, false},
    {"qwen2: qkv bias", &tiny_llama, qwen2, 0, false},
    {"llama, LayerNorm and all biases", &tiny_llama, all_biases, 0, false},
    {"llama names, GELU, learned", &tiny_llama, llama_gelu, 0, false},
};

static double loss_of(struct tiny *t, double scale, struct err *err)
{
    memset(t->sums, 0, 4 * sizeof(double));
    model_forward(t->model, 0, 0, MODEL_EVAL, &t->batch, NULL, NULL, t->sums,
                  err);
    return t->sums[0] * scale;
}

/* Central difference of element j, fourth order. */
static double slope(struct tiny *t, double *x, double scale, struct err *err)
{
    const double h = 1e-3, was = *x;
    double f[4];
    const double at[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
        *x = was + at[i] * h;
        f[i] = loss_of(t, scale, err);
    }
    *x = was;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

/* Worst |analytic - numeric| / max(|both|, floor) over sampled elements. */
static double worst_error(struct tiny *t, double scale, char *where,
                          size_t where_bytes, struct err *err)
{
    struct param *p;
    int n = model_params(t->model, &p);
    double worst = 0;
    uint32_t r = 5;
    for (int i = 0; i < n; i++)
        for (int s = 0; s < 5; s++) {
            int64_t j = (int64_t)(tiny_random(&r) % (uint32_t)p[i].n);
            double want = slope(t, (double *)p[i].data + j, scale, err);
            double got = ((double *)p[i].grad)[j];
            double size = fmax(fmax(fabs(want), fabs(got)), 1e-4);
            double e = fabs(want - got) / size;
            if (!(e <= worst)) {
                worst = e;
                snprintf(where, where_bytes, "%s[%lld] got %.12g want %.12g",
                         p[i].name, (long long)j, got, want);
            }
        }
    return worst;
}

static void check(const struct row *row)
{
    enum { B = 2, T = 6 };
    static int32_t cu[] = {0, 2, 6, 7, 12};
    struct err err = ERR_INIT;
    struct shape s = *row->base;
    struct tiny t;
    double scale = 1.0 / (B * T);
    char where[300] = "";

    row->change(&s);
    if (!ok(tiny_open(&t, &s, PLAN_FP64, B, T, &err) == 0, "%s: opens",
            row->what))
        goto out;
    if (row->recompute == PLAN_RECOMPUTE_FULL) /* one whole, one cheap */
        t.plan.recompute_whole = t.plan.recompute_cheap = 1;
    if (row->recompute == PLAN_RECOMPUTE_SELECTIVE)
        t.plan.recompute_cheap = 2;
    t.plan.z_loss = Z;
    if (row->docs)
        t.batch.cu_seqlens = cu, t.batch.docs = 4, t.batch.doc_max = 5;
    t.model = model_create(&t.plan, NULL, &t.ex, true, 1, &err);
    if (!ok(t.model && model_init_weights(t.model, 3, &err) == 0,
            "%s: makes a model", row->what))
        goto out;
    tiny_shake(&t);
    model_zero_grads(t.model, &err);
    memset(t.sums, 0, 4 * sizeof(double));
    model_forward(t.model, 0, 0, MODEL_TRAIN, &t.batch, NULL, NULL, t.sums,
                  &err);
    model_backward(t.model, 0, 0, &t.batch, NULL, NULL, t.sums, scale, NULL,
                   NULL, &err);
    double train = t.sums[0];
    is_near(loss_of(&t, 1, &err), train, 1e-9, "the two losses agree");
    double e = worst_error(&t, scale, where, sizeof where, &err);
    if (!ok(e < 1e-6, "%s: worst relative error %.2g", row->what, e))
        printf("# %s\n", where);
out:
    if (err.class != ERR_NONE)
        ok(0, "%s: %s", row->what, err.msg);
    tiny_close(&t);
}

/* Two micro-batches add up to the gradient of both. */
static void check_accumulation(void)
{
    struct err err = ERR_INIT;
    struct tiny t;
    struct param *p;
    double twice = 0, worst = 0;
    if (!ok(tiny_open(&t, &tiny_llama, PLAN_FP64, 2, 6, &err) == 0, "opens"))
        return;
    t.model = model_create(&t.plan, NULL, &t.ex, true, 1, &err);
    model_init_weights(t.model, 3, &err);
    int n = model_params(t.model, &p);
    double *once = calloc((size_t)p[0].n, sizeof *once);
    for (int pass = 0; pass < 2; pass++) {
        model_forward(t.model, 0, 0, MODEL_TRAIN, &t.batch, NULL, NULL, t.sums,
                      &err);
        model_backward(t.model, 0, 0, &t.batch, NULL, NULL, t.sums, 1, NULL,
                       NULL, &err);
        if (pass == 0)
            memcpy(once, p[0].grad, (size_t)p[0].n * sizeof *once);
    }
    for (int64_t j = 0; j < p[0].n; j++) {
        twice = ((double *)p[0].grad)[j];
        worst = fmax(worst, fabs(twice - 2 * once[j]));
    }
    ok(n > 0 && worst < 1e-12 && twice != 0, "gradients add up: %g", worst);
    free(once);
    tiny_close(&t);
}

/* Buckets are announced in order, each once. */
static int announced, in_order;
static void on_ready(void *ctx, int bucket)
{
    in_order &= bucket == announced++;
}
static void check_buckets(void)
{
    struct err err = ERR_INIT;
    struct tiny t;
    struct param *p;
    tiny_open(&t, &tiny_gpt2, PLAN_FP64, 2, 6, &err);
    t.model = model_create(&t.plan, NULL, &t.ex, true, 1, &err);
    int n = model_params(t.model, &p);
    in_order = 1;
    model_forward(t.model, 0, 0, MODEL_TRAIN, &t.batch, NULL, NULL, t.sums,
                  &err);
    model_backward(t.model, 0, 0, &t.batch, NULL, NULL, t.sums, 1, on_ready,
                   NULL, &err);
    model_backward_end(t.model, on_ready, &t, &err);
    is_int(announced, p[n - 1].bucket + 1, "each bucket once");
    ok(in_order, "in order");
    int64_t before = (int64_t)device_arena_used(t.ex.device);
    struct model *other = model_create(&t.plan, NULL, &t.ex, true, 1, &err);
    is_int((int64_t)device_arena_used(t.ex.device) - before,
           model_arena_bytes(&t.plan, true, 1), "the arena is as computed");
    model_destroy(other);
    struct batch big = t.batch;
    big.T = 7;
    ok(model_forward(t.model, 0, 0, MODEL_TRAIN, &big, NULL, NULL, t.sums,
                     &err) == -1, "a batch over the plan is refused");
    tiny_close(&t);
}

int main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i]);
    check_accumulation();
    check_buckets();
    return tap_done();
}
