/* loop - step after step, and in between what the plan says: lines,
 * validation, checkpoints, requests to stop. All decisions follow from what
 * every rank has seen in the step's reduction, so all decide alike. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/base/log.h"
#include "runner/train/train.h"

static bool due(int64_t step, int64_t interval)
{
    return interval > 0 && step % interval == 0;
}

/* ---- The guard ----------------------------------------------------------- */
static void guard_tell(struct train *t, const char *what,
                       const struct optim_result *r)
{
    double loss_max, norm_max;
    guard_limits(&t->guard, &loss_max, &norm_max);
    if (t->place.rank != 0)
        return;
    log_warn("step %lld: %s: loss %.4g, gradient norm %.4g (limits %.4g, "
             "%.4g)", (long long)t->step, what, r->loss, r->grad_norm,
             loss_max, norm_max);
    report_event(&t->report, KB_EV_GUARD,
                 json_pack("{s:I, s:s, s:s, s:s}", "step",
                           (json_int_t)t->step, "what", what, "value",
                           r->finite ? "finite" : "not finite", "limit",
                           isfinite(loss_max) ? "set" : "none"));
}

/* What the next attempt must know: the samples to leave out. */
static void rollback_write(const struct train *t)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    int64_t G = t->plan.global_batch;
    int64_t steps = t->plan.guard_skip_data;
    int64_t before = steps / 2 < t->step ? steps / 2 : t->step;
    if (t->place.rank != 0 || t->plan.guard_skip_data <= 0)
        return;
    json_t *r = json_pack("{s:I, s:I, s:I}", "step", (json_int_t)t->step,
                          "first_sample",
                          (json_int_t)(t->consumed > before * G
                                           ? t->consumed - before * G
                                           : 0), "samples",
                          (json_int_t)(steps * G));
    if (!r || attempt_path(t, "rollback.json", path, sizeof path, &err) != 0 ||
        json_save_path(r, path, 0600, &err) != 0)
        log_warn("%s", err.msg);
    json_decref(r);
}

/* fp16's scale was too large: no anomaly, and no proof of anything. */
static void overflow_tell(const struct train *t, const struct optim_result *r)
{
    if (t->place.rank == 0)
        log_info("step %lld: the gradient overflows fp16, update skipped: "
                 "loss scale %g, then %g", (long long)t->step, r->loss_scale,
                 optim_loss_scale(t->optim));
}

static int guard_turn(struct train *t, const struct optim_result *r,
                      struct err *err)
{
    if (r->overflow) {
        overflow_tell(t, r);
        return 0;
    }
    switch (guard_look(&t->guard, r->loss, r->grad_norm, r->finite,
                       r->skipped)) {
    case GUARD_FINE:
        return 0;
    case GUARD_SKIPPED:
        saved_doubt(&t->saved, t->step);
        guard_tell(t, r->finite ? "anomaly, update skipped"
                                : "not finite, update skipped", r);
        return 0;
    case GUARD_HOPELESS:
        guard_tell(t, "not finite from the first step", r);
        return err_set_class(err, ERR_REQUEST,
                             "train: loss or gradient is not finite from the "
                             "first steps; lower optim.lr or model.init_std, "
                             "or look at the data");
    default:
        guard_tell(t, "too many bad steps: roll back", r);
        rollback_write(t);
        return err_set_class(err, ERR_STEP,
                             "train: step %lld: loss %.4g, gradient norm %.4g "
                             "are out of line; going back to a healthy "
                             "checkpoint", (long long)t->step, r->loss,
                             r->grad_norm);
    }
}

/* ---- Between steps ------------------------------------------------------- */
static int validation_turn(struct train *t, struct err *err)
{
    if (!t->valid || !due(t->step, t->plan.eval_interval))
        return 0;
    double from = clock_mono_s();
    report_phase(&t->report, KB_PHASE_VALIDATE);
    int rc = validate_run(t, &t->valid_loss, err);
    t->valid_s += clock_mono_s() - from;
    report_phase(&t->report, KB_PHASE_STEP);
    return rc;
}

static void first_step_tell(struct train *t)
{
    if (t->step != t->start_step + 1)
        return;
    report_phase(&t->report, KB_PHASE_STEP);
    parts_end(&t->parts, "step");
    if (t->place.rank != 0)
        return;
    parts_tell(&t->parts);
    lines_memory(t);
    report_event(&t->report, KB_EV_FIRST_STEP,
                 json_pack("{s:I}", "step", (json_int_t)t->step));
}

static int one_step(struct train *t, struct optim_result *r, struct err *err)
{
    if (step_run(t, r, err) != 0)
        return -1;
    report_step(&t->report, t->step);
    if (t->step == t->start_step + 1 && tuned_settle(t, err) != 0)
        return -1;
    first_step_tell(t);
    if (guard_turn(t, r, err) != 0 || validation_turn(t, err) != 0)
        return -1;
    if (due(t->step, t->plan.log_interval) || t->step == t->plan.steps ||
        !isnan(t->valid_loss))
        lines_step(t, r);
    save_poll(t);
    return 0;
}

/* A save at the end of the run or on request must be there. */
static int save_turn(struct train *t, int64_t flags, bool leaving,
                     struct err *err)
{
    bool asked = leaving || (flags & FLAG_SAVE);
    if (!asked && !due(t->step, t->plan.ckpt_interval))
        return 0;
    return save_begin(t, asked, flags & FLAG_BUSY, err);
}

static void done_tell(struct train *t, double loss)
{
    if (t->place.rank != 0)
        return;
    char took[32];
    if (t->step == t->start_step)
        log_info("done: all %lld steps were there", (long long)t->step);
    else
        log_info("done: %lld steps, loss %.4f, %s in this attempt",
                 (long long)t->step, loss,
                 clock_human(clock_mono_s() - t->started_s, took,
                             sizeof took));
    report_event(&t->report, KB_EV_DONE,
                 json_pack("{s:I, s:f}", "step", (json_int_t)t->step, "loss",
                           isfinite(loss) ? loss : 0.0));
}

int loop_run(struct train *t, struct err *err)
{
    struct optim_result r = {0};
    bool stop = false;

    t->mark_s = t->started_s = clock_mono_s();
    t->mark_step = t->step;
    t->mark_consumed = t->consumed;
    t->mark_tokens = t->tokens;
    t->valid_loss = NAN;
    t->save_failed = -1;
    report_phase(&t->report, KB_PHASE_FIRST_STEP);
    while (t->step < t->plan.steps && !stop) {
        if (one_step(t, &r, err) != 0)
            return -1;
        stop = r.flags & FLAG_STOP;
        if (save_turn(t, r.flags, stop || t->step == t->plan.steps, err) != 0)
            return -1;
    }
    if (save_drain(t, err) != 0)
        return -1;
    if (t->step >= t->plan.steps) {
        done_tell(t, r.loss);
        return KB_EXIT_DONE;
    }
    if (t->place.rank == 0)
        log_info("stopped on request after step %lld, checkpoint saved",
                 (long long)t->step);
    return KB_EXIT_SAVED;
}
