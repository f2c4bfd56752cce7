/* step - one update: the schedule's table executed, then the optimizer. */
#include "runner/base/clock.h"
#include "runner/base/log.h"
#include "runner/train/train.h"

static void bucket_ready(void *ctx, int bucket)
{
    struct train *t = ctx;
    optim_bucket_ready(t->optim, bucket);
}

/* Ranks lie side by side, so that the samples of a step do not depend on the
 * layout. */
const struct batch *step_batch(struct train *t, struct data *data,
                               const struct sched_entry *e, int64_t step,
                               struct err *err)
{
    const struct comm_ranks *ranks = comm_group(t->comm, COMM_DATA);
    int64_t at = (int64_t)e->micro * ranks->size + ranks->rank;
    return feed_get(&t->feed, e->feed, data, step + at * t->plan.micro_batch,
                    err);
}

/* last: its backward makes the step's gradients complete. */
static int run_entry(struct train *t, const struct sched_entry *e, bool last,
                     struct err *err)
{
    double scale =
        optim_loss_scale(t->optim) /
        ((double)t->plan.global_batch * (double)t->plan.seq_len);
    double from = clock_mono_s();
    const struct batch *batch = step_batch(t, t->train, e, t->consumed, err);
    const void *in;
    void *out;
    t->data_wait_s += clock_mono_s() - from;
    if (!batch || pipe_begin(t, e, batch, &in, &out, err) != 0)
        return -1;
    int rc = e->what == SCHED_FORWARD
                 ? model_forward(t->model, e->chunk, e->slot, MODEL_TRAIN,
                                 batch, in, out, t->sums, err)
                 : model_backward(t->model, e->chunk, e->slot, batch, in, out,
                                  t->sums, scale, last ? bucket_ready : NULL,
                                  t, err);
    return rc == 0 ? pipe_end(t, e, batch, err) : -1;
}

/* All entries of a step of G sequences, and what comes of them: every gradient
 * announced. There are fewer micro-batches while the batch warms up. */
static int run_schedule(struct train *t, int G, struct err *err)
{
    int micros =
        plan_micros(&t->plan, G, comm_group(t->comm, COMM_DATA)->rank);
    feed_forget(&t->feed);
    for (int i = 0; i < t->schedule.n; i++) {
        const struct sched_entry *e = &t->schedule.entries[i];
        if (e->micro < micros &&
            run_entry(t, e, e->micro == micros - 1, err) != 0)
            return -1;
    }
    if (model_backward_end(t->model, bucket_ready, t, err) != 0)
        return -1;
    return pipe_drain(t, err);
}

/* The step's size, told when it grows. */
static void warm_up(struct train *t, int G)
{
    int before = t->step ? plan_seq_at(&t->plan, t->step - 1) : 0;
    t->feed.T = plan_seq_at(&t->plan, t->step);
    if (t->place.rank != 0 ||
        (!t->plan.batch_ramp.start && !t->plan.seq_ramp.start) ||
        (t->feed.T == before && G == t->warm_batch))
        return;
    t->warm_batch = G;
    log_info("step %lld: %d sequences of %d tokens from now on, %lld tokens "
             "left out so far", (long long)t->step + 1, G, t->feed.T,
             (long long)t->dropped);
}

int step_run(struct train *t, struct optim_result *ret, struct err *err)
{
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
    int G = plan_batch_at(&t->plan, t->consumed);
    warm_up(t, G);
    if (run_schedule(t, G, err) != 0)
        return -1;
    if (optim_step(t->optim, t->step + 1, t->sums, flags, ret, err) != 0)
        return -1;
    t->step++;
    t->consumed += G;
    t->tokens += (int64_t)G * t->feed.T;
    t->dropped += (int64_t)G * (t->plan.seq_len - t->feed.T);
    t->skipped += ret->skipped;
    t->nan += !ret->finite;
    t->overflows += ret->overflow;
    return 0;
}
