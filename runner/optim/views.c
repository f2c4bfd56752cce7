/* views - the state as boxes for a checkpoint: master/NAME, exp_avg/NAME,
 * exp_avg_sq/NAME. Each rank of the data group owns an even share of the rows
 * (shard.c), so that a checkpoint is written once, by all; it holds those rows
 * alone or, not sharded, all. */
#include "runner/optim/optim_private.h"

#include <stdio.h>

/* data: what is held of the tensor, from its element `held` on. */
static void view_fill(struct view *view, const struct optim *o,
                      const struct optim_tensor *t,
                      const struct view_cols *cols, const char *kind,
                      void *data, int64_t held, struct range part)
{
    size_t e = dtype_bytes(o->ex->stat);
    int64_t row = t->dims > 1 ? t->extent[1] : 1;

    *view = (struct view){.dtype = o->ex->stat, .dims = t->dims,
                          .on_device = true,
                          .ptr = (char *)data +
                                 (size_t)(part.first - held + cols->at) * e};
    snprintf(view->name, sizeof view->name, "%s/%.160s", kind, t->name);
    for (int d = 0; d < t->dims; d++)
        view->shape[d] = t->shape[d];
    view->offset[0] = t->offset[0] + part.first / row;
    view->extent[0] = part.n / row;
    view->stride[0] = row;
    if (t->dims > 1) {
        view->offset[1] = cols->offset;
        view->extent[1] = cols->n;
        view->stride[1] = 1;
    }
}

/* Vectors and whole rows are one run of columns. */
static int cols_of(const struct optim_tensor *t, struct view_cols ret[])
{
    int n = t->dims > 1 ? t->cols_n : 0;
    ret[0] = (struct view_cols){0, t->offset[1], t->extent[1]};
    for (int i = 0; i < n; i++)
        ret[i] = t->cols[i];
    return n > 0 ? n : 1;
}

/* Of one tensor: its parts of rows, times its runs of columns. */
static int tensor_views(struct optim *o, int i, struct range part,
                        struct view *views, int n, int max)
{
    const struct optim_tensor *t = &o->tensors[i];
    const struct adamw_tensor *a = &o->adamw[i];
    const struct { const char *kind; void *data; } states[] = {
        {"master", a->master}, {"exp_avg", a->m}, {"exp_avg_sq", a->v},
    };
    int64_t held = o->shard ? shard_owned(o, o->rank, i).first : 0;
    struct view_cols cols[VIEW_COLS];
    int cols_n = cols_of(t, cols);
    for (int s = 0; s < 3; s++)
        for (int c = 0; c < cols_n; c++, n++)
            if (n < max)
                view_fill(&views[n], o, t, &cols[c], states[s].kind,
                          states[s].data, held, part);
    return n;
}

int optim_views(struct optim *o, bool owned, struct view *views, int max)
{
    int n = 0;

    for (int i = 0; i < o->tensors_n; i++) {
        const struct optim_tensor *t = &o->tensors[i];
        struct range own = shard_owned(o, o->rank, i);
        struct range part = owned || o->shard ? own : (struct range){0, t->n};
        if (part.n > 0 && !(owned && t->shared))
            n = tensor_views(o, i, part, views, n, max);
    }
    return n;
}
