/* comm_mpi - collectives of CPU ranks. MPI moves the bytes, we add.
 *
 * A sum is cut into parts, one a rank; each rank gets its part from all, adds
 * in rank order and gives the result to all. So every element is added once,
 * by one rank, in one order: the same bits for everyone and for every cut.
 * Scratch of SCRATCH_BYTES is allocated once; longer buffers go in chunks.
 * MPI_Init_thread has no deadline: it runs bounded. Waiting tests the requests
 * itself, gives the core away, and looks whether a peer is gone. */
#include <config.h>

#include "runner/comm/tables.h"

#ifdef HAVE_MPI

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"

#define SCRATCH_BYTES (8 << 20)
#define MESSAGE_BYTES (256 << 20) /* most in one message of a gather */
#define SPIN_S 0.002              /* then sleep a little between tests */
#define SPIN_CROWDED_S 20e-6      /* the same where ranks share cores */
#define LOOK_S 0.1                /* between looks for lost peers */
#define FINALIZE_LIMIT_S 10.0
#define TAG 7
#define SENDS_N 64 /* messages under way at most */

struct mpi {
    const struct groups *groups;
    struct control control;
    MPI_Comm comms[COMM_GROUP_N];
    unsigned char *scratch;
    const void **srcs;       /* [size] */
    int64_t *first, *len;    /* [size] parts of the chunk at work */
    MPI_Request *requests;   /* [2 * size] */
    int requests_n;
    double spin_s;
    /* sends with a ticket that may not have been received yet: number n lies
     * at n % SENDS_N, numbers from 1 on */
    MPI_Request sends[SENDS_N];
    uintptr_t sent, received;
};

/* ---- Opening ----------------------------------------------------------- */

struct opening { /* on the heap, for bounded_call */
    struct mpi *mpi;
    int rank, size;
    int colours[COMM_GROUP_N];
    char why[MPI_MAX_ERROR_STRING + 64];
};

static int open_bounded(void *arg)
{
    struct opening *o = arg;
    int have, rank, size, started;
    MPI_Initialized(&started);
    if (!started &&
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &have)) {
        snprintf(o->why, sizeof o->why, "MPI_Init_thread failed");
        return -1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != o->rank || size != o->size) {
        snprintf(o->why, sizeof o->why,
                 "MPI says rank %d of %d, but this is rank %d of %d; start "
                 "with srun --mpi=pmix", rank, size, o->rank, o->size);
        return -1;
    }
    for (int g = 0; g < COMM_GROUP_N; g++) {
        int rc = MPI_Comm_split(MPI_COMM_WORLD, o->colours[g], rank,
                                &o->mpi->comms[g]);
        if (rc) {
            snprintf(o->why, sizeof o->why, "MPI_Comm_split failed");
            return -1;
        }
        MPI_Comm_set_errhandler(o->mpi->comms[g], MPI_ERRORS_RETURN);
    }
    return 0;
}

static void mpi_destroy(struct mpi *m)
{
    if (!m)
        return;
    free(m->scratch);
    free(m->srcs);
    free(m->first);
    free(m->len);
    free(m->requests);
    free(m);
}

static const struct coll_ops mpi_ops;

int coll_mpi_open(struct coll *ret, const struct coll_spec *spec,
                  struct err *err)
{
    size_t size = (size_t)spec->place->size;
    struct mpi *m = calloc(1, sizeof *m);
    struct opening *o = calloc(1, sizeof *o);
    if (!strcmp(spec->place->how, "env")) {
        free(m);
        free(o);
        return err_set_class(err, ERR_REQUEST,
                             "comm: several CPU ranks are wired by PMIx; start "
                             "them with srun --mpi=pmix or mpirun");
    }
    if (!m || !o)
        goto no_memory;
    m->groups = spec->groups;
    m->control = spec->control;
    m->spin_s = spec->place->local_size > sysconf(_SC_NPROCESSORS_ONLN)
                    ? SPIN_CROWDED_S
                    : SPIN_S;
    m->scratch = malloc(SCRATCH_BYTES);
    m->srcs = calloc(size, sizeof *m->srcs);
    m->first = calloc(size, sizeof *m->first);
    m->len = calloc(size, sizeof *m->len);
    m->requests = calloc(2 * size, sizeof *m->requests);
    if (!m->scratch || !m->srcs || !m->first || !m->len || !m->requests)
        goto no_memory;

