/* chronicle_print - as text, as JSON, and as a few lines of status. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/journal/chronicle.h"

/* ---- Text --------------------------------------------------------------- */

static const char *seconds(double s, char buf[24])
{
    if (isnan(s))
        return "-";
    return clock_human(s, buf, 24);
}

static void put_names(struct sbuf *out, const char *label, const json_t *names)
{
    if (!json_array_size(names))
        return;
    sbuf_puts(out, label);
    for (size_t i = 0; i < json_array_size(names); i++)
        sbuf_printf(out, "%s%s", i ? "," : " ",
                    json_string_value(json_array_get(names, i)));
}

static void put_times(struct sbuf *out, const struct chronicle_attempt *a)
{
    const struct {
        const char *name;
        double s;
    } rows[] = {{"queue (Slurm)", a->wait_s}, {"prepare", a->prepare_s},
                {"launch (Slurm)", a->launch_s}, {"load", a->load_s},
                {"first step", a->first_s}};
    bool any = false;
    char buf[24];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (isnan(rows[i].s))
            continue;
        sbuf_printf(out, "%s%s %s", any ? ", " : "  start    ", rows[i].name,
                    seconds(rows[i].s, buf));
        any = true;
    }
    if (!isnan(a->down_s))
        sbuf_printf(out, "%s%s after the failure", any ? "; " : "  start    ",
                    seconds(a->down_s, buf));
    if (any || !isnan(a->down_s))
        sbuf_puts(out, "\n");
}

static void put_training(struct sbuf *out, const struct chronicle_attempt *a)
{
    char buf[24];
    if (a->rejected_n)
        sbuf_printf(out, "  refused  %d checkpoint%s: %s\n", a->rejected_n,
                    a->rejected_n > 1 ? "s, the first" : "", a->rejected);
    if (a->last_step < 0) {
        sbuf_puts(out, "  trained  no step\n");
        return;
    }
    sbuf_printf(out, "  trained  steps %lld to %lld",
                (long long)(a->from_step > 0 ? a->from_step : 0) + 1,
                (long long)a->last_step);
    if (a->checkpoint[0] && a->from_step > 0)
        sbuf_printf(out, " from %s", a->checkpoint);
    if (!isnan(a->first_loss))
        sbuf_printf(out, ", loss %.4f to %.4f", a->first_loss, a->last_loss);
    sbuf_printf(out, ", %s productive", seconds(a->productive_s, buf));
    if (a->saved_step >= 0)
        sbuf_printf(out, ", newest of %lld checkpoint%s at step %lld",
                    (long long)a->saved_n, a->saved_n == 1 ? "" : "s",
                    (long long)a->saved_step);
    sbuf_puts(out, "\n");
}

static void put_ending(struct sbuf *out, const struct chronicle_attempt *a)
{
    char one[24], two[24];
    if (!a->judged && !a->cause[0] && !a->done) {
        sbuf_puts(out, "  ended    not that is known\n");
        return;
    }
    sbuf_printf(out, "  ended    %s",
                a->cause[0] ? a->cause : a->done ? "done" : "?");
    bool done = !strcmp(a->cause, "done");
    if (a->subject[0] && !done)
        sbuf_printf(out, ": %s", a->subject);
    if (a->message[0] && !done)
        sbuf_printf(out, ": %s", a->message);
    sbuf_puts(out, "\n");
    if (a->action[0])
        sbuf_printf(out, "  then     %s%s%s\n", a->action,
                    a->why[0] ? ": " : "", a->why);
    if (a->remedy[0])
        sbuf_printf(out, "  remedy   %s\n", a->remedy);
    if (!done && (!isnan(a->detect_s) || !isnan(a->decide_s) || a->lost))
        sbuf_printf(out, "  took     detect %s, decide %s, %lld steps lost\n",
                    seconds(a->detect_s, one), seconds(a->decide_s, two),
                    (long long)a->lost);
}

void chronicle_text(const struct chronicle *r, struct sbuf *out)
{
    char buf[24], other[24];
    sbuf_printf(out, "run %s%s%s, step %lld of %lld, %d attempt%s\n", r->name,
                r->name[0] ? ": " : "", chronicle_state_names[r->state],
                (long long)r->step, (long long)r->steps, r->attempts_n,
                r->attempts_n == 1 ? "" : "s");
    for (int i = 0; i < r->attempts_n; i++) {
        const struct chronicle_attempt *a = &r->attempt[i];
        char when[32];
        sbuf_printf(out, "\nattempt %d", a->number);
        if (a->start_s > 0)
            sbuf_printf(out, "  %s", clock_iso(a->start_s, when, sizeof when));
        if (a->job)
            sbuf_printf(out, "  job %lld", (long long)a->job);
        if (a->restart_count > 0)
            sbuf_printf(out, " (requeue %d)", a->restart_count);
        put_names(out, "  nodes", a->nodes);
        put_names(out, "  spares", a->spares);
        if (!a->supervised)
            sbuf_puts(out, "  unsupervised");
        sbuf_puts(out, "\n");
        put_times(out, a);
        put_training(out, a);
        put_ending(out, a);
    }
    sbuf_printf(out, "\nwall time %s, productive %s, effective training time "
                "ratio ", seconds(r->wall_s, buf),
                seconds(r->productive_s, other));
    sbuf_printf(out, isnan(r->ettr) ? "-" : "%.3f", r->ettr);
    sbuf_printf(out, "\nstarting and recovering: Slurm %s, Koboshi %s; %lld "
                "steps lost\n", seconds(r->slurm_s, buf),
                seconds(r->ours_s, other), (long long)r->lost);
}

