/* koboshi-supervise - launch, watch, diagnose, decide, act.
 *
 *   koboshi-supervise [OPTIONS]        the supervisor, in the batch script
 *   koboshi-supervise --node           the watcher, one a node, by srun
 *   koboshi-supervise --rank PROGRAM   the wrapper of one rank, by srun
 *
 * main_supervise: arguments, environment, and the order of things.
 */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/log.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/supervise/budget.h"
#include "runner/supervise/node_main.h"
#include "runner/supervise/program.h"
#include "runner/supervise/rank_main.h"
#include "runner/supervise/sup.h"

#define VERDICT_TRIES 5
#define VERDICT_AGAIN_S 1.0

extern char **environ;

static void say(const char *line)
{
    log_info("%s", line);
}

static const char *env_or(const char *name, const char *fallback)
{
    const char *text = getenv(name);
    return text && *text ? text : fallback;
}

static long env_number(const char *name, long fallback)
{
    int64_t number;
    const char *text = getenv(name);
    return text && !str_to_i64(text, &number) ? (long)number : fallback;
}

/* ---- One attempt --------------------------------------------------------- */

/* Checkpoints that may be loaded: the fence against older writers. What a start
 * afresh or from STEP passes over is passed over for good: later attempts go on
 * from this one. */
static int write_start(struct sup *sup, struct err *err)
{
    struct catalog catalog = {0};
    if (catalog_load(sup->run_dir, sup->attempt, &catalog, err))
        return -1;
    const char **nodes = calloc((size_t)sup->nodes_n + 1, sizeof *nodes);
    const char **spares = calloc((size_t)sup->nodes_n + 1, sizeof *spares);
    const char **names = calloc((size_t)catalog.n + 1, sizeof *names);
    struct attempt_start start = {
        .resume = sup_resume_mode(sup),
        .job = (uint32_t)sup->facts.job,
        .restart_count = sup->job.restart_count, .nodes = nodes,
        .spares = spares, .checkpoints = names};
    int rc = -1;
    if (!nodes || !spares || !names) {
        err_set(err, "supervise: out of memory");
        goto out;
    }
    if (catalog_check_resume(&catalog, start.resume, err))
        goto out;
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].role == ROLE_TRAIN)
            nodes[start.nodes_n++] = sup->nodes[i].name;
        else if (sup->nodes[i].role == ROLE_SPARE)
            spares[start.spares_n++] = sup->nodes[i].name;
    for (int i = 0; i < catalog.n; i++)
        if (catalog_takes(&catalog.entries[i], start.resume))
            names[start.checkpoints_n++] = catalog.entries[i].name;
    rc = attempt_start_write(sup->run_dir, sup->attempt, &start, err);
out:
    free(nodes);
    free(spares);
    free(names);
    catalog_release(&catalog);
    return rc;
}

static int begin(struct sup *sup, struct err *err)
{
    if (attempt_begin(sup->run_dir, sup->history.newest + 1,
                      (uint32_t)sup->facts.job, sup->job.restart_count,
                      &sup->attempt, err) ||
        sup_claim(sup, err) ||
        attempt_path(sup->run_dir, sup->attempt, KB_ATTEMPT_LOGS_DIR
                     "/train.log", sup->log_path, sizeof sup->log_path, err))
        return -1;
    sup->attempt_s = clock_mono_s();
    if (sup->log_fd >= 0) {
        story_log_tail(sup);
        close(sup->log_fd);
    }
    sup->log_fd = -1;
    sup->log_at = 0;
    journal_close(sup->journal);
    sup->journal = journal_open(sup->run_dir, sup->attempt, KB_JOURNAL, err);
    return sup->journal ? 0 : -1;
}

