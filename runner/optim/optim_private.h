/* optim_private - what optim.c, shard.c, reduce.c and views.c share. */
#ifndef KB_OPTIM_PRIVATE_H
#define KB_OPTIM_PRIVATE_H

#include "runner/optim/optim.h"

#define SUMS_N 4                       /* head_loss: loss, tokens, z, correct */
#define SQUARES_AT (SUMS_N + OPTIM_FLAGS)
#define REDUCED_N (SQUARES_AT + 1)

/* Tensors of a bucket that lie side by side, gradients and parameters: what
 * one collective moves. */
struct reduce_run {
    void *grad, *data;
    int64_t n, data_n;
    int bucket;
    int tensor, tensors_n;             /* which, in o->order */
    struct comm_ticket ticket;
    /* each rank's part of it, [data group's size] */
    int64_t *grad_first, *grad_len, *data_first, *data_len;
};

/* Elements of a tensor: whole rows. */
struct range { int64_t first, n; };

struct optim {
    const struct plan *plan;
    struct comm *comm;                 /* may be NULL */
    struct exec *ex;
    struct optim_tensor *tensors;
    int tensors_n;
    int ranks, rank;                   /* in the data group */
    bool shard;                        /* only what is owned is held */
    int *order;                        /* tensors by bucket and place */
    struct range *owned;               /* [ranks][tensors_n] */
    int64_t updates;
    double loss_max, norm_max;
    bool scaled;                       /* fp16 */
    struct scaler scaler;
    /* device: the state, each packed over all tensors */
    void *master, *m, *v;              /* master NULL: the parameter is it */
    struct adamw_tensor *adamw;        /* [tensors_n], of what is held */
    void **grads;                      /* for sum_squares: what is owned */
    int64_t *sizes;
    double *reduced;                   /* [REDUCED_N] */
    double *factor;
    struct adamw_scalars *scalars;
    /* host, pinned */
    double *h_reduced, *h_factor;
    struct adamw_scalars *h_scalars;
    /* reduction over the data group */
    struct reduce_run *runs;
    int64_t *parts;                    /* the runs' arrays */
    int runs_n, buckets;
    bool *started;                     /* [buckets] */
    struct err early;                  /* of optim_bucket_ready */
};

/* shard.c: order and owned. */
int shard_plan(struct optim *o, struct err *err);
/* What `rank` owns of tensor i. */
struct range shard_owned(const struct optim *o, int rank, int i);
/* The elements of a row; owned ranges are cut at their multiples. */
int64_t shard_row(const struct optim_tensor *t);

/* reduce.c */
int reduce_plan(struct optim *o, struct err *err);
int reduce_finish(struct optim *o, struct err *err);
bool reduce_wanted(const struct optim *o);
/* Sharded: everyone's parameters from their owners, after an update. */
int reduce_spread(struct optim *o, struct err *err);

#endif
