/* validate - the loss over held-out samples, always the same ones. */
#include <math.h>

#include "runner/train/train.h"

static int64_t batches_of(const struct train *t)
{
    int64_t have = data_samples(t->valid) / t->plan.global_batch;
    return have < t->plan.eval_batches ? have : t->plan.eval_batches;
}

/* The schedule's forwards, in its order: each keeps its activations no longer
 * than it takes. */
static int add_batch(struct train *t, int64_t first, struct err *err)
{
    feed_forget(&t->feed);
    for (int i = 0; i < t->schedule.n; i++) {
        struct sched_entry e = t->schedule.entries[i];
        const void *in;
        void *out;
        if (e.what != SCHED_FORWARD)
            continue;
        e.slot = 0;
        const struct batch *batch = step_batch(t, t->valid, &e, first, err);
        if (!batch || pipe_begin(t, &e, batch, &in, &out, err) != 0 ||
            model_forward(t->model, e.chunk, e.slot, MODEL_EVAL, batch, in,
                          out, t->sums, err) != 0 ||
            pipe_end(t, &e, batch, err) != 0)
            return -1;
    }
    return pipe_drain(t, err);
}

int validate_run(struct train *t, double *ret_loss, struct err *err)
{
    struct comm_ticket ticket = {0};
    t->feed.T = t->plan.seq_len;
    int64_t n = t->valid ? batches_of(t) : 0;
    enum kstatus k =
        device_zero(t->device, t->sums, 4 * sizeof(double), t->ex.stream);
    for (int64_t i = 0; i < n && k == K_OK; i++)
        if (add_batch(t, i * t->plan.global_batch, err) != 0)
            return -1;
    if (k == K_OK &&
        (comm_all_reduce(t->comm, COMM_WORLD, t->sums, 4, DT_F64, t->ex.stream,
                         &ticket, err) != 0 ||
         comm_wait(t->comm, &ticket, t->ex.stream, err) != 0))
        return -1;
    if (k == K_OK)
        k = device_copy_out(t->device, t->h_sums, t->sums, 4 * sizeof(double),
                            t->ex.stream);
    if (k == K_OK)
        k = device_sync(t->device, t->ex.stream);
    if (k != K_OK)
        return err_set_class(err, ERR_GPU, "train: validation failed: %s",
                             device_error(t->device));
    *ret_loss = t->h_sums[1] > 0 ? t->h_sums[0] / t->h_sums[1] : NAN;
    return 0;
}
