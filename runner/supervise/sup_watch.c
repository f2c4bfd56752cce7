/* sup_watch - one attempt, from launch to diagnosis.
 *
 * Each round looks at what may end the attempt, most telling first: Slurm's
 * own wish, a lost node, a rank to blame, a stall, an unfit node, the launch
 * itself, the time limit, the end. A failed rank is not judged at once: a node
 * that died takes ranks and peers along, and their last words come together.
 */
#include "runner/supervise/sup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/supervise/budget.h"
#include "runner/supervise/launch.h"

#define TURN_S 0.1
#define SETTLE_S 0.4      /* from a rank's end to its judgement */
#define TERM_LATE_S 2.0   /* after the ranks', the job's own TERM */
#define REPORT_S 2.0      /* for all watchers to tell the beats */
#define LEFT_EARLY_S 5.0 /* after the first rank is done */
#define SAVE_S 120.0      /* for a save that was asked for */

/* ---- Launch ------------------------------------------------------------- */

static void reset_ranks(struct sup *sup)
{
    memset(sup->ranks, 0, (size_t)sup->ranks_n * sizeof *sup->ranks);
    for (int i = 0; i < sup->ranks_n; i++)
        sup->ranks[i].step = -1;
    sup->hellos_n = 0;
    sup->stall_rank = sup->unfit_node = -1;
    sup->done_told = sup->save_asked = false;
    sup->last_step = -1;
    json_decref(sup->report);
    sup->report = NULL;
}

static int launch_ranks(struct sup *sup, struct err *err)
{
    const char **names = calloc((size_t)sup->nodes_n + 1, sizeof *names);
    const char **out = calloc((size_t)sup->nodes_n + 1, sizeof *out);
    struct launch launch = {
        .nodes = names, .exclude = out,
        .ranks_per_node = sup->facts.ranks_per_node,
        .cpus_per_rank = sup->facts.step_cpus,
        .crowded = sup->facts.crowded,
        .attempt = sup->attempt, .run_dir = sup->run_dir,
        .environment = sup->facts.environment,
        .output = sup->log_path, .program = sup->facts.program,
        .blas_core = sup->plan.blas_core,
        .blas_threads = sup->plan.blas_threads, .resume = sup_resume_mode(sup),
    };
    int rc = -1;
    if (!names || !out) {
        err_set(err, "supervise: out of memory");
        goto out;
    }
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].role == ROLE_TRAIN)
            names[launch.nodes_n++] = sup->nodes[i].name;
        else
            out[launch.exclude_n++] = sup->nodes[i].name;
    char **argv = launch_argv(&launch, false);
    json_t *words = json_array();
    for (char **p = argv; p && *p; p++)
        json_array_append_new(words, json_string(*p));
    launch_free(argv);
    story_event(sup, KB_EV_LAUNCH,
                json_pack("{s:o, s:o}", "nodes", story_names(sup, ROLE_TRAIN),
                          "argv", words));
    sup->train = (struct child){.pid = launch_start(&launch, false, err)};
    rc = sup->train.pid < 0 ? -1 : 0;
    sup->launch_s = clock_mono_s();
    sup->launched = rc == 0;
out:
    free(names);
    free(out);
    return rc;
}

/* ---- Looks: each 1 when it has a diagnosis ------------------------------ */

/* TERM comes with cancel, preemption, requeue, time limit: which, Slurm
 * knows. */
static enum cause ask_slurm_why(struct sup *sup)
{
    struct ctl_job job;
    enum cause cause = CAUSE_CANCELLED;
    if (ctl_load_job((uint32_t)sup->facts.job, &job, NULL))
        return cause;
    if (job.state == CTL_PREEMPTED || job.preempting)
        cause = CAUSE_PREEMPTED;
    else if (job.state == CTL_PENDING)
        cause = CAUSE_REQUEUED;
    else if (job.state == CTL_TIMEOUT ||
             (job.state == CTL_RUNNING && job.left_s <= 1))
        cause = CAUSE_TIME_LIMIT;
    ctl_job_release(&job);
    return cause;
}

