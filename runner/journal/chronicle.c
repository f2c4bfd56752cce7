/* chronicle - from the attempts' files to numbers; see chronicle.h.
 * Stages: read each attempt, then what two neighbours tell together, then the
 * run. */
#include "runner/journal/chronicle_private.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/journal/journal.h"

const char *const chronicle_state_names[] = {
    [CHRONICLE_RUNNING] = "running", [CHRONICLE_FINISHED] = "finished",
    [CHRONICLE_STOPPED] = "stopped",
    [CHRONICLE_BETWEEN] = "between attempts",
    [CHRONICLE_SILENT] = "silent"};

static const double silent_s = 900;

static double span(double from_s, double to_s)
{
    return from_s > 0 && to_s > 0 ? fmax(to_s - from_s, 0) : NAN;
}

/* ---- Neighbours --------------------------------------------------------- */

/* When the job was handed back to Slurm, to be started again; 0: it was not. */
static double handed_back(const struct chronicle_attempt *a)
{
    if (a->at.requeue > 0)
        return a->at.requeue;
    return strcmp(a->action, "yield") ? 0 : a->at.action;
}

static void measure_start(struct chronicle_attempt *a,
                          const struct chronicle_attempt *before)
{
    if (before && before->job != a->job)
        before = NULL; /* the user's time in between is nobody's */
    double back = before ? handed_back(before) : 0;
    bool here = before && !(back > 0) && before->at.action > 0;
    a->wait_s = span(back, a->at.start);
    a->prepare_s = span(here ? before->at.action : a->at.start, a->at.launch);
    a->launch_s = span(a->at.launch, a->at.hello);
    a->load_s = span(a->at.hello, a->at.resume);
    a->first_s = span(a->at.resume, a->at.first);
    if (!before)
        return;
    double failed_s = before->at.diagnosis -
                      (isnan(before->detect_s) ? 0 : before->detect_s);
    a->down_s = before->at.diagnosis > 0 ? span(failed_s, a->at.first) : NAN;
}

static bool is_final(const struct chronicle_attempt *a)
{
    static const char *const final[] = {"stop", "finish", "yield"};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        if (!strcmp(a->action, final[i]))
            return true;
    return false;
}

/* The last step of attempt i that counts. */
static int64_t kept_step(const struct chronicle *run, int i)
{
    const struct chronicle_attempt *a = &run->attempt[i];
    for (int next = i + 1; next < run->attempts_n; next++) {
        const struct chronicle_attempt *b = &run->attempt[next];
        if (b->from_step >= 0 && b->last_step > b->from_step)
            return b->from_step < a->last_step ? b->from_step : a->last_step;
    }
    if (a->done || !(a->judged || i + 1 < run->attempts_n))
        return a->last_step;
    /* It ended, and nothing stands on it but its checkpoints. */
    return a->saved_step < a->last_step ? a->saved_step : a->last_step;
}

/* ---- The run ------------------------------------------------------------ */

static void take_state(struct chronicle *run, double now_s)
{
    if (!run->attempts_n) {
        run->state = CHRONICLE_BETWEEN;
        return;
    }
    struct chronicle_attempt *a = &run->attempt[run->attempts_n - 1];
    if (!a->supervised && run->steps && a->last_step >= run->steps)
        a->done = true; /* nobody else will say so */
    if (a->done)
        run->state = CHRONICLE_FINISHED;
    else if (!strcmp(a->action, "stop") || (a->judged && is_final(a)))
        run->state = CHRONICLE_STOPPED;
    else
        run->state = a->judged                      ? CHRONICLE_BETWEEN
                     : now_s - a->end_s > silent_s ? CHRONICLE_SILENT
                                                    : CHRONICLE_RUNNING;
}

static void sum_up(struct chronicle *run, double now_s)
{
    int n = run->attempts_n;
    if (!n)
        return;
    const struct chronicle_attempt *last = &run->attempt[n - 1];
    double end_s = last->end_s;
    if (run->state == CHRONICLE_RUNNING && now_s > end_s)
        end_s = now_s;
    run->wall_s = span(run->attempt[0].start_s, end_s);
    for (int i = 0; i < n; i++) {
        const struct chronicle_attempt *a = &run->attempt[i];
        run->lost += a->lost;
        run->productive_s += a->productive_s;
        double slurm_s = (isnan(a->wait_s) ? 0 : a->wait_s) +
                         (isnan(a->launch_s) ? 0 : a->launch_s);
        run->slurm_s += slurm_s;
        double all_s = !isnan(a->down_s) ? a->down_s
                                         : span(a->at.start, a->at.first);
        if (!isnan(all_s) && all_s > slurm_s)
            run->ours_s += all_s - slurm_s;
        int64_t kept = a->last_step - a->lost;
        if (kept > run->step)
            run->step = kept;
    }
    run->ettr = run->wall_s > 0 ? run->productive_s / run->wall_s
                                      : NAN;
}

