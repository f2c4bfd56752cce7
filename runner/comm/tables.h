/* tables - comm's inside: the two tables and what they share. Private to
 * runner/comm.
 *
 * Control moves small host messages, each wait with a deadline. Collectives
 * move buffers inside a group. comm.c picks one of each at comm_open and is
 * the only caller of both.
 */
#ifndef KB_COMM_TABLES_H
#define KB_COMM_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/comm/comm.h"

#define CONTROL_SECRET_BYTES 32
#define CONTROL_KEY_BYTES 128
#define CONTROL_DATA_BYTES (1u << 20) /* most in one message of one rank */

struct control_ops {
    const char *name;
    int (*put)(void *self, const char *key, const void *data, size_t bytes,
               struct err *err);
    int (*get)(void *self, int rank, const char *key, void *data, size_t bytes,
               double limit_s, struct err *err);
    int (*gather)(void *self, const void *mine, size_t bytes, void *all,
                  double limit_s, struct err *err);
    /* World rank of a peer known to be gone, or -1. Never blocks. */
    int (*lost)(void *self);
    /* orderly: say goodbye, so that nobody takes this for a loss. */
    void (*close)(void *self, bool orderly);
};
struct control {
    const struct control_ops *ops;
    void *self;
};

/* done NULL: finished, or queued in stream, on return. Else *done is an event
 * of what runs beside stream, or NULL when it has finished. */
struct coll_ops {
    const char *name;
    int (*all_reduce)(void *self, int group, void *buf, int64_t n,
                      enum dtype dtype, stream_t stream, event_t *done,
                      struct err *err);
    int (*reduce_scatter)(void *self, int group, void *dst, const void *src,
                          int64_t n, enum dtype dtype, stream_t stream,
                          event_t *done, struct err *err);
    int (*all_gather)(void *self, int group, void *dst, const void *src,
                      int64_t n, enum dtype dtype, stream_t stream,
                      event_t *done, struct err *err);
    int (*reduce_parts)(void *self, int group, void *buf,
                        const int64_t *first, const int64_t *len,
                        enum dtype dtype, stream_t stream, event_t *done,
                        struct err *err);
    int (*gather_parts)(void *self, int group, void *buf,
                        const int64_t *first, const int64_t *len,
                        enum dtype dtype, stream_t stream, event_t *done,
                        struct err *err);
    int (*broadcast)(void *self, int group, int root, void *buf, int64_t n,
                     enum dtype dtype, stream_t stream, event_t *done,
                     struct err *err);
    int (*send)(void *self, int group, int to, const void *buf, int64_t n,
                enum dtype dtype, stream_t stream, event_t *done,
                struct err *err);
    int (*recv)(void *self, int group, int from, void *buf, int64_t n,
                enum dtype dtype, stream_t stream, event_t *done,
                struct err *err);
    int (*wait)(void *self, event_t done, stream_t stream, struct err *err);
    void (*close)(void *self, bool orderly);
};
struct coll {
    const struct coll_ops *ops;
    void *self;
};

/* The groups as this rank sees them; id names the group in the world. */
struct groups {
    struct comm_ranks ranks[COMM_GROUP_N];
    int64_t id[COMM_GROUP_N];
    int *members; /* owned: all lists, one after the other */
};
int groups_build(struct groups *ret, int rank, int size,
                 const struct comm_spec *spec, struct err *err);
void groups_release(struct groups *groups);
extern const char *const group_names[COMM_GROUP_N];

/* What collectives need to be opened. control is ready; deadline_s is
 * clock_mono_s's time. */
struct coll_spec {
    const struct comm_place *place;
    const struct groups *groups;
    struct device *device;
    struct control control;
    double deadline_s;
    bool ring; /* of the pipeline's stages, not a line */
    double collective_limit_s;  /* these three: see comm_spec */
    void (*on_broken)(void *ctx);
    void *broken_ctx;
};

void control_single_open(struct control *ret);
/* Rank 0 listens, all (rank 0 too) are its clients. */
int control_env_open(struct control *ret, const struct comm_place *place,
                     double deadline_s, struct err *err);
int control_pmix_open(struct control *ret, const struct comm_place *place,
                      double deadline_s, struct err *err);
/* Is this process a client of a PMIx server; then its place there. */
bool pmix_present(void);
int pmix_find_place(struct comm_place *ret, double limit_s, struct err *err);
void pmix_leave(void);

int coll_mpi_open(struct coll *ret, const struct coll_spec *spec,
                  struct err *err);
/* NULL in programs without NCCL (COMM_NCCL_LIBS). */
int coll_nccl_open(struct coll *ret, const struct coll_spec *spec,
                   struct err *err) __attribute__((weak));

/* Run f(arg) on a thread; 0 and *ret_value when it came back in time, -1 when
 * not: then the thread and arg are left behind, so arg must be on the heap
 * and never freed, and the process should end soon by _exit. */
int bounded_call(int (*f)(void *arg), void *arg, double limit_s,
                 int *ret_value);

/* dst[n] = srcs[0] + srcs[1] + ... in that order, dst may be one of them. */
int sum_ordered(void *dst, const void *const *srcs, int srcs_n, int64_t n,
                enum dtype dtype);

#endif