    o->mpi = m;
    o->rank = spec->place->rank;
    o->size = spec->place->size;
    for (int g = 0; g < COMM_GROUP_N; g++)
        o->colours[g] = spec->groups->ranks[g].world[0];
    double limit_s = spec->deadline_s - clock_mono_s();
    int rc;
    if (bounded_call(open_bounded, o, limit_s, &rc))
        return err_set(err, "comm: MPI_Init did not return within the %.1f s "
                            "that were left; a rank is missing or PMIx "
                            "stalls", limit_s); /* m and o stay with it */
    if (rc)
        err_set(err, "comm: %s", o->why);
    free(o);
    if (rc)
        return -1; /* m is left: MPI may still use its communicators */
    *ret = (struct coll){&mpi_ops, m};
    return 0;
no_memory:
    mpi_destroy(m);
    free(o);
    return err_set(err, "comm: out of memory for MPI's scratch");
}

static int finalize_bounded(void *arg)
{
    int over;
    MPI_Finalized(&over);
    return over ? 0 : MPI_Finalize();
}

static void mpi_close(void *self, bool orderly)
{
    int rc;
    struct mpi *m = self;
    if (!orderly)
        return; /* MPI may hang; its memory goes with the process */
    bounded_call(finalize_bounded, NULL, FINALIZE_LIMIT_S, &rc);
    mpi_destroy(m);
}

/* ---- Moving ------------------------------------------------------------ */

static int failed(struct err *err, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int n;
    MPI_Error_string(rc, text, &n);
    return err_set(err, "MPI: %s", text);
}

/* Start a message of at most MESSAGE_BYTES. */
static int post_recv(struct mpi *m, int group, int from, void *dst,
                     size_t bytes, struct err *err)
{
    int rc = MPI_Irecv(dst, (int)bytes, MPI_BYTE, from, TAG, m->comms[group],
                       &m->requests[m->requests_n]);
    if (rc)
        return failed(err, rc);
    m->requests_n++;
    return 0;
}

static int post_send(struct mpi *m, int group, int to, const void *src,
                     size_t bytes, struct err *err)
{
    int rc = MPI_Isend(src, (int)bytes, MPI_BYTE, to, TAG, m->comms[group],
                       &m->requests[m->requests_n]);
    if (rc)
        return failed(err, rc);
    m->requests_n++;
    return 0;
}

/* Until all that was posted is done; or a peer is gone. */
static int finish(struct mpi *m, struct err *err)
{
    double begin_s = clock_mono_s(), looked_s = begin_s;
    int done = 0;
    for (;;) {
        int rc = MPI_Testall(m->requests_n, m->requests, &done,
                             MPI_STATUSES_IGNORE);
        if (rc)
            return failed(err, rc);
        if (done)
            break;
        double now_s = clock_mono_s();
        if (now_s - begin_s > m->spin_s)
            clock_sleep_s(50e-6);
        else
            sched_yield();
        if (now_s - looked_s < LOOK_S)
            continue;
        looked_s = now_s;
        int lost = m->control.ops->lost(m->control.self);
        if (lost >= 0)
            return err_set(err, "rank %d is gone", lost);
    }
    m->requests_n = 0;
    return 0;
}

/* The sum of one chunk: of each rank's copy of part r (at src + r * stride +
 * first[r], len[r] elements) rank r gets the sum; ours goes to dst. */
static int reduce_parts(struct mpi *m, int group, void *dst,
                        const unsigned char *src, size_t stride_bytes,
                        enum dtype dtype, struct err *err)
{
    const struct comm_ranks *g = &m->groups->ranks[group];
    size_t elem = dtype_bytes(dtype);
    size_t mine_bytes = (size_t)m->len[g->rank] * elem;
    unsigned char *at = m->scratch;
    for (int r = 0; r < g->size; r++) {
        m->srcs[r] = at;
        if (r == g->rank || !mine_bytes)
            continue;
        if (post_recv(m, group, r, at, mine_bytes, err))
            return -1;
        at += mine_bytes;
    }
    for (int k = 0; k < g->size; k++) {
        int r = (g->rank + k) % g->size; /* not all to the same one first */
        const unsigned char *part = src + stride_bytes * (size_t)r +
                                    (size_t)m->first[r] * elem;
        if (r == g->rank)
            m->srcs[r] = part;
        else if (m->len[r] && post_send(m, group, r, part,
                                        (size_t)m->len[r] * elem, err))
            return -1;
    }
    if (finish(m, err))
        return -1;
    if (sum_ordered(dst, m->srcs, g->size, m->len[g->rank], dtype))
        return err_set(err, "cannot add %s", dtype_name(dtype));
    return 0;
}

/* Rank r's part, at base + r * stride + first[r], goes to everyone's same
 * place; mine comes from src. */
static int gather_parts(struct mpi *m, int group, unsigned char *base,
                        size_t stride_bytes, const void *src, size_t elem,
                        struct err *err)
{
    const struct comm_ranks *g = &m->groups->ranks[group];
    for (int k = 1; k < g->size; k++) {
        int r = (g->rank + g->size - k) % g->size;
        if (m->len[r] &&
            post_recv(m, group, r,
                      base + stride_bytes * (size_t)r +
                          (size_t)m->first[r] * elem,
                      (size_t)m->len[r] * elem, err))
            return -1;
    }
    for (int k = 1; k < g->size; k++) {
        int r = (g->rank + k) % g->size;
        if (m->len[g->rank] &&
            post_send(m, group, r, src, (size_t)m->len[g->rank] * elem, err))
            return -1;
    }
    return finish(m, err);
}

