/* reduce - gradients summed over the data group, bucket by bucket, as backward
 * completes them: everywhere, or sharded each part where it is owned, and then
 * the parameters spread from there. Tensors of a bucket that lie side by side
 * go as one. */
#include "runner/optim/optim_private.h"

#include <stdlib.h>
#include <string.h>

#define GAP_BYTES 256 /* alignment between neighbours: zeros, and stay so */

bool reduce_wanted(const struct optim *o)
{
    return o->comm && o->plan->data > 1;
}

/* ---- The runs ------------------------------------------------------------ */
/* n elements of e bytes at p end just before q. */
static bool adjoin(const void *p, int64_t n, int64_t e, const void *q)
{
    int64_t gap = (const char *)q - (const char *)p - n * e;
    return gap >= 0 && gap < GAP_BYTES;
}

static int64_t distance(const void *from, const void *to, int64_t e)
{
    return ((const char *)to - (const char *)from) / e;
}

static void runs_make(struct optim *o)
{
    int64_t ge = (int64_t)dtype_bytes(o->ex->grad);
    int64_t de = (int64_t)dtype_bytes(o->ex->act);
    for (int i = 0; i < o->tensors_n; i++) {
        const struct optim_tensor *t = &o->tensors[o->order[i]];
        struct reduce_run *run = o->runs_n ? &o->runs[o->runs_n - 1] : NULL;
        if (!run || run->bucket != t->bucket ||
            !adjoin(run->grad, run->n, ge, t->grad) ||
            !adjoin(run->data, run->data_n, de, t->data)) {
            run = &o->runs[o->runs_n++];
            *run = (struct reduce_run){.grad = t->grad, .data = t->data,
                                       .bucket = t->bucket, .tensor = i};
        }
        run->n = distance(run->grad, t->grad, ge) + t->n;
        run->data_n = distance(run->data, t->data, de) + t->n;
        run->tensors_n++;
    }
}

/* From the first owned element to the last one; between them lies nothing of
 * another's. */
static void part_make(struct optim *o, struct reduce_run *run, int rank)
{
    int64_t ge = (int64_t)dtype_bytes(o->ex->grad);
    int64_t de = (int64_t)dtype_bytes(o->ex->act);
    for (int i = run->tensor; i < run->tensor + run->tensors_n; i++) {
        const struct optim_tensor *t = &o->tensors[o->order[i]];
        struct range own = shard_owned(o, rank, o->order[i]);
        int64_t g = distance(run->grad, t->grad, ge) + own.first;
        int64_t d = distance(run->data, t->data, de) + own.first;
        if (!own.n)
            continue;
        if (!run->grad_len[rank]) {
            run->grad_first[rank] = g;
            run->data_first[rank] = d;
        }
        run->grad_len[rank] = g + own.n - run->grad_first[rank];
        run->data_len[rank] = d + own.n - run->data_first[rank];
    }
}

static int parts_make(struct optim *o, struct err *err)
{
    size_t ranks = (size_t)o->ranks;
    o->parts = calloc((size_t)o->runs_n * 4 * ranks + 1, sizeof *o->parts);
    if (!o->parts)
        return err_set(err, "optim: no memory for its tables");
    for (int i = 0; i < o->runs_n; i++) {
        struct reduce_run *run = &o->runs[i];
        run->grad_first = o->parts + (size_t)i * 4 * ranks;
        run->grad_len = run->grad_first + ranks;
        run->data_first = run->grad_len + ranks;
        run->data_len = run->data_first + ranks;
        for (int r = 0; r < o->ranks; r++)
            part_make(o, run, r);
    }
    return 0;
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
    runs_make(o);
    return parts_make(o, err);
}

/* ---- A step -------------------------------------------------------------- */
static int run_start(struct optim *o, struct reduce_run *run, struct err *err)
{
    if (o->shard)
        return comm_reduce_parts(o->comm, COMM_DATA, run->grad,
                                 run->grad_first, run->grad_len, o->ex->grad,
                                 o->ex->stream, &run->ticket, err);
    return comm_all_reduce(o->comm, COMM_DATA, run->grad, run->n, o->ex->grad,
                           o->ex->stream, &run->ticket, err);
}

static int runs_wait(struct optim *o, struct err *err)
{
    for (int i = 0; i < o->runs_n; i++)
        if (comm_wait(o->comm, &o->runs[i].ticket, o->ex->stream, err) != 0)
            return -1;
    return 0;
}

void optim_bucket_ready(struct optim *o, int bucket)
{
    if (!reduce_wanted(o) || o->started[bucket] || o->early.class != ERR_NONE)
        return;
    o->started[bucket] = true;
    for (int i = 0; i < o->runs_n; i++)
        if (o->runs[i].bucket == bucket &&
            run_start(o, &o->runs[i], &o->early) != 0)
            return;
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
    if (runs_wait(o, err) != 0)
        return -1;
    memset(o->started, 0, (size_t)o->buckets * sizeof *o->started);
    return 0;
}

int reduce_spread(struct optim *o, struct err *err)
{
    for (int i = 0; o->shard && i < o->runs_n; i++) {
        struct reduce_run *run = &o->runs[i];
        if (comm_gather_parts(o->comm, COMM_DATA, run->data, run->data_first,
                              run->data_len, o->ex->act, o->ex->stream,
                              &run->ticket, err) != 0)
            return -1;
    }
    return o->shard ? runs_wait(o, err) : 0;
}