/* run.name out of run.yaml's dump: the line `name: TEXT` under `run:`, or a
 * dotted key; a report needs no more of it. */
static void take_name(const char *run_dir, struct chronicle *run)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" KB_RUN_YAML, run_dir);
    char *text = file_exists(path) ? file_read(path, 1 << 20, NULL, NULL)
                                   : NULL;
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char value[128];
        if (sscanf(line, " name: %127[^\n#]", value) == 1 ||
            sscanf(line, "run.name: %127[^\n#]", value) == 1) {
            size_t n = strlen(value);
            while (n && strchr(" \t\"'", value[n - 1]))
                value[--n] = 0;
            str_copy(run->name, sizeof run->name,
                     value + strspn(value, "\"'"));
            break;
        }
    }
    free(text);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The median speed of all logged steps. */
static double typical_speed(const struct chronicle_reading *readings, int n)
{
    size_t cap = 0, have = 0;
    for (int i = 0; i < n; i++)
        cap += (size_t)readings[i].points_n;
    double *all = malloc((cap + 1) * sizeof *all);
    for (int i = 0; all && i < n; i++)
        for (int p = 0; p < readings[i].points_n; p++)
            if (readings[i].points[p].tokens_per_s > 0)
                all[have++] = readings[i].points[p].tokens_per_s;
    if (have)
        qsort(all, have, sizeof *all, by_value);
    double median = have ? all[have / 2] : NAN;
    free(all);
    return median;
}

int chronicle_load(const char *run_dir, double now_s, struct chronicle *ret,
                struct err *err)
{
    struct chronicle run = {.loss = NAN, .tokens_per_s = NAN, .eta_s = NAN,
                            .typical_tokens_per_s = NAN, .ettr = NAN};
    struct chronicle_reading *readings = NULL;
    int *numbers = NULL, rc = -1;
    int n = journal_attempts(run_dir, &numbers, err);
    if (n < 0)
        return -1;
    run.attempt = calloc((size_t)n + 1, sizeof *run.attempt);
    readings = calloc((size_t)n + 1, sizeof *readings);
    if (!run.attempt || !readings) {
        err_set(err, "journal: out of memory");
        goto out;
    }
    for (int i = 0; i < n; i++) {
        run.attempts_n = i + 1;
        readings[i].a = &run.attempt[i];
        readings[i].run = &run;
        if (chronicle_read_attempt(run_dir, numbers[i], &readings[i], err))
            goto out;
    }
    for (int i = 0; i < n; i++) {
        struct chronicle_attempt *a = &run.attempt[i];
        measure_start(a, i ? a - 1 : NULL);
        a->decide_s = span(a->at.diagnosis, a->at.action);
        int64_t kept = a->last_step < 0 ? -1 : kept_step(&run, i);
        int64_t done_here = a->last_step - (a->from_step > 0 ? a->from_step
                                                             : 0);
        a->lost = a->last_step - kept;
        if (a->lost > done_here)
            a->lost = done_here > 0 ? done_here : 0;
        a->productive_s = chronicle_productive(a, readings[i].points,
                                     readings[i].points_n, kept);
    }
    run.typical_tokens_per_s = typical_speed(readings, n);
    take_state(&run, now_s);
    sum_up(&run, now_s);
    take_name(run_dir, &run);
    rc = 0;
out:
    for (int i = 0; readings && i < n; i++)
        free(readings[i].points);
    free(readings);
    free(numbers);
    if (rc)
        chronicle_release(&run);
    else
        *ret = run;
    return rc;
}

void chronicle_release(struct chronicle *run)
{
    for (int i = 0; i < run->attempts_n; i++) {
        json_decref(run->attempt[i].nodes);
        json_decref(run->attempt[i].spares);
    }
    free(run->attempt);
    *run = (struct chronicle){0};
}
