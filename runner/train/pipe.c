/* pipe - activations between pipeline stages, as the schedule's entries need
 * them: received where the model reads them, sent from places of which there
 * are SCHEDULE_SENDS each way, so that a stage goes on while a message waits
 * for its receiver.
 */
#include "runner/plan/share.h"
#include "runner/train/train.h"

int pipe_open(struct train *t, struct err *err)
{
    const struct plan *p = &t->plan;
    int64_t N = (int64_t)p->micro_batch * p->seq_len;
    struct shape share;
    if (p->pipeline <= 1)
        return 0;
    share_shape(p, p->stage, p->tensor_rank, &share);
    size_t bytes = (size_t)(share_tokens(&share, N) * share.C) *
                   dtype_bytes(t->ex.act);
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < SCHEDULE_SENDS; i++)
            if (!(t->pipe.out[way][i] = device_alloc(t->device, bytes)))
                return err_set(err, "train: no memory for the pipeline");
    return 0;
}

/* The messages of an entry: from whom, to whom; -1: from nobody. */
struct message {
    enum comm_group group;
    int from, to;
};

static struct message message_of(const struct train *t,
                                 const struct sched_entry *e)
{
    int stages = t->plan.pipeline, stage = t->plan.stage;
    int next = (stage + 1) % stages, prev = (stage + stages - 1) % stages;
    bool first = stage == 0 && e->chunk == 0;
    bool last = stage == stages - 1 && e->chunk == t->plan.chunks - 1;
    if (e->what == SCHED_FORWARD)
        return (struct message){COMM_PIPELINE, first ? -1 : prev,
                                last ? -1 : next};
    return (struct message){COMM_BACK, last ? -1 : next, first ? -1 : prev};
}

int pipe_begin(struct train *t, const struct sched_entry *e,
               const struct batch *batch, const void **ret_in, void **ret_out,
               struct err *err)
{
    *ret_in = NULL;
    *ret_out = NULL;
    if (t->plan.pipeline <= 1)
        return 0;
    struct message m = message_of(t, e);
    int way = e->what, at = t->pipe.next[way];
    if (m.from >= 0) {
        void *in = e->what == SCHED_FORWARD ? model_inbox(t->model, e->slot)
                                            : model_back_inbox(t->model);
        if (comm_recv(t->comm, m.group, m.from, in,
                      model_message(t->model, batch), t->ex.act, t->ex.stream,
                      NULL, err) != 0)
            return -1;
        *ret_in = in;
    }
    if (m.to < 0)
        return 0;
    *ret_out = t->pipe.out[way][at];
    return comm_wait(t->comm, &t->pipe.sent[way][at], t->ex.stream, err);
}

int pipe_end(struct train *t, const struct sched_entry *e,
             const struct batch *batch, struct err *err)
{
    if (t->plan.pipeline <= 1)
        return 0;
    struct message m = message_of(t, e);
    int way = e->what, at = t->pipe.next[way];
    if (m.to < 0)
        return 0;
    t->pipe.next[way] = (at + 1) % SCHEDULE_SENDS;
    return comm_send(t->comm, m.group, m.to, t->pipe.out[way][at],
                     model_message(t->model, batch), t->ex.act, t->ex.stream,
                     &t->pipe.sent[way][at], err);
}

int pipe_drain(struct train *t, struct err *err)
{
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < SCHEDULE_SENDS; i++)
            if (comm_wait(t->comm, &t->pipe.sent[way][i], t->ex.stream, err))
                return -1;
    return 0;
}
