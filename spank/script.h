/* script - the batch script of a user who named none.
 *
 * sbatch reads standard input when its command line names no script, and it
 * does so between slurm_spank_init and the options' callbacks. So the template
 * must be on descriptor 0 in slurm_spank_init, and whether --llm-train is there
 * can only be seen on the command line. Standard input is replaced only where
 * nobody could have meant it as a script: a terminal, /dev/null, or closed. A
 * script that the user names or pipes in wins: sbatch then never reads this.
 */
#ifndef KB_SPANK_SCRIPT_H
#define KB_SPANK_SCRIPT_H

#include <stdbool.h>

#include "runner/base/err.h"

#define SCRIPT_TEMPLATE "koboshi.sbatch" /* in datadir */

/* Nobody can have meant this descriptor as a script. */
bool script_stdin_is_empty(int fd);
/* The file at path, in memory, on descriptor 0. */
int script_supply(const char *path, struct err *err);

#endif
