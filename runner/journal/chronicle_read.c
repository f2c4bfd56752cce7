/* chronicle_read - one attempt's files; see chronicle.h for what counts. */
#include "runner/journal/chronicle_private.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/journal/journal.h"

#define RECORD_BYTES (4u << 20)

/* A text that is cut is not cut within a character. */
static void take_text(char *dst, size_t dst_bytes, const json_t *record,
                      const char *key)
{
    const char *text = json_string_or(record, key, "");
    if (!*text || str_copy(dst, dst_bytes, text))
        return;
    size_t n = strlen(dst);
    while (n && (text[n] & 0xc0) == 0x80)
        n--;
    dst[n] = 0;
}

static void take_array(json_t **dst, const json_t *record, const char *key)
{
    json_t *list = json_object_get(record, key);
    if (!*dst && json_is_array(list))
        *dst = json_incref(list);
}

static void on_start(struct chronicle_attempt *a, const json_t *record)
{
    a->job = json_i64_or(record, "job", a->job);
    a->restart_count = (int)json_i64_or(record, "restart_count",
                                        a->restart_count);
    take_array(&a->nodes, record, "nodes");
    take_array(&a->spares, record, "spares");
}

static void on_resume(struct chronicle_attempt *a, const json_t *record)
{
    a->from_step = json_i64_or(record, "step", 0);
    take_text(a->checkpoint, sizeof a->checkpoint, record, "checkpoint");
}

static void on_rejected(struct chronicle_attempt *a, const json_t *record)
{
    if (a->rejected_n++)
        return;
    snprintf(a->rejected, sizeof a->rejected, "%s: %s",
             json_string_or(record, "checkpoint", "?"),
             json_string_or(record, "reason", "?"));
}

static void on_saved(struct chronicle_attempt *a, const json_t *record)
{
    int64_t step = json_i64_or(record, "step", -1);
    a->saved_n++;
    if (step > a->saved_step)
        a->saved_step = step;
}

static void on_diagnosis(struct chronicle_attempt *a, const json_t *record)
{
    take_text(a->cause, sizeof a->cause, record, "cause");
    take_text(a->class, sizeof a->class, record, "class");
    take_text(a->subject, sizeof a->subject, record, "subject");
    take_text(a->message, sizeof a->message, record, "evidence");
    a->detect_s = json_double_or(record, "seconds", NAN);
}

static void on_stop(struct chronicle_attempt *a, const json_t *record)
{
    str_copy(a->action, sizeof a->action, "stop");
    take_text(a->class, sizeof a->class, record, "class");
    take_text(a->message, sizeof a->message, record, "message");
    take_text(a->remedy, sizeof a->remedy, record, "remedy");
}

/* The first of what was done about the diagnosis. */
static void mark_action(struct chronicle_attempt *a, double time_s)
{
    if (a->at.diagnosis > 0 && a->at.action < a->at.diagnosis)
        a->at.action = time_s;
}

static void take_event(struct chronicle_attempt *a, int event, double time_s,
                       const json_t *record)
{
    switch (event) {
    case KB_EV_ATTEMPT_START:
        on_start(a, record);
        break;
    case KB_EV_LAUNCH:
        a->at.launch = time_s;
        break;
    case KB_EV_RANK_HELLO:
        if (!a->at.first)
            a->at.hello = time_s;
        break;
    case KB_EV_RESUME:
        a->at.resume = time_s;
        on_resume(a, record);
        break;
    case KB_EV_FIRST_STEP:
        a->at.first = time_s;
        break;
    case KB_EV_CKPT_SAVED:
        on_saved(a, record);
        break;
    case KB_EV_CKPT_REJECTED:
        on_rejected(a, record);
        break;
    case KB_EV_DIAGNOSIS:
        a->at.diagnosis = time_s;
        on_diagnosis(a, record);
        break;
    case KB_EV_ACTION:
        mark_action(a, time_s);
        take_text(a->action, sizeof a->action, record, "action");
        take_text(a->why, sizeof a->why, record, "why");
        break;
    case KB_EV_REQUEUE:
        mark_action(a, time_s);
        a->at.requeue = time_s;
        break;
    case KB_EV_STOP:
        mark_action(a, time_s);
        on_stop(a, record);
        break;
    case KB_EV_DONE:
        a->done = true;
        break;
    default:
        break;
    }
}

static int on_event(void *ctx, int number, const json_t *record)
{
    struct chronicle_attempt *a = ctx;
    int event = contract_event(json_string_or(record, "event", ""));
    double time_s = json_double_or(record, "time", 0);
    int64_t step = json_i64_or(record, "step", -1);
    a->supervised = true;
    if (!a->at.start)
        a->at.start = time_s; /* the first word of the attempt */
    if (time_s > a->end_s)
        a->end_s = time_s;
    if (event < 0)
        return 0;
    take_event(a, event, time_s, record);
    if (step > a->last_step && (event == KB_EV_FIRST_STEP ||
                                event == KB_EV_CKPT_SAVED ||
                                event == KB_EV_DONE))
        a->last_step = step;
    return 0;
}

