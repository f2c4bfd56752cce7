/* groups - who is in which group. Tensor ranks are neighbours, then data, then
 * pipeline: rank = (pipeline * DATA + data) * TENSOR + tensor. */
#include <stdlib.h>

#include "runner/comm/tables.h"

const char *const group_names[COMM_GROUP_N] = {
    [COMM_WORLD] = "world",
    [COMM_DATA] = "data",
    [COMM_TENSOR] = "tensor",
    [COMM_PIPELINE] = "pipeline",
    [COMM_BACK] = "pipeline's backward",
    [COMM_ENDS] = "pipeline ends",
    [COMM_TWINS] = "key heads'",
};

/* One group: size members, the first at world rank first, stride apart. */
static void fill(struct groups *g, enum comm_group kind, int **next, int me,
                 int first, int stride, int size)
{
    struct comm_ranks *r = &g->ranks[kind];
    r->size = size;
    r->world = *next;
    for (int i = 0; i < size; i++) {
        (*next)[i] = first + i * stride;
        if ((*next)[i] == me)
            r->rank = i;
    }
    *next += size;
    g->id[kind] = (int64_t)first * COMM_GROUP_N + kind;
}

static int check(int rank, int size, const struct comm_spec *spec, int twins,
                 struct err *err)
{
    int data = spec->data, tensor = spec->tensor, pipeline = spec->pipeline;
    if (data < 1 || tensor < 1 || pipeline < 1 ||
        (int64_t)data * tensor * pipeline != size)
        return err_set_class(
            err, ERR_REQUEST,
            "comm: data %d x tensor %d x pipeline %d are not the %d ranks "
            "started; start %lld, or change parallel.*",
            data, tensor, pipeline, size, (long long)data * tensor * pipeline);
    if (tensor % twins)
        return err_set(err, "comm: %d twins do not divide %d tensor ranks",
                       twins, tensor);
    if (rank < 0 || rank >= size)
        return err_set_class(err, ERR_REQUEST,
                             "comm: rank %d is not one of %d ranks", rank,
                             size);
    return 0;
}

int groups_build(struct groups *ret, int rank, int size,
                 const struct comm_spec *spec, struct err *err)
{
    int data = spec->data, tensor = spec->tensor, pipeline = spec->pipeline;
    int twins = spec->twins > 1 ? spec->twins : 1;
    *ret = (struct groups){0};
    if (check(rank, size, spec, twins, err))
        return -1;
    ret->members = calloc((size_t)(size + data + tensor + 2 * pipeline + 2 +
                                   twins),
                          sizeof *ret->members);
    if (!ret->members)
        return err_set(err, "comm: out of memory for the groups");
    int t = rank % tensor, d = rank / tensor % data;
    int p = rank / tensor / data, each = data * tensor;
    bool end = pipeline > 1 && (p == 0 || p == pipeline - 1);
    int *next = ret->members;
    fill(ret, COMM_WORLD, &next, rank, 0, 1, size);
    fill(ret, COMM_DATA, &next, rank, p * each + t, tensor, data);
    fill(ret, COMM_TENSOR, &next, rank, rank - t, 1, tensor);
    fill(ret, COMM_PIPELINE, &next, rank, d * tensor + t, each, pipeline);
    fill(ret, COMM_BACK, &next, rank, d * tensor + t, each, pipeline);
    fill(ret, COMM_ENDS, &next, rank, end ? d * tensor + t : rank,
         end ? each * (pipeline - 1) : 1, end ? 2 : 1);
    fill(ret, COMM_TWINS, &next, rank, rank - t % twins, 1, twins);
    return 0;
}

void groups_release(struct groups *groups)
{
    free(groups->members);
    *groups = (struct groups){0};
}