/* ---- The table --------------------------------------------------------- */

/* Cut n elements from `at` on into a part a rank. */
static void cut(struct mpi *m, int size, int64_t at, int64_t n)
{
    int64_t part = (n + size - 1) / size;
    for (int r = 0; r < size; r++) {
        int64_t first = part * r < n ? part * r : n;
        m->first[r] = at + first;
        m->len[r] = n - first < part ? n - first : part;
    }
}

/* The same range in every rank's own stretch. */
static void cut_same(struct mpi *m, int size, int64_t at, int64_t n)
{
    for (int r = 0; r < size; r++) {
        m->first[r] = at;
        m->len[r] = n;
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int mpi_all_reduce(void *self, int group, void *buf, int64_t n,
                          enum dtype dtype, stream_t stream, event_t *done,
                          struct err *err)
{
    struct mpi *m = self;
    const struct comm_ranks *g = &m->groups->ranks[group];
    size_t elem = dtype_bytes(dtype);
    /* size - 1 copies of a part fit the scratch also when it is rounded up */
    int64_t chunk = (int64_t)(SCRATCH_BYTES / elem) - g->size;
    for (int64_t at = 0; at < n; at += chunk) {
        cut(m, g->size, at, smaller(chunk, n - at));
        unsigned char *mine =
            (unsigned char *)buf + (size_t)m->first[g->rank] * elem;
        if (reduce_parts(m, group, mine, buf, 0, dtype, err) ||
            gather_parts(m, group, buf, 0, mine, elem, err))
            return -1;
    }
    return 0;
}

static int mpi_reduce_scatter(void *self, int group, void *dst,
                              const void *src, int64_t n, enum dtype dtype,
                              stream_t stream, event_t *done, struct err *err)
{
    struct mpi *m = self;
    const struct comm_ranks *g = &m->groups->ranks[group];
    size_t elem = dtype_bytes(dtype);
    int64_t chunk = (int64_t)(SCRATCH_BYTES / elem) / g->size;
    for (int64_t at = 0; at < n; at += chunk) {
        cut_same(m, g->size, at, smaller(chunk, n - at));
        if (reduce_parts(m, group, (unsigned char *)dst + (size_t)at * elem,
                         src, (size_t)n * elem, dtype, err))
            return -1;
    }
    return 0;
}

static int mpi_all_gather(void *self, int group, void *dst, const void *src,
                          int64_t n, enum dtype dtype, stream_t stream,
                          event_t *done, struct err *err)
{
    struct mpi *m = self;
    const struct comm_ranks *g = &m->groups->ranks[group];
    size_t elem = dtype_bytes(dtype), part_bytes = (size_t)n * elem;
    int64_t chunk = (int64_t)(MESSAGE_BYTES / elem);
    unsigned char *own = (unsigned char *)dst + part_bytes * (size_t)g->rank;
    if (own != src)
        memmove(own, src, part_bytes);
    for (int64_t at = 0; at < n; at += chunk) {
        cut_same(m, g->size, at, smaller(chunk, n - at));
        if (gather_parts(m, group, dst, part_bytes, own + (size_t)at * elem,
                         elem, err))
            return -1;
    }
    return 0;
}

/* What lies `at` or further into each part, at most chunk elements of it;
 * false when no part is that long. */
static bool cut_parts(struct mpi *m, int size, const int64_t *first,
                      const int64_t *len, int64_t at, int64_t chunk)
{
    bool any = false;
    for (int r = 0; r < size; r++) {
        m->first[r] = first[r] + at;
        m->len[r] = len[r] > at ? smaller(chunk, len[r] - at) : 0;
        any |= m->len[r] > 0;
    }
    return any;
}

static int mpi_reduce_parts(void *self, int group, void *buf,
                            const int64_t *first, const int64_t *len,
                            enum dtype dtype, stream_t stream, event_t *done,
                            struct err *err)
{
    struct mpi *m = self;
    const struct comm_ranks *g = &m->groups->ranks[group];
    size_t elem = dtype_bytes(dtype);
    int64_t chunk = (int64_t)(SCRATCH_BYTES / elem) / g->size;
    for (int64_t at = 0; cut_parts(m, g->size, first, len, at, chunk);
         at += chunk) {
        unsigned char *mine =
            (unsigned char *)buf + (size_t)m->first[g->rank] * elem;
        if (reduce_parts(m, group, mine, buf, 0, dtype, err))
            return -1;
    }
    return 0;
}

static int mpi_gather_parts(void *self, int group, void *buf,
                            const int64_t *first, const int64_t *len,
                            enum dtype dtype, stream_t stream, event_t *done,
                            struct err *err)
{
    struct mpi *m = self;
    const struct comm_ranks *g = &m->groups->ranks[group];
    size_t elem = dtype_bytes(dtype);
    int64_t chunk = (int64_t)(MESSAGE_BYTES / elem);
    for (int64_t at = 0; cut_parts(m, g->size, first, len, at, chunk);
         at += chunk) {
        const unsigned char *mine =
            (unsigned char *)buf + (size_t)m->first[g->rank] * elem;
        if (gather_parts(m, group, buf, 0, mine, elem, err))
            return -1;
    }
    return 0;
}

/* Sends up to this number are received, or a peer is gone. */
static int finish_sends(struct mpi *m, uintptr_t until, struct err *err)
{
    for (; m->received < until; m->received++) {
        m->requests[0] = m->sends[(m->received + 1) % SENDS_N];
        m->requests_n = 1;
        if (finish(m, err))
            return -1;
    }
    return 0;
}

/* Started, and left on its way. */
static int send_later(struct mpi *m, int group, int to, const void *buf,
                      size_t bytes, event_t *done, struct err *err)
{
    if (m->sent - m->received == SENDS_N - 1 &&
        finish_sends(m, m->received + 1, err))
        return -1;
    m->sent++;
    int rc = MPI_Isend(buf, (int)bytes, MPI_BYTE, to, TAG, m->comms[group],
                       &m->sends[m->sent % SENDS_N]);
    if (rc) {
        m->sent--;
        return failed(err, rc);
    }
    *done = (event_t)m->sent;
    return 0;
}

static int mpi_send(void *self, int group, int to, const void *buf, int64_t n,
                    enum dtype dtype, stream_t stream, event_t *done,
                    struct err *err)
{
    struct mpi *m = self;
    size_t left = (size_t)n * dtype_bytes(dtype);
    const unsigned char *at = buf;
    if (done && left && left <= MESSAGE_BYTES)
        return send_later(m, group, to, buf, left, done, err);
    for (size_t bytes; left; at += bytes, left -= bytes) {
        bytes = left < MESSAGE_BYTES ? left : MESSAGE_BYTES;
        if (post_send(m, group, to, at, bytes, err) || finish(m, err))
            return -1;
    }
    return 0;
}

static int mpi_recv(void *self, int group, int from, void *buf, int64_t n,
                    enum dtype dtype, stream_t stream, event_t *done,
                    struct err *err)
{
    struct mpi *m = self;
    size_t left = (size_t)n * dtype_bytes(dtype);
    unsigned char *at = buf;
    for (size_t bytes; left; at += bytes, left -= bytes) {
        bytes = left < MESSAGE_BYTES ? left : MESSAGE_BYTES;
        if (post_recv(m, group, from, at, bytes, err) || finish(m, err))
            return -1;
    }
    return 0;
}

/* Down a binomial tree: who has it sends it `step` further. */
static int mpi_broadcast(void *self, int group, int root, void *buf, int64_t n,
                         enum dtype dtype, stream_t stream, event_t *done,
                         struct err *err)
{
    struct mpi *m = self;
    const struct comm_ranks *g = &m->groups->ranks[group];
    int me = (g->rank - root + g->size) % g->size, step = 1;
    while (step < g->size && !(me & step))
        step *= 2;
    if (me && mpi_recv(m, group, (me - step + root) % g->size, buf, n, dtype,
                       stream, done, err))
        return -1;
    for (step /= 2; step; step /= 2) {
        if (me + step < g->size &&
            mpi_send(m, group, (me + step + root) % g->size, buf, n, dtype,
                     stream, done, err))
            return -1;
    }
    return 0;
}

static int mpi_wait(void *self, event_t done, stream_t stream,
                    struct err *err)
{
    return finish_sends(self, (uintptr_t)done, err); /* of sends; others are
                                                      * finished */
}

static const struct coll_ops mpi_ops = {
    .name = "mpi",
    .all_reduce = mpi_all_reduce,
    .reduce_scatter = mpi_reduce_scatter,
    .all_gather = mpi_all_gather,
    .reduce_parts = mpi_reduce_parts,
    .gather_parts = mpi_gather_parts,
    .broadcast = mpi_broadcast,
    .send = mpi_send,
    .recv = mpi_recv,
    .wait = mpi_wait,
    .close = mpi_close,
};

#else /* !HAVE_MPI */

int coll_mpi_open(struct coll *ret, const struct coll_spec *spec,
                  struct err *err)
{
    return err_set_class(err, ERR_REQUEST,
                         "comm: built without MPI: one CPU rank only");
}

#endif
