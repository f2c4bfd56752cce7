/* shard - who owns which rows, in the data group.
 *
 * Each bucket is cut evenly over its tensors laid end to end, a cut moved back
 * to the beginning of a row. A rank's part of a bucket is so one run of
 * memory, at most a row longer than an even one (plan/sizes.h counts it so),
 * also where ranks are more than rows. Ownership does not hang on whether the
 * state is sharded: without, it says who saves what, and whose squares go into
 * the norm, which has the same bits then.
 */
#include "runner/optim/optim_private.h"

#include <stdlib.h>

#include "runner/plan/sizes.h"

int64_t shard_row(const struct optim_tensor *t)
{
    return t->dims > 1 ? t->extent[1] : SIZES_VECTOR_ROW;
}

struct range shard_owned(const struct optim *o, int rank, int i)
{
    return o->owned[(size_t)rank * (size_t)o->tensors_n + (size_t)i];
}

/* qsort has no context: each entry carries what it is ordered by. */
struct spot {
    const void *grad;
    int bucket, index;
};

static int by_place(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    return (x->grad > y->grad) - (x->grad < y->grad);
}

static int order_make(struct optim *o, struct err *err)
{
    size_t n = (size_t)o->tensors_n;
    struct spot *spots = calloc(n + 1, sizeof *spots);
    o->order = calloc(n + 1, sizeof *o->order);
    o->owned = calloc(n * (size_t)o->ranks + 1, sizeof *o->owned);
    if (!spots || !o->order || !o->owned) {
        free(spots);
        return err_set(err, "optim: no memory for its tables");
    }
    for (int i = 0; i < o->tensors_n; i++)
        spots[i] = (struct spot){o->tensors[i].grad, o->tensors[i].bucket,
                                   i};
    qsort(spots, n, sizeof *spots, by_place);
    for (int i = 0; i < o->tensors_n; i++)
        o->order[i] = spots[i].index;
    free(spots);
    return 0;
}

static const struct optim_tensor *at(const struct optim *o, int i)
{
    return &o->tensors[o->order[i]];
}

/* Where rank's part of the bucket begins: elements from the bucket's. */
static int64_t cut(const struct optim *o, int first, int end, int64_t n,
                   int rank)
{
    int64_t want = n / o->ranks * rank + n % o->ranks * rank / o->ranks;
    int64_t before = 0;
    for (int i = first; i < end; before += at(o, i++)->n)
        if (want < before + at(o, i)->n) {
            int64_t row = shard_row(at(o, i));
            return before + (want - before) / row * row;
        }
    return n;
}

/* The part of [from, to) that lies in the n elements from `before` on. */
static struct range overlap(int64_t before, int64_t n, int64_t from,
                            int64_t to)
{
    from = from > before ? from - before : 0;
    to = to < before + n ? to - before : n;
    return to > from ? (struct range){from, to - from} : (struct range){0, 0};
}

static void bucket_cut(struct optim *o, int first, int end)
{
    int64_t n = 0, from = 0;
    for (int i = first; i < end; i++)
        n += at(o, i)->n;
    for (int rank = 0; rank < o->ranks; rank++) {
        int64_t to = cut(o, first, end, n, rank + 1), before = 0;
        for (int i = first; i < end; before += at(o, i++)->n)
            o->owned[(size_t)rank * (size_t)o->tensors_n +
                     (size_t)o->order[i]] =
                overlap(before, at(o, i)->n, from, to);
        from = to;
    }
}

int shard_plan(struct optim *o, struct err *err)
{
    o->ranks = o->plan->data > 1 ? o->plan->data : 1;
    o->rank = o->plan->data_rank;
    o->shard = o->plan->shard_optimizer && o->ranks > 1;
    if (order_make(o, err) != 0)
        return -1;
    for (int first = 0, end; first < o->tensors_n; first = end) {
        for (end = first; end < o->tensors_n &&
                          at(o, end)->bucket == at(o, first)->bucket; end++)
            ;
        bucket_cut(o, first, end);
    }
    return 0;
}
