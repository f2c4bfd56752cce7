/* comm_nccl - collectives of GPU ranks, by NCCL. Linked only into programs that
 * train (COMM_NCCL_LIBS).
 *
 * Communicators are non-blocking: no call of NCCL holds us longer than we let
 * it. The id of each group travels over control, from the group's first rank.
 * With a ticket a collective runs on stream 1, beside the computation; without
 * one it runs in the caller's stream. Neighbours in the pipeline have
 * communicators of their own, one each way and kind, and their sends streams of
 * their own: none queues behind another one's wait.
 * A lost peer would leave the kernels waiting and the step loop in a stream's
 * synchronisation for ever: a guard thread looks for lost peers, NCCL's own
 * errors and a collective that does not end, tells who opened it, and aborts
 * all communicators, so that the stream ends and every later call fails. Sums
 * are NCCL's: the same bits for the same ranks, links and settings (NCCL_ALGO,
 * NCCL_PROTO), not for another cut. */
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner/base/clock.h"
#include "runner/comm/tables.h"

#define COMM_STREAM 1
#define SEND_STREAM 4    /* forward; backward is the next */
#define EVENTS_N 256     /* tickets that may be open at a time */
#define CALL_LIMIT_S 60.0 /* a call that only queues */
#define GUARD_S 0.1
#define LOCK_LIMIT_S 1
#define ABORT_LIMIT_S 0.8 /* comm_abort promises a second */

/* Communicators after the groups': with the neighbours that this stage sends
 * forward to, receives forward from, and the same backward. */
enum { LINKS = COMM_GROUP_N, COMMS_N = LINKS + 4 };

struct nccl {
    const struct groups *groups;
    struct device *device;
    struct control control;
    ncclComm_t comms[COMMS_N]; /* NULL: a group of one, no such neighbour */
    bool owned[COMMS_N];       /* else the world's, same members */
    event_t events[EVENTS_N], ready;
    int next_event;
    pthread_mutex_t calls; /* no call on a communicator that is aborted */
    pthread_t guard;
    bool guarded;
    /* atomics */
    bool stop, aborted, guard_over;
    int lost;                       /* rank, or -1 */
    ncclResult_t failed;
    bool late;
    int64_t queued_ms;              /* the last collective; 0: none yet */
    int queued_group;
    /* the last collective's end; whom to tell */
    event_t last;
    double limit_s;
    void (*on_broken)(void *ctx);
    void *broken_ctx;
};

/* ---- Calls that may be in progress ------------------------------------- */

static int tell(struct nccl *n, ncclResult_t rc, const char *what,
                struct err *err)
{
    int lost = __atomic_load_n(&n->lost, __ATOMIC_RELAXED);
    if (lost >= 0)
        return err_set(err, "rank %d is gone", lost);
    if (__atomic_load_n(&n->late, __ATOMIC_RELAXED))
        return err_set(err, "NCCL: a collective over the %s group did not end "
                       "within %.0f s", group_names[n->queued_group],
                       n->limit_s);
    return err_set(err, "NCCL: %s: %s", what, ncclGetErrorString(rc));
}

/* Until NCCL is through with its call, a peer is lost or the time is over. */
static int settle(struct nccl *n, ncclComm_t comm, ncclResult_t rc,
                  const char *what, double deadline_s, struct err *err)
{
    while (rc == ncclInProgress) {
        int lost = n->control.ops->lost(n->control.self);
        if (lost >= 0) {
            __atomic_store_n(&n->lost, lost, __ATOMIC_RELAXED);
            return tell(n, rc, what, err);
        }
        if (clock_mono_s() > deadline_s)
            return err_set(err, "NCCL: %s did not come to an end in time",
                           what);
        if (__atomic_load_n(&n->aborted, __ATOMIC_ACQUIRE))
            return tell(n, n->failed, what, err);
        clock_sleep_s(20e-6);
        ncclResult_t state;
        rc = ncclCommGetAsyncError(comm, &state);
        if (rc == ncclSuccess)
            rc = state;
    }
    return rc == ncclSuccess ? 0 : tell(n, rc, what, err);
}

/* ---- The guard --------------------------------------------------------- */

/* Not while the step loop is inside a call, unless that call hangs. */
static void abort_all(struct nccl *n)
{
    struct timespec until;
    if (__atomic_exchange_n(&n->aborted, true, __ATOMIC_ACQ_REL))
        return;
    if (n->on_broken)
        n->on_broken(n->broken_ctx);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOCK_LIMIT_S;
    bool locked = !pthread_mutex_timedlock(&n->calls, &until);
    for (int g = 0; g < COMMS_N; g++)
        if (n->comms[g] && n->owned[g])
            ncclCommAbort(n->comms[g]);
    if (locked)
        pthread_mutex_unlock(&n->calls);
}

