/* step - one update: the schedule's table executed, then the optimizer. */
#include "runner/base/clock.h"
#include "runner/train/train.h"

static void bucket_ready(void *ctx, int bucket)
{
    struct train *t = ctx;
    optim_bucket_ready(t->optim, bucket);
}

/* First sample of this rank's micro-batch m: ranks lie side by side, so that
 * the samples of a step do not depend on the layout. */
static int64_t first_sample(const struct train *t, int micro)
{
    const struct comm_ranks *data = comm_group(t->comm, COMM_DATA);
    int64_t at = (int64_t)micro * data->size + data->rank;
    return t->consumed + at * t->plan.micro_batch;
}

static int run_entry(struct train *t, const struct sched_entry *e,
                     const struct batch **batch, struct err *err)
{
    double scale =
        optim_loss_scale(t->optim) /
        ((double)t->plan.global_batch * (double)t->plan.seq_len);
    bool last = e->micro == t->plan.accum - 1;

    if (e->what == SCHED_BACKWARD)
        return model_backward(t->model, e->chunk, e->slot, batch[e->slot],
                              NULL, NULL, t->sums, scale,
                              last ? bucket_ready : NULL, t, err);
    double from = clock_mono_s();
    batch[e->slot] = feed_next(&t->feed, t->train, first_sample(t, e->micro),
                               err);
    t->data_wait_s += clock_mono_s() - from;
    if (!batch[e->slot])
        return -1;
    return model_forward(t->model, e->chunk, e->slot, MODEL_TRAIN,
                         batch[e->slot], NULL, NULL, t->sums, err);
}

int step_run(struct train *t, struct optim_result *ret, struct err *err)
{
    const struct batch *batch[FEED_N] = {NULL};
    double loss_max, norm_max;
    int64_t flags = stop_flags();

    if (ckpt_busy(t->ckpt))
        flags |= FLAG_BUSY;
    guard_limits(&t->guard, &loss_max, &norm_max);
    optim_limits(t->optim, loss_max, norm_max);
    if (model_zero_grads(t->model, err) != 0)
        return -1;
    if (device_zero(t->device, t->sums, 4 * sizeof(double), t->ex.stream) !=
        K_OK)
        return err_set_class(err, ERR_GPU, "train: zeroing sums failed: %s",
                             device_error(t->device));
    for (int i = 0; i < t->schedule.n; i++)
        if (run_entry(t, &t->schedule.entries[i], batch, err) != 0)
            return -1;
    if (optim_step(t->optim, t->step + 1, t->sums, flags, ret, err) != 0)
        return -1;
    t->step++;
    t->consumed += t->plan.global_batch;
    t->skipped += ret->skipped;
    t->nan += !ret->finite;
    t->overflows += ret->overflow;
    return 0;
}
