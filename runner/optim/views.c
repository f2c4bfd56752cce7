/* views - the state as boxes for a checkpoint: master/NAME, exp_avg/NAME,
 * exp_avg_sq/NAME. Each rank of the data group owns an even share of the rows
 * (shard.c), so that a checkpoint is written once, by all; it holds those rows
 * alone or, not sharded, all. */
#include "runner/optim/optim_private.h"

#include <stdio.h>

/* data: what is held of the tensor, from its element `held` on. */
static void view_fill(struct view *view, const struct optim *o,
                      const struct optim_tensor *t, const char *kind,
                      void *data, int64_t held, struct range part)
{
    size_t e = dtype_bytes(o->ex->stat);
    int64_t row = t->dims > 1 ? t->extent[1] : 1;

    *view = (struct view){.dtype = o->ex->stat, .dims = t->dims,
                          .on_device = true,
                          .ptr = (char *)data +
                                 (size_t)(part.first - held) * e};
    snprintf(view->name, sizeof view->name, "%s/%.160s", kind, t->name);
    for (int d = 0; d < t->dims; d++) {
        view->shape[d] = t->shape[d];
        view->offset[d] = t->offset[d];
        view->extent[d] = t->extent[d];
    }
    view->offset[0] += part.first / row;
    view->extent[0] = part.n / row;
    view->stride[0] = row;
    if (t->dims > 1)
        view->stride[1] = 1;
}

int optim_views(struct optim *o, bool owned, struct view *views, int max)
{
    int n = 0;

    for (int i = 0; i < o->tensors_n; i++) {
        const struct optim_tensor *t = &o->tensors[i];
        struct range own = shard_owned(o, o->rank, i);
        struct range part = owned || o->shard ? own : (struct range){0, t->n};
        const struct adamw_tensor *a = &o->adamw[i];
        const struct { const char *kind; void *data; } parts[] = {
            {"master", a->master}, {"exp_avg", a->m}, {"exp_avg_sq", a->v},
        };
        for (int p = 0; p < 3 && part.n > 0; p++, n++)
            if (n < max)
                view_fill(&views[n], o, t, parts[p].kind, parts[p].data,
                          o->shard ? own.first : 0, part);
    }
    return n;
}
