/* launch - the srun commands of watchers and ranks, and their environment.
 *
 * Arguments carry no secret. What the batch environment would make srun guess
 * (task counts, bindings of the job) is taken out: a step says all it needs.
 * An srun is ended by SIGTERM and never by SIGKILL; it has SIGTERM coming when
 * the supervisor dies, so that nothing outlives a lost supervisor unwatched.
 */
#ifndef KB_SUPERVISE_LAUNCH_H
#define KB_SUPERVISE_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

struct launch {
    const char *const *nodes;   /* where */
    int nodes_n;
    const char *const *exclude; /* lost nodes that Slurm may still list */
    int exclude_n;
    int ranks_per_node, cpus_per_rank; /* 0: as Slurm gives */
    bool crowded;               /* fewer cores than ranks: let them share */
    int attempt;
    char *const *environment;   /* NULL-ended; what they inherit */
    const char *run_dir;
    const char *output;         /* file that stdout and stderr are added to */
    const char *resume;         /* auto | fresh | STEP; NULL: as configured */
    /* watchers only */
    const char *secret, *supervisor;
    /* ranks only */
    char *const *program;       /* NULL-ended */
    const char *blas_core;      /* "" none */
    int blas_threads;
};

/* The argument list, NULL-ended, for the journal and tests; freed by
 * launch_free. NULL when memory ran out. */
char **launch_argv(const struct launch *launch, bool watchers);
char **launch_envp(const struct launch *launch, bool watchers);
void launch_free(char **list);
/* Starts srun. Its pid, or -1. */
pid_t launch_start(const struct launch *launch, bool watchers,
                   struct err *err);

#endif