static void tell_start(struct sup *sup)
{
    json_t *nodes = story_names(sup, ROLE_TRAIN);
    json_t *spares = story_names(sup, ROLE_SPARE);
    story_event(sup, KB_EV_ATTEMPT_START,
                json_pack("{s:O, s:O, s:i, s:i}", "nodes", nodes, "spares",
                          spares, "restart_count", sup->job.restart_count,
                          "job", (int)sup->facts.job));
    char *nodes_text = json_dumps(nodes, JSON_COMPACT);
    char *spares_text = json_dumps(spares, JSON_COMPACT);
    story_say(sup, "attempt %d: trains on %s, spares %s, %d ranks",
              sup->attempt, nodes_text ? nodes_text : "?",
              spares_text ? spares_text : "?", sup->ranks_n);
    free(nodes_text);
    free(spares_text);
    json_decref(nodes);
    json_decref(spares);
}

/* From a number to ranks that run: 0; 1: a diagnosis says why not; -1. */
static int start_attempt(struct sup *sup, struct diagnosis *ret,
                         struct err *err)
{
    if (begin(sup, err))
        return -1;
    int rc = sup_prepare(sup, ret, err);
    sup->short_of_nodes = rc > 0;
    if (rc < 0 || (rc > 0 && !sup->term_seen))
        return rc;
    if (rc == 0 && write_start(sup, err))
        return -1;
    if (rc == 0)
        tell_start(sup);
    return sup_launch(sup, err);
}

/* ---- Judgement ----------------------------------------------------------- */

static void judge(struct sup *sup, const struct diagnosis *d,
                  struct decision *ret)
{
    bool trains = false;
    for (int i = 0; i < sup->nodes_n; i++)
        if (d->node[0] && !strcmp(sup->nodes[i].name, d->node))
            trains = sup->nodes[i].trained;
    struct means means = {
        .node_out = trains || sup->short_of_nodes,
        .spares = sup_good_spares(sup),
        .budget = budget_left(&sup->history, sup->plan.max_restarts,
                              sup->plan.restart_refill_s, clock_wall_s()),
        .repeated =
            budget_repeated(&sup->history, d->signature, sup->ckpt_step),
        .elastic = sup->plan.elastic && sup_fewer_nodes(sup, d->node) > 0,
        .can_requeue = sup->job.batch && sup->job.requeue,
        .save_asked = sup->save_asked,
        .wireups = budget_in_row(&sup->history, CAUSE_WIREUP),
        .aways = budget_in_row(&sup->history, CAUSE_SLURM_AWAY),
        .requeues_idle = budget_requeues_idle(&sup->history, sup->ckpt_step),
    };
    decide(d, &means, ret);
    if (ret->action != ACTION_REQUEUE)
        return;
    means.starved = act_would_starve(sup, d);
    decide(d, &means, ret);
}

static const char *spare_taken(const struct sup *sup, enum action action)
{
    for (int i = 0; action == ACTION_REPLACE && i < sup->nodes_n; i++)
        if (sup->nodes[i].role == ROLE_SPARE && sup->nodes[i].ready)
            return sup->nodes[i].name;
    return "";
}

static void tell_judgement(struct sup *sup, const struct diagnosis *d,
                           const struct decision *decision)
{
    double known = d->seen_s ? clock_mono_s() - d->seen_s : 0;
    const char *spare = spare_taken(sup, decision->action);
    story_event(sup, KB_EV_DIAGNOSIS,
                json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:f, s:f}", "class",
                          err_class_name(d->class), "subject", d->subject,
                          "cause", cause_rows[d->cause].name, "evidence",
                          d->evidence, "node", d->node, "rank", d->rank,
                          "seconds", d->since_s, "decided_s", known));
    story_event(sup, KB_EV_ACTION,
                json_pack("{s:s, s:s, s:s, s:s}", "action",
                          action_names[decision->action], "node", d->node,
                          "spare", spare, "why", decision->why));
    if (decision->action == ACTION_FINISH)
        return;
    story_say(sup, "%s: %s%s%s%s", d->subject, cause_rows[d->cause].words,
              d->evidence[0] ? " (" : "", d->evidence,
              d->evidence[0] ? ")" : "");
    if (decision->action == ACTION_STOP)
        return;
    story_say(sup, "%s%s%s: %s; newest checkpoint: step %lld",
              action_names[decision->action], *spare ? " with spare " : "",
              spare, decision->why, (long long)sup->ckpt_step);
}

