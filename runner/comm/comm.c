/* comm - opening, closing, and the way into both tables; see comm.h.
 *
 * Every collective of a group larger than one goes through enter and leave,
 * which move the rank's beat: group id, and the number of the collective in
 * that group, so that the watcher can name who did not come. */
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/comm/tables.h"

#define CLOSE_LIMIT_S 1000.0 /* rank 0 may still write a checkpoint */

struct comm {
    struct comm_place place;
    struct groups groups;
    struct device *device;
    struct kb_beat *beat;
    struct control control;
    struct coll coll;             /* ops NULL at size 1 */
    int64_t sequence[COMM_GROUP_N];
    event_t queued;               /* of the last one, when it is on a GPU */
    bool peer_lost;
};

static int open_control(struct comm *comm, double deadline_s, struct err *err)
{
    if (comm->place.size == 1) {
        control_single_open(&comm->control);
        return 0;
    }
    if (!strcmp(comm->place.how, "pmix"))
        return control_pmix_open(&comm->control, &comm->place, deadline_s,
                                 err);
    return control_env_open(&comm->control, &comm->place, deadline_s, err);
}

/* All are here, or the error names those who are not. */
static int meet_all(struct comm *comm, double deadline_s, struct err *err)
{
    char nothing[1] = {0};
    double left_s = deadline_s - clock_mono_s();
    return comm->control.ops->gather(comm->control.self, nothing, 0, nothing,
                                     left_s > 0 ? left_s : 0, err);
}

static int open_collectives(struct comm *comm, const struct comm_spec *spec,
                            double deadline_s, struct err *err)
{
    struct coll_spec coll = {
        .place = &comm->place,
        .groups = &comm->groups,
        .device = spec->device,
        .control = comm->control,
        .deadline_s = deadline_s,
        .ring = spec->ring,
        .collective_limit_s = spec->collective_limit_s,
        .on_broken = spec->on_broken,
        .broken_ctx = spec->broken_ctx,
    };
    if (comm->place.size == 1)
        return 0;
    if (spec->kind == DEVICE_CUDA) {
        if (!coll_nccl_open)
            return err_set_class(err, ERR_REQUEST,
                                 "comm: this program is built without NCCL: "
                                 "one GPU rank only");
        return coll_nccl_open(&comm->coll, &coll, err);
    }
    return coll_mpi_open(&comm->coll, &coll, err);
}

struct comm *comm_open(const struct comm_place *place,
                       const struct comm_spec *spec, struct err *err)
{
    double deadline_s = clock_mono_s() + spec->wireup_limit_s;
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        err_set(err, "comm: out of memory");
        return NULL;
    }
    comm->place = *place;
    comm->device = spec->device;
    comm->beat = spec->beat;
    if (groups_build(&comm->groups, place->rank, place->size, spec, err) ||
        open_control(comm, deadline_s, err) ||
        meet_all(comm, deadline_s, err) ||
        open_collectives(comm, spec, deadline_s, err)) {
        comm_abort(comm);
        return NULL;
    }
    return comm;
}

static void release(struct comm *comm, bool orderly)
{
    if (comm->coll.ops)
        comm->coll.ops->close(comm->coll.self, orderly);
    if (comm->control.ops)
        comm->control.ops->close(comm->control.self, orderly);
    if (orderly && !strcmp(comm->place.how, "pmix"))
        pmix_leave();
    groups_release(&comm->groups);
    free(comm);
}

void comm_close(struct comm *comm)
{
    if (!comm)
        return;
    struct err err = ERR_INIT;
    int met = comm_barrier(comm, CLOSE_LIMIT_S, &err);
    release(comm, met == 0);
}

void comm_abort(struct comm *comm)
{
    if (comm)
        release(comm, false);
}

const struct comm_place *comm_place(const struct comm *comm)
{
    return &comm->place;
}

const struct comm_ranks *comm_group(const struct comm *comm,
                                    enum comm_group group)
{
    return &comm->groups.ranks[group];
}

bool comm_peer_lost(const struct comm *comm)
{
    return comm->peer_lost ||
           comm->control.ops->lost(comm->control.self) >= 0;
}

/* ---- Control ----------------------------------------------------------- */

/* Remember, for the exit code, that a peer's loss made a call fail. */
static int told(struct comm *comm, int rc)
{
    if (rc && comm->control.ops->lost(comm->control.self) >= 0)
        comm->peer_lost = true;
    return rc;
}

static int check_message(const char *key, size_t bytes, struct err *err)
{
    if (key && (!*key || strlen(key) >= CONTROL_KEY_BYTES))
        return err_set(err, "comm: key '%.40s...' is empty or longer than %d",
                       key, CONTROL_KEY_BYTES - 1);
    if (bytes > CONTROL_DATA_BYTES)
        return err_set(err, "comm: a control message of %zu bytes is larger "
                            "than %u", bytes, CONTROL_DATA_BYTES);
    return 0;
}

