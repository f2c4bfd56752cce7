/* sup_open - the facts: the job, its nodes, the plan, what happened before.
 */
#include "runner/supervise/sup.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/proc.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/data/tokenizer.h"

#define NAMELESS_S 3.0 /* from an attempt's folder to its claim, at most */
#define SLURM_AWAY_S 600.0
#define SLURM_AGAIN_S 2.0
#define SAME_END_S 5.0

/* ---- Plan --------------------------------------------------------------- */

/* The core that OpenBLAS chooses decides the last bits of every product. The
 * first attempt writes down what this host's is; later ones keep to it, on
 * whatever host. "" when the trainer does not say. */
static void resolve_blas_core(struct sup *sup)
{
    char *core = sup->plan.blas_core;
    if (*core)
        return;
    const char *argv[] = {sup->facts.program[0], "--print-blas-core", NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = 10,
                             .term_grace_s = 1, .out_max_bytes = 256};
    struct proc_result result;
    if (proc_run(&spec, &result, NULL))
        return;
    size_t n = strcspn(result.out.data, "\n");
    if (result.exit_code == 0 && n > 0 && n < sizeof sup->plan.blas_core)
        snprintf(core, sizeof sup->plan.blas_core, "%.*s", (int)n,
                 result.out.data);
    proc_result_release(&result);
}

/* The cores that a rank has, where the user did not say: this host's stand for
 * all. */
static int cores_of_rank(const struct sup *sup)
{
    int most = (int)sysconf(_SC_NPROCESSORS_ONLN) / sup->facts.ranks_per_node;
    int cores = proc_cores() < most ? proc_cores() : most;
    if (sup->facts.cpus_per_rank > 0)
        return sup->facts.cpus_per_rank;
    return cores > 0 ? cores : 1;
}

/* run.yaml: the effective configuration, once, at the first attempt. */
static int keep_effective(struct sup *sup, struct conf *conf, struct err *err)
{
    char path[PATH_MAX], set[128];
    if (file_join(path, sizeof path, sup->run_dir, KB_RUN_YAML, err))
        return -1;
    resolve_blas_core(sup);
    if (file_exists(path))
        return 0;
    snprintf(set, sizeof set, "system.blas_core=%s", sup->plan.blas_core);
    if (sup->plan.blas_core[0] && conf_set(conf, set, "this host", err))
        return -1;
    snprintf(set, sizeof set, "system.blas_threads=%d",
             sup->plan.blas_threads);
    if (!conf_is_set(conf, "system.blas_threads") &&
        conf_set(conf, set, "this host", err))
        return -1;
    struct sbuf text = SBUF_INIT;
    conf_dump(conf, &text);
    int rc = text.failed ? err_set(err, "supervise: out of memory")
                         : file_replace(path, text.data, text.len, 0600, err);
    sbuf_release(&text);
    return rc;
}

/* The nodes repeat the whole plan in preflight; here it is made for the
 * numbers, with what this host can see. spares -1: the plan's. */
static int make_plan(const struct sup *sup, struct conf *conf, int nodes,
                     int spares, struct plan *ret, struct err *err)
{
    struct plan_notes notes = {0};
    struct site site = {
        .nodes = nodes,
        .spares = spares,
        .ranks_per_node = sup->facts.ranks_per_node,
        .gpus_per_node = sup->facts.gpus_per_node,
        .cores_per_rank = cores_of_rank(sup),
        .disk_free_bytes = -1,
        .slurmd_timeout_s = -1, .requeue_delay_s = -1,
        .max_batch_requeue = -1, .job_requeue = -1, .kill_wait_s = -1,
        .submit = true, /* unseen is a warning, repeated on the nodes */
    };
    if (tokenizer_look(conf, &site.tokenizer, err))
        return -1;
    return plan_make(conf, &site, ret, &notes, err);
}