/* A file server may stumble: some tries. */
static int write_verdict(struct sup *sup, const struct diagnosis *d,
                         const struct decision *decision, struct err *err)
{
    for (int try = 0; try < VERDICT_TRIES; try++) {
        *err = ERR_INIT;
        if (!attempt_verdict_write(sup->run_dir, sup->attempt,
                                   (uint32_t)sup->facts.job,
                                   sup->job.restart_count, d, decision,
                                   sup->ckpt_step, err))
            return 0;
        sup_pump(sup, VERDICT_AGAIN_S);
    }
    return -1;
}

/* The verdict is on disk before anything is done about it. Where it cannot be,
 * nothing is begun again: that could never be counted. */
static void record(struct sup *sup, struct diagnosis *d,
                   struct decision *decision)
{
    struct history now = {0};
    struct err err = ERR_INIT;
    if (!write_verdict(sup, d, decision, &err) &&
        !history_load(sup->run_dir, &now, &err)) {
        history_release(&sup->history);
        sup->history = now;
        return;
    }
    story_say(sup, "warning: %s", err.msg);
    if (decision->action == ACTION_FINISH || decision->action == ACTION_YIELD ||
        decision->action == ACTION_STOP)
        return;
    classify_plain(CAUSE_USER, "run directory", err.msg, d);
    *decision = (struct decision){ACTION_STOP, "what happened cannot be "
                                  "written down; make it writable"};
}

/* ---- The supervisor ------------------------------------------------------ */

/* A supervisor that was cut off or frozen may wake to find that the run went
 * on without it: then a newer attempt is there, and nothing is its to judge.
 * One that another job only began is about to be withdrawn. */
static bool superseded(const struct sup *sup)
{
    struct history now = {0};
    if (history_load(sup->run_dir, &now, NULL))
        return false;
    bool newer = false;
    for (int i = 0; i < now.n; i++) {
        const struct past_attempt *p = &now.past[i];
        bool refused = p->claimed && !p->started &&
                       p->job != (uint32_t)sup->facts.job;
        newer = newer || (p->number > sup->attempt && !refused);
    }
    history_release(&now);
    return newer;
}

/* Its ranks end; no record, no request to Slurm. */
static enum next step_down(struct sup *sup, int *ret_exit_code)
{
    story_say(sup, "a newer attempt than %d is there: the run went on without "
                   "this supervisor, which ends", sup->attempt);
    act_abandon_sruns(sup); /* the new steps have their numbers */
    *ret_exit_code = KB_EXIT_SAVED;
    return NEXT_EXIT;
}

/* An attempt from its number to what follows from its end. */
static enum next one_attempt(struct sup *sup, int *ret_exit_code,
                             struct err *err)
{
    struct diagnosis d = {0};
    struct decision decision = {.action = ACTION_CONTINUE};
    int rc = start_attempt(sup, &d, err);
    if (rc < 0)
        return NEXT_EXIT;
    while (decision.action == ACTION_CONTINUE) {
        if (rc == 0)
            sup_watch(sup, &d);
        if (superseded(sup))
            return step_down(sup, ret_exit_code);
        judge(sup, &d, &decision);
        tell_judgement(sup, &d, &decision);
        act_tell_suspicion(sup, &d);
        sup_incident(sup, d.subject, cause_rows[d.cause].words);
        if (rc > 0 && decision.action == ACTION_CONTINUE)
            decision.action = ACTION_STOP; /* there is nothing to go on with */
        if (decision.action == ACTION_CONTINUE)
            act_give_up_node(sup, &d);
    }
    record(sup, &d, &decision);
    return act(sup, &d, &decision, ret_exit_code);
}

