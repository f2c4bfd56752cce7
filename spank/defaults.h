/* defaults - what a job that trains wants of sbatch, where its user said
 * nothing: kept alive when a node dies, requeued, its output appended to.
 *
 * sbatch reads its own variables between slurm_spank_init and
 * slurm_spank_init_post_opt, under the command line and over #SBATCH lines. So
 * they are set at init and taken back at post_opt, before sbatch copies the
 * environment: nothing of it reaches the job. What the user asked, in whatever
 * way can be seen, stays; a script that cannot be read twice (a pipe) might ask
 * for something, so it gets none.
 */
#ifndef KB_SPANK_DEFAULTS_H
#define KB_SPANK_DEFAULTS_H

#include <stddef.h>

/* The words of the command line as cmdline_read gives them; text of the
 * script, or NULL where there is none to read. */
void defaults_set(const char *words, size_t bytes, const char *script);
void defaults_unset(void);

#endif
