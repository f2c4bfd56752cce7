/* state - device, arena, model, optimizer, batches: made once, by the plan. */
#include "runner/plan/share.h"
#include "runner/plan/sizes.h"
#include "runner/train/tensors.h"
#include "runner/train/train.h"

#include <stdlib.h>
#include <string.h>

static enum dtype act_of(const struct plan *plan)
{
    static const enum dtype dtypes[] = {
        [PLAN_FP32] = DT_F32, [PLAN_FP64] = DT_F64, [PLAN_BF16] = DT_BF16,
        [PLAN_FP16] = DT_F16,
    };
    return dtypes[plan->precision];
}

static int64_t workspace_bytes(const struct plan *plan, const struct ops *ops,
                               enum dtype act)
{
    struct shape s;
    share_shape(plan, plan->stage, plan->tensor_rank, &s);
    return (int64_t)ops_workspace_bytes(
        ops, act, (int64_t)plan->micro_batch * plan->seq_len, s.C, s.F, s.H,
        s.K, s.D, s.Vp, plan->micro_batch, plan->seq_len,
        plan->deterministic);
}

/* The plan's row of that name. */
static struct plan_memory_row *row_of(struct plan *plan, const char *what)
{
    for (int i = 0; i < plan->memory_n; i++)
        if (strcmp(plan->memory[i].what, what) == 0)
            return &plan->memory[i];
    return NULL;
}

static int64_t planned_arena(const struct plan *plan)
{
    int64_t bytes = 0;
    for (int i = 0; i < plan->memory_n; i++)
        if (plan->memory[i].where == PLAN_ARENA)
            bytes += plan->memory[i].bytes;
    return bytes;
}

/* Plan estimates the operations' scratch; what they want on this device is
 * known here, and before anything is allocated. */
static int64_t plan_scratch(struct plan *plan, int64_t wanted)
{
    struct plan_memory_row *row = row_of(plan, "operations");
    if (wanted > row->bytes) {
        wanted = sizes_align(wanted);
        plan->memory_bytes += wanted - row->bytes;
        row->bytes = wanted;
    }
    return row->bytes;
}

static int device_failed(const struct train *t, const char *what,
                         enum kstatus k, struct err *err)
{
    const char *said = device_error(t->device);
    return err_set_class(
        err, k == K_DEVICE ? ERR_GPU : k == K_NOMEM ? ERR_REQUEST : ERR_RANK,
        "train: %s failed: %s%s", what, said && *said ? said : "no memory",
        k == K_NOMEM ? "; a smaller train.micro_batch or train.recompute helps"
                     : "");
}

/* Everything that the arena will hold was counted by the plan. */
static int arena_open(struct train *t, struct err *err)
{
    enum kstatus k = exec_init(&t->ex, t->device, act_of(&t->plan),
                               t->plan.grads_bf16 ? DT_BF16 : DT_F32, 0,
                               t->plan.deterministic);
    if (k != K_OK)
        return device_failed(t, "opening the operations", k, err);
    int64_t ws = plan_scratch(
        &t->plan, workspace_bytes(&t->plan, t->ex.ops, t->ex.act));
    k = device_arena(t->device, (size_t)planned_arena(&t->plan));
    if (k != K_OK)
        return device_failed(t, "taking memory", k, err);
    t->ex.ws = device_alloc(t->device, (size_t)ws);
    t->ex.ws_bytes = (size_t)ws;
    t->sums = device_alloc(t->device, 4 * sizeof(double));
    t->h_sums = device_alloc_host(t->device, 4 * sizeof(double));
    if (!t->ex.ws || !t->sums || !t->h_sums)
        return device_failed(t, "carving memory", K_NOMEM, err);
    return 0;
}

static int optim_open(struct train *t, struct err *err)
{
    int n;
    struct optim_tensor *tensors = train_tensors(t->model, &n, err);
    if (!tensors)
        return -1;
    t->optim = optim_create(&t->plan, t->comm, &t->ex, tensors, n, err);
    free(tensors);
    return t->optim ? 0 : -1;
}

/* This rank's table; the plan knows what it holds at most. */
static int schedule_open(struct train *t, struct err *err)
{
    const struct plan *p = &t->plan;
    const struct comm_ranks *data = comm_group(t->comm, COMM_DATA);
    if (schedule_make(p->pipeline, p->stage, p->chunks,
                      plan_micros(p, p->global_batch, data->rank),
                      &t->schedule, err) != 0)
        return -1;
    if (t->schedule.slots <= p->slots && t->schedule.feeds <= p->feeds)
        return 0;
    return err_set(err, "train: the schedule holds %d activations and %d "
                   "batches, plan said %d and %d", t->schedule.slots,
                   t->schedule.feeds, p->slots, p->feeds);
}

int state_open(struct train *t, struct err *err)
{
    if (arena_open(t, err) != 0 || schedule_open(t, err) != 0 ||
        pipe_open(t, err) != 0)
        return -1;
    parts_end(&t->parts, "memory");
    t->model = model_create(&t->plan, t->comm, &t->ex, true, t->plan.slots,
                            err);
    if (!t->model || model_init_weights(t->model, t->plan.seed, err) != 0 ||
        optim_open(t, err) != 0)
        return -1;
    if (device_sync(t->device, t->ex.stream) != K_OK)
        return device_failed(t, "making weights", K_DEVICE, err);
    parts_end(&t->parts, "weights");
    if (feed_open(&t->feed, &t->plan, t->device, t->ex.stream, err) != 0)
        return -1;
    guard_init(&t->guard, t->plan.guard_window, t->plan.guard_sigma);
    int64_t used = (int64_t)device_arena_used(t->device);
    int64_t said = planned_arena(&t->plan);
    return used == said ? 0
                        : err_set(err, "train: %lld bytes of device memory "
                                  "planned, %lld used", (long long)said,
                                  (long long)used);
}

void state_close(struct train *t)
{
    ckpt_close(t->ckpt);
    free(t->views);
    data_close(t->train);
    data_close(t->valid);
    optim_destroy(t->optim);
    model_destroy(t->model);
    schedule_release(&t->schedule);
    feed_close(&t->feed);
    exec_release(&t->ex);
    comm_close(t->comm);
    device_destroy(t->device);
    report_close(&t->report);
}
