/* Weights come from seed, name and index alone; names and boxes are Hugging
 * Face's and lie where products expect them. */
#include "tests/tap.h"
#include "tests/model/tiny.h"

#include "runner/model/params.h"

static const struct param *find(const struct model *m, const char *name)
{
    struct param *p;
    int n = model_params(m, &p);
    for (int i = 0; i < n; i++)
        if (strcmp(p[i].name, name) == 0)
            return &p[i];
    return NULL;
}

static int open_model(struct tiny *t, const struct shape *s, uint64_t seed)
{
    struct err err = ERR_INIT;
    if (tiny_open(t, s, PLAN_FP32, 2, 4, &err) != 0 ||
        !(t->model = model_create(&t->plan, NULL, &t->ex, true, 1, &err)) ||
        model_init_weights(t->model, seed, &err) != 0) {
        printf("# %s\n", err.msg);
        return -1;
    }
    return 0;
}

/* The same name and index give the same number in a model of other depth and
 * of another number of key heads. */
static void check_layout_free(void)
{
    struct tiny a, b;
    struct shape deep = tiny_llama;
    deep.L = 4;
    ok(open_model(&a, &tiny_llama, 5) == 0 && open_model(&b, &deep, 5) == 0,
       "two depths");
    const char *name = "model.layers.1.self_attn.q_proj.weight";
    const struct param *x = find(a.model, name), *y = find(b.model, name);
    ok(x && y && x->n == y->n &&
           memcmp(x->data, y->data, (size_t)x->n * 4) == 0,
       "a tensor does not depend on the others");
    const struct param *z =
        find(a.model, "model.layers.0.self_attn.q_proj.weight");
    ok(z && memcmp(x->data, z->data, (size_t)x->n * 4) != 0,
       "two layers differ");
    tiny_close(&b);
    open_model(&b, &tiny_llama, 6);
    y = find(b.model, name);
    ok(y && memcmp(x->data, y->data, (size_t)x->n * 4) != 0, "seeds differ");
    tiny_close(&a);
    tiny_close(&b);
}

/* Rows that a rank would hold alone are those of the whole tensor. */
static void check_box(void)
{
    struct tiny t;
    open_model(&t, &tiny_llama, 5);
    const struct param *p =
        find(t.model, "model.layers.0.mlp.down_proj.weight");
    struct param box = *p;
    int64_t cols = p->shape[1];
    float *whole = malloc((size_t)p->n * 4), *rows;
    memcpy(whole, p->data, (size_t)p->n * 4);
    /* the model's table changed to a box in the tensor's middle */
    struct param *table;
    model_params(t.model, &table);
    struct param *mine = table + (p - table);
    box.offset[0] = 3, box.extent[0] = 4, box.n = 4 * cols;
    box.offset[1] = 2, box.extent[1] = cols - 2, box.n = 4 * (cols - 2);
    box.cols[0] = (struct view_cols){0, box.offset[1], box.extent[1]};
    *mine = box;
    struct err err = ERR_INIT;
    model_init_weights(t.model, 5, &err);
    rows = box.data;
    int same = 1;
    for (int64_t i = 0; i < 4; i++)
        same &= memcmp(rows + i * (cols - 2), whole + (i + 3) * cols + 2,
                       (size_t)(cols - 2) * 4) == 0;
    ok(same, "a box of a tensor gets the tensor's numbers");
    free(whole);
    tiny_close(&t);
}

static double std_of(const struct param *p)
{
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++)
        sum += (double)((float *)p->data)[i] * ((float *)p->data)[i];
    return sqrt(sum / (double)p->n);
}

static void check_spread(void)
{
    struct tiny t;
    struct shape s = tiny_gpt2;
    s.C = 48, s.D = 16, s.F = 192, s.init_std = 0.02;
    open_model(&t, &s, 1);
    is_near(std_of(find(t.model, "transformer.wte.weight")), 0.02, 0.002,
            "embedding's spread");
    is_near(std_of(find(t.model, "transformer.h.0.mlp.c_fc.weight")), 0.02,
            0.001, "a matrix's spread");
    is_near(std_of(find(t.model, "transformer.h.1.mlp.c_proj.weight")), 0.01,
            0.0005, "a residual projection's: divided by sqrt(2L)");
    const struct param *one = find(t.model, "transformer.h.0.ln_1.weight");
    const struct param *zero = find(t.model, "transformer.h.0.ln_1.bias");
    ok(((float *)one->data)[3] == 1 && ((float *)zero->data)[3] == 0,
       "norms are one, biases zero");
    tiny_close(&t);
}

static void check_names(void)
{
    struct tiny t;
    struct param *p;
    open_model(&t, &tiny_gpt2, 1);
    const struct param *q =
        find(t.model, "transformer.h.1.attn.c_attn.weight");
    ok(q && q->shape[0] == 12 && q->shape[1] == 36, "c_attn is [in, out]");
    const struct param *e = find(t.model, "transformer.wte.weight");
    is_int(e->shape[0], 29, "the vocabulary is the real one");
    ok(!find(t.model, "lm_head.weight"), "a tied head has no tensor");
    tiny_close(&t);

    struct shape s = tiny_llama;
    s.qk_norm = s.bias_qkv = true;
    open_model(&t, &s, 1);
    int64_t all = 0;
    int n = model_params(t.model, &p);
    for (int i = 0; i < n; i++)
        all += p[i].n;
    /* by hand: C 12, H 4, K 2, D 6, F 20, V 29, L 2 */
    is_int(all, 29 * 12 * 2 + 12 + 2 * (24 * 12 + 2 * 12 * 12 + 24 + 24 +
                                        12 * 24 + 12 * 2 + 3 * 20 * 12 + 12),
           "all parameters counted");
    const struct param *k =
        find(t.model, "model.layers.0.self_attn.k_proj.weight");
    q = find(t.model, "model.layers.0.self_attn.q_proj.weight");
    ok(q && k && k->shape[0] == 12 && k->shape[1] == 12 &&
           (char *)k->data == (char *)q->data + q->n * 4,
       "k follows q in memory");
    const struct param *gate =
        find(t.model, "model.layers.0.mlp.gate_proj.weight");
    const struct param *up =
        find(t.model, "model.layers.0.mlp.up_proj.weight");
    ok(gate && up && (char *)up->data == (char *)gate->data + gate->n * 4,
       "up follows gate in memory");
    ok(find(t.model, "model.layers.1.self_attn.k_norm.weight") != NULL,
       "QK norm has Qwen's names");
    tiny_close(&t);
}

int main(void)
{
    check_layout_free();
    check_box();
    check_spread();
    check_names();
    return tap_done();
}