static int look_at_slurm(struct sup *sup, struct diagnosis *ret)
{
    if (sup->term_seen && !sup->slurm_cause) {
        sup->slurm_cause = ask_slurm_why(sup);
        sup->term_s = clock_mono_s();
        const char *why = cause_rows[sup->slurm_cause].words;
        story_event(sup, KB_EV_SIGNAL, json_pack("{s:s, s:s}", "signal",
                                                 "TERM", "why", why));
        story_say(sup, "Slurm ends the job (%s); the ranks may still save",
                  why);
        if (sup->launched)
            act_ask_save(sup);
    }
    if (!sup->slurm_cause)
        return 0;
    /* Until the ranks are gone; KILL comes by itself. */
    if (sup->launched && !sup->train.ended)
        return 0;
    char text[128];
    snprintf(text, sizeof text, "TERM from Slurm: %s",
             cause_rows[sup->slurm_cause].words);
    classify_plain(sup->slurm_cause, "", text, ret);
    return 1;
}

static int look_at_nodes(struct sup *sup, struct diagnosis *ret)
{
    int i = sup_lost_node(sup, ret);
    return i >= 0;
}

static bool probing(const struct sup *sup)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].lost_s && !sup->nodes[i].bad)
            return true;
    return false;
}

static int collect_ends(const struct sup *sup, struct rank_end *ends)
{
    int n = 0;
    for (int i = 0; i < sup->ranks_n; i++) {
        const struct sup_rank *r = &sup->ranks[i];
        if (!r->ended)
            continue;
        ends[n++] = (struct rank_end){
            .rank = i, .node = sup->nodes[r->node].name,
            .seen_s = r->seen_s, .told = r->told, .code = r->code,
            .signal = r->signal, .error_class = r->error_class,
            .message = r->message,
            .step = r->step, .oom = r->oom};
    }
    return n;
}

/* A rank that said goodbye while others go on, and nobody said that the run
 * is done. */
static const struct rank_end *first_left(const struct sup *sup,
                                         const struct rank_end *ends, int n)
{
    if (sup->done_told || sup->save_asked || n == sup->ranks_n)
        return NULL;
    for (int i = 0; i < n; i++)
        if (ends[i].told && !ends[i].signal && ends[i].code == KB_EXIT_DONE)
            return &ends[i];
    return NULL;
}

/* What must have time to show itself before ranks that name nobody are
 * judged: a silent node, or Slurm's TERM to the job itself. */
static double patience(const struct sup *sup, enum cause cause)
{
    if (cause == CAUSE_PEER)
        return sup->plan.silent_s + 2 * sup->plan.heartbeat_s;
    return cause == CAUSE_STEP_CANCELLED ? TERM_LATE_S : 0;
}

static int look_at_ranks(struct sup *sup, struct diagnosis *ret)
{
    struct rank_end *ends = calloc((size_t)sup->ranks_n + 1, sizeof *ends);
    int n = ends ? collect_ends(sup, ends) : 0, rc = 0;
    double now = clock_mono_s(), first = now, waited;
    for (int i = 0; i < n; i++)
        if (ends[i].seen_s < first)
            first = ends[i].seen_s;
    waited = now - first;
    int blame = classify_blame(ends, n);
    if (n && waited > SETTLE_S && !probing(sup)) {
        const struct rank_end *left = first_left(sup, ends, n);
        if (blame >= 0) {
            classify_rank(&ends[blame], ret);
            rc = 1;
        } else if (left && now - left->seen_s > LEFT_EARLY_S) {
            classify_rank(left, ret);
            rc = 1;
        } else if (sup->train.ended || n == sup->ranks_n) {
            classify_finish(ends, n, sup->ranks_n, sup->save_asked, ret);
            rc = waited > patience(sup, ret->cause);
        }
    }
    free(ends);
    return rc;
}

