/* share - see share.h. */
#include "runner/plan/share.h"

static int at_least_one(int n)
{
    return n > 1 ? n : 1;
}

/* First layer of place `at` in the line of all chunks. */
static int first_layer(const struct plan *plan, int at)
{
    int places = at_least_one(plan->pipeline) * at_least_one(plan->chunks);
    return (int)(((int64_t)at * plan->shape.L + places - 1) / places);
}

void share_layers(const struct plan *plan, int stage, int chunk,
                  int *ret_first, int *ret_n)
{
    int at = chunk * at_least_one(plan->pipeline) + stage;
    *ret_first = first_layer(plan, at);
    *ret_n = first_layer(plan, at + 1) - *ret_first;
}

int share_chunk_layers(const struct plan *plan, int stage)
{
    int most = 0;
    for (int c = 0; c < at_least_one(plan->chunks); c++) {
        int first, n;
        share_layers(plan, stage, c, &first, &n);
        most = n > most ? n : most;
    }
    return most;
}

int share_replicas(const struct plan *plan)
{
    int tensor = at_least_one(plan->tensor), K = plan->shape.K;
    return K > 0 && K < tensor ? tensor / K : 1;
}

int64_t share_tokens(const struct shape *share, int64_t N)
{
    int ranks = at_least_one(share->tensor);
    return (N + ranks - 1) / ranks;
}

static int real_rows(int V, int first, int rows)
{
    int left = V - first;
    return left < 0 ? 0 : left < rows ? left : rows;
}

void share_shape(const struct plan *plan, int stage, int tensor_rank,
                 struct shape *ret)
{
    const struct shape *s = &plan->shape;
    int tensor = at_least_one(plan->tensor);
    int stages = at_least_one(plan->pipeline);
    int rows = s->Vp / tensor;

    *ret = *s;
    ret->L = 0;
    for (int c = 0; c < at_least_one(plan->chunks); c++) {
        int first, n;
        share_layers(plan, stage, c, &first, &n);
        ret->L += n;
    }
    ret->tensor = plan->tensor;
    ret->H = s->H / tensor;
    ret->K = s->K >= tensor ? s->K / tensor : 1;
    ret->F = s->F / tensor;
    ret->Vp = rows;
    ret->V = real_rows(s->V, tensor_rank * rows, rows);
    ret->no_embed = stage > 0;
    ret->no_head = stage < stages - 1;
}