/* The last one that was queued waits for all before it. */
static bool is_late(struct nccl *n)
{
    int64_t queued = __atomic_load_n(&n->queued_ms, __ATOMIC_ACQUIRE);
    if (n->limit_s <= 0 || !queued ||
        clock_mono_s() * 1e3 - (double)queued < n->limit_s * 1e3)
        return false;
    if (device_event_done(n->device, n->last))
        return false;
    __atomic_store_n(&n->late, true, __ATOMIC_RELAXED);
    return true;
}

static bool is_broken(struct nccl *n)
{
    int lost = n->control.ops->lost(n->control.self);
    if (lost >= 0) {
        __atomic_store_n(&n->lost, lost, __ATOMIC_RELAXED);
        return true;
    }
    for (int g = 0; g < COMMS_N; g++) {
        ncclResult_t state = ncclSuccess;
        if (!n->comms[g] || !n->owned[g])
            continue;
        ncclResult_t rc = ncclCommGetAsyncError(n->comms[g], &state);
        if (rc == ncclSuccess)
            rc = state;
        if (rc != ncclSuccess && rc != ncclInProgress) {
            n->failed = rc;
            return true;
        }
    }
    return is_late(n);
}

static void *guard(void *p)
{
    struct nccl *n = p;
    while (!__atomic_load_n(&n->stop, __ATOMIC_ACQUIRE)) {
        clock_sleep_s(GUARD_S);
        if (!__atomic_load_n(&n->stop, __ATOMIC_ACQUIRE) && is_broken(n)) {
            abort_all(n);
            break;
        }
    }
    __atomic_store_n(&n->guard_over, true, __ATOMIC_RELEASE);
    return NULL;
}

static int start_guard(struct nccl *n, struct err *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&n->guard, NULL, guard, n);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return err_set(err, "comm: cannot start NCCL's guard");
    n->guarded = true;
    return 0;
}

/* ---- Opening ----------------------------------------------------------- */

static int run_unique_id(void *arg)
{
    return ncclGetUniqueId(arg);
}

/* An id under a key: made by one rank, its maker, and published. */
static int share_id(struct nccl *n, const struct coll_spec *spec,
                    const char *key, int maker, ncclUniqueId *ret,
                    struct err *err)
{
    int rc;
    double left_s = spec->deadline_s - clock_mono_s();
    if (maker != spec->place->rank)
        return n->control.ops->get(n->control.self, maker, key, ret,
                                   sizeof *ret, left_s, err);
    ncclUniqueId *id = calloc(1, sizeof *id);
    if (!id)
        return err_set(err, "comm: out of memory");
    if (bounded_call(run_unique_id, id, left_s, &rc))
        return err_set(err, "comm: ncclGetUniqueId did not return within "
                            "%.1f s", left_s); /* id stays with it */
    *ret = *id;
    free(id);
    if (rc)
        return tell(n, (ncclResult_t)rc, "ncclGetUniqueId", err);
    return n->control.ops->put(n->control.self, key, ret, sizeof *ret, err);
}

/* Communicator `at` of size ranks, the first of which makes its id. */
static int open_one(struct nccl *n, const struct coll_spec *spec, int at,
                    const char *key, int maker, int rank, int size,
                    struct err *err)
{
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (share_id(n, spec, key, maker, &id, err))
        return -1;
    ncclResult_t rc =
        ncclCommInitRankConfig(&n->comms[at], size, id, rank, &config);
    n->owned[at] = n->comms[at] != NULL;
    return settle(n, n->comms[at], rc, "ncclCommInitRank", spec->deadline_s,
                  err);
}

static bool is_pipeline(int group)
{
    return group == COMM_PIPELINE || group == COMM_BACK;
}

static int open_group(struct nccl *n, const struct coll_spec *spec, int group,
                      struct err *err)
{
    const struct comm_ranks *g = &n->groups->ranks[group];
    char key[64];
    if (g->size == 1 || is_pipeline(group))
        return 0;
    if (group != COMM_WORLD &&
        g->size == n->groups->ranks[COMM_WORLD].size) {
        n->comms[group] = n->comms[COMM_WORLD];
        return 0;
    }
    snprintf(key, sizeof key, "nccl.%lld", (long long)n->groups->id[group]);
    return open_one(n, spec, group, key, g->world[0], g->rank, g->size, err);
}

/* Where a group's messages go to, or come from (into): its communicator, and
 * the neighbour's place in the group, -1: there is none. */