int comm_put(struct comm *comm, const char *key, const void *data,
             size_t bytes, struct err *err)
{
    if (check_message(key, bytes, err))
        return -1;
    return told(comm, comm->control.ops->put(comm->control.self, key, data,
                                             bytes, err));
}

int comm_get(struct comm *comm, int rank, const char *key, void *data,
             size_t bytes, double limit_s, struct err *err)
{
    if (check_message(key, bytes, err))
        return -1;
    if (rank < 0 || rank >= comm->place.size)
        return err_set(err, "comm: no rank %d to get '%s' from", rank, key);
    return told(comm, comm->control.ops->get(comm->control.self, rank, key,
                                             data, bytes, limit_s, err));
}

int comm_gather(struct comm *comm, const void *mine, size_t bytes, void *all,
                double limit_s, struct err *err)
{
    if (check_message(NULL, bytes, err))
        return -1;
    return told(comm, comm->control.ops->gather(comm->control.self, mine,
                                                bytes, all, limit_s, err));
}

int comm_barrier(struct comm *comm, double limit_s, struct err *err)
{
    char nothing[1] = {0};
    return comm_gather(comm, nothing, 0, nothing, limit_s, err);
}

static int64_t pick_one(enum comm_pick pick, int64_t a, int64_t b)
{
    switch (pick) {
    case COMM_MIN:
        return a < b ? a : b;
    case COMM_MAX:
        return a > b ? a : b;
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

int comm_agree(struct comm *comm, int64_t *values, int values_n,
               enum comm_pick pick, double limit_s, struct err *err)
{
    size_t n = (size_t)values_n, size = (size_t)comm->place.size;
    int64_t *all = malloc(n * size * sizeof *all + 1);
    if (!all)
        return err_set(err, "comm: out of memory to agree on %d values",
                       values_n);
    int rc = comm_gather(comm, values, n * sizeof *values, all, limit_s, err);
    for (size_t i = 0; !rc && i < n; i++) {
        values[i] = all[i];
        for (size_t r = 1; r < size; r++)
            values[i] = pick_one(pick, values[i], all[r * n + i]);
    }
    free(all);
    return rc;
}

/* ---- Collectives ------------------------------------------------------- */

/* The watcher reads while we write: relaxed, each word whole. */
static void show(int64_t *word, int64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static void show_done(struct comm *comm)
{
    struct kb_beat *beat = comm->beat;
    comm->queued = NULL;
    if (!beat)
        return;
    show(&beat->coll_done, beat->coll_entered);
    show(&beat->changes, beat->changes + 1);
}

void comm_tick(struct comm *comm)
{
    if (comm->queued && device_event_done(comm->device, comm->queued))
        show_done(comm);
}

static void enter_as(struct comm *comm, enum comm_group group, int64_t id)
{
    comm->queued = NULL;
    int64_t sequence = ++comm->sequence[group];
    struct kb_beat *beat = comm->beat;
    if (!beat)
        return;
    show(&beat->group, id);
    show(&beat->coll_done, sequence - 1);
    show(&beat->coll_entered, sequence);
    show(&beat->changes, beat->changes + 1);
}

static void enter(struct comm *comm, enum comm_group group)
{
    enter_as(comm, group, comm->groups.id[group]);
}

/* A message: its number says nothing to the group's other ranks. */
static void enter_message(struct comm *comm, enum comm_group group)
{
    enter_as(comm, group, -1 - comm->groups.id[group]);
}

/* One that is only queued stays entered until comm_tick sees its event. */
static int leave(struct comm *comm, enum comm_group group, const char *what,
                 const struct comm_ticket *ticket, int rc, struct err *err)
{
    if (!rc && ticket && ticket->done)
        comm->queued = ticket->done;
    else if (!rc)
        show_done(comm);
    if (rc)
        err_prefix(err, "comm: %s over the %s group, number %lld", what,
                   group_names[group], (long long)comm->sequence[group]);
    return told(comm, rc);
}

static bool alone(const struct comm *comm, enum comm_group group)
{
    return comm->groups.ranks[group].size == 1;
}

/* The whole of a collective at size 1: dst = src. */
static int copy_alone(struct comm *comm, void *dst, const void *src, int64_t n,
                      enum dtype dtype, stream_t stream, struct err *err)
{
    size_t bytes = (size_t)n * dtype_bytes(dtype);
    if (dst == src || !bytes)
        return 0;
    if (!comm->device || device_kind(comm->device) == DEVICE_CPU)
        memmove(dst, src, bytes);
    else if (device_copy(comm->device, dst, src, bytes, stream) != K_OK)
        return err_set_class(err, ERR_GPU, "comm: cannot copy %zu bytes: %s",
                             bytes, device_error(comm->device));
    return 0;
}

/* Without a ticket the collective stays in the caller's stream. */
#define TICKET(ret) ((ret) ? &(ret)->done : NULL)

int comm_all_reduce(struct comm *comm, enum comm_group group, void *buf,
                    int64_t n, enum dtype dtype, stream_t stream,
                    struct comm_ticket *ret, struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return 0;
    enter(comm, group);
    int rc = comm->coll.ops->all_reduce(comm->coll.self, group, buf, n, dtype,
                                        stream, TICKET(ret), err);
    return leave(comm, group, "all-reduce", ret, rc, err);
}

int comm_reduce_scatter(struct comm *comm, enum comm_group group, void *dst,
                        const void *src, int64_t n, enum dtype dtype,
                        stream_t stream, struct comm_ticket *ret,
                        struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return copy_alone(comm, dst, src, n, dtype, stream, err);
    enter(comm, group);
    int rc = comm->coll.ops->reduce_scatter(comm->coll.self, group, dst, src,
                                            n, dtype, stream, TICKET(ret),
                                            err);
    return leave(comm, group, "reduce-scatter", ret, rc, err);
}

int comm_all_gather(struct comm *comm, enum comm_group group, void *dst,
                    const void *src, int64_t n, enum dtype dtype,
                    stream_t stream, struct comm_ticket *ret, struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return copy_alone(comm, dst, src, n, dtype, stream, err);
    enter(comm, group);
    int rc = comm->coll.ops->all_gather(comm->coll.self, group, dst, src, n,
                                        dtype, stream, TICKET(ret), err);
    return leave(comm, group, "all-gather", ret, rc, err);
}

static int parts(struct comm *comm, enum comm_group group, bool reduce,
                 void *buf, const int64_t *first, const int64_t *len,
                 enum dtype dtype, stream_t stream, struct comm_ticket *ret,
                 struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return 0;
    enter(comm, group);
    const struct coll_ops *ops = comm->coll.ops;
    int rc = (reduce ? ops->reduce_parts : ops->gather_parts)(
        comm->coll.self, group, buf, first, len, dtype, stream, TICKET(ret),
        err);
    return leave(comm, group, reduce ? "reduce of parts" : "gather of parts",
                 ret, rc, err);
}

int comm_reduce_parts(struct comm *comm, enum comm_group group, void *buf,
                      const int64_t *first, const int64_t *len,
                      enum dtype dtype, stream_t stream,
                      struct comm_ticket *ret, struct err *err)
{
    return parts(comm, group, true, buf, first, len, dtype, stream, ret, err);
}

int comm_gather_parts(struct comm *comm, enum comm_group group, void *buf,
                      const int64_t *first, const int64_t *len,
                      enum dtype dtype, stream_t stream,
                      struct comm_ticket *ret, struct err *err)
{
    return parts(comm, group, false, buf, first, len, dtype, stream, ret, err);
}

int comm_broadcast(struct comm *comm, enum comm_group group, int root,
                   void *buf, int64_t n, enum dtype dtype, stream_t stream,
                   struct comm_ticket *ret, struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return 0;
    enter(comm, group);
    int rc = comm->coll.ops->broadcast(comm->coll.self, group, root, buf, n,
                                       dtype, stream, TICKET(ret), err);
    return leave(comm, group, "broadcast", ret, rc, err);
}

int comm_send(struct comm *comm, enum comm_group group, int to,
              const void *buf, int64_t n, enum dtype dtype, stream_t stream,
              struct comm_ticket *ret, struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return err_set(err, "comm: send inside a group of one");
    enter_message(comm, group);
    int rc = comm->coll.ops->send(comm->coll.self, group, to, buf, n, dtype,
                                  stream, TICKET(ret), err);
    /* on a CPU what is on its way holds nobody up */
    bool cpu = !comm->device || device_kind(comm->device) == DEVICE_CPU;
    return leave(comm, group, "send", cpu ? NULL : ret, rc, err);
}

int comm_recv(struct comm *comm, enum comm_group group, int from, void *buf,
              int64_t n, enum dtype dtype, stream_t stream,
              struct comm_ticket *ret, struct err *err)
{
    if (ret)
        *ret = (struct comm_ticket){0};
    if (alone(comm, group))
        return err_set(err, "comm: receive inside a group of one");
    enter_message(comm, group);
    int rc = comm->coll.ops->recv(comm->coll.self, group, from, buf, n, dtype,
                                  stream, TICKET(ret), err);
    return leave(comm, group, "receive", ret, rc, err);
}

int comm_wait(struct comm *comm, struct comm_ticket *ticket, stream_t stream,
              struct err *err)
{
    if (!ticket || !ticket->done || !comm || !comm->coll.ops)
        return 0;
    event_t done = ticket->done;
    *ticket = (struct comm_ticket){0};
    return told(comm,
                comm->coll.ops->wait(comm->coll.self, done, stream, err));
}
