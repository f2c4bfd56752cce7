/* sup - the supervisor's state; private to its files.
 *
 * sup_open.c   facts: the job, its nodes, the plan, the history
 * sup_pump.c   what comes in, into this state: watchers, signals, children
 * sup_nodes.c  watchers up, nodes prepared, roles chosen
 * sup_watch.c  one attempt from launch to diagnosis
 * act.c        the only one that kills, starts, excludes, requeues
 * sup_health.c findings in mid-run, differences between nodes
 * sup_cut.c    are the others silent, or is this host cut off
 * sup_status.c the job's comment and time limit
 * story.c      lines for people and records for the journal
 *
 * One thread works on it; station.c's thread never sees it.
 */
#ifndef KB_SUPERVISE_SUP_H
#define KB_SUPERVISE_SUP_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runner/base/contract.h"
#include "runner/base/err.h"
#include "runner/journal/journal.h"
#include "runner/journal/notice.h"
#include "runner/plan/plan.h"
#include "runner/supervise/attempt.h"
#include "runner/supervise/classify.h"
#include "runner/supervise/ctl.h"
#include "runner/supervise/decide.h"
#include "runner/supervise/node_child.h"
#include "runner/supervise/station.h"
#include "runner/supervise/wire.h"

struct sup_facts { /* from the environment and the command line; borrowed */
    const char *config, *user_exclude;
    const char *node_name;      /* where this supervisor runs */
    long job;
    int ranks_per_node;
    int gpus_per_node;
    int cpus_per_rank;          /* as the user said; 0: did not */
    int step_cpus;              /* of the allocation, for each rank's task */
    bool crowded;               /* a node has fewer cores than ranks */
    char **program;             /* NULL-ended: the trainer and its arguments */
    char **environment;
    void (*say)(const char *line); /* a line for people */
};

enum node_role { ROLE_TRAIN, ROLE_SPARE, ROLE_OUT };

struct sup_node {
    char name[256];
    char address[256];
    int slurmd_port, cpus;
    enum node_role role;
    bool up, seen;       /* its watcher is connected; was, ever */
    bool asked, ready;   /* prepare was sent, was answered well */
    bool trained;        /* it trains, or did, in this attempt */
    bool bad;            /* unfit, lost or excluded: never used again */
    char why[640];       /* it is bad */
    char bad_class[16];  /* of a refusal: "request" is the user's, "shared" too
                          * if every node says it */
    /* a connection was lost and it is being found out why */
    int probe_fd;        /* -1 none */
    double probe_s;      /* when it was begun, or the next is due */
    double answered_s;   /* when slurmd took a connection; 0: not yet */
    double lost_s;       /* when; 0: not lost */
    double quiet_s;      /* then since the last word */
    double rewatch_s;    /* a new watcher was started then */
    enum finding_choice choice; /* what findings in mid-run lead to */
    double choice_s;     /* monotonic: when that was told */
    char found[640];     /* what */
    bool reported;       /* beats arrived for the report asked for */
    int peer_port;
};

struct sup_rank {
    bool hello, ended, told, oom;
    int node, code, signal, error_class;
    char message[512];
    double seen_s;
    int64_t step;
};

struct child { /* an srun that was started */
    pid_t pid;
    bool ended;
    int status;
};

struct sup {
    struct sup_facts facts;
    struct plan plan;
    char run_dir[PATH_MAX], config[PATH_MAX];
    struct ctl_job job;
    struct sup_node *nodes;
    int nodes_n, needed;        /* needed: nodes that train */
    struct history history;
    struct station *station;
    char secret[WIRE_SECRET_CHARS], address[300];
    double start_s;             /* monotonic, of this supervisor */
    struct journal *journal;
    struct notice *notice;      /* NULL: none wanted */
    int attempt;
    int last_attempt;           /* of an earlier supervisor of this job */
    double attempt_s, launch_s; /* monotonic */
    char log_path[PATH_MAX];    /* the ranks' output */
    int log_fd;
    long long log_at;
    struct child train, watchers, old[64];
    int old_n;
    int signal_fd;
    struct sup_rank *ranks;
    int ranks_n, hellos_n;
    bool launched;
    /* what came in and waits to be judged */
    int term_seen, usr1_seen;   /* signals since the last look */
    double end_s, end_due_s;    /* monotonic: the time limit, and when to save
                                 * for it; INFINITY: none */
    bool save_asked;
    double save_until_s;        /* monotonic */
    bool short_of_nodes;        /* preflight left too few to train */
    enum cause slurm_cause;     /* why Slurm sent TERM; CAUSE_NONE */
    double term_s;
    int stall_rank;             /* told by a watcher, or -1 */
    double stall_s;
    char stall_phase[32];
    double stall_limit_s, stall_quiet_s;
    int stall_node;
    int64_t stall_writing;      /* step that a writer hangs in, or -1 */
    long report_id;
    json_t *report;             /* ranks' beats by all nodes, while asked */
    int unfit_node;             /* that a save was asked for, or -1 */
    int reports_n;              /* of preflight, kept in the attempt */
    struct node_child comparing;
    int64_t ckpt_step;          /* newest committed, -1 none */
    int64_t last_step;          /* the newest that a rank told */
    bool done_told;
    bool dismissed;           /* the watchers were sent home: no loss */
    double comment_due_s, comment_last_s;
    char comment[300], incident[200];
    struct node_child asking;   /* Slurm, in a child */
    struct node_child cut_child; /* sup_cut.c */
    bool cut;
    double cut_ask_s, cut_good_s;
    int asking_failed;          /* times in a row */
};