static int on_metrics(void *ctx, int number, const json_t *record)
{
    struct chronicle_reading *r = ctx;
    struct chronicle_attempt *a = r->a;
    struct chronicle_point p = {
                      .step = json_i64_or(record, "step", -1),
                      .ms = json_double_or(record, "iteration_ms", 0),
                      .loss = json_double_or(record, "loss", NAN),
                      .tokens_per_s =
                          json_double_or(record, "tokens_per_s", NAN)};
    double time_s = json_double_or(record, "time", 0);
    if (p.step < 0)
        return 0;
    if (r->points_n == r->points_cap) {
        int cap = r->points_cap ? 2 * r->points_cap : 256;
        struct chronicle_point *more =
            realloc(r->points, (size_t)cap * sizeof *more);
        if (!more)
            return -1;
        r->points = more;
        r->points_cap = cap;
    }
    r->points[r->points_n++] = p;
    if (p.step > a->last_step)
        a->last_step = p.step;
    if (isnan(a->first_loss))
        a->first_loss = p.loss;
    a->last_loss = p.loss;
    if (time_s > a->end_s)
        a->end_s = time_s;
    struct chronicle *run = r->run;
    run->steps = json_i64_or(record, "steps", run->steps);
    run->loss = p.loss;
    run->tokens_per_s = p.tokens_per_s;
    run->eta_s = json_double_or(record, "eta_s", NAN);
    run->told_s = time_s;
    return 0;
}

static json_t *load_part(const char *run_dir, int number, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" KB_ATTEMPT_FMT "/%s", run_dir, number,
             name);
    json_t *record = file_exists(path)
                         ? json_load_path(path, RECORD_BYTES, NULL)
                         : NULL;
    if (json_is_object(record))
        return record;
    json_decref(record);
    return NULL;
}

static void take_verdict(struct chronicle_attempt *a, const json_t *verdict)
{
    if (!verdict)
        return;
    a->judged = true;
    a->end_s = json_double_or(verdict, "time", a->end_s);
    take_text(a->cause, sizeof a->cause, verdict, "cause");
    take_text(a->class, sizeof a->class, verdict, "class");
    take_text(a->subject, sizeof a->subject, verdict, "subject");
    take_text(a->message, sizeof a->message, verdict, "message");
    take_text(a->action, sizeof a->action, verdict, "action");
    take_text(a->why, sizeof a->why, verdict, "why");
    a->done = a->done || !strcmp(a->cause, "done");
    int64_t saved = json_i64_or(verdict, "checkpoint_step", -1);
    if (saved > a->saved_step)
        a->saved_step = saved;
}

static void take_status(struct chronicle *run, struct chronicle_attempt *a,
                        const json_t *status)
{
    double time_s = json_double_or(status, "time", 0);
    int64_t step = json_i64_or(status, "step", -1);
    if (!status || step < 0)
        return;
    if (step > a->last_step)
        a->last_step = step;
    if (time_s > a->end_s && !a->judged)
        a->end_s = time_s;
    if (time_s < run->told_s)
        return;
    run->steps = json_i64_or(status, "steps", run->steps);
    run->loss = json_double_or(status, "loss", run->loss);
    run->tokens_per_s = json_double_or(status, "tokens_per_s",
                                          run->tokens_per_s);
    run->eta_s = json_double_or(status, "eta_s", run->eta_s);
    run->told_s = time_s;
}

static void blank(struct chronicle_attempt *a, int number)
{
    *a = (struct chronicle_attempt){
        .number = number, .wait_s = NAN, .prepare_s = NAN, .launch_s = NAN,
        .load_s = NAN, .first_s = NAN, .down_s = NAN, .detect_s = NAN,
        .decide_s = NAN, .first_loss = NAN, .last_loss = NAN,
        .from_step = -1, .last_step = -1, .saved_step = -1};
}

/* Without a journal the first records tell where an attempt began. */
static void guess_start(struct chronicle_attempt *a,
                        const struct chronicle_point *points, int points_n)
{
    if (a->from_step >= 0 || !points_n)
        return;
    int64_t interval = points_n > 1 ? points[1].step - points[0].step : 1;
    int64_t from = points[0].step - (interval > 0 ? interval : 1);
    a->from_step = from > 0 ? from : 0;
}

int chronicle_read_attempt(const char *run_dir, int number,
                           struct chronicle_reading *r, struct err *err)
{
    struct chronicle_attempt *a = r->a;
    blank(a, number);
    json_t *start = load_part(run_dir, number, KB_START_JSON);
    json_t *status = load_part(run_dir, number, KB_STATUS);
    json_t *verdict = load_part(run_dir, number, KB_VERDICT);
    a->start_s = a->end_s = json_double_or(start, "time", 0);
    if (start)
        on_start(a, start);
    int rc = journal_read_attempt(run_dir, number, KB_JOURNAL, on_event, a,
                                  err);
    if (!rc && journal_read_attempt(run_dir, number, KB_METRICS, on_metrics,
                                    r, err))
        rc = err_set(err, "journal: cannot read attempt %d of '%s'", number,
                     run_dir);
    if (a->at.start > 0)
        a->start_s = a->at.start;
    guess_start(a, r->points, r->points_n);
    take_verdict(a, verdict);
    take_status(r->run, a, status);
    json_decref(start);
    json_decref(status);
    json_decref(verdict);
    return rc;
}

/* Iteration time of the steps up to `kept`. */
double chronicle_productive(const struct chronicle_attempt *a,
                         const struct chronicle_point *points,
                         int points_n, int64_t kept)
{
    double sum_ms = 0, ms = 0;
    int64_t at = a->from_step > 0 ? a->from_step : 0;
    for (int i = 0; i < points_n && at < kept; i++) {
        int64_t to = points[i].step < kept ? points[i].step : kept;
        ms = points[i].ms;
        if (to > at)
            sum_ms += (double)(to - at) * ms;
        at = to > at ? to : at;
    }
    if (kept > at)
        sum_ms += (double)(kept - at) * ms;
    return sum_ms / 1e3;
}
