/* request - what a user asked of sbatch, salloc or srun with --llm- options,
 * from the process's start to the job: taken, checked by the plan, exported.
 *
 * Slurm ignores return codes of an optional plugin's hooks, so a refusal
 * prints and exits the process (that of the user's command, never a daemon).
 */
#ifndef KB_SPANK_REQUEST_H
#define KB_SPANK_REQUEST_H

#include <stdbool.h>

#include <stdint.h>
#include <slurm/spank.h>

#include "spank/args.h"
#include "spank/cmdline.h"
#include "spank/options.h"

struct request {
    const struct args *args;   /* borrowed */
    const struct options *options; /* borrowed */
    struct asked asked;        /* from the command line */
    bool supplied;             /* the template is on standard input */
    char program[32];          /* sbatch, salloc, srun */
};

/* The words of this process. */
void request_read(struct request *request);
/* Text of the script that sbatch runs, where it is a file that can be read
 * twice, to be freed; else NULL. */
char *request_script(const struct request *request);
/* After all options: nothing asked, or plan, export and go on, or exit. */
void request_finish(struct request *request, spank_t spank);

#endif
