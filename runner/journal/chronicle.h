/* chronicle - what became of a run, from the files of its attempts alone.
 *
 * Read are start.json, journal.jsonl, metrics.jsonl, status.json and
 * verdict.json of each attempt; any of them may be missing. Times are wall
 * seconds of the events that the supervisor wrote, one clock; a number that
 * no event tells is NAN (null in JSON, "-" in text).
 *
 * Of one attempt, with `before` the attempt before it in the same job:
 *   wait_s      before's requeue event (or its yielding, to a preemption or the
 *               user's requeue) to this attempt's first event: Slurm's part
 *               (delay of the requeue, queue, prolog, the batch script)
 *   prepare_s   ours: before's action event (when it went on in place), else
 *               this attempt's first event, to the launch event: old ranks
 *               ended, nodes checked
 *   launch_s    launch to the last rank_hello before the first step: Slurm's
 *               part
 *   load_s      the last rank_hello to the resume event: wire-up, weights
 *   first_s     resume to first_step
 *   down_s      before's failure to first_step: all of it together
 * and of how it ended:
 *   detect_s    "seconds" of the diagnosis event: from when it happened, at
 *               most, until it was known
 *   decide_s    diagnosis event to the first action, requeue or stop event
 *               behind it
 *   lost        steps done here that a later attempt did again: last_step
 *               less the step that the next attempt with a resume event
 *               started from; of a run that ended unfinished, less its newest
 *               checkpoint
 *   productive_s  iteration time of the steps that were not lost, from
 *               metrics.jsonl; steps between two records take the later
 *               record's time, steps behind the last record its own
 *
 * Of the run: wall_s from the first attempt's start to the last one's end
 * (its verdict, else its newest record), waiting in the queue counted;
 * ettr = sum of productive_s / wall_s, the effective training time ratio.
 */
#ifndef KB_JOURNAL_CHRONICLE_H
#define KB_JOURNAL_CHRONICLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

enum chronicle_state {
    CHRONICLE_RUNNING,
    CHRONICLE_FINISHED,
    CHRONICLE_STOPPED,
    CHRONICLE_BETWEEN,      /* ended, another attempt is to come */
    CHRONICLE_SILENT,       /* no end is known, and no word for 15 minutes */
};
extern const char *const chronicle_state_names[];

struct chronicle_attempt {
    int number;
    bool supervised;        /* it has a journal */
    int64_t job;            /* 0 unknown */
    int restart_count;
    json_t *nodes, *spares; /* arrays of names, owned; NULL unknown */
    double start_s, end_s;  /* wall */
    bool judged;            /* it has a verdict */
    /* starting */
    double wait_s, prepare_s, launch_s, load_s, first_s, down_s;
    char checkpoint[128];   /* resumed from, "" from the start */
    int rejected_n;         /* checkpoints that failed before it */
    char rejected[256];     /* the first of them, with the reason */
    /* training */
    int64_t from_step, last_step, lost;
    int64_t saved_n, saved_step; /* checkpoints; the newest, -1 none */
    double first_loss, last_loss;
    double productive_s;
    /* ending */
    char cause[32], class[16], subject[288], message[1000];
    char action[24], why[400], remedy[400];
    double detect_s, decide_s;
    bool done;
    /* wall times of single events, 0 none; for the numbers above */
    struct {
        double start, launch, hello, resume, first, diagnosis, action, requeue;
    } at;
};

struct chronicle {
    char name[128];         /* of run.yaml, or "" */
    enum chronicle_state state;
    struct chronicle_attempt *attempt; /* [attempts_n] by number; owned */
    int attempts_n;
    int64_t step, steps;    /* done and kept, of how many; 0 unknown */
    int64_t lost;
    double wall_s, productive_s, ettr;
    double slurm_s, ours_s; /* sums of wait + launch, of the rest of down */
    /* newest state, from status.json or the last metrics */
    double loss, tokens_per_s, typical_tokens_per_s, eta_s, told_s;
};

/* now_s: wall time, for an attempt that still runs. -1: no run directory. */
int chronicle_load(const char *run_dir, double now_s, struct chronicle *ret,
                struct err *err);
void chronicle_release(struct chronicle *run);

void chronicle_text(const struct chronicle *run, struct sbuf *out);
json_t *chronicle_json(const struct chronicle *run);
/* The few lines of `koboshi status`. */
void chronicle_status_text(const struct chronicle *run, double now_s,
                        struct sbuf *out);

#endif
