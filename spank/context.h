/* context - the processes that the plugin lives in, one file each; plugin.c
 * calls these and nothing else.
 */
#ifndef KB_SPANK_CONTEXT_H
#define KB_SPANK_CONTEXT_H

#include <stdint.h>
#include <slurm/spank.h>

#include "spank/args.h"
#include "spank/options.h"

/* What one process's hooks share. */
struct plugin {
    struct args args;
    struct options options;
    bool refused; /* Slurm of another release: every hook does nothing */
    spank_context_t context; /* as slurm_spank_init saw it */
};

/* sbatch and salloc (S_CTX_ALLOCATOR): submit.c. */
void submit_init(struct plugin *plugin);
void submit_post_opt(struct plugin *plugin, spank_t spank);
/* srun (S_CTX_LOCAL): srun.c. */
void srun_init(struct plugin *plugin);
void srun_post_opt(struct plugin *plugin, spank_t spank);
/* slurmstepd (S_CTX_REMOTE), as the job's user: step.c. */
void step_task_init(spank_t spank);
/* Prolog and epilog (S_CTX_JOB_SCRIPT), as root: gate.c. */
void gate_prolog(const struct args *args);
void gate_epilog(const struct args *args);

#endif
