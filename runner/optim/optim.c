/* optim - the update: reduce, clip, skip or apply.
 *
 * Gradients come with the nominal scale 1 / (global_batch * T); the factor
 * carries the correction by the true number of unmasked tokens, and clipping.
 * It is computed on the host from the reduced sums, read in one wait a step;
 * fp16's overflow shows in the same sums.
 */
#include "runner/optim/optim_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t align256(int64_t bytes) { return (bytes + 255) / 256 * 256; }

static enum dtype stat_of(const struct plan *plan)
{
    return plan->precision == PLAN_FP64 ? DT_F64 : DT_F32;
}

static bool own_master(const struct plan *plan)
{
    return plan->precision == PLAN_BF16 || plan->precision == PLAN_FP16;
}

int64_t optim_arena_bytes(const struct plan *plan, int64_t params_n)
{
    int64_t held = plan->shard_optimizer ? plan->owned_n : params_n;
    int64_t state = align256(held * (int64_t)dtype_bytes(stat_of(plan)));
    return (own_master(plan) ? 3 : 2) * state +
           align256(REDUCED_N * (int64_t)sizeof(double)) + 2 * 256;
}

static int failed(const struct optim *o, const char *what, enum kstatus k,
                  struct err *err)
{
    const char *said = device_error(o->ex->device);
    return err_set_class(err, k == K_DEVICE ? ERR_GPU : ERR_RANK,
                         "optim: %s failed: %s", what,
                         said && *said ? said : "the operation refused");
}

/* ---- Making -------------------------------------------------------------- */
/* What this rank holds state of: all, or sharded what it owns. */
static struct range held(const struct optim *o, int i)
{
    return o->shard ? shard_owned(o, o->rank, i)
                    : (struct range){0, o->tensors[i].n};
}

/* Sharded, every rank takes as much as plan said that any may need. */
static int state_bytes(const struct optim *o, size_t *ret, struct err *err)
{
    int64_t n = 0;
    for (int i = 0; i < o->tensors_n; i++)
        n += held(o, i).n;
    if (o->shard && n > o->plan->owned_n)
        return err_set(err, "optim: this rank owns %lld elements, plan said "
                       "at most %lld", (long long)n,
                       (long long)o->plan->owned_n);
    *ret = (size_t)(o->shard ? o->plan->owned_n : n) *
           dtype_bytes(o->ex->stat);
    return 0;
}

static int state_alloc(struct optim *o, struct err *err)
{
    struct device *d = o->ex->device;
    size_t bytes = 0;
    bool ok = true;
    if (state_bytes(o, &bytes, err) != 0)
        return -1;

    if (own_master(o->plan))
        ok = (o->master = device_alloc(d, bytes));
    ok = ok && (o->m = device_alloc(d, bytes));
    ok = ok && (o->v = device_alloc(d, bytes));
    ok = ok && (o->reduced = device_alloc(d, REDUCED_N * sizeof(double)));
    ok = ok && (o->factor = device_alloc(d, sizeof(double)));
    ok = ok && (o->scalars = device_alloc(d, sizeof *o->scalars));
    ok = ok && (o->h_reduced =
                    device_alloc_host(d, REDUCED_N * sizeof(double)));
    ok = ok && (o->h_factor = device_alloc_host(d, sizeof(double)));
    ok = ok && (o->h_scalars = device_alloc_host(d, sizeof *o->h_scalars));
    return ok ? 0
              : err_set(err, "optim: its state of %zu bytes does not fit the "
                        "arena", bytes * (own_master(o->plan) ? 3 : 2));
}

static void tensors_place(struct optim *o)
{
    size_t e = dtype_bytes(o->ex->stat), at = 0;
    size_t ge = dtype_bytes(o->ex->grad), de = dtype_bytes(o->ex->act);
    for (int i = 0; i < o->tensors_n; i++) {
        const struct optim_tensor *t = &o->tensors[i];
        struct range have = held(o, i), own = shard_owned(o, o->rank, i);
        char *param = (char *)t->data + (size_t)have.first * de;
        o->adamw[i] = (struct adamw_tensor){
            .param = param,
            .master = o->master ? (char *)o->master + at : param,
            .m = (char *)o->m + at,
            .v = (char *)o->v + at,
            .grad = (char *)t->grad + (size_t)have.first * ge,
            .n = have.n,
            .decay = t->decay ? (float)o->plan->weight_decay : 0.0f,
        };
        o->grads[i] = (char *)t->grad + (size_t)own.first * ge;
        o->sizes[i] = t->shared ? 0 : own.n;
        at += (size_t)have.n * e;
    }
}

