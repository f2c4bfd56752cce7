/* params - where each weight lies, and the table of named tensors over them.
 *
 * One walk serves counting, carving and naming, so that the three cannot
 * disagree. Order is that in which gradients become ready, so that a bucket is
 * one run of memory.
 */
#include "runner/model/params.h"

#include <stdio.h>
#include <stdlib.h>

/* GPT-2's matrices lie [in, out]. */
bool place_in_out(const struct shape *s, enum place place)
{
    return s->names == SHAPE_NAMES_GPT2 && place < P_LAYER_N &&
           !place_is_vector(place);
}

void part_rows(const struct shape *s, enum place place, enum part part,
               int *ret_first, int *ret_rows)
{
    int out, in, first = 0;
    place_dims(s, place, &out, &in);
    int q = s->H * s->D, k = s->K * s->D;
    bool fused = s->act == SHAPE_SWIGLU;

    switch (part) {
    case PART_ALL:
        if (place == P_WTE || place == P_HEAD) /* padding has no name */
            out = s->V;
        break;
    case PART_Q: out = out ? q : 0; break;
    case PART_K: first = q, out = out ? k : 0; break;
    case PART_V: first = q + k, out = out ? k : 0; break;
    case PART_GATE: out = out && fused ? s->F : 0; break;
    case PART_UP: first = fused ? s->F : 0, out = out ? s->F : 0; break;
    }
    *ret_first = first;
    *ret_rows = out;
}

void *carve(struct carver *carver, int64_t bytes)
{
    carver->bytes += sizes_align(bytes);
    if (!carver->device || carver->failed || bytes == 0)
        return NULL;
    void *p = device_alloc(carver->device, (size_t)bytes);
    carver->failed = !p;
    return p;
}

/* ---- The walk ---------------------------------------------------------- */
struct walk {
    const struct shape *s;
    void (*visit)(struct walk *walk, enum place place, int layer, int bucket);
    struct carver *carver;
    struct weights *weights;
    bool grads;          /* this pass carves gradients */
    size_t elem_bytes;
    /* naming */
    struct param *params;
    int params_n;
    size_t act_bytes, grad_bytes;
};

/* Bucket 0: final norm and untied head; then layers from the last; then the
 * embedding. Returns the number of buckets. */
static int walk_all(struct walk *walk)
{
    static const enum place last[] = {P_HEAD, P_NORMF, P_NORMF_B};
    static const enum place first[] = {P_WTE, P_WPE};
    const struct shape *s = walk->s;

    for (int i = 0; i < 3; i++)
        walk->visit(walk, last[i], -1, 0);
    for (int l = s->L - 1; l >= 0; l--)
        for (int p = 0; p < P_LAYER_N; p++)
            walk->visit(walk, (enum place)p, l, s->L - l);
    for (int i = 0; i < 2; i++)
        walk->visit(walk, first[i], -1, s->L + 1);
    return s->L + 2;
}

static struct weight *weight_at(struct weights *weights, enum place place,
                                int layer)
{
    return layer >= 0 ? &weights->layer[layer][place] : &weights->top[place];
}

static void visit_carve(struct walk *walk, enum place place, int layer,
                        int bucket)
{
    int out, in;
    place_dims(walk->s, place, &out, &in);
    if (out == 0)
        return;
    void *p = carve(walk->carver,
                    (int64_t)out * in * (int64_t)walk->elem_bytes);
    if (!walk->weights)
        return;
    struct weight *w = weight_at(walk->weights, place, layer);
    w->out = out;
    w->in = in;
    w->in_out = place_in_out(walk->s, place);
    if (walk->grads)
        w->grad = p;
    else
        w->data = p;
}

void weights_carve(const struct shape *s, enum dtype act, enum dtype grad,
                   bool train, struct carver *carver, struct weights *weights)
{
    struct walk walk = {.s = s, .visit = visit_carve, .carver = carver,
                        .weights = weights, .elem_bytes = dtype_bytes(act)};
    int64_t start = carver->bytes;
    int buckets = walk_all(&walk);
    int64_t middle = carver->bytes;
    if (train) {
        walk.grads = true;
        walk.elem_bytes = dtype_bytes(grad);
        walk_all(&walk);
    }
    if (!weights)
        return;
    const struct weight *w0 = s->tied ? &weights->top[P_NORMF]
                                      : &weights->top[P_HEAD];
    weights->buckets = buckets;
    weights->data = w0->data;
    weights->grad = w0->grad;
    weights->data_bytes = middle - start;
    weights->grad_bytes = carver->bytes - middle;
}

/* ---- Naming ------------------------------------------------------------ */
static void name_part(struct walk *walk, const struct part_name *name,
                      int layer, int bucket)
{
    const struct weight *w = weight_at(walk->weights, name->place, layer);
    int first, rows;
    part_rows(walk->s, name->place, name->part, &first, &rows);
    if (!w->data || rows == 0)
        return;
    struct param *p = &walk->params[walk->params_n++];
    bool vector = place_is_vector(name->place);
    int64_t skip = (int64_t)first * w->in;

    *p = (struct param){.dims = vector ? 1 : 2, .bucket = bucket,
                        .decay = !vector};
    snprintf(p->name, sizeof p->name, name->fmt, layer);
    p->shape[0] = w->in_out ? w->in : rows;
    p->shape[1] = vector ? 1 : w->in_out ? rows : w->in;
    p->extent[0] = p->shape[0];
    p->extent[1] = p->shape[1];
    p->n = p->shape[0] * p->shape[1];
    p->data = (char *)w->data + skip * (int64_t)walk->act_bytes;
    if (w->grad)
        p->grad = (char *)w->grad + skip * (int64_t)walk->grad_bytes;
}

static void visit_name(struct walk *walk, enum place place, int layer,
                       int bucket)
{
    for (const struct part_name *n = hf_part_names; n->fmt; n++)
        if (n->names == walk->s->names && n->place == place)
            name_part(walk, n, layer, bucket);
}

int params_list(const struct shape *s, const struct weights *weights,
                enum dtype act, enum dtype grad, struct param **ret)
{
    size_t most = (size_t)s->L * (P_LAYER_N + 5) + 8;
    struct walk walk = {.s = s, .visit = visit_name,
                        .weights = (struct weights *)weights,
                        .params = calloc(most, sizeof(struct param)),
                        .act_bytes = dtype_bytes(act),
                        .grad_bytes = dtype_bytes(grad)};
    if (!walk.params)
        return -1;
    walk_all(&walk);
    *ret = walk.params;
    return walk.params_n;
}
