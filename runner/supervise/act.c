/* act - carries a decision out: the only file that kills, starts, excludes and
 * requeues.
 *
 * An old srun is asked to end and not waited for. Old ranks are seen gone by
 * their watchers when the next attempt is prepared.
 */
#include "runner/supervise/sup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"
#include "runner/supervise/budget.h"
#include "runner/supervise/launch.h"

#define EXCLUDE_MAX 64
#define LAST_WORDS_S 2.0
#define SLURM_AWAY_S 3600.0
#define SLURM_REFUSES_S 60.0
#define REQUEUE_AGAIN_S 3.0
#define AWAY_PAUSE_S 3.0
#define LAUNCH_AGAIN_S 10.0 /* what Slurm refuses now it may not then */

static void pause_s(struct sup *sup, double seconds)
{
    double until = clock_mono_s() + seconds;
    while (clock_mono_s() < until && !sup->term_seen)
        sup_pump(sup, 0.1);
}

/* ---- Ranks and watchers ------------------------------------------------- */

static void tell_all(struct sup *sup, const char *type, int sig)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].up)
            station_send(sup->station, i,
                         json_pack("{s:s, s:i}", "type", type, "signal", sig));
}

void act_ask_checkpoint(struct sup *sup)
{
    tell_all(sup, "signal", SIGUSR2);
}

void act_ask_save(struct sup *sup)
{
    sup->save_asked = true;
    tell_all(sup, "signal", SIGUSR1);
}

/* The one time that an srun is killed: a host that is cut off. The job may be
 * started anew elsewhere, its steps under the same numbers; an srun that comes
 * back then and is told to end would end those. Without it the old steps live
 * on, and their watchers with them. */
void act_abandon_sruns(struct sup *sup)
{
    if (sup->train.pid > 0 && !sup->train.ended)
        kill(sup->train.pid, SIGKILL);
    if (sup->watchers.pid > 0 && !sup->watchers.ended)
        kill(sup->watchers.pid, SIGKILL);
    for (int i = 0; i < sup->old_n; i++)
        kill(sup->old[i].pid, SIGKILL);
}

void act_end_ranks(struct sup *sup)
{
    if (sup->train.pid > 0 && !sup->train.ended) {
        kill(sup->train.pid, SIGTERM);
        if (sup->old_n < (int)(sizeof sup->old / sizeof *sup->old))
            sup->old[sup->old_n++] = sup->train;
    }
    /* srun needs a moment to pass it on, the watchers none. */
    tell_all(sup, "signal", SIGKILL);
    sup->train = (struct child){0};
    sup->launched = false;
}

int act_rewatch(struct sup *sup, int node, struct err *err)
{
    const char *name = sup->nodes[node].name;
    char log[PATH_MAX];
    struct launch launch = {
        .nodes = &name, .nodes_n = 1, .attempt = sup->attempt,
        .run_dir = sup->run_dir,
        .environment = sup->facts.environment, .output = log,
        .secret = sup->secret,
        .supervisor = sup->address,
    };
    if (attempt_path(sup->run_dir, sup->attempt,
                     KB_ATTEMPT_LOGS_DIR "/watchers.log", log, sizeof log,
                     err))
        return -1;
    pid_t pid = launch_start(&launch, true, err);
    if (pid > 0 && sup->old_n < (int)(sizeof sup->old / sizeof *sup->old))
        sup->old[sup->old_n++] = (struct child){.pid = pid};
    return pid > 0 ? 0 : -1;
}

/* Watchers say good-bye to their ranks' folders and go. */
static void end_watchers(struct sup *sup)
{
    sup->dismissed = true;
    tell_all(sup, "bye", 0);
    double until = clock_mono_s() + LAST_WORDS_S;
    while (sup->watchers.pid > 0 && !sup->watchers.ended &&
           clock_mono_s() < until)
        sup_pump(sup, 0.05);
    if (sup->watchers.pid > 0 && !sup->watchers.ended)
        kill(sup->watchers.pid, SIGTERM);
}

/* ---- Requeue ------------------------------------------------------------ */

/* What is excluded already (an update replaces all), and the nodes that were
 * found bad in this start of the job. */