static int link_at(int group, bool into)
{
    return LINKS + 2 * (group == COMM_BACK) + into;
}

static int neighbour(const struct comm_ranks *g, int group, bool into,
                     bool ring)
{
    int step = (group == COMM_BACK) != into ? -1 : 1;
    int to = g->rank + step;
    if (to >= 0 && to < g->size)
        return to;
    return ring ? (to + g->size) % g->size : -1;
}

static int open_link(struct nccl *n, const struct coll_spec *spec, int group,
                     bool into, struct err *err)
{
    const struct comm_ranks *g = &n->groups->ranks[group];
    int other = neighbour(g, group, into, spec->ring);
    char key[64];
    if (g->size == 1 || other < 0)
        return 0;
    int me = g->world[g->rank], peer = g->world[other];
    int from = into ? peer : me;
    snprintf(key, sizeof key, "nccl.link.%d.%d.%d", group, from,
             into ? me : peer);
    return open_one(n, spec, link_at(group, into), key, from, into, 2, err);
}

/* Stages in turns begin with what they send, or what they receive, so that no
 * ring of them waits for each other. */
static int open_links(struct nccl *n, const struct coll_spec *spec,
                      struct err *err)
{
    static const int groups[] = {COMM_PIPELINE, COMM_BACK};
    for (int i = 0; i < 2; i++) {
        bool first = n->groups->ranks[groups[i]].rank % 2;
        if (open_link(n, spec, groups[i], first, err) ||
            open_link(n, spec, groups[i], !first, err))
            return -1;
    }
    return 0;
}

static void nccl_close(void *self, bool orderly);
static const struct coll_ops nccl_ops;

int coll_nccl_open(struct coll *ret, const struct coll_spec *spec,
                   struct err *err)
{
    struct nccl *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(err, "comm: out of memory");
    n->groups = spec->groups;
    n->device = spec->device;
    n->control = spec->control;
    n->lost = -1;
    n->limit_s = spec->collective_limit_s;
    n->on_broken = spec->on_broken;
    n->broken_ctx = spec->broken_ctx;
    pthread_mutex_init(&n->calls, NULL);
    bool bad = false;
    for (int i = 0; i < EVENTS_N && !bad; i++)
        bad = !(n->events[i] = device_event_create(n->device));
    if (bad || !(n->ready = device_event_create(n->device)) ||
        !(n->last = device_event_create(n->device))) {
        err_set_class(err, ERR_GPU, "comm: no events: %s",
                      device_error(n->device));
        goto fail;
    }
    for (int g = 0; g < COMM_GROUP_N; g++)
        if (open_group(n, spec, g, err))
            goto fail;
    if (open_links(n, spec, err))
        goto fail;
    if (start_guard(n, err))
        goto fail;
    *ret = (struct coll){&nccl_ops, n};
    return 0;
fail:
    nccl_close(n, false);
    return err_prefix(err, "comm");
}

/* ---- Closing ----------------------------------------------------------- */

static int run_abort(void *arg)
{
    struct nccl *n = arg;
    n->on_broken = NULL; /* who closes knows */
    abort_all(n);
    return 0;
}

static int run_finalize(void *arg)
{
    struct nccl *n = arg;
    struct err ignored = ERR_INIT;
    double deadline_s = clock_mono_s() + CALL_LIMIT_S;
    ncclResult_t rc[COMMS_N] = {ncclSuccess};
    /* all at once: their members need not come to them in the same order */
    for (int g = 0; g < COMMS_N; g++)
        if (n->comms[g] && n->owned[g])
            rc[g] = ncclCommFinalize(n->comms[g]);
    for (int g = 0; g < COMMS_N; g++) {
        if (!n->comms[g] || !n->owned[g])
            continue;
        settle(n, n->comms[g], rc[g], "ncclCommFinalize", deadline_s,
               &ignored);
        ncclCommDestroy(n->comms[g]);
    }
    return 0;
}

static void nccl_close(void *self, bool orderly)
{
    struct nccl *n = self;
    int rc;
    bool hangs = false;
    __atomic_store_n(&n->stop, true, __ATOMIC_RELEASE);
    double end_s = clock_mono_s() + ABORT_LIMIT_S;
    while (n->guarded && clock_mono_s() < end_s &&
           !__atomic_load_n(&n->guard_over, __ATOMIC_ACQUIRE))
        clock_sleep_s(0.005);
    if (n->guarded && __atomic_load_n(&n->guard_over, __ATOMIC_ACQUIRE))
        pthread_join(n->guard, NULL);
    else
        hangs = n->guarded; /* inside an abort: it keeps n */
    if (!hangs && !__atomic_load_n(&n->aborted, __ATOMIC_ACQUIRE)) {
        if (orderly)
            hangs = bounded_call(run_finalize, n, CALL_LIMIT_S, &rc);
        else
            hangs = bounded_call(run_abort, n, end_s - clock_mono_s(), &rc);
    }
    if (!hangs)
        free(n);
}