int sup_fewer_nodes(const struct sup *sup, const char *but)
{
    int good = 0, fits = 0;
    struct conf *conf = sup->plan.elastic
                            ? plan_conf_open(sup->facts.config, NULL)
                            : NULL;
    struct plan *plan = conf ? malloc(sizeof *plan) : NULL;
    for (int i = 0; i < sup->nodes_n; i++)
        good += !sup->nodes[i].bad && sup->nodes[i].up &&
                strcmp(sup->nodes[i].name, but);
    for (int n = good; plan && !fits && n >= 1 && n >= sup->plan.min_nodes;
         n--)
        if (!make_plan(sup, conf, n, 0, plan, NULL))
            fits = n;
    free(plan);
    conf_destroy(conf);
    return fits;
}

static int open_plan(struct sup *sup, struct err *err)
{
    struct conf *conf = plan_conf_open(sup->facts.config, err);
    if (!conf || plan_conf_recall(conf, err)) {
        conf_destroy(conf);
        return -1;
    }
    int rc = make_plan(sup, conf, sup->nodes_n, -1, &sup->plan, err);
    if (!rc) {
        str_copy(sup->run_dir, sizeof sup->run_dir, sup->plan.run_dir);
        rc = file_make_dirs(sup->run_dir, 0700, err);
    }
    if (!rc)
        rc = keep_effective(sup, conf, err);
    conf_destroy(conf);
    return rc;
}

/* ---- Job and nodes ------------------------------------------------------ */

static int open_nodes(struct sup *sup, struct err *err)
{
    char **names = NULL;
    int n = ctl_expand(sup->job.nodes, &names, err);
    if (n < 0)
        return -1;
    int rc = -1;
    struct ctl_node *seen = calloc((size_t)n + 1, sizeof *seen);
    sup->nodes = calloc((size_t)n + 1, sizeof *sup->nodes);
    if (!seen || !sup->nodes) {
        err_set(err, "supervise: out of memory");
        goto out;
    }
    sup->nodes_n = n;
    if (ctl_load_nodes((const char *const *)names, n, seen, err))
        goto out;
    for (int i = 0; i < n; i++) {
        struct sup_node *node = &sup->nodes[i];
        str_copy(node->name, sizeof node->name, names[i]);
        str_copy(node->address, sizeof node->address, seen[i].address);
        node->slurmd_port = seen[i].port;
        node->probe_fd = -1;
        if (!strcmp(node->name, sup->facts.node_name))
            snprintf(sup->address, sizeof sup->address, "%s", node->address);
        if (seen[i].down) {
            node->bad = true;
            snprintf(node->why, sizeof node->why, "Slurm calls it down");
        }
    }
    rc = 0;
out:
    ctl_names_free(names);
    free(seen);
    return rc;
}

static int node_index(const struct sup *sup, const char *name)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (!strcmp(sup->nodes[i].name, name))
            return i;
    return -1;
}

/* ---- What happened before ----------------------------------------------- */

/* An attempt without a verdict lost its supervisor. Its verdict is written
 * now, by the only one who may: nobody's failure, unless Slurm says more. */
static void judge_orphans(struct sup *sup)
{
    for (int i = 0; i < sup->history.n; i++) {
        struct past_attempt *p = &sup->history.past[i];
        if (p->judged || !(p->started || p->claimed))
            continue;
        struct diagnosis d;
        struct decision decision = {.action = ACTION_RELAUNCH};
        bool same = p->job == (uint32_t)sup->facts.job &&
                    p->restart_count == sup->job.restart_count;
        classify_plain(CAUSE_SUPERVISOR, "",
                       same ? "the supervisor ended without a verdict and "
                              "was started again"
                            : "the supervisor's host was lost, or the job "
                              "was ended at once",
                       &d);
        snprintf(decision.why, sizeof decision.why, "not counted");
        struct err err = ERR_INIT;
        attempt_verdict_write(sup->run_dir, p->number, p->job,
                              p->restart_count, &d, &decision, -1, &err);
        p->judged = true;
        p->cause = CAUSE_SUPERVISOR;
    }
}