static int supervise(const struct sup_facts *facts)
{
    static struct sup sup;
    struct err err = ERR_INIT;
    int exit_code = KB_EXIT_RANK;
    if (sup_open(&sup, facts, &err))
        goto out;
    story_say(&sup, "job %ld on %s, restart %d, run directory %s", facts->job,
              sup.job.nodes, sup.job.restart_count, sup.run_dir);
    while (one_attempt(&sup, &exit_code, &err) == NEXT_AGAIN)
        sup.last_attempt = sup.attempt;
out:
    if (err.class) {
        log_error("%s", err.msg);
        exit_code = contract_exit_code(&err);
        act_end_ranks(&sup);
    }
    sup_close(&sup);
    return exit_code;
}

/* ---- Arguments ----------------------------------------------------------- */

static void usage(FILE *to)
{
    fputs(
        "usage: koboshi-supervise [--config FILE] [--program PROGRAM]\n"
        "       koboshi-supervise --node | --rank PROGRAM [ARGUMENTS]\n"
        "Supervise a training run inside a Slurm job: launch the ranks, watch\n"
        "them, and get them back up.\n\n"
        "  --config FILE      run.yaml (default: $KOBOSHI_CONFIG)\n"
        "  --program PROGRAM  the trainer (default: koboshi-train)\n"
        "  --node             be the watcher of this node (started by srun)\n"
        "  --rank PROGRAM ... be the wrapper of a rank (started by srun)\n"
        "  --help             this text\n"
        "  --version          the version\n",
        to);
}

static int main_rank(char **argv)
{
    struct err err = ERR_INIT;
    struct rank_facts facts = {
        .job = env_number("SLURM_JOB_ID", 0),
        .attempt = (int)env_number(KB_ENV_ATTEMPT, 0),
        .rank = (int)env_number("SLURM_PROCID", 0),
        .local = (int)env_number("SLURM_LOCALID", 0),
    };
    if (!*argv) {
        log_error("supervise: --rank needs a program");
        return KB_EXIT_REQUEST;
    }
    int code = rank_main(&facts, argv, &err);
    if (code < 0) {
        log_error("%s", err.msg);
        return KB_EXIT_RANK;
    }
    return code;
}

static int main_node(void)
{
    struct err err = ERR_INIT;
    struct node_facts facts = {
        .name = env_or("SLURMD_NODENAME", ""),
        .supervisor = env_or(KB_ENV_SUPERVISOR, ""),
        .launched_from = getenv("SLURM_LAUNCH_NODE_IPADDR"),
        .secret = env_or(KB_ENV_SECRET, ""),
        .run_dir = env_or(KB_ENV_RUN_DIR, ""),
        .config = env_or(KB_ENV_CONFIG, ""),
        .job = env_number("SLURM_JOB_ID", 0),
        .restart_count = (int)env_number("SLURM_RESTART_COUNT", 0),
        .say = say,
    };
    if (!*facts.name || !*facts.supervisor || !*facts.secret || !facts.job) {
        log_error("supervise: --node is for the supervisor's own srun");
        return KB_EXIT_REQUEST;
    }
    if (node_main(&facts, &err)) {
        log_error("%s", err.msg);
        return KB_EXIT_NODE;
    }
    return KB_EXIT_DONE;
}

/* "gpu:8", "8", "gpu:h100:8(S:0-1)" to 8. */
static int count_in(const char *text)
{
    const char *colon = text ? strrchr(text, ':') : NULL;
    if (!text)
        return 0;
    int n = atoi(colon ? colon + 1 : text);
    return n > 0 ? n : 0;
}

/* The fewest in "4(x2),8". */
static int fewest_cpus(const char *text)
{
    int fewest = 0;
    while (text && *text) {
        int n = atoi(text);
        if (n > 0 && (!fewest || n < fewest))
            fewest = n;
        text = strchr(text, ',');
        text += text != NULL;
    }
    return fewest;
}