static char *list_with(const struct sup *sup, const char *already,
                       const char *node)
{
    char **names = NULL;
    int have = *already ? ctl_expand(already, &names, NULL) : 0;
    const char **all =
        calloc((size_t)(have > 0 ? have : 0) + EXCLUDE_MAX + 1, sizeof *all);
    int n = 0, ours = 0;
    for (int i = 0; all && i < have; i++)
        all[n++] = names[i];
    if (all && *node && ++ours)
        all[n++] = node;
    for (int i = 0; all && i < sup->nodes_n && ours < EXCLUDE_MAX; i++)
        if (sup->nodes[i].bad && strcmp(sup->nodes[i].bad_class, "request") &&
            ++ours)
            all[n++] = sup->nodes[i].name;
    char *list = all && n ? ctl_compress(all, n) : NULL;
    free(all);
    ctl_names_free(names);
    return list;
}

static bool starves(const struct sup *sup, const char *list)
{
    int left = 0;
    return list && !ctl_nodes_left((uint32_t)sup->facts.job, list, &left,
                                   NULL) &&
           left < sup->nodes_n;
}

/* Should too few nodes be left, those that were found bad in earlier starts
 * are forgiven: they may be mended, and each start looks at its nodes. */
static char *exclude_list(const struct sup *sup, const char *node)
{
    char *list = list_with(sup, sup->job.exclude, node);
    if (!starves(sup, list))
        return list;
    free(list);
    return list_with(sup, sup->facts.user_exclude, node);
}

bool act_would_starve(const struct sup *sup, const struct diagnosis *d)
{
    char *list = exclude_list(sup, d->node);
    bool starve = starves(sup, list);
    free(list);
    return starve;
}

/* Somebody else did it, for one the watchers while this host was cut off. */
static bool requeued_already(const struct sup *sup)
{
    struct ctl_job now;
    if (ctl_load_job((uint32_t)sup->facts.job, &now, NULL))
        return false;
    bool already = now.restart_count != sup->job.restart_count;
    ctl_job_release(&now);
    return already;
}

/* slurmctld may be away, for an upgrade say: nobody else gets these nodes
 * meanwhile, so it is waited for. Another refusal is asked about for a while.
 */
static int requeue_patiently(struct sup *sup, struct err *err)
{
    double begun = clock_mono_s();
    for (int tries = 0;; tries++) {
        *err = ERR_INIT;
        if (!ctl_requeue((uint32_t)sup->facts.job, err))
            return 0;
        double patience =
            err->class == ERR_JOB ? SLURM_AWAY_S : SLURM_REFUSES_S;
        if (err->class == ERR_REQUEST || sup->term_seen ||
            clock_mono_s() - begun > patience)
            return -1;
        if (!tries)
            story_say(sup, "%s; trying again until Slurm answers", err->msg);
        pause_s(sup, REQUEUE_AGAIN_S);
    }
}

static int requeue(struct sup *sup, const struct diagnosis *d, struct err *err)
{
    if (requeued_already(sup)) {
        story_say(sup, "the job was requeued already, not by this supervisor");
        return 0;
    }
    char *list = exclude_list(sup, d->node);
    story_event(sup, KB_EV_REQUEUE,
                json_pack("{s:s}", "exclude", list ? list : ""));
    story_say(sup, "requeues the job%s%s", list ? " without " : "",
              list ? list : "");
    int rc = requeue_patiently(sup, err);
    if (!rc && list) {
        struct err why = ERR_INIT;
        if (ctl_exclude((uint32_t)sup->facts.job, list, &why))
            story_say(sup, "warning: %s; the next attempt will refuse the "
                           "node itself", why.msg);
    }
    free(list);
    return rc;
}

/* Nothing can be launched before it is back; then it needs a moment. */
static void await_slurm(struct sup *sup)
{
    double begun = clock_mono_s();
    pause_s(sup, AWAY_PAUSE_S *
                     (1 + budget_in_row(&sup->history, CAUSE_SLURM_AWAY)));
    while (!sup->term_seen && clock_mono_s() - begun < SLURM_AWAY_S) {
        struct ctl_job job;
        struct err err = ERR_INIT;
        if (!ctl_load_job((uint32_t)sup->facts.job, &job, &err)) {
            ctl_job_release(&job);
            return;
        }
        if (err.class != ERR_JOB)
            return;
        pause_s(sup, REQUEUE_AGAIN_S);
    }
}

void act_dismiss(struct sup *sup, int node)
{
    station_send(sup->station, node,
                 json_pack("{s:s, s:i}", "type", "signal", "signal", SIGKILL));
    station_send(sup->station, node, json_pack("{s:s}", "type", "bye"));
}

