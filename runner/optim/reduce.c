/* reduce - gradients summed over the data group, bucket by bucket, as backward
 * completes them. Tensors of a bucket that lie side by side go as one. */
#include "runner/optim/optim_private.h"

#include <stdlib.h>
#include <string.h>

#define GAP_BYTES 256 /* alignment between neighbours: zeros, and stay so */

bool reduce_wanted(const struct optim *o)
{
    return o->comm && o->plan->data > 1;
}

static int by_place(const void *a, const void *b)
{
    const struct reduce_run *x = a, *y = b;
    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    return (x->data > y->data) - (x->data < y->data);
}

/* Joins neighbours of the same bucket. */
static void runs_join(struct optim *o)
{
    int64_t e = (int64_t)dtype_bytes(o->ex->grad);
    int n = 0;
    for (int i = 0; i < o->runs_n; i++) {
        struct reduce_run *last = n ? &o->runs[n - 1] : NULL;
        struct reduce_run *run = &o->runs[i];
        int64_t gap = last ? (char *)run->data - (char *)last->data -
                                 last->n * e
                           : -1;
        if (last && last->bucket == run->bucket && gap >= 0 && gap < GAP_BYTES)
            last->n += gap / e + run->n;
        else
            o->runs[n++] = *run;
    }
    o->runs_n = n;
}

int reduce_plan(struct optim *o, struct err *err)
{
    for (int i = 0; i < o->tensors_n; i++)
        if (o->tensors[i].bucket >= o->buckets)
            o->buckets = o->tensors[i].bucket + 1;
    o->runs = calloc((size_t)o->tensors_n + 1, sizeof *o->runs);
    o->started = calloc((size_t)o->buckets + 1, sizeof *o->started);
    if (!o->runs || !o->started)
        return err_set(err, "optim: no memory for its tables");
    for (int i = 0; i < o->tensors_n; i++)
        o->runs[i] = (struct reduce_run){.data = o->tensors[i].grad,
                                         .n = o->tensors[i].n,
                                         .bucket = o->tensors[i].bucket};
    o->runs_n = o->tensors_n;
    qsort(o->runs, (size_t)o->runs_n, sizeof *o->runs, by_place);
    runs_join(o);
    return 0;
}

void optim_bucket_ready(struct optim *o, int bucket)
{
    if (!reduce_wanted(o) || o->started[bucket] || o->early.class != ERR_NONE)
        return;
    o->started[bucket] = true;
    for (int i = 0; i < o->runs_n; i++) {
        struct reduce_run *run = &o->runs[i];
        if (run->bucket == bucket &&
            comm_all_reduce(o->comm, COMM_DATA, run->data, run->n,
                            o->ex->grad, o->ex->stream, &run->ticket,
                            &o->early) != 0)
            return;
    }
}

int reduce_finish(struct optim *o, struct err *err)
{
    if (!reduce_wanted(o))
        return 0;
    for (int b = 0; b < o->buckets; b++)
        optim_bucket_ready(o, b); /* those that nobody announced */
    if (o->early.class != ERR_NONE) {
        if (err)
            *err = o->early;
        return -1;
    }
    for (int i = 0; i < o->runs_n; i++)
        if (comm_wait(o->comm, &o->runs[i].ticket, o->ex->stream, err) != 0)
            return -1;
    memset(o->started, 0, (size_t)o->buckets * sizeof *o->started);
    return 0;
}
