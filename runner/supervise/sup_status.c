/* sup_status - what Slurm is told and asked now and then: the job's comment,
 * its time limit. In a child with a deadline, so that a controller that is
 * being restarted holds nobody up; at most once a minute after incidents and
 * each five minutes else, two calls each time.
 *
 * The comment is the status in a line. A comment of the user's own is kept.
 */
#include "runner/supervise/sup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/base/str.h"

#define EACH_S 300.0
#define INCIDENT_S 60.0
#define FIRST_S 15.0
#define DEADLINE_S 60.0
#define OURS "koboshi: "
#define STATUS_BYTES 65536

/* ---- In the child ------------------------------------------------------- */

static json_t *ask_and_tell(void *ctx)
{
    const struct sup *sup = ctx;
    struct ctl_job job;
    struct err err = ERR_INIT;
    if (ctl_load_job((uint32_t)sup->facts.job, &job, &err))
        return json_pack("{s:s}", "problem", err.msg);
    if ((!*job.comment || str_starts(job.comment, OURS)) &&
        strcmp(job.comment, sup->comment))
        ctl_comment((uint32_t)sup->facts.job, sup->comment, &err);
    json_t *answer = json_pack("{s:s}", "problem", err.msg);
    if (isfinite(job.left_s))
        json_object_set_new(answer, "left_s", json_real(job.left_s));
    ctl_job_release(&job);
    return answer;
}

/* ---- The line ----------------------------------------------------------- */

static void make_line(struct sup *sup)
{
    char path[PATH_MAX], eta[32] = "";
    json_t *status = NULL;
    if (!attempt_path(sup->run_dir, sup->attempt, KB_STATUS, path, sizeof path,
                      NULL))
        status = json_load_path(path, STATUS_BYTES, NULL);
    double left = json_double_or(status, "eta_s", NAN);
    if (isfinite(left) && left >= 0)
        clock_human(left, eta, sizeof eta);
    int n = snprintf(sup->comment, sizeof sup->comment,
                     OURS "step %lld/%lld",
                     (long long)json_i64_or(status, "step", sup->ckpt_step),
                     (long long)sup->plan.steps);
    double loss = json_double_or(status, "loss", NAN);
    if (isfinite(loss))
        n += snprintf(sup->comment + n, sizeof sup->comment - (size_t)n,
                      ", loss %.4g", loss);
    if (*eta)
        n += snprintf(sup->comment + n, sizeof sup->comment - (size_t)n,
                      ", %s to go", eta);
    n += snprintf(sup->comment + n, sizeof sup->comment - (size_t)n,
                  ", attempt %d", sup->attempt);
    if (*sup->incident && n < (int)sizeof sup->comment)
        snprintf(sup->comment + n, sizeof sup->comment - (size_t)n,
                 "; last: %.120s", sup->incident);
    json_decref(status);
}

/* ---- The turn ----------------------------------------------------------- */

void sup_incident(struct sup *sup, const char *subject, const char *words)
{
    snprintf(sup->incident, sizeof sup->incident, "%.100s: %.90s", subject,
             words);
    double soon = sup->comment_last_s + INCIDENT_S;
    double now = clock_mono_s();
    sup->comment_due_s = soon > now ? soon : now;
}

void sup_status_turn(struct sup *sup)
{
    double now = clock_mono_s();
    struct err err = ERR_INIT;
    json_t *answer = NULL;
    if (sup->asking.pid) {
        if (!node_child_poll(&sup->asking, now, &answer, &err))
            return;
        const char *problem = json_string_or(answer, "problem", err.msg);
        struct ctl_job job = {.left_s =
                                  json_double_or(answer, "left_s", INFINITY)};
        if (answer && !*problem)
            sup_set_end(sup, &job);
        /* Once is nothing: Slurm may be busy with the job's start. */
        if (*problem && ++sup->asking_failed == 2)
            story_say(sup, "warning: %s", problem);
        else if (!*problem)
            sup->asking_failed = 0;
        json_decref(answer);
        return;
    }
    if (!sup->comment_due_s)
        sup->comment_due_s = now + FIRST_S;
    if (now < sup->comment_due_s || !sup->attempt)
        return;
    sup->comment_last_s = now;
    sup->comment_due_s = now + EACH_S;
    make_line(sup);
    node_child_start(&sup->asking, DEADLINE_S, ask_and_tell, sup, &err);
}
