/* resume - from the newest valid checkpoint, or from the seed.
 *
 * After a roll back the attempt that gave up left rollback.json: samples that
 * are left out from then on, and that only a checkpoint proved healthy will
 * do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/log.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/train/train.h"

#define ROLLBACK_JSON "rollback.json"

/* ---- What is saved beside the tensors ------------------------------------ */
json_t *resume_state(const struct train *t)
{
    const struct scaler *scaler = optim_scaler(t->optim);
    json_t *state = json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "step",
        (json_int_t)t->step, "consumed_samples", (json_int_t)t->consumed,
        "consumed_tokens", (json_int_t)t->tokens,
        "dropped_tokens", (json_int_t)t->dropped,
        "plan_hash", t->plan.hash, "seed", (json_int_t)t->plan.seed, "updates",
        (json_int_t)optim_updates(t->optim), "skipped", (json_int_t)t->skipped,
        "nan", (json_int_t)t->nan, "guard", guard_state(&t->guard), "data",
        data_state(t->train, t->consumed));
    if (state && scaler &&
        json_object_set_new(state, "loss_scale", scaler_state(scaler)) != 0) {
        json_decref(state);
        return NULL;
    }
    return state;
}

/* A run that was not in fp16 before begins with the first scale. */
static int scaler_take(struct train *t, const json_t *state, struct err *err)
{
    const json_t *saved = json_object_get(state, "loss_scale");
    struct scaler *scaler = optim_scaler(t->optim);
    if (!scaler || !saved)
        return 0;
    if (scaler_restore(scaler, saved, err) != 0)
        return -1;
    t->overflows = scaler->overflows;
    return 0;
}

static int state_take(struct train *t, const json_t *state, struct err *err)
{
    int64_t updates;
    if (json_get_i64(state, "step", &t->step, err) != 0 ||
        json_get_i64(state, "consumed_samples", &t->consumed, err) != 0 ||
        json_get_i64(state, "updates", &updates, err) != 0 ||
        guard_restore(&t->guard, json_object_get(state, "guard"), err) != 0 ||
        scaler_take(t, state, err) != 0)
        return -1;
    t->tokens = json_i64_or(state, "consumed_tokens",
                            t->consumed * t->plan.seq_len);
    t->dropped = json_i64_or(state, "dropped_tokens", 0);
    t->skipped = json_i64_or(state, "skipped", 0);
    t->nan = json_i64_or(state, "nan", 0);
    optim_set_updates(t->optim, updates);
    return 0;
}

/* ---- Which one ----------------------------------------------------------- */
static void on_reject(void *ctx, const char *name, const char *reason)
{
    struct train *t = ctx;
    struct err err = ERR_INIT;
    log_warn("checkpoint %s refused: %s", name, reason);
    report_event(&t->report, KB_EV_CKPT_REJECTED,
                 json_pack("{s:s, s:s}", "checkpoint", name, "reason",
                           reason));
    if (t->unsupervised &&
        catalog_quarantine(t->plan.run_dir, name, reason, &err) != 0)
        log_warn("%s", err.msg);
}

static json_t *rollback_of(const struct train *t, int attempt)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    int n = snprintf(path, sizeof path, "%s/" KB_ATTEMPT_FMT "/" ROLLBACK_JSON,
                     t->plan.run_dir, attempt);
    if (n < 0 || n >= (int)sizeof path || !file_exists(path))
        return NULL;
    return json_load_path(path, 1 << 20, &err);
}

/* The last attempt that ended in a roll back, and its bad step; 0: none. */
static int last_rollback(const struct train *t, int64_t *ret_bad)
{
    for (int a = t->options.attempt - 1; a > 0; a--) {
        json_t *rollback = rollback_of(t, a);
        *ret_bad = json_i64_or(rollback, "step", -1);
        json_decref(rollback);
        if (*ret_bad >= 0)
            return a;
    }
    return 0;
}

/* After a roll back: the newest checkpoint that was made since, or was proved
 * healthy before the bad step; -1: none is, or nothing was rolled back. */
static int64_t healthy_step(struct train *t)
{
    struct catalog catalog;
    struct err err = ERR_INIT;
    int64_t step = -1, bad;
    int rolled = last_rollback(t, &bad);
    if (!rolled ||
        catalog_load(t->plan.run_dir, t->options.attempt, &catalog, &err) != 0)
        return -1;
    for (int i = 0; i < catalog.n; i++) {
        const struct catalog_entry *e = &catalog.entries[i];
        bool good = e->attempt > rolled || (e->healthy && e->step < bad);
        if (e->committed && e->accepted && good && e->step > step)
            step = e->step;
    }
    catalog_release(&catalog);
    return step;
}