/* Master weights start as the parameters. */
static int masters_init(struct optim *o, struct err *err)
{
    struct exec *ex = o->ex;
    for (int i = 0; o->master && i < o->tensors_n; i++) {
        enum kstatus k = ex->ops->cast(ex, o->adamw[i].master, ex->stat,
                                       o->adamw[i].param, ex->act,
                                       o->adamw[i].n);
        if (k != K_OK)
            return failed(o, "copying master weights", k, err);
    }
    return 0;
}

struct optim *optim_create(const struct plan *plan, struct comm *comm,
                           struct exec *ex, const struct optim_tensor *tensors,
                           int tensors_n, struct err *err)
{
    size_t n = (size_t)tensors_n;
    struct optim *o = calloc(1, sizeof *o);
    if (!o)
        goto nomem;
    *o = (struct optim){.plan = plan, .comm = comm, .ex = ex,
                        .tensors_n = tensors_n,
                        .loss_max = INFINITY, .norm_max = INFINITY,
                        .scaled = plan->precision == PLAN_FP16};
    scaler_init(&o->scaler, plan->scale_initial, plan->scale_min,
                plan->scale_window, plan->scale_hysteresis);
    o->tensors = malloc(n * sizeof *tensors);
    o->adamw = calloc(n, sizeof *o->adamw);
    o->grads = calloc(n, sizeof *o->grads);
    o->sizes = calloc(n, sizeof *o->sizes);
    if (!o->tensors || !o->adamw || !o->grads || !o->sizes)
        goto nomem;
    memcpy(o->tensors, tensors, n * sizeof *tensors);
    if (shard_plan(o, err) != 0 || state_alloc(o, err) != 0)
        goto fail;
    tensors_place(o);
    if (reduce_plan(o, err) != 0 || masters_init(o, err) != 0)
        goto fail;
    return o;
nomem:
    err_set(err, "optim: no memory for its tables");
fail:
    optim_destroy(o);
    return NULL;
}

void optim_destroy(struct optim *o)
{
    if (!o)
        return;
    free(o->tensors);
    free(o->adamw);
    free(o->grads);
    free(o->sizes);
    free(o->order);
    free(o->owned);
    free(o->runs);
    free(o->parts);
    free(o->started);
    free(o);
}

void optim_limits(struct optim *o, double loss_max, double norm_max)
{
    o->loss_max = loss_max;
    o->norm_max = norm_max;
}

int64_t optim_updates(const struct optim *o) { return o->updates; }
void optim_set_updates(struct optim *o, int64_t n) { o->updates = n; }

double optim_loss_scale(const struct optim *o)
{
    return o->scaled ? o->scaler.scale : 1.0;
}

struct scaler *optim_scaler(struct optim *o)
{
    return o->scaled ? &o->scaler : NULL;
}

int optim_sync_params(struct optim *o, struct err *err)
{
    struct exec *ex = o->ex;
    for (int i = 0; o->master && i < o->tensors_n; i++) {
        enum kstatus k = ex->ops->cast(ex, o->adamw[i].param, ex->act,
                                       o->adamw[i].master, ex->stat,
                                       o->adamw[i].n);
        if (k != K_OK)
            return failed(o, "restoring parameters", k, err);
    }
    if (reduce_spread(o, err) != 0)
        return -1;
    enum kstatus k = device_sync(ex->device, ex->stream);
    return k == K_OK ? 0 : failed(o, "restoring parameters", k, err);
}

/* ---- A step -------------------------------------------------------------- */
/* Sums and flags of all ranks, and the squares of the reduced gradients, into
 * host memory. Each rank squares what it owns, sharded or not, so that the
 * norm's bits do not tell. */
