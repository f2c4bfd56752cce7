/* classify - what was seen, to a diagnosis. Pure; tested as rows.
 *
 * A diagnosis names a cause, its class (what is lost), a subject (the rank or
 * node that is to blame; "" nobody) and the evidence in words. Innocents are
 * never named: a rank that only lost its peer, one that waits in a collective
 * which another did not enter.
 */
#ifndef KB_SUPERVISE_CLASSIFY_H
#define KB_SUPERVISE_CLASSIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"

enum cause {
    CAUSE_NONE,
    CAUSE_DONE,          /* all steps done */
    CAUSE_SAVED,         /* stopped on request, after a checkpoint */
    CAUSE_STEP_CANCELLED, /* the ranks' step was ended, not the job */
    CAUSE_USER,          /* configuration, data, memory: the user's */
    CAUSE_NO_CKPT,       /* checkpoints exist, none is valid */
    CAUSE_LOSS,          /* the loss went bad: this step, this data */
    CAUSE_RANK_CRASH,    /* a signal */
    CAUSE_RANK_KILLED,   /* SIGKILL from outside: a person or the kernel */
    CAUSE_OUT_OF_MEMORY, /* the kernel's or the cgroup's kill */
    CAUSE_RANK_ERROR,    /* an exit code */
    CAUSE_RANK_LEFT,     /* exited 0 before the end */
    CAUSE_GPU,
    CAUSE_NODE_SUSPECT,  /* a rank's own word: disk, memory error */
    CAUSE_NODE_DEAD,     /* its connection closed and it does not answer */
    CAUSE_NODE_SILENT,   /* no word from it: dead, hung or cut off */
    CAUSE_NODE_UNFIT,    /* preflight or in-job health */
    CAUSE_STALL,
    CAUSE_WIREUP,        /* the start never came together */
    CAUSE_SLURM_AWAY,   /* srun had no slurmctld to ask */
    CAUSE_LAUNCH,        /* srun failed before any rank started */
    CAUSE_PEER,          /* all say they lost a peer, nobody is missing */
    CAUSE_TIME_LIMIT,
    CAUSE_PREEMPTED,
    CAUSE_REQUEUED,      /* somebody else requeued the job */
    CAUSE_CANCELLED,
    CAUSE_SUPERVISOR,    /* the last supervisor was lost */
    CAUSE_N
};

/* One row a cause: its name, its class, whether it counts against the
 * restart budget, and what a person is told. */
struct cause_row {
    const char *name;
    enum err_class class;
    bool counted;
    const char *words;
};
extern const struct cause_row cause_rows[CAUSE_N];

struct diagnosis {
    enum cause cause;
    enum err_class class;
    int rank;             /* -1: none */
    char node[256];       /* the node to blame; "" none */
    char subject[288];    /* "rank 3 on n4", "node n4", "job" */
    char evidence[900];
    char signature[400];  /* equal for the same failure again */
    double seen_s;        /* monotonic: when it was known */
    double since_s;       /* how long before that it happened, at most */
};

/* How one rank ended. */
struct rank_end {
    int rank;
    const char *node;
    double seen_s;
    bool told;            /* its status is known */
    int code, signal;     /* as told */
    int error_class;      /* of its rank_error, ERR_NONE: it said nothing */
    const char *message;  /* of its rank_error, or "" */
    int64_t step;         /* last finished, -1 unknown */
    bool oom;             /* the node's OOM counter moved */
};
/* Of the ranks that ended, the one to blame: index, or -1 (nobody ended, or
 * all are innocent). */
int classify_blame(const struct rank_end *ends, int ends_n);
void classify_rank(const struct rank_end *end, struct diagnosis *ret);
/* All ended; by themselves or on request. */
void classify_finish(const struct rank_end *ends, int ends_n, int ranks_n,
                     bool asked_to_save, struct diagnosis *ret);

/* One rank's beat at the time of a stall. */
struct rank_beat {
    int rank;
    const char *node;
    bool beats, exited;
    char state;           /* of the process, as in /proc; '?' unknown */
    double quiet_s, limit_s; /* limit_s: how long its phase may be quiet */
    int64_t phase, step, group, entered, done;
    int64_t writing;      /* step whose checkpoint it still writes, or -1 */
};
/* False: the one that the others wait for is still within its own limit (a long
 * checkpoint, say): no diagnosis yet. */
bool classify_stall(const struct rank_beat *beats, int beats_n, int told_rank,
                    struct diagnosis *ret);

/* Checkpoint writers that do not come on. Rank 0's waits for all others': of
 * those that still write the step, one of the others is to blame. */
void classify_writer(const struct rank_beat *beats, int beats_n, int told_rank,
                     const char *told_node, int64_t step, double quiet_s,
                     struct diagnosis *ret);
void classify_node(enum cause cause, const char *node, double quiet_s,
                   const char *how, struct diagnosis *ret);
/* Anything that needs only words. */
void classify_plain(enum cause cause, const char *subject,
                    const char *evidence, struct diagnosis *ret);

#endif
