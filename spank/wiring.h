/* wiring - RANK, WORLD_SIZE and the others of torchrun's names, for a task of
 * a step. Pure: facts in, pairs out; step.c asks Slurm and sets them.
 *
 * Computed from the step, never the job: a step may be smaller than its job.
 * What the user preset stays. What an outer step of ours set is not a preset:
 * KOBOSHI_WIRED names the step and the variables that it set.
 */
#ifndef KB_SPANK_WIRING_H
#define KB_SPANK_WIRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRING_MARK "KOBOSHI_WIRED" /* JOB.STEP:NAME,NAME,... */
/* From srun under -m arbitrary, where the node list tells nothing of the
 * order: the host of rank 0. */
#define WIRING_FIRST_HOST "KOBOSHI_FIRST_HOST"
#define WIRING_N 7
#define WIRING_VALUE_BYTES 256

struct wiring_facts {
    uint32_t job, step;
    uint32_t rank, world;             /* of the step */
    uint32_t local_rank, local_world; /* on this node */
    uint32_t node_rank;               /* of this node in the step */
    const char *nodes; /* begins with rank 0's; NULL: not known */
};

struct wiring {
    const char *name[WIRING_N]; /* literals */
    char value[WIRING_N][WIRING_VALUE_BYTES]; /* "" : not known, not set */
};

void wiring_compute(const struct wiring_facts *facts, struct wiring *ret);

/* Is `name` in the list of an outer step's mark? */
bool wiring_mark_has(const char *mark, const char *name);
/* The steps that are programs of the user with ranks: not the batch script,
 * nor Slurm's own steps. */
bool wiring_is_rank_step(uint32_t step);
/* Below the ports that the kernel gives out by itself, the same on all nodes,
 * and different for steps that run side by side. */
int wiring_port(uint32_t job, uint32_t step);

#endif