/* ---- Status ------------------------------------------------------------- */

static void put_incident(struct sbuf *out, const struct chronicle *r)
{
    for (int i = r->attempts_n - 1; i >= 0; i--) {
        const struct chronicle_attempt *a = &r->attempt[i];
        char when[32];
        if (!a->cause[0] || !strcmp(a->cause, "done"))
            continue;
        sbuf_printf(out, "incident  attempt %d, %s: %s%s%s%s%s; then %s\n",
                    a->number, clock_iso(a->end_s, when, sizeof when),
                    a->cause, a->subject[0] ? ": " : "", a->subject,
                    a->message[0] ? ": " : "", a->message,
                    a->action[0] ? a->action : "-");
        return;
    }
    sbuf_puts(out, "incident  none\n");
}

void chronicle_status_text(const struct chronicle *r, double now_s,
                        struct sbuf *out)
{
    char buf[24];
    const struct chronicle_attempt *a =
        r->attempts_n ? &r->attempt[r->attempts_n - 1] : NULL;
    sbuf_printf(out, "run       %s%s%s, attempt %d\n", r->name,
                r->name[0] ? ": " : "", chronicle_state_names[r->state],
                a ? a->number : 0);
    sbuf_printf(out, "step      %lld of %lld", (long long)r->step,
                (long long)r->steps);
    if (!isnan(r->loss))
        sbuf_printf(out, ", loss %.4f", r->loss);
    if (r->told_s > 0 && r->state == CHRONICLE_RUNNING)
        sbuf_printf(out, ", told %s ago", seconds(now_s - r->told_s, buf));
    sbuf_puts(out, "\n");
    if (!isnan(r->tokens_per_s))
        sbuf_printf(out, "speed     %.1f tokens/s", r->tokens_per_s);
    if (!isnan(r->tokens_per_s) && r->typical_tokens_per_s > 0)
        sbuf_printf(out, ", %.0f %% of the run's median",
                    100 * r->tokens_per_s / r->typical_tokens_per_s);
    if (r->state == CHRONICLE_RUNNING && !isnan(r->eta_s))
        sbuf_printf(out, ", %s to finish", seconds(r->eta_s, buf));
    sbuf_puts(out, isnan(r->tokens_per_s) ? "" : "\n");
    if (a) {
        sbuf_puts(out, "nodes    ");
        put_names(out, "", a->nodes);
        put_names(out, ", spares", a->spares);
        sbuf_printf(out, "%s; %d restart%s\n",
                    json_array_size(a->nodes) ? "" : " unknown",
                    r->attempts_n - 1, r->attempts_n == 2 ? "" : "s");
    }
    put_incident(out, r);
}

/* ---- JSON --------------------------------------------------------------- */

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *step_number(int64_t step)
{
    return step < 0 ? json_null() : json_integer(step);
}

static json_t *array(json_t *list)
{
    return list ? json_incref(list) : json_null();
}

static json_t *attempt_json(const struct chronicle_attempt *a)
{
    return json_pack(
        "{s:i, s:b, s:I, s:i, s:o, s:o, s:o, s:o,"
        " s:o, s:o, s:o, s:o, s:o, s:o,"
        " s:s, s:i, s:s, s:o, s:o, s:I, s:I, s:o,"
        " s:o, s:o, s:o,"
        " s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:b}",
        "attempt", a->number, "supervised", a->supervised, "job",
        (json_int_t)a->job, "restart_count", a->restart_count, "nodes",
        array(a->nodes), "spares", array(a->spares), "start",
        number(a->start_s > 0 ? a->start_s : NAN), "end",
        number(a->end_s > 0 ? a->end_s : NAN),
        "wait_s", number(a->wait_s), "prepare_s", number(a->prepare_s),
        "launch_s", number(a->launch_s), "load_s", number(a->load_s),
        "first_step_s", number(a->first_s), "down_s", number(a->down_s),
        "checkpoint", a->checkpoint, "checkpoints_rejected", a->rejected_n,
        "rejected", a->rejected, "from_step", step_number(a->from_step),
        "last_step", step_number(a->last_step), "steps_lost",
        (json_int_t)a->lost, "checkpoints_saved", (json_int_t)a->saved_n,
        "checkpoint_step", step_number(a->saved_step),
        "first_loss", number(a->first_loss), "last_loss",
        number(a->last_loss), "productive_s", number(a->productive_s),
        "cause", a->cause, "class", a->class, "subject", a->subject,
        "message", a->message, "action", a->action, "why", a->why, "remedy",
        a->remedy, "detect_s", number(a->detect_s), "decide_s",
        number(a->decide_s), "judged", a->judged, "done", a->done);
}

json_t *chronicle_json(const struct chronicle *r)
{
    json_t *attempts = json_array();
    for (int i = 0; i < r->attempts_n; i++)
        json_array_append_new(attempts, attempt_json(&r->attempt[i]));
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o,"
        " s:o}",
        "name", r->name, "state", chronicle_state_names[r->state], "step",
        (json_int_t)r->step, "steps", (json_int_t)r->steps, "steps_lost",
        (json_int_t)r->lost, "wall_s", number(r->wall_s), "productive_s",
        number(r->productive_s), "effective_training_time_ratio",
        number(r->ettr), "slurm_s", number(r->slurm_s), "koboshi_s",
        number(r->ours_s), "loss", number(r->loss), "tokens_per_s",
        number(r->tokens_per_s), "eta_s", number(r->eta_s), "attempts",
        attempts);
}
