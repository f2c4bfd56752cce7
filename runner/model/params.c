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
    void *begin;         /* the first block carved */
    /* naming */
    const struct whereabouts *at;
    struct param *params;
    int params_n;
    size_t act_bytes, grad_bytes;
    /* sums */
    struct sum_run *runs;
    int runs_n;
};

/* A layer's, those that all tensor ranks have first: side by side, their
 * gradients are summed as one. */
static const enum place layer_places[P_LAYER_N] = {
    P_NORM1, P_NORM1_B, P_QNORM, P_KNORM, P_O_B, P_NORM2, P_NORM2_B, P_DOWN_B,
    P_QKV, P_QKV_B, P_O, P_UP, P_UP_B, P_DOWN,
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
            walk->visit(walk, layer_places[p], l, s->L - l);
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
    if (!walk->begin)
        walk->begin = p;
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
    void *data = walk.begin;
    walk.begin = NULL;
    if (train) {
        walk.grads = true;
        walk.elem_bytes = dtype_bytes(grad);
        walk_all(&walk);
    }
    if (!weights)
        return;
    weights->buckets = buckets;
    weights->data = data;
    weights->grad = walk.begin;
    weights->data_bytes = middle - start;
    weights->grad_bytes = carver->bytes - middle;
}

/* ---- Cutting ----------------------------------------------------------- */
/* How a weight lies on the ranks of a tensor group. */
enum cut { CUT_NONE, CUT_OUT, CUT_IN };

static enum cut cut_of(enum place place)
{
    switch (place) {
    case P_QKV: case P_QKV_B: case P_UP: case P_UP_B: case P_WTE: case P_HEAD:
        return CUT_OUT;
    case P_O: case P_DOWN:
        return CUT_IN;
    default:
        return CUT_NONE;
    }
}

/* Of a part that is cut along its output: where this rank's begins in the whole
 * part. */
static int64_t out_offset(const struct whereabouts *at, enum place place,
                          enum part part)
{
    const struct shape *s = at->share;
    int t = at->tensor_rank;
    if (cut_of(place) != CUT_OUT)
        return 0;
    if (place == P_WTE || place == P_HEAD)
        return (int64_t)t * s->Vp;
    if (part == PART_K || part == PART_V)
        return (int64_t)(t / at->replicas) * s->K * s->D;
    if (place == P_QKV || place == P_QKV_B)
        return (int64_t)t * s->H * s->D;
    return (int64_t)t * s->F;
}

static int64_t in_offset(const struct whereabouts *at, enum place place)
{
    const struct shape *s = at->share;
    if (cut_of(place) != CUT_IN)
        return 0;
    return (int64_t)at->tensor_rank *
           (place == P_O ? (int64_t)s->H * s->D : s->F);
}

/* Another rank of the tensor or pipeline group has the same. */
static bool is_shared(const struct whereabouts *at, enum place place,
                      enum part part)
{
    if (place == P_WTE && at->tied_copy)
        return true;
    if (part == PART_K || part == PART_V)
        return at->tensor_rank % at->replicas != 0;
    return cut_of(place) == CUT_NONE && at->tensor_rank > 0;
}

/* ---- Naming ------------------------------------------------------------ */
/* One run of rows of a weight, `first` to `first + rows` here, which begin at
 * `offset` of the tensor's `all`. */
struct rows_run { int64_t first, rows, offset, all; };

static struct param *add_param(struct walk *walk, const struct part_name *name,
                               int layer, int bucket, struct rows_run run)
{
    const struct whereabouts *at = walk->at;
    const struct weight *w = weight_at(walk->weights, name->place, layer);
    struct param *p = &walk->params[walk->params_n++];
    bool vector = place_is_vector(name->place);
    int out = w->in_out ? 1 : 0, in = w->in_out ? 0 : 1;
    int64_t skip = run.first * w->in;
    int whole_out, whole_in;

    place_dims(at->whole, name->place, &whole_out, &whole_in);
    *p = (struct param){.dims = vector ? 1 : 2, .bucket = bucket,
                        .decay = !vector, .cols_n = 1,
                        .shared = is_shared(at, name->place, name->part)};
    snprintf(p->name, sizeof p->name, name->fmt,
             layer < 0 ? layer : at->layer_number[layer]);
    p->shape[out] = run.all;
    p->shape[in] = whole_in;
    p->offset[out] = run.offset;
    p->offset[in] = in_offset(at, name->place);
    p->extent[out] = run.rows;
    p->extent[in] = w->in;
    p->cols[0] = (struct view_cols){0, p->offset[1], p->extent[1]};
    p->n = p->extent[0] * p->extent[1];
    p->data = (char *)w->data + skip * (int64_t)walk->act_bytes;
    if (w->grad)
        p->grad = (char *)w->grad + skip * (int64_t)walk->grad_bytes;
    return p;
}

/* GPT-2's c_attn cut: parts of q, of k and of v, which are columns of its
 * matrix and runs of its bias. */