/* Nodes that an attempt of this start of the job found bad, or the last one
 * before it, should the exclusion that we asked Slurm for have been lost.
 * Older ones may have been forgiven. */
static void bar_known_bad(struct sup *sup)
{
    for (int i = 0; i < sup->history.n; i++) {
        const struct past_attempt *p = &sup->history.past[i];
        bool recent = p->restart_count == sup->job.restart_count ||
                      p->number == sup->history.newest;
        int k = p->node_out && recent && p->job == (uint32_t)sup->facts.job
                    ? node_index(sup, p->node)
                    : -1;
        if (k < 0)
            continue;
        sup->nodes[k].bad = true;
        snprintf(sup->nodes[k].why, sizeof sup->nodes[k].why,
                 "attempt %d found it bad", p->number);
    }
}

/* The same run directory in use by another job that still lives? Slurm says. */
static int refuse_second_user(const struct sup *sup, const struct history *h,
                              struct err *err)
{
    for (int i = h->n - 1; i >= 0; i--) {
        const struct past_attempt *p = &h->past[i];
        if (p->judged || !(p->started || p->claimed) ||
            p->job == (uint32_t)sup->facts.job ||
            (sup->attempt && p->number > sup->attempt))
            continue;
        struct ctl_job other;
        struct err why = ERR_INIT;
        if (ctl_load_job(p->job, &other, &why)) {
            if (why.class == ERR_REQUEST)
                continue; /* long gone */
            *err = why;
            return -1;
        }
        bool lives = other.state == CTL_RUNNING ||
                     other.state == CTL_SUSPENDED ||
                     other.state == CTL_PENDING;
        ctl_job_release(&other);
        if (lives)
            return err_set_class(
                err, ERR_REQUEST,
                "supervise: run directory is in use: '%s': job %u, attempt "
                "%d; wait for it, cancel it, or set run.dir to another folder",
                sup->run_dir, p->job, p->number);
    }
    return 0;
}

/* One that was made by now, and does not say yet whose it is. */
static bool any_nameless(const struct history *h, int from, int to)
{
    for (int i = 0; i < h->n; i++) {
        const struct past_attempt *p = &h->past[i];
        if (p->number >= from && p->number < to && !p->claimed && !p->started &&
            !p->judged)
            return true;
    }
    return false;
}

/* Two that begin together take different numbers: the lower one goes on. */
int sup_claim(struct sup *sup, struct err *err)
{
    int seen = sup->history.newest;
    double until = clock_mono_s() + NAMELESS_S;
    struct history now = {0};
    for (;;) {
        history_release(&now);
        if (history_load(sup->run_dir, &now, err))
            return -1;
        if (!any_nameless(&now, seen, sup->attempt) || clock_mono_s() > until)
            break;
        clock_sleep_s(0.1);
    }
    int rc = refuse_second_user(sup, &now, err);
    history_release(&now);
    if (rc)
        attempt_withdraw(sup->run_dir, sup->attempt);
    return rc;
}

static int64_t newest_checkpoint(const struct sup *sup)
{
    struct catalog catalog;
    if (catalog_load(sup->run_dir, 0, &catalog, NULL))
        return -1;
    int64_t step = -1;
    for (int i = 0; i < catalog.n; i++)
        if (catalog.entries[i].committed && catalog.entries[i].accepted &&
            catalog.entries[i].step > step)
            step = catalog.entries[i].step;
    catalog_release(&catalog);
    return step;
}

/* Save that long before the limit; in a short job, in its last quarter. */
void sup_set_end(struct sup *sup, const struct ctl_job *job)
{
    double before = sup->plan.save_before_limit_s;
    double end_s = clock_mono_s() + job->left_s;
    if (sup->end_s > 0 && fabs(end_s - sup->end_s) < SAME_END_S)
        return; /* a quarter of what was left when it was set */
    if (before > job->left_s / 4)
        before = job->left_s / 4;
    sup->end_s = end_s;
    sup->end_due_s = end_s - before;
}

