/* comm - ranks, groups, control messages and collectives.
 *
 * Two tables. Control: small messages with deadlines, over TCP through
 * rank 0 (PMIx or MASTER_ADDR says where it listens) or nothing (a single
 * rank): never over what may be broken. Collectives: NCCL on
 * GPUs, MPI on CPUs (MPI moves the bytes, Koboshi adds in rank order, so that
 * sharding and buckets do not change bits). A single rank needs neither.
 * Groups are built once from the plan; at size 1 every collective is a no-op.
 * Every collective moves the rank's beat (contract.h) on enter and leave.
 */
#ifndef KB_COMM_COMM_H
#define KB_COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "runner/base/contract.h"
#include "runner/base/err.h"

struct comm;

/* Backward messages of the pipeline have a group of their own, so that they do
 * not queue behind forward ones. Ends: the first and the last stage (others are
 * alone). Twins: tensor ranks with the same key and value heads. */
enum comm_group { COMM_WORLD, COMM_DATA, COMM_TENSOR, COMM_PIPELINE,
                  COMM_BACK, COMM_ENDS, COMM_TWINS, COMM_GROUP_N };

struct comm_ranks {            /* one group as this rank sees it */
    int rank, size;
    const int *world;          /* [size] world ranks of the members */
};

struct comm_place {            /* found before anything is wired */
    int rank, size, local_rank, local_size, node_rank;
    char how[16];              /* "pmix", "env", "single" */
};
/* Who am I: PMIx, else RANK and friends, else a single rank. */
int comm_find_place(struct comm_place *ret, struct err *err);

struct comm_spec {
    enum device_kind kind;     /* which collectives */
    struct device *device;
    int data, tensor, pipeline;/* degrees; product = size. Tensor ranks are
                                * neighbours, then data, then pipeline */
    int twins;                 /* size of COMM_TWINS, divides tensor; 0: 1 */
    bool ring;                 /* the last stage sends to the first one, too */
    double wireup_limit_s;     /* past it: error, exit KB_EXIT_WIREUP */
    struct kb_beat *beat;      /* or NULL */
    /* On GPUs: a collective that has not ended so long after it was queued is
     * given up, as when a peer is lost; 0: never. */
    double collective_limit_s;
    /* Called once from a thread of comm before it aborts the communicators:
     * whatever hangs then, the process can be ended from here. Or NULL. */
    void (*on_broken)(void *ctx);
    void *broken_ctx;
};
/* NULL on error: class ERR_REQUEST when the user must change something, else
 * the wire-up failed or took too long: leave by _exit(KB_EXIT_WIREUP), since a
 * library's thread may still hang. */
struct comm *comm_open(const struct comm_place *place,
                       const struct comm_spec *spec, struct err *err);
/* Orderly end: collective. */
void comm_close(struct comm *comm);
/* Something failed: never blocks longer than a second; then _exit is safe. */
void comm_abort(struct comm *comm);
/* A peer is gone (its process ended without comm_close): whatever failed here
 * was its fault, leave with KB_EXIT_PEER. Never blocks. */
bool comm_peer_lost(const struct comm *comm);
const struct comm_place *comm_place(const struct comm *comm);
const struct comm_ranks *comm_group(const struct comm *comm,
                                    enum comm_group group);

/* ---- Control: host memory, small, with a deadline. All of the world. --- */
/* Publish under a key (once each), and wait for another's. */
int comm_put(struct comm *comm, const char *key, const void *data,
             size_t bytes, struct err *err);
int comm_get(struct comm *comm, int rank, const char *key, void *data,
             size_t bytes, double limit_s, struct err *err);
int comm_barrier(struct comm *comm, double limit_s, struct err *err);
/* Element-wise over all ranks into everyone's values: for agreements. */
enum comm_pick { COMM_MIN, COMM_MAX, COMM_SUM };
int comm_agree(struct comm *comm, int64_t *values, int values_n,
               enum comm_pick pick, double limit_s, struct err *err);
/* Everyone's bytes (same number from each) into all [size * bytes]. */
int comm_gather(struct comm *comm, const void *mine, size_t bytes, void *all,
                double limit_s, struct err *err);

/* ---- Collectives: device memory, on a stream. -------------------------- */
struct comm_ticket { void *what; event_t done; };
/* buf[n] = sum over the group in rank order; the same bits for everyone. */
int comm_all_reduce(struct comm *comm, enum comm_group group, void *buf,
                    int64_t n, enum dtype dtype, stream_t stream,
                    struct comm_ticket *ret, struct err *err);
/* dst[n] = rank's part of the sum of src[n * size]; dst may lie in src. */
int comm_reduce_scatter(struct comm *comm, enum comm_group group, void *dst,
                        const void *src, int64_t n, enum dtype dtype,
                        stream_t stream, struct comm_ticket *ret,
                        struct err *err);
/* dst[n * size] from each rank's src[n]; src may lie in its place in dst. */
int comm_all_gather(struct comm *comm, enum comm_group group, void *dst,
                    const void *src, int64_t n, enum dtype dtype,
                    stream_t stream, struct comm_ticket *ret, struct err *err);
/* The same for parts of any length, in place. Rank r's part is len[r] elements
 * of buf from first[r] on (parts do not overlap): reduced, it holds the sum on
 * rank r, in rank order, and what it held on the others; gathered, what it
 * holds on rank r everywhere. Both arrays [size], the same on all ranks. */
int comm_reduce_parts(struct comm *comm, enum comm_group group, void *buf,
                      const int64_t *first, const int64_t *len,
                      enum dtype dtype, stream_t stream,
                      struct comm_ticket *ret, struct err *err);
int comm_gather_parts(struct comm *comm, enum comm_group group, void *buf,
                      const int64_t *first, const int64_t *len,
                      enum dtype dtype, stream_t stream,
                      struct comm_ticket *ret, struct err *err);
int comm_broadcast(struct comm *comm, enum comm_group group, int root,
                   void *buf, int64_t n, enum dtype dtype, stream_t stream,
                   struct comm_ticket *ret, struct err *err);
/* Messages between two ranks of a group arrive in order. Without a ticket the
 * buffer may be used again on return (on a CPU; on a GPU: in stream's order);
 * with one, only after comm_wait: the message may wait for its receiver. */
int comm_send(struct comm *comm, enum comm_group group, int to,
              const void *buf, int64_t n, enum dtype dtype, stream_t stream,
              struct comm_ticket *ret, struct err *err);
int comm_recv(struct comm *comm, enum comm_group group, int from, void *buf,
              int64_t n, enum dtype dtype, stream_t stream,
              struct comm_ticket *ret, struct err *err);
/* Results may be used (on stream) after this. With a ticket a collective may
 * run beside stream, on a GPU; with ret NULL it keeps stream's order. */
int comm_wait(struct comm *comm, struct comm_ticket *ticket, stream_t stream,
              struct err *err);

/* After a stream was synchronised: the beat learns that the last collective
 * has finished. Cheap; needed on GPUs only. */
void comm_tick(struct comm *comm);

#endif