static void ask_report(struct sup *sup)
{
    sup->report = json_array();
    sup->report_id++;
    for (int i = 0; i < sup->nodes_n; i++) {
        sup->nodes[i].reported = sup->nodes[i].role != ROLE_TRAIN;
        if (!sup->nodes[i].reported)
            station_send(sup->station, i,
                         json_pack("{s:s, s:I}", "type", "report", "id",
                                   (json_int_t)sup->report_id));
    }
}

static bool all_reported(const struct sup *sup)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (!sup->nodes[i].reported)
            return false;
    return true;
}

/* The ranks' beats as they were reported; to be freed. */
static struct rank_beat *reported_beats(const struct sup *sup, int *ret_n)
{
    size_t n = json_array_size(sup->report);
    struct rank_beat *beats = calloc(n + 1, sizeof *beats);
    for (size_t i = 0; beats && i < n; i++) {
        const json_t *b = json_array_get(sup->report, i);
        beats[i] = (struct rank_beat){
            .rank = (int)json_i64_or(b, "rank", -1),
            .node = sup->nodes[json_i64_or(b, "node", 0)].name,
            .beats = json_is_true(json_object_get(b, "beats")),
            .exited = json_is_true(json_object_get(b, "exited")),
            .state = json_string_or(b, "state", "?")[0],
            .quiet_s = json_double_or(b, "quiet_s", 0),
            .limit_s = json_double_or(b, "limit_s", 0),
            .phase = json_i64_or(b, "phase", 0),
            .step = json_i64_or(b, "step", -1),
            .group = json_i64_or(b, "group", 0),
            .entered = json_i64_or(b, "entered", 0),
            .done = json_i64_or(b, "done", 0),
            .writing = json_i64_or(b, "writing", -1)};
    }
    *ret_n = beats ? (int)n : 0;
    return beats;
}

static int judge_stall(struct sup *sup, struct diagnosis *ret)
{
    int n, rc = 1;
    struct rank_beat *beats = reported_beats(sup, &n);
    const char *phase = sup->stall_phase;
    if (sup->stall_writing >= 0) {
        classify_writer(beats, n, sup->stall_rank,
                        sup->nodes[sup->stall_node].name, sup->stall_writing,
                        sup->stall_quiet_s, ret);
        phase = "checkpoint";
    } else {
        rc = classify_stall(beats, n, sup->stall_rank, ret);
    }
    free(beats);
    if (!rc) { /* the watchers will tell again */
        sup->stall_rank = -1;
        json_decref(sup->report);
        sup->report = NULL;
        return 0;
    }
    ret->seen_s = sup->stall_s;
    story_event(sup, KB_EV_STALL,
                json_pack("{s:i, s:s, s:s, s:f, s:f, s:O}", "rank", ret->rank,
                          "node", ret->node, "phase", phase, "seconds",
                          ret->since_s, "limit_s", sup->stall_limit_s, "ranks",
                          sup->report));
    return 1;
}

static int look_at_stall(struct sup *sup, struct diagnosis *ret)
{
    /* Ranks wait for a node that is being found out about. */
    if (sup->stall_rank < 0 || probing(sup))
        return 0;
    if (!sup->report)
        ask_report(sup);
    if (!all_reported(sup) && clock_mono_s() - sup->stall_s < REPORT_S)
        return 0;
    return judge_stall(sup, ret);
}

/* srun's last complaint in the ranks' output. */
static void last_complaint(struct sup *sup, char *dst, size_t dst_bytes)
{
    static const char mark[] = "srun: error: ";
    char tail[4097];
    ssize_t n = -1;
    off_t end = sup->log_fd < 0 ? 0 : lseek(sup->log_fd, 0, SEEK_END);
    *dst = 0;
    if (end > 0)
        n = pread(sup->log_fd, tail, sizeof tail - 1,
                  end > 4096 ? end - 4096 : 0);
    if (n <= 0)
        return;
    tail[n] = 0;
    for (const char *p = tail; (p = strstr(p, mark)); p++)
        snprintf(dst, dst_bytes, ": %.*s", (int)strcspn(p, "\n"), p);
}