/* ---- The table --------------------------------------------------------- */

static int type_of(enum dtype dtype, ncclDataType_t *ret, struct err *err)
{
    static const ncclDataType_t types[DT_N] = {
        [DT_F32] = ncclFloat32, [DT_F64] = ncclFloat64,
        [DT_BF16] = ncclBfloat16, [DT_F16] = ncclFloat16,
        [DT_I32] = ncclInt32, [DT_I64] = ncclInt64, [DT_U8] = ncclUint8,
    };
    if ((unsigned)dtype >= DT_N)
        return err_set(err, "NCCL has no dtype %d", dtype);
    *ret = types[dtype];
    return 0;
}

/* Takes the lock that end gives back, except when it fails.
 * The stream to queue on: with done wanted it is beside the caller's, behind
 * what the caller has queued so far. */
static int begin_on(struct nccl *n, stream_t stream, event_t *done, int beside,
                    stream_t *ret, struct err *err)
{
    pthread_mutex_lock(&n->calls);
    if (__atomic_load_n(&n->aborted, __ATOMIC_ACQUIRE)) {
        tell(n, n->failed, "aborted", err);
        goto fail;
    }
    *ret = stream;
    if (!done)
        return 0;
    *ret = device_stream(n->device, beside);
    if (device_event_record(n->device, n->ready, stream) == K_OK &&
        device_event_wait(n->device, n->ready, *ret) == K_OK)
        return 0;
    err_set_class(err, ERR_GPU, "%s", device_error(n->device));
fail:
    pthread_mutex_unlock(&n->calls);
    return -1;
}

static int begin(struct nccl *n, stream_t stream, event_t *done,
                 stream_t *ret, struct err *err)
{
    return begin_on(n, stream, done, COMM_STREAM, ret, err);
}

