/* decide - a diagnosis and what is at hand, to one action. Pure; one table.
 */
#ifndef KB_SUPERVISE_DECIDE_H
#define KB_SUPERVISE_DECIDE_H

#include "health/finding.h"
#include "runner/supervise/classify.h"

enum action {
    ACTION_FINISH,       /* all done: exit 0 */
    ACTION_CONTINUE,     /* nobody is hurt */
    ACTION_RELAUNCH,     /* same nodes */
    ACTION_REPLACE,      /* relaunch with a spare instead of the node */
    ACTION_REQUEUE,      /* requeue, excluding the node if one is to blame */
    ACTION_ROLL_BACK,    /* older checkpoint, skip the data */
    ACTION_SHRINK,       /* resume on fewer nodes */
    ACTION_YIELD,        /* Slurm ends the job itself: leave quietly */
    ACTION_STOP,         /* say why, and do not try again */
    ACTION_N
};
extern const char *const action_names[ACTION_N];

/* What is at hand. */
struct means {
    bool node_out;       /* the blamed node trains in this attempt */
    int spares;          /* good nodes that do not train */
    int budget;          /* restarts left */
    bool repeated;       /* same signature as the last counted failure, and no
                          * newer checkpoint since */
    bool can_requeue;
    bool elastic;        /* fewer nodes are allowed, and enough are left */
    bool save_asked;     /* the save was asked for before the time limit */
    int wireups;         /* wire-ups that stalled in a row */
    int aways;           /* launches that Slurm refused in a row */
    int requeues_idle;   /* requeues since the newest checkpoint */
    bool starved;        /* requeued it would wait for ever: too few nodes are
                          * left that it has not excluded */
};

struct decision {
    enum action action;
    char why[400];
};
/* What a finding of a node's hardware in mid-run leads to, the worst last. */
enum finding_choice {
    CHOICE_IGNORE,       /* told, no more */
    CHOICE_CHECKPOINT,   /* save now and go on: nobody can take its place */
    CHOICE_SAVE_REPLACE, /* save, then replace the node */
    CHOICE_REPLACE,      /* replace it now: what it holds is lost or wrong */
    CHOICE_STOP,         /* the user must mend it */
    CHOICE_N
};
extern const char *const finding_choice_names[CHOICE_N];
enum finding_choice decide_finding(enum finding_severity severity,
                                   enum err_class class, bool can_replace);

void decide(const struct diagnosis *diagnosis, const struct means *means,
            struct decision *ret);

#endif
