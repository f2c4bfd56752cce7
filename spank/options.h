/* options - the --llm- options, one row each: how sbatch shows them, what they
 * may be, and the environment name under which they reach the job.
 *
 * Slurm calls the callbacks more than once (twice on a node, again in a step
 * inside a job): taking a value is idempotent, --llm-set adds each pair once.
 */
#ifndef KB_SPANK_OPTIONS_H
#define KB_SPANK_OPTIONS_H

#include <stdbool.h>

#include "runner/base/err.h"

enum option_key {
    OPTION_TRAIN,
    OPTION_SET,
    OPTION_SPARES,
    OPTION_HEALTH,
    OPTION_RESUME,
    OPTION_MAX_RESTARTS,
    OPTION_DRY_RUN,
    OPTION_N
};

struct option_row {
    const char *name;
    const char *arginfo; /* NULL: takes no argument */
    const char *usage;
    const char *env;     /* NULL: not for the job */
    int (*check)(const char *value, struct err *err);
};
extern const struct option_row option_rows[OPTION_N];

/* Taken values; owned. A flag's is "1". */
struct options {
    char *value[OPTION_N]; /* NULL: not given */
};

/* Check and keep; the path of --llm-train becomes absolute, against the
 * folder of the process. */
int options_take(struct options *options, int key, const char *value,
                 struct err *err);
void options_release(struct options *options);

#endif