/* srun had nobody to ask, or one that has only just begun to answer: after
 * slurmctld was started again it refuses steps for some seconds. A step that
 * it refuses at another time is refused for a reason. */
static bool is_slurms_fault(const struct sup *sup, const char *complaint)
{
    return strstr(complaint, "contact slurm controller") ||
           (strstr(complaint, "Unable to create step") &&
            budget_in_row(&sup->history, CAUSE_SLURM_AWAY) > 0);
}

static int look_at_launch(struct sup *sup, struct diagnosis *ret)
{
    double waited = clock_mono_s() - sup->launch_s;
    char text[500], words[300];
    if (sup->train.ended && !sup->hellos_n && waited > SETTLE_S &&
        !probing(sup)) {
        int status = sup->train.status;
        last_complaint(sup, words, sizeof words);
        snprintf(text, sizeof text, "srun ended with %d before any rank "
                 "started%s",
                 WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                 words);
        classify_plain(is_slurms_fault(sup, words) ? CAUSE_SLURM_AWAY
                                                   : CAUSE_LAUNCH,
                       "", text, ret);
        return 1;
    }
    if (sup->hellos_n < sup->ranks_n && !sup->train.ended && !probing(sup) &&
        waited > sup->plan.wireup_limit_s) {
        snprintf(text, sizeof text, "%d of %d ranks started within %.0f s",
                 sup->hellos_n, sup->ranks_n, waited);
        classify_plain(CAUSE_WIREUP, "", text, ret);
        return 1;
    }
    return 0;
}

/* USR1 comes from Slurm by --signal, up to a minute early, or from a person:
 * a checkpoint now. Whether to stop is for the time limit to say. */
static void look_at_usr1(struct sup *sup)
{
    if (!sup->usr1_seen)
        return;
    sup->usr1_seen = 0;
    if (sup->save_asked)
        return;
    story_event(sup, KB_EV_SIGNAL,
                json_pack("{s:s, s:s}", "signal", "USR1", "why",
                          "a checkpoint is wanted"));
    story_say(sup, "USR1 came; asking the ranks for a checkpoint");
    act_ask_checkpoint(sup);
    sup->comment_due_s = clock_mono_s(); /* the limit may have changed */
}

static int look_at_time(struct sup *sup, struct diagnosis *ret)
{
    static const char why[] = "the time limit is near";
    look_at_usr1(sup);
    if (clock_mono_s() >= sup->end_due_s && !sup->save_asked) {
        story_event(sup, KB_EV_SIGNAL,
                    json_pack("{s:s, s:s}", "signal", "USR1", "why", why));
        story_say(sup, "%s; asking the ranks to save and stop", why);
        act_ask_save(sup);
        sup->save_until_s = clock_mono_s() + SAVE_S;
    }
    if (sup->save_asked && sup->save_until_s &&
        clock_mono_s() > sup->save_until_s) {
        classify_plain(CAUSE_TIME_LIMIT, "",
                       "the ranks did not save in time", ret);
        return 1;
    }
    return 0;
}

int sup_launch(struct sup *sup, struct err *err)
{
    reset_ranks(sup);
    return sup->term_seen ? 0 : launch_ranks(sup, err);
}

void sup_watch(struct sup *sup, struct diagnosis *ret)
{
    static int (*const looks[])(struct sup *, struct diagnosis *) = {
        look_at_slurm, look_at_nodes, sup_look_at_health, look_at_ranks,
        look_at_stall, look_at_launch, look_at_time,
    };
    for (;;) {
        sup_pump(sup, TURN_S);
        for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
            if (looks[i](sup, ret)) {
                sup_saved_for(sup, ret);
                return;
            } else if (sup->slurm_cause)
                break; /* what dies now dies of that */
    }
}