/* ---- sup_open.c --------------------------------------------------------- */
int sup_open(struct sup *sup, const struct sup_facts *facts, struct err *err);
void sup_close(struct sup *sup);
/* fresh and STEP are for the first start of a job; later ones go on from it.
 * Returns "auto", "fresh" or the step. */
const char *sup_resume_mode(const struct sup *sup);
/* The attempt was begun: did another job begin one just before? Then it is
 * withdrawn and the run is that job's. */
int sup_claim(struct sup *sup, struct err *err);
void sup_set_end(struct sup *sup, const struct ctl_job *job);

/* ---- sup_pump.c --------------------------------------------------------- */
/* Waits at most wait_s for news and takes all there is. */
void sup_pump(struct sup *sup, double wait_s);

/* ---- sup_nodes.c -------------------------------------------------------- */
/* Prepares all usable nodes for the attempt and chooses who trains. 0 with
 * roles set; 1: not enough good ones, diagnosis set; -1. */
int sup_prepare(struct sup *sup, struct diagnosis *ret, struct err *err);
/* `prepare`, or `attach` for a watcher that comes while ranks run. */
json_t *sup_prepare_message(const struct sup *sup, const char *type,
                            bool preflight);
int sup_good_spares(const struct sup *sup);
/* The most nodes that could train without `but`, at least the plan's
 * min_nodes and of a number that the plan accepts; 0: none, or not allowed. */
int sup_fewer_nodes(const struct sup *sup, const char *but);
void sup_node_out(struct sup *sup, int node, const char *why);
/* Looks after lost connections; index of a node that is known to be lost, with
 * the diagnosis, or -1. */
int sup_lost_node(struct sup *sup, struct diagnosis *ret);

/* ---- sup_health.c ------------------------------------------------------- */
/* A watcher's finding: told, and what follows is remembered with the node. */
void sup_on_finding(struct sup *sup, int node, const json_t *finding,
                    double seen_s);
/* 1 when a node must go now, with the diagnosis; asks for saves. */
int sup_look_at_health(struct sup *sup, struct diagnosis *ret);
/* A save is over: if it was asked for a node's sake, that is the diagnosis. */
void sup_saved_for(struct sup *sup, struct diagnosis *diagnosis);
/* Before an attempt: who was found unfit while another was replaced. */
void sup_leave_unfit_out(struct sup *sup);
/* Preflight's reports, and what they say when laid beside each other. */
void sup_keep_report(struct sup *sup, int node, const json_t *report);
void sup_compare_start(struct sup *sup);
void sup_compare_turn(struct sup *sup);

/* ---- sup_cut.c ---------------------------------------------------------- */
/* Most others are silent, and it is not known that it is not us. */
bool sup_is_cut_off(struct sup *sup, double now);

/* ---- sup_watch.c -------------------------------------------------------- */
int sup_launch(struct sup *sup, struct err *err);
/* Watches until there is a diagnosis. */
void sup_watch(struct sup *sup, struct diagnosis *ret);

/* ---- sup_status.c ------------------------------------------------------- */
void sup_incident(struct sup *sup, const char *subject, const char *words);
void sup_status_turn(struct sup *sup);

/* ---- act.c -------------------------------------------------------------- */
enum next { NEXT_AGAIN, NEXT_EXIT };
/* Carries the decision out. exit_code is set with NEXT_EXIT. */
enum next act(struct sup *sup, const struct diagnosis *diagnosis,
              const struct decision *decision, int *ret_exit_code);
/* Requeued without the nodes to be excluded now, would it ever start? */
bool act_would_starve(const struct sup *sup, const struct diagnosis *diagnosis);
/* For root's own check after the job: spank/suspect.h. */
void act_tell_suspicion(struct sup *sup, const struct diagnosis *diagnosis);
/* Never again in this job. */
void act_give_up_node(struct sup *sup, const struct diagnosis *diagnosis);
/* If its watcher still listens: kill your ranks, and go. */
void act_dismiss(struct sup *sup, int node);
void act_abandon_sruns(struct sup *sup);
void act_end_ranks(struct sup *sup);
void act_ask_checkpoint(struct sup *sup); /* and go on */
void act_ask_save(struct sup *sup);
int act_rewatch(struct sup *sup, int node, struct err *err);

/* ---- sup_notice.c ------------------------------------------------------- */
void sup_notice_open(struct sup *sup);
void sup_notice_event(struct sup *sup, enum kb_event event,
                      const json_t *fields);
void sup_notice_close(struct sup *sup); /* waits some seconds at most */

/* ---- story.c ------------------------------------------------------------ */
void story_say(struct sup *sup, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Takes fields. */
void story_event(struct sup *sup, enum kb_event event, json_t *fields);
/* What a rank's or watcher's record means, in a line; none for the rest. */
void story_rank_event(struct sup *sup, int node, const json_t *record);
void story_log_tail(struct sup *sup);
json_t *story_names(const struct sup *sup, enum node_role role);

#endif
