/* save - checkpoints from the loop's side: begin, hear what became of them,
 * and call one healthy when enough good steps followed. */
#include "runner/base/clock.h"
#include "runner/base/log.h"
#include "runner/ckpt/catalog.h"
#include "runner/train/train.h"

#include <stdio.h>
#include <string.h>

int save_begin(struct train *t, bool wait, bool busy, struct err *err)
{
    if (busy && !wait) { /* all ranks know: the reduction said so */
        if (t->place.rank == 0) {
            log_warn("step %lld: no checkpoint, the last one is still being "
                     "written", (long long)t->step);
            report_event(&t->report, KB_EV_CKPT_SKIPPED,
                         json_pack("{s:I, s:s}", "step", (json_int_t)t->step,
                                   "why", "the last one is being written"));
        }
        return 0;
    }
    json_t *state = resume_state(t);
    if (!state)
        return err_set(err, "train: no memory for a checkpoint's state");
    double from = clock_mono_s();
    report_phase(&t->report, KB_PHASE_CKPT);
    int rc = ckpt_save(t->ckpt, t->step, state, true, err);
    t->ckpt_wait_s += clock_mono_s() - from;
    report_writing(&t->report, t->step);
    report_phase(&t->report, KB_PHASE_STEP);
    json_decref(state);
    return rc < 0 ? -1 : 0;
}

static void on_prune(void *ctx, const char *name)
{
    log_info("checkpoint %s removed: enough newer ones", name);
}

static void tell_saved(struct train *t, const struct ckpt_news *news)
{
    struct err err = ERR_INIT;
    char took[32];
    log_info("checkpoint %s saved in %s, %.1f MB of this rank", news->name,
             clock_human(news->seconds, took, sizeof took),
             (double)news->bytes / 1e6);
    report_event(&t->report, KB_EV_CKPT_SAVED,
                 json_pack("{s:I, s:s, s:f, s:I}", "step",
                           (json_int_t)news->step, "checkpoint", news->name,
                           "seconds", news->seconds, "bytes",
                           (json_int_t)news->bytes));
    saved_add(&t->saved, news->name, news->step);
    if (t->unsupervised &&
        catalog_prune(t->plan.run_dir, t->options.attempt, t->plan.ckpt_keep,
                      on_prune, NULL, &err) != 0)
        log_warn("%s", err.msg);
}

/* Checkpoints that enough good steps followed. */
static void tell_healthy(struct train *t)
{
    struct err err = ERR_INIT;
    char name[64];
    int64_t step;
    while (saved_healthy(&t->saved, t->step - t->plan.healthy_after, name,
                         &step)) {
        log_debug("checkpoint %s is healthy", name);
        report_event(&t->report, KB_EV_CKPT_HEALTHY,
                     json_pack("{s:s, s:I}", "checkpoint", name, "step",
                               (json_int_t)t->step));
        if (t->unsupervised &&
            catalog_mark_healthy(t->plan.run_dir, name, t->step, &err) != 0)
            log_warn("%s", err.msg);
    }
}

void save_poll(struct train *t)
{
    struct ckpt_news news;
    do {
        ckpt_poll(t->ckpt, &news);
        if (news.what == CKPT_FAILED) {
            log_error("checkpoint of step %lld failed: %s",
                      (long long)news.step, news.err.msg);
            t->save_failed = news.step;
            t->save_err = news.err;
        } else if (news.what == CKPT_SAVED && t->place.rank == 0)
            tell_saved(t, &news);
        if (news.what != CKPT_NONE)
            report_writing(&t->report, -1);
    } while (news.what != CKPT_NONE);
    if (t->place.rank == 0)
        tell_healthy(t);
}

int save_drain(struct train *t, struct err *err)
{
    report_phase(&t->report, KB_PHASE_FINISH);
    int rc = ckpt_drain(t->ckpt, err);
    save_poll(t);
    if (rc != 0 || t->save_failed != t->step)
        return rc;
    return err_set_class(err, t->save_err.class, "train: the last checkpoint, "
                         "of step %lld, is not saved: %s", (long long)t->step,
                         t->save_err.msg);
}

/* ---- Waiting to be called healthy ---------------------------------------- */
void saved_add(struct saved *saved, const char *name, int64_t step)
{
    if (saved->n == SAVED_MAX) { /* the oldest will never be asked for */
        memmove(saved->at, saved->at + 1, (SAVED_MAX - 1) * sizeof *saved->at);
        saved->n--;
    }
    struct saved_ckpt *s = &saved->at[saved->n++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->step = step;
}

bool saved_healthy(struct saved *saved, int64_t until, char name[64],
                   int64_t *ret_step)
{
    if (saved->n == 0 || saved->at[0].step > until)
        return false;
    memcpy(name, saved->at[0].name, 64);
    *ret_step = saved->at[0].step;
    saved->n--;
    memmove(saved->at, saved->at + 1, (size_t)saved->n * sizeof *saved->at);
    return true;
}

/* A bad step is no proof for those before it. */
void saved_doubt(struct saved *saved, int64_t step)
{
    for (int i = 0; i < saved->n; i++)
        saved->at[i].step = step;
}