static int wanted_step(struct train *t, int64_t *ret, struct err *err)
{
    int64_t step = -1;
    if (strcmp(t->plan.resume, "auto") != 0 &&
        strcmp(t->plan.resume, "fresh") != 0 &&
        (str_to_i64(t->plan.resume, &step) != 0 || step < 0))
        return err_set_class(err, ERR_REQUEST,
                             "train: checkpoint.resume: '%s' is not auto, "
                             "fresh or a step", t->plan.resume);
    if (step < 0 && t->place.rank == 0)
        step = healthy_step(t);
    if (comm_agree(t->comm, &step, 1, COMM_MAX, t->plan.load_limit_s, err))
        return -1;
    *ret = step;
    return 0;
}

/* ---- Loading ------------------------------------------------------------- */
/* Attempt that wrote a checkpoint, from its folder's name. */
static int attempt_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot[1] == 'a' ? atoi(dot + 2) : 0;
}

/* Windows of samples that roll backs since this checkpoint left out. */
static int skip_windows(struct train *t, const char *name, struct err *err)
{
    for (int a = attempt_of(name); a < t->options.attempt; a++) {
        json_t *r = a > 0 ? rollback_of(t, a) : NULL;
        int64_t first = json_i64_or(r, "first_sample", -1);
        int64_t n = json_i64_or(r, "samples", 0);
        json_decref(r);
        if (first < t->consumed || n < 1)
            continue;
        if (data_skip(t->train, first, n, err) != 0)
            return -1;
        if (t->place.rank == 0)
            log_info("leaving out %lld samples from sample %lld on, after the "
                     "roll back of attempt %d", (long long)n, (long long)first,
                     a);
    }
    return 0;
}

static int data_begin(struct train *t, const json_t *state, struct err *err)
{
    int64_t all = plan_samples(&t->plan);
    t->train = data_open(&t->plan, DATA_TRAIN, all,
                         state ? json_object_get(state, "data") : NULL, err);
    if (!t->train)
        return -1;
    if (t->plan.eval_interval <= 0)
        return 0;
    t->valid = data_open(&t->plan, DATA_VALID,
                         t->plan.eval_batches * t->plan.global_batch, NULL,
                         err);
    return t->valid ? 0 : -1;
}

static int64_t views_bytes(const struct view *views, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        for (int d = 0; d < views[i].dims; d++)
            count *= views[i].extent[d];
        sum += count * (int64_t)dtype_bytes(views[i].dtype);
    }
    return sum;
}

static int views_load(struct train *t, int64_t want, char name[64],
                      json_t **ret_state, struct err *err)
{
    int64_t step;
    double from = clock_mono_s();
    int n = optim_views(t->optim, false, NULL, 0);
    struct view *views = calloc((size_t)n + 1, sizeof *views);
    if (!views)
        return err_set(err, "train: no memory for the checkpoint's table");
    optim_views(t->optim, false, views, n);
    int rc = ckpt_load(t->comm, t->plan.run_dir, t->options.attempt, want,
                       views, n, t->device, on_reject, t, &step, name,
                       ret_state, err);
    double took = clock_mono_s() - from;
    double gb = (double)views_bytes(views, n) / 1e9;
    if (rc == 0 && t->place.rank == 0)
        log_info("loaded and verified %.3f GB of this rank in %.2f s: %.2f "
                 "GB/s", gb, took, gb / took);
    free(views);
    return rc;
}

int resume_load(struct train *t, struct err *err)
{
    char name[64] = "";
    json_t *state = NULL;
    int64_t want = -1;
    int rc = wanted_step(t, &want, err);
    if (rc == 0)
        rc = views_load(t, want, name, &state, err);
    if (rc == 1 && want >= 0)
        rc = err_set_class(err, ERR_REQUEST,
                           "train: there is no checkpoint of step %lld",
                           (long long)want);
    if (rc == 0)
        rc = state_take(t, state, err) || optim_sync_params(t->optim, err)
                 ? -1
                 : 0;
    if (rc >= 0 && data_begin(t, state, err) != 0)
        rc = -1;
    if (rc == 0 && skip_windows(t, name, err) != 0)
        rc = -1;
    if (rc >= 0 && data_read_ahead(t->train, t->plan.micro_batch,
                                   (int64_t)t->plan.micro_batch * t->plan.data,
                                   err) != 0)
        rc = -1;
    json_decref(state);
    if (rc < 0)
        return -1;
    if (t->place.rank == 0 && *name)
        log_info("resumed from checkpoint %s at step %lld, %lld samples seen",
                 name, (long long)t->step, (long long)t->consumed);
    else if (t->place.rank == 0)
        log_info("no checkpoint in '%s': weights by seed %llu",
                 t->plan.run_dir, (unsigned long long)t->plan.seed);
    if (t->place.rank == 0)
        report_event(&t->report, KB_EV_RESUME,
                     json_pack("{s:I, s:s}", "step", (json_int_t)t->step,
                               "checkpoint", name));
    t->start_step = t->step;
    return 0;
}
