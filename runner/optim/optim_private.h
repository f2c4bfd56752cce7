/* optim_private - what optim.c, reduce.c and views.c share. */
#ifndef KB_OPTIM_PRIVATE_H
#define KB_OPTIM_PRIVATE_H

#include "runner/optim/optim.h"

#define SUMS_N 4                       /* head_loss: loss, tokens, z, correct */
#define REDUCED_N (SUMS_N + OPTIM_FLAGS)

/* Gradients that one collective reduces: a run of memory. */
struct reduce_run {
    void *data;
    int64_t n;
    int bucket;
    struct comm_ticket ticket;
};

struct optim {
    const struct plan *plan;
    struct comm *comm;                 /* may be NULL */
    struct exec *ex;
    struct optim_tensor *tensors;
    int tensors_n;
    int64_t updates;
    double loss_max, norm_max;
    /* device: the state, each packed over all tensors */
    void *master, *m, *v;              /* master NULL: the parameter is it */
    struct adamw_tensor *adamw;        /* [tensors_n] */
    void **grads;                      /* for sum_squares */
    int64_t *sizes;
    double *reduced;                   /* [REDUCED_N] */
    double *squares, *factor;
    struct adamw_scalars *scalars;
    /* host, pinned */
    double *h_reduced, *h_squares, *h_factor;
    struct adamw_scalars *h_scalars;
    /* reduction over the data group */
    struct reduce_run *runs;
    int runs_n, buckets;
    bool *started;                     /* [buckets] */
    struct err early;                  /* of optim_bucket_ready */
};

/* reduce.c */
int reduce_plan(struct optim *o, struct err *err);
int reduce_finish(struct optim *o, struct err *err);
bool reduce_wanted(const struct optim *o);

#endif
