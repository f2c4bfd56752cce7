/* attempt - the attempts of a run on disk: fence, start, verdict, history.
 *
 * attempts/NNNN is made by mkdir, which one process alone can do: the number is
 * the fence. claim.json names the job that made it, at once, so that two jobs
 * that begin together see each other; start.json stands before ranks start,
 * verdict.json when it is known how the attempt ended. Nothing else is
 * remembered anywhere: budgets and exclusions are worked out from these files.
 */
#ifndef KB_SUPERVISE_ATTEMPT_H
#define KB_SUPERVISE_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/supervise/classify.h"
#include "runner/supervise/decide.h"

struct past_attempt {
    int number;
    bool claimed, started, judged; /* claim, start, verdict are there */
    bool counted;          /* against the restart budget */
    uint32_t job;
    int restart_count;
    double start_s, end_s; /* wall; 0 unknown */
    int64_t ckpt_step;     /* newest at its end, -1 none */
    enum cause cause;
    int action;            /* enum action, or -1 */
    char node[256];        /* blamed, "" none */
    char signature[400];
    bool node_out;         /* the node was found bad */
};
struct history {
    struct past_attempt *past; /* by number, oldest first; owned */
    int n, newest;             /* newest: highest number, 0 none */
};
int history_load(const char *run_dir, struct history *ret, struct err *err);
void history_release(struct history *history);

/* Makes the next attempt's folder (with claim.json, logs/, health/ in it). */
int attempt_begin(const char *run_dir, int at_least, uint32_t job,
                  int restart_count, int *ret_number, struct err *err);
/* Takes back one that was only begun. */
void attempt_withdraw(const char *run_dir, int number);
/* Nodes and spares are names; checkpoints: those that it may go on from, by
 * resume: auto | fresh | STEP. */
struct attempt_start {
    const char *resume;
    uint32_t job;
    int restart_count;
    const char *const *nodes;
    int nodes_n;
    const char *const *spares;
    int spares_n;
    const char *const *checkpoints;
    int checkpoints_n;
};
int attempt_start_write(const char *run_dir, int number,
                        const struct attempt_start *start, struct err *err);
int attempt_verdict_write(const char *run_dir, int number, uint32_t job,
                          int restart_count,
                          const struct diagnosis *diagnosis,
                          const struct decision *decision, int64_t ckpt_step,
                          struct err *err);
int attempt_path(const char *run_dir, int number, const char *name, char *dst,
                 size_t dst_bytes, struct err *err);

#endif
