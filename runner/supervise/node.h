/* node - the watcher of one node; private to its files.
 *
 * Local ranks report to it, it alone talks to the supervisor. One poll loop,
 * one thread; whatever may hang (a file server, a health probe) is a child
 * with a deadline (node_child.c).
 */
#ifndef KB_SUPERVISE_NODE_H
#define KB_SUPERVISE_NODE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/base/contract.h"
#include "runner/base/err.h"
#include "runner/supervise/link.h"
#include "runner/supervise/node_child.h"
#include "runner/supervise/node_health.h"

#define NODE_RANKS_MAX 64

/* Limits, from the supervisor's `prepare`. */
struct node_limits {
    double heartbeat_s, silent_s;
    double stall_min_s, stall_factor, load_limit_s, wireup_limit_s;
    double health_s;         /* between rounds of the watch; 0: none */
    int nodes_n, ranks_per_node, gpus_per_node; /* of the job, for the plan */
};

/* One local rank as seen from here. */
struct node_rank {
    bool known;              /* said hello, or its wrapper did */
    bool exited;
    double told_s;           /* when its stall was told last; 0: not */
    int rank, pidfd;
    pid_t pid;
    struct kb_beat beat;     /* as last read; magic 0: none yet */
    int beat_fd;
    double changed_s;        /* when `changes` last grew */
    double writing_s;        /* since when the writer writes; 0: it does not */
    double writing_told_s, slowest_write_s;
    double slowest_s[KB_PHASE_N]; /* longest quiet time that was normal */
};

struct node_ranks {
    char dir[PATH_MAX];
    int sock;                /* watch.sock, or -1 */
    int attempt, n;
    long long oom_kills;     /* of the host, when the attempt began */
    struct node_rank rank[NODE_RANKS_MAX];
};

struct node_quorum;

struct node {
    char name[WIRE_NAME_BYTES], host[WIRE_NAME_BYTES];
    char run_dir[PATH_MAX], config[PATH_MAX];
    long job;
    void (*say)(const char *line);
    struct link link;
    struct node_limits limits;
    struct node_ranks ranks;
    struct node_quorum *quorum;
    struct node_child check;  /* preflight */
    struct node_health health;
    double now, start_s, last_turn;
    /* prepare in progress: attempt > 0 until it is answered */
    int preparing;
    double prepare_until;
    int old_killed_n;
    bool preflight_wanted;
    bool bye;
    unsigned suspected;       /* bits of enum kb_suspicion that were written */
};

/* ---- node_ranks.c: folder, datagrams, beats, exits ---------------------- */
int node_ranks_open(struct node_ranks *ranks, long job, int attempt, int n,
                    struct err *err);
/* A watcher started while ranks run learns of them from their beats. */
void node_ranks_adopt(struct node_ranks *ranks, double now);
void node_ranks_close(struct node_ranks *ranks);
/* Reads all datagrams, beats and exits; messages for the supervisor go to
 * send, which takes them. */
void node_ranks_turn(struct node_ranks *ranks, double now,
                     void (*send)(void *ctx, json_t *message), void *ctx);
/* The state of all local ranks, for a diagnosis. */
json_t *node_ranks_report(const struct node_ranks *ranks,
                          const struct node_limits *limits, double now);
void node_ranks_signal(const struct node_ranks *ranks, int signal);
void node_ranks_forgive(struct node_ranks *ranks, double gap_s);
bool node_ranks_alive(const struct node_ranks *ranks);

/* ---- node_stall.c ------------------------------------------------------- */
/* Seconds that a rank may be quiet in its phase. */
double node_stall_limit(const struct node_rank *rank,
                        const struct node_limits *limits);
/* Index of a rank quiet for too long that was not told in the last seconds,
 * or -1. */
int node_stall_find(const struct node_ranks *ranks,
                    const struct node_limits *limits, double now);

/* Index of a rank whose checkpoint writer takes too long, or -1. */
int node_stall_writer(const struct node_ranks *ranks,
                      const struct node_limits *limits, double now);

/* ---- node_kill.c -------------------------------------------------------- */
/* SIGKILL to every rank of this job on this node of an attempt before
 * `attempt`, and to every other watcher of the job. Returns how many are
 * still there; what: the first of them. */
int node_kill_older(long job, int attempt, char *what, size_t what_bytes);

/* ---- node_check.c: preflight (inside a child) --------------------------- */
/* {"ok", "message", "class", "findings": [...], "report": {...}} */
json_t *node_check_run(void *node);

#endif