const char *sup_resume_mode(const struct sup *sup)
{
    bool again = sup->job.restart_count > 0;
    for (int i = 0; i < sup->history.n && !again; i++)
        again = sup->history.past[i].started &&
                sup->history.past[i].number != sup->attempt &&
                sup->history.past[i].job == (uint32_t)sup->facts.job;
    return again ? "auto" : sup->plan.resume;
}

/* A job may start in the moment in which slurmctld is started again. */
static int load_job(struct sup *sup, struct err *err)
{
    double until = clock_mono_s() + SLURM_AWAY_S;
    for (;;) {
        *err = ERR_INIT;
        if (!ctl_load_job((uint32_t)sup->facts.job, &sup->job, err))
            return 0;
        if (err->class != ERR_JOB || clock_mono_s() > until)
            return -1;
        clock_sleep_s(SLURM_AGAIN_S);
    }
}

/* ---- All together ------------------------------------------------------- */

static int open_signals(struct sup *sup, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    sup->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (sup->signal_fd < 0)
        return err_set_errno(err, "supervise: cannot take signals");
    return 0;
}

static int open_station(struct sup *sup, struct err *err)
{
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const char **names = calloc((size_t)sup->nodes_n + 1, sizeof *names);
    if (!names)
        return err_set(err, "supervise: out of memory");
    for (int i = 0; i < sup->nodes_n; i++)
        names[i] = sup->nodes[i].name;
    if (!wire_random_hex(sup->secret, sizeof sup->secret, err))
        sup->station = station_open(sup->secret, names, sup->nodes_n,
                                    sup->plan.silent_s, err);
    free(names);
    if (!sup->station)
        return -1;
    char host[sizeof sup->nodes->address];
    str_copy(host, sizeof host, sup->address);
    snprintf(sup->address, sizeof sup->address, "%s:%d", host,
             station_port(sup->station));
    return 0;
}

int sup_open(struct sup *sup, const struct sup_facts *facts, struct err *err)
{
    *sup = (struct sup){.facts = *facts, .signal_fd = -1, .log_fd = -1,
                        .stall_rank = -1, .unfit_node = -1, .ckpt_step = -1,
                        .last_step = -1, .start_s = clock_mono_s()};
    if (open_signals(sup, err) || ctl_check(err) ||
        load_job(sup, err) || open_nodes(sup, err))
        return -1;
    if (open_plan(sup, err))
        return -1;
    sup->needed = sup->nodes_n - sup->plan.spares;
    if (sup->needed < 1)
        return err_set_class(err, ERR_REQUEST,
                             "supervise: %d spares of %d nodes leave none to "
                             "train; spares are part of -N",
                             sup->plan.spares, sup->nodes_n);
    if (!sup->address[0])
        return err_set(err, "supervise: this host is no node of the job: "
                            "'%s'", facts->node_name);
    if (history_load(sup->run_dir, &sup->history, err) ||
        refuse_second_user(sup, &sup->history, err))
        return -1;
    judge_orphans(sup);
    bar_known_bad(sup);
    sup->ckpt_step = newest_checkpoint(sup);
    sup_set_end(sup, &sup->job);
    sup->ranks_n = sup->needed * facts->ranks_per_node;
    sup->ranks = calloc((size_t)sup->ranks_n + 1, sizeof *sup->ranks);
    if (!sup->ranks)
        return err_set(err, "supervise: out of memory");
    sup_notice_open(sup);
    return open_station(sup, err);
}

void sup_close(struct sup *sup)
{
    sup_notice_close(sup);
    station_close(sup->station);
    journal_close(sup->journal);
    history_release(&sup->history);
    ctl_job_release(&sup->job);
    json_decref(sup->report);
    free(sup->nodes);
    free(sup->ranks);
    if (sup->signal_fd >= 0)
        close(sup->signal_fd);
    if (sup->log_fd >= 0)
        close(sup->log_fd);
}