static int main_supervisor(const char *config, char **program)
{
    struct err err = ERR_INIT;
    char trainer[PATH_MAX];
    static char *trainer_argv[2];
    int gpus = count_in(getenv("SLURM_GPUS_PER_NODE"));
    int per_node = (int)env_number("SLURM_NTASKS_PER_NODE", gpus ? gpus : 1);
    per_node = per_node > 0 ? per_node : 1;
    /* Equal on all nodes, so that a spare changes nothing. */
    int cpus = (int)env_number("SLURM_CPUS_PER_TASK", 0);
    int node_cpus = fewest_cpus(getenv("SLURM_JOB_CPUS_PER_NODE"));
    if (cpus < 1 || (node_cpus && cpus * per_node > node_cpus))
        cpus = node_cpus / per_node;
    /* A job that asks for GPUs alone gets one core a node on many sites. */
    bool crowded = node_cpus && node_cpus < per_node;
    if (crowded)
        log_warn("supervise: %d ranks a node share %d core%s; ask for more "
                 "with --ntasks-per-node=%d --cpus-per-task=N", per_node,
                 node_cpus, node_cpus == 1 ? "" : "s", per_node);
    struct sup_facts facts = {
        .config = config,
        .user_exclude = env_or(KB_ENV_USER_EXCLUDE, ""),
        .node_name = env_or("SLURMD_NODENAME", ""),
        .job = env_number("SLURM_JOB_ID", 0),
        .ranks_per_node = per_node,
        .gpus_per_node = gpus,
        .cpus_per_rank = (int)env_number("SLURM_CPUS_PER_TASK", 0),
        .step_cpus = cpus > 0 ? cpus : 1,
        .crowded = crowded,
        .program = program,
        .environment = environ,
        .say = say,
    };
    if (!facts.job || !*facts.node_name) {
        log_error("supervise: not inside a Slurm job; use sbatch "
                  "--llm-train=run.yaml");
        return KB_EXIT_REQUEST;
    }
    if (!config || !*config) {
        log_error("supervise: no configuration; give --config FILE or submit "
                  "with --llm-train=run.yaml");
        return KB_EXIT_REQUEST;
    }
    if (!program) {
        if (program_find("koboshi-train", trainer, sizeof trainer, &err)) {
            log_error("%s", err.msg);
            return KB_EXIT_REQUEST;
        }
        trainer_argv[0] = trainer;
        facts.program = trainer_argv;
    }
    return supervise(&facts);
}

int main(int argc, char **argv)
{
    enum { OPT_NODE = 256, OPT_RANK, OPT_PROGRAM, OPT_HELP, OPT_VERSION };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"program", required_argument, NULL, OPT_PROGRAM},
        {"node", no_argument, NULL, OPT_NODE},
        {"rank", no_argument, NULL, OPT_RANK},
        {"help", no_argument, NULL, OPT_HELP},
        {"version", no_argument, NULL, OPT_VERSION},
        {0},
    };
    static char *program[2];
    char absolute[PATH_MAX];
    const char *config = getenv(KB_ENV_CONFIG);
    bool node = false;
    int c;
    log_init("koboshi-supervise", -1);
    while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        switch (c) {
        case 'c':
            config = optarg;
            break;
        case OPT_PROGRAM:
            program[0] = optarg;
            break;
        case OPT_NODE:
            node = true;
            break;
        case OPT_RANK:
            return main_rank(argv + optind);
        case OPT_HELP:
            usage(stdout);
            return 0;
        case OPT_VERSION:
            puts("koboshi-supervise " PACKAGE_VERSION);
            return 0;
        default:
            usage(stderr);
            return KB_EXIT_REQUEST;
        }
    }
    if (node)
        return main_node();
    /* Watchers and ranks on other nodes start in other folders. */
    if (config && *config && realpath(config, absolute)) {
        config = absolute;
        setenv(KB_ENV_CONFIG, absolute, 1);
    }
    return main_supervisor(config, program[0] ? program : NULL);
}
