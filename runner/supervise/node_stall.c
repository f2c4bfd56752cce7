/* node_stall - when quiet is too quiet; pure.
 *
 * A step, a validation or a checkpoint that was normal so far sets its phase's
 * limit: the larger of stall_min_s and stall_factor times the slowest. Phases
 * that happen once have no history: wire-up has its own limit, loading, the
 * first step and the end have load_limit_s.
 */
#include "runner/supervise/node.h"

double node_stall_limit(const struct node_rank *rank,
                        const struct node_limits *limits)
{
    int64_t phase = rank->beat.magic == KB_BEAT_MAGIC ? rank->beat.phase
                                                      : KB_PHASE_START;
    if (phase < 0 || phase >= KB_PHASE_N)
        return limits->load_limit_s;
    double learned = limits->stall_factor * rank->slowest_s[phase];
    double floor_s;
    switch (phase) {
    case KB_PHASE_START:
        floor_s = limits->wireup_limit_s;
        learned = 0; /* one that took long is no measure for the next */
        break;
    case KB_PHASE_LOAD:
    case KB_PHASE_FIRST_STEP:
    case KB_PHASE_FINISH:
        floor_s = limits->load_limit_s;
        break;
    default:
        floor_s = limits->stall_min_s;
        break;
    }
    return learned > floor_s ? learned : floor_s;
}

#define TELL_AGAIN_S 5.0

int node_stall_find(const struct node_ranks *ranks,
                    const struct node_limits *limits, double now)
{
    for (int i = 0; i < ranks->n; i++) {
        const struct node_rank *rank = &ranks->rank[i];
        if (rank->known && !rank->exited &&
            (!rank->told_s || now - rank->told_s > TELL_AGAIN_S) &&
            now - rank->changed_s > node_stall_limit(rank, limits))
            return i;
    }
    return -1;
}

/* The step loop says when its writer is done: a loop that hangs itself says
 * nothing of the writer. */
#define LOOP_ALIVE_S 5.0

int node_stall_writer(const struct node_ranks *ranks,
                      const struct node_limits *limits, double now)
{
    for (int i = 0; i < ranks->n; i++) {
        const struct node_rank *rank = &ranks->rank[i];
        double limit = limits->stall_factor * rank->slowest_write_s;
        if (limit < limits->stall_min_s)
            limit = limits->stall_min_s;
        if (rank->known && !rank->exited && rank->writing_s &&
            !rank->writing_told_s && now - rank->writing_s > limit &&
            now - rank->changed_s < LOOP_ALIVE_S)
            return i;
    }
    return -1;
}
