/* views - the state as boxes for a checkpoint: master/NAME, exp_avg/NAME,
 * exp_avg_sq/NAME. Each rank of the data group holds all rows and owns an even
 * share of them, so that a checkpoint is written once, by all. */
#include "runner/optim/optim_private.h"

#include <stdio.h>

static void view_fill(struct view *view, const struct optim *o,
                      const struct optim_tensor *t, const char *kind,
                      void *data, int64_t first, int64_t rows)
{
    size_t e = dtype_bytes(o->ex->stat);
    int64_t row = t->dims > 1 ? t->extent[1] : 1;

    *view = (struct view){.dtype = o->ex->stat, .dims = t->dims,
                          .on_device = true,
                          .ptr = (char *)data + (size_t)(first * row) * e};
    snprintf(view->name, sizeof view->name, "%s/%.160s", kind, t->name);
    for (int d = 0; d < t->dims; d++) {
        view->shape[d] = t->shape[d];
        view->offset[d] = t->offset[d];
        view->extent[d] = t->extent[d];
    }
    view->offset[0] += first;
    view->extent[0] = rows;
    view->stride[0] = row;
    if (t->dims > 1)
        view->stride[1] = 1;
}

int optim_views(struct optim *o, bool owned, struct view *views, int max)
{
    const struct comm_ranks *group =
        o->comm ? comm_group(o->comm, COMM_DATA) : NULL;
    int64_t size = owned && group ? group->size : 1;
    int64_t rank = owned && group ? group->rank : 0;
    int n = 0;

    for (int i = 0; i < o->tensors_n; i++) {
        const struct optim_tensor *t = &o->tensors[i];
        int64_t first = t->extent[0] * rank / size;
        int64_t rows = t->extent[0] * (rank + 1) / size - first;
        const struct adamw_tensor *a = &o->adamw[i];
        const struct { const char *kind; void *data; } parts[] = {
            {"master", a->master}, {"exp_avg", a->m}, {"exp_avg_sq", a->v},
        };
        for (int p = 0; p < 3 && rows > 0; p++, n++)
            if (n < max)
                view_fill(&views[n], o, t, parts[p].kind, parts[p].data, first,
                          rows);
    }
    return n;
}