/* What a diagnosis makes the job suspect of the node; -1: nothing. */
static int suspicion_of(enum cause cause)
{
    static const struct {
        enum cause cause;
        enum kb_suspicion suspicion;
    } rows[] = {
        {CAUSE_GPU, KB_SUSPECT_GPU},
        {CAUSE_STALL, KB_SUSPECT_HANG},
        {CAUSE_RANK_CRASH, KB_SUSPECT_CRASH},
        {CAUSE_NODE_SUSPECT, KB_SUSPECT_NODE},
        {CAUSE_NODE_UNFIT, KB_SUSPECT_HEALTH},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].cause == cause)
            return (int)rows[i].suspicion;
    return -1;
}

void act_tell_suspicion(struct sup *sup, const struct diagnosis *d)
{
    int suspicion = suspicion_of(d->cause);
    for (int i = 0; i < sup->nodes_n && suspicion >= 0; i++)
        if (!strcmp(sup->nodes[i].name, d->node) && sup->nodes[i].up)
            station_send(sup->station, i,
                         json_pack("{s:s, s:s}", "type", "suspect", "code",
                                   kb_suspicion_names[suspicion]));
}

void act_give_up_node(struct sup *sup, const struct diagnosis *d)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (!strcmp(sup->nodes[i].name, d->node) && !sup->nodes[i].bad)
            sup_node_out(sup, i, d->evidence);
}

/* ---- One decision ------------------------------------------------------- */

static const char *remedy_of(const struct diagnosis *d)
{
    if (strstr(d->evidence, strerror(ENOSPC)) ||
        strstr(d->evidence, strerror(EDQUOT)))
        return "make room in the run directory and submit again";
    return d->class == ERR_REQUEST ? "correct it and submit again"
                                   : "see koboshi report";
}

static int exit_code_of(const struct diagnosis *d)
{
    switch (d->cause) {
    case CAUSE_NO_CKPT:
        return KB_EXIT_NO_CKPT;
    case CAUSE_LOSS:
        return KB_EXIT_STEP;
    default:
        return d->class == ERR_REQUEST ? KB_EXIT_REQUEST : KB_EXIT_RANK;
    }
}

static enum next stop(struct sup *sup, const struct diagnosis *d,
                      const char *why, int *ret_exit_code)
{
    act_end_ranks(sup);
    story_event(sup, KB_EV_STOP,
                json_pack("{s:s, s:s, s:s, s:s}", "class",
                          err_class_name(d->class), "message", d->evidence,
                          "why", why, "remedy", remedy_of(d)));
    story_say(sup, "stops: %s: %s: %s (%s); %s", cause_rows[d->cause].words,
              d->subject, d->evidence, why, remedy_of(d));
    end_watchers(sup);
    *ret_exit_code = exit_code_of(d);
    return NEXT_EXIT;
}

enum next act(struct sup *sup, const struct diagnosis *d,
              const struct decision *decision, int *ret_exit_code)
{
    struct err err = ERR_INIT;
    switch (decision->action) {
    case ACTION_FINISH:
        story_say(sup, "all steps are done");
        if (!sup->done_told)
            story_event(sup, KB_EV_DONE,
                        json_pack("{s:I}", "step", (json_int_t)sup->last_step));
        end_watchers(sup);
        *ret_exit_code = KB_EXIT_DONE;
        return NEXT_EXIT;
    case ACTION_YIELD:
        end_watchers(sup);
        *ret_exit_code = d->cause == CAUSE_CANCELLED ? KB_EXIT_REQUEST
                                                     : KB_EXIT_SAVED;
        return NEXT_EXIT;
    case ACTION_REQUEUE:
        act_end_ranks(sup);
        if (requeue(sup, d, &err)) {
            story_say(sup, "%s", err.msg);
            return stop(sup, d, "the job could not be requeued",
                        ret_exit_code);
        }
        *ret_exit_code = KB_EXIT_SAVED;
        return NEXT_EXIT;
    case ACTION_REPLACE:
        act_give_up_node(sup, d);
        act_end_ranks(sup);
        return NEXT_AGAIN;
    case ACTION_SHRINK:
        act_give_up_node(sup, d);
        sup->needed = sup_fewer_nodes(sup, d->node);
        sup->ranks_n = sup->needed * sup->facts.ranks_per_node;
        story_say(sup, "goes on with %d nodes", sup->needed);
        act_end_ranks(sup);
        return NEXT_AGAIN;
    case ACTION_RELAUNCH:
    case ACTION_ROLL_BACK:
        act_end_ranks(sup);
        if (d->cause == CAUSE_SLURM_AWAY)
            await_slurm(sup);
        if (d->cause == CAUSE_LAUNCH)
            pause_s(sup, LAUNCH_AGAIN_S);
        return NEXT_AGAIN;
    default:
        return stop(sup, d, decision->why, ret_exit_code);
    }
}
