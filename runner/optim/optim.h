/* optim - AdamW, learning rate schedule, global-norm clipping, statistics.
 *
 * It sees tensors, not a model: whoever owns parameters hands a table. Step:
 * gradients are reduced over the data group, the norm is taken in fixed order
 * over all ranks that hold different parts, the factor (clip, unscale, skip)
 * stays on the device, the update reads it there.
 */
#ifndef KB_OPTIM_OPTIM_H
#define KB_OPTIM_OPTIM_H

#include "kernels/ops.h"
#include "runner/base/err.h"
#include "kernels/view.h"
#include "runner/comm/comm.h"
#include "runner/optim/scaler.h"
#include "runner/plan/plan.h"

struct optim;

struct optim_tensor {
    char name[VIEW_NAME_BYTES]; /* Hugging Face's */
    int dims;
    int64_t shape[2], offset[2], extent[2];
    int cols_n;                 /* 0: one run of columns, from offset[1] on */
    struct view_cols cols[VIEW_COLS];
    int64_t n;
    void *data, *grad;
    bool decay;
    bool shared;                /* another rank, not of the data group, has the
                                 * same: it saves it, its norm counts */
    int bucket;
};

/* What a step gives, after optim_step, in host memory. Sums are the world's. */
struct optim_result {
    double loss;        /* mean over unmasked tokens of the global batch */
    double tokens;      /* unmasked tokens of the global batch */
    double grad_norm;   /* before clipping */
    double z;           /* mean z part */
    double accuracy;    /* correct next tokens, share */
    bool skipped;       /* nothing was changed: not finite or over a limit */
    bool finite;
    bool overflow;      /* fp16: skipped, and a matter of the scale alone */
    double loss_scale;  /* of this step; 1 but in fp16 */
    int64_t flags;      /* OR of the ranks' requests, see optim_step */
};

struct optim *optim_create(const struct plan *plan, struct comm *comm,
                           struct exec *ex, const struct optim_tensor *tensors,
                           int tensors_n, struct err *err);
void optim_destroy(struct optim *optim);
/* params_n: elements of this rank's tensors. */
int64_t optim_arena_bytes(const struct plan *plan, int64_t params_n);

double optim_lr(const struct plan *plan, int64_t step); /* step from 1 */

/* Gradients of this bucket are complete here: start their reduction. */
void optim_bucket_ready(struct optim *optim, int bucket);
/* Reduce, clip, update for step (from 1). sums [4] F64 device: as head_loss
 * left them for this rank's part, gradients of scale 1 / (global_batch * T)
 * times optim_loss_scale: corrected here by the true number of unmasked
 * tokens. flags: this rank's
 * requests (stop, busy...), carried in the same reduction as the loss, so that
 * all see the same (at most OPTIM_FLAGS bits). Waits for the device once, to
 * read the sums. */
#define OPTIM_FLAGS 16
int optim_step(struct optim *optim, int64_t step, double *sums,
               int64_t flags, struct optim_result *ret, struct err *err);
/* An update whose loss or gradient norm is above is skipped (INFINITY: no
 * limit); the same on every rank, or ranks part. */
void optim_limits(struct optim *optim, double loss_max, double norm_max);
/* Updates applied so far: the t of Adam's bias correction; part of a
 * checkpoint's state. */
int64_t optim_updates(const struct optim *optim);
void optim_set_updates(struct optim *optim, int64_t updates);
/* What the loss is to be multiplied by: 1 but in fp16. */
double optim_loss_scale(const struct optim *optim);
/* NULL but in fp16; part of a checkpoint's state. */
struct scaler *optim_scaler(struct optim *optim);
/* master/, exp_avg/, exp_avg_sq/ views: all that this rank holds, or the rows
 * that it owns (each element owned once in the data group). Written up to max;
 * returns how many there are. */
int optim_views(struct optim *optim, bool owned, struct view *views, int max);
/* After a load: parameters from master weights. */
int optim_sync_params(struct optim *optim, struct err *err);

#endif