static int end(struct nccl *n, int group, ncclResult_t rc, const char *what,
               stream_t stream, event_t *done, struct err *err)
{
    int bad = settle(n, n->comms[group], rc, what,
                     clock_mono_s() + CALL_LIMIT_S, err);
    if (!bad && device_event_record(n->device, n->last, stream) == K_OK) {
        n->queued_group = group;
        __atomic_store_n(&n->queued_ms, (int64_t)(clock_mono_s() * 1e3) + 1,
                         __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&n->calls);
    if (bad)
        return -1;
    if (!done)
        return 0;
    *done = n->events[n->next_event];
    n->next_event = (n->next_event + 1) % EVENTS_N;
    if (device_event_record(n->device, *done, stream) != K_OK)
        return err_set_class(err, ERR_GPU, "%s", device_error(n->device));
    return 0;
}

static int nccl_all_reduce(void *self, int group, void *buf, int64_t n,
                           enum dtype dtype, stream_t stream, event_t *done,
                           struct err *err)
{
    struct nccl *c = self;
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    if (type_of(dtype, &type, err) || begin(c, stream, done, &on, err))
        return -1;
    return end(c, group, ncclAllReduce(buf, buf, (size_t)n, type, ncclSum,
                                       c->comms[group], on),
               "ncclAllReduce", on, done, err);
}

static int nccl_reduce_scatter(void *self, int group, void *dst,
                               const void *src, int64_t n, enum dtype dtype,
                               stream_t stream, event_t *done,
                               struct err *err)
{
    struct nccl *c = self;
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    if (type_of(dtype, &type, err) || begin(c, stream, done, &on, err))
        return -1;
    return end(c, group, ncclReduceScatter(src, dst, (size_t)n, type, ncclSum,
                                           c->comms[group], on),
               "ncclReduceScatter", on, done, err);
}

static int nccl_all_gather(void *self, int group, void *dst, const void *src,
                           int64_t n, enum dtype dtype, stream_t stream,
                           event_t *done, struct err *err)
{
    struct nccl *c = self;
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    if (type_of(dtype, &type, err) || begin(c, stream, done, &on, err))
        return -1;
    return end(c, group, ncclAllGather(src, dst, (size_t)n, type,
                                       c->comms[group], on),
               "ncclAllGather", on, done, err);
}

/* NCCL has no reduce-scatter or all-gather of unequal parts: one reduction or
 * broadcast a part, which a group makes one launch of. */
static int nccl_parts(struct nccl *c, int group, bool reduce, char *buf,
                      const int64_t *first, const int64_t *len,
                      enum dtype dtype, stream_t stream, event_t *done,
                      struct err *err)
{
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    if (type_of(dtype, &type, err) || begin(c, stream, done, &on, err))
        return -1;
    ncclComm_t comm = c->comms[group];
    ncclGroupStart();
    for (int r = 0; r < c->groups->ranks[group].size; r++) {
        char *part = buf + (size_t)first[r] * dtype_bytes(dtype);
        if (len[r] && reduce)
            ncclReduce(part, part, (size_t)len[r], type, ncclSum, r, comm, on);
        else if (len[r])
            ncclBroadcast(part, part, (size_t)len[r], type, r, comm, on);
    }
    return end(c, group, ncclGroupEnd(), reduce ? "ncclReduce"
                                                : "ncclBroadcast",
               on, done, err);
}

static int nccl_reduce_parts(void *self, int group, void *buf,
                             const int64_t *first, const int64_t *len,
                             enum dtype dtype, stream_t stream, event_t *done,
                             struct err *err)
{
    return nccl_parts(self, group, true, buf, first, len, dtype, stream, done,
                      err);
}

static int nccl_gather_parts(void *self, int group, void *buf,
                             const int64_t *first, const int64_t *len,
                             enum dtype dtype, stream_t stream, event_t *done,
                             struct err *err)
{
    return nccl_parts(self, group, false, buf, first, len, dtype, stream,
                      done, err);
}

static int nccl_broadcast(void *self, int group, int root, void *buf,
                          int64_t n, enum dtype dtype, stream_t stream,
                          event_t *done, struct err *err)
{
    struct nccl *c = self;
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    if (type_of(dtype, &type, err) || begin(c, stream, done, &on, err))
        return -1;
    return end(c, group, ncclBroadcast(buf, buf, (size_t)n, type, root,
                                       c->comms[group], on),
               "ncclBroadcast", on, done, err);
}

/* A message's communicator, and the other one's rank in it. */
static int link_of(const struct nccl *n, int group, bool into, int *ret_peer,
                   int peer, struct err *err)
{
    int at = is_pipeline(group) ? link_at(group, into) : group;
    *ret_peer = is_pipeline(group) ? !into : peer;
    if (!n->comms[at])
        return err_set(err, "no link to rank %d of the %s group", peer,
                       group_names[group]);
    return at;
}

static int nccl_send(void *self, int group, int to, const void *buf, int64_t n,
                     enum dtype dtype, stream_t stream, event_t *done,
                     struct err *err)
{
    struct nccl *c = self;
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    int peer, at = link_of(c, group, false, &peer, to, err);
    int beside = is_pipeline(group) ? SEND_STREAM + (group == COMM_BACK)
                                    : COMM_STREAM;
    if (at < 0 || type_of(dtype, &type, err) ||
        begin_on(c, stream, done, beside, &on, err))
        return -1;
    return end(c, at, ncclSend(buf, (size_t)n, type, peer, c->comms[at], on),
               "ncclSend", on, done, err);
}

static int nccl_recv(void *self, int group, int from, void *buf, int64_t n,
                     enum dtype dtype, stream_t stream, event_t *done,
                     struct err *err)
{
    struct nccl *c = self;
    ncclDataType_t type = ncclFloat32;
    stream_t on;
    int peer, at = link_of(c, group, true, &peer, from, err);
    if (at < 0 || type_of(dtype, &type, err) ||
        begin(c, stream, done, &on, err))
        return -1;
    return end(c, at, ncclRecv(buf, (size_t)n, type, peer, c->comms[at], on),
               "ncclRecv", on, done, err);
}

static int nccl_wait(void *self, event_t done, stream_t stream,
                     struct err *err)
{
    struct nccl *c = self;
    if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE))
        return tell(c, c->failed, "aborted", err);
    if (device_event_wait(c->device, done, stream) != K_OK)
        return err_set_class(err, ERR_GPU, "comm: %s",
                             device_error(c->device));
    return 0;
}

static const struct coll_ops nccl_ops = {
    .name = "nccl",
    .all_reduce = nccl_all_reduce,
    .reduce_scatter = nccl_reduce_scatter,
    .all_gather = nccl_all_gather,
    .reduce_parts = nccl_reduce_parts,
    .gather_parts = nccl_gather_parts,
    .broadcast = nccl_broadcast,
    .send = nccl_send,
    .recv = nccl_recv,
    .wait = nccl_wait,
    .close = nccl_close,
};