static void name_packed(struct walk *walk, const struct part_name *name,
                        int layer, int bucket)
{
    static const enum part parts[] = {PART_Q, PART_K, PART_V};
    const struct weight *w = weight_at(walk->weights, name->place, layer);
    struct param *matrix = NULL;
    int all, in;

    place_dims(walk->at->whole, name->place, &all, &in);
    if (w->in_out) {
        matrix = add_param(walk, name, layer, bucket,
                           (struct rows_run){0, w->out, 0, all});
        matrix->cols_n = 3;
    }
    for (int i = 0; i < 3; i++) {
        int first, rows, whole_first, whole_rows;
        part_rows(walk->s, name->place, parts[i], &first, &rows);
        part_rows(walk->at->whole, name->place, parts[i], &whole_first,
                  &whole_rows);
        int64_t offset =
            whole_first + out_offset(walk->at, name->place, parts[i]);
        if (matrix)
            matrix->cols[i] = (struct view_cols){first, offset, rows};
        else
            add_param(walk, name, layer, bucket,
                      (struct rows_run){first, rows, offset, all});
    }
}

static void name_part(struct walk *walk, const struct part_name *name,
                      int layer, int bucket)
{
    const struct weight *w = weight_at(walk->weights, name->place, layer);
    bool qkv = name->place == P_QKV || name->place == P_QKV_B;
    int first, rows, whole_first, all;

    if (w->data && qkv && name->part == PART_ALL && walk->at->tensor > 1) {
        name_packed(walk, name, layer, bucket);
        return;
    }
    part_rows(walk->s, name->place, name->part, &first, &rows);
    part_rows(walk->at->whole, name->place, name->part, &whole_first, &all);
    if (w->data && rows > 0)
        add_param(walk, name, layer, bucket,
                  (struct rows_run){first, rows,
                                    out_offset(walk->at, name->place,
                                               name->part), all});
}

static void visit_name(struct walk *walk, enum place place, int layer,
                       int bucket)
{
    for (const struct part_name *n = hf_part_names; n->fmt; n++)
        if (n->names == walk->s->names && n->place == place)
            name_part(walk, n, layer, bucket);
}

int params_list(const struct whereabouts *at, const struct weights *weights,
                enum dtype act, enum dtype grad, struct param **ret)
{
    size_t most = (size_t)at->share->L * (P_LAYER_N + 5) + 8;
    struct walk walk = {.s = at->share, .at = at, .visit = visit_name,
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

/* ---- Sums over other groups -------------------------------------------- */
#define GAP_BYTES SIZES_ALIGN /* between neighbours: zeros, and stay so */

static void add_sum(struct walk *walk, enum comm_group group, int bucket,
                    void *grad, int64_t n)
{
    int64_t e = (int64_t)walk->grad_bytes;
    struct sum_run *last =
        walk->runs_n ? &walk->runs[walk->runs_n - 1] : NULL;
    int64_t gap = last ? (char *)grad - (char *)last->grad - last->n * e : -1;
    /* whole weights alone: between parts may lie others' */
    if (last && group == COMM_TENSOR && last->group == group &&
        last->bucket == bucket && gap >= 0 && gap < GAP_BYTES) {
        last->n = ((char *)grad - (char *)last->grad) / e + n;
        return;
    }
    walk->runs[walk->runs_n++] = (struct sum_run){group, bucket, grad, n};
}

static void visit_sum(struct walk *walk, enum place place, int layer,
                      int bucket)
{
    const struct whereabouts *at = walk->at;
    const struct weight *w = weight_at(walk->weights, place, layer);
    if (!w->grad)
        return;
    if (place == P_WTE && at->whole->tied &&
        (at->share->no_embed || at->share->no_head))
        add_sum(walk, COMM_ENDS, bucket, w->grad, (int64_t)w->out * w->in);
    if (cut_of(place) == CUT_NONE && at->tensor > 1)
        add_sum(walk, COMM_TENSOR, bucket, w->grad, (int64_t)w->out * w->in);
    if ((place == P_QKV || place == P_QKV_B) && at->replicas > 1) {
        int first, rows;
        part_rows(walk->s, place, PART_K, &first, &rows);
        add_sum(walk, COMM_TWINS, bucket,
                (char *)w->grad + (size_t)first * w->in * walk->grad_bytes,
                2 * (int64_t)rows * w->in);
    }
}

int sums_list(const struct whereabouts *at, const struct weights *weights,
              enum dtype grad, struct sum_run **ret)
{
    size_t most = (size_t)at->share->L * (P_LAYER_N + 2) + 8;
    struct walk walk = {.s = at->share, .at = at, .visit = visit_sum,
                        .weights = (struct weights *)weights,
                        .runs = calloc(most, sizeof(struct sum_run)),
                        .grad_bytes = dtype_bytes(grad)};
    if (!walk.runs)
        return -1;
    walk_all(&walk);
    *ret = walk.runs;
    return walk.runs_n;
}