static int reduce_sums(struct optim *o, const double *sums, int64_t flags,
                       struct err *err)
{
    struct exec *ex = o->ex;
    double *bits = o->h_reduced + SUMS_N;
    for (int i = 0; i < OPTIM_FLAGS; i++)
        bits[i] = (double)((flags >> i) & 1);
    enum kstatus k = device_copy_in(ex->device, o->reduced + SUMS_N, bits,
                                    OPTIM_FLAGS * sizeof *bits, ex->stream);
    if (k == K_OK)
        k = device_copy(ex->device, o->reduced, sums, SUMS_N * sizeof *sums,
                        ex->stream);
    if (k == K_OK)
        k = ex->ops->sum_squares(ex, o->reduced + SQUARES_AT, o->grads,
                                 o->sizes, o->tensors_n, ex->grad);
    if (k != K_OK)
        return failed(o, "gathering sums", k, err);
    struct comm_ticket ticket = {0};
    if (o->comm &&
        (comm_all_reduce(o->comm, COMM_WORLD, o->reduced, REDUCED_N, DT_F64,
                         ex->stream, &ticket, err) != 0 ||
         comm_wait(o->comm, &ticket, ex->stream, err) != 0))
        return -1;
    k = device_copy_out(ex->device, o->h_reduced, o->reduced,
                        REDUCED_N * sizeof(double), ex->stream);
    if (k == K_OK)
        k = device_sync(ex->device, ex->stream);
    return k == K_OK ? 0 : failed(o, "reading sums", k, err);
}

static struct optim_result judge(const struct optim *o)
{
    const double *sums = o->h_reduced;
    double nominal = (double)o->plan->global_batch * o->plan->seq_len;
    double tokens = sums[1];
    struct optim_result r = {
        .tokens = tokens,
        .loss = sums[0] / tokens,
        .z = sums[2] / tokens,
        .accuracy = sums[3] / tokens,
        .grad_norm = sqrt(sums[SQUARES_AT]) * (nominal / tokens) /
                     optim_loss_scale(o),
        .loss_scale = optim_loss_scale(o),
    };
    for (int i = 0; i < OPTIM_FLAGS; i++)
        if (o->h_reduced[SUMS_N + i] > 0)
            r.flags |= (int64_t)1 << i;
    r.finite = tokens > 0 && isfinite(r.loss) && isfinite(r.grad_norm);
    r.overflow = o->scaled && tokens > 0 && isfinite(r.loss) && !r.finite;
    r.skipped = !r.finite || r.loss > o->loss_max ||
                r.grad_norm > o->norm_max;
    return r;
}

/* What gradients are multiplied by. */
static double factor_of(const struct optim *o, const struct optim_result *r)
{
    double nominal = (double)o->plan->global_batch * o->plan->seq_len;
    double factor = nominal / r->tokens / r->loss_scale;
    double clip = o->plan->clip;
    if (clip > 0 && r->grad_norm > clip)
        factor *= clip / (r->grad_norm + 1e-6);
    return factor;
}

static int update(struct optim *o, int64_t step, double factor,
                  struct err *err)
{
    struct exec *ex = o->ex;
    const struct plan *p = o->plan;
    double t = (double)++o->updates;
    *o->h_factor = factor;
    *o->h_scalars = (struct adamw_scalars){
        .lr = optim_lr(p, step), .beta1 = p->beta1, .beta2 = p->beta2,
        .eps = p->eps,
        .correction1 = 1 - pow(p->beta1, t),
        .correction2 = 1 - pow(p->beta2, t),
    };
    enum kstatus k = device_copy_in(ex->device, o->factor, o->h_factor,
                                    sizeof *o->factor, ex->stream);
    if (k == K_OK)
        k = device_copy_in(ex->device, o->scalars, o->h_scalars,
                           sizeof *o->scalars, ex->stream);
    if (k == K_OK)
        k = ex->ops->adamw(ex, o->adamw, o->tensors_n, o->scalars, o->factor,
                           NULL);
    return k == K_OK ? 0 : failed(o, "update", k, err);
}

int optim_step(struct optim *o, int64_t step, double *sums, int64_t flags,
               struct optim_result *ret, struct err *err)
{
    if (reduce_finish(o, err) != 0 || reduce_sums(o, sums, flags, err) != 0)
        return -1;
    struct optim_result r = judge(o);
    if (o->scaled && (r.finite || r.overflow))
        r.overflow &= scaler_step(&o->scaler, r.overflow);
    r.finite |= r.overflow;
    if (!r.skipped && (update(o, step, factor_of(o, &r), err) != 0 ||
                       reduce_spread(o, err) != 0))
        return -1;
    *ret = r;
    return 0;
}
