/* site - what `koboshi plan` can find out about where a run would go: files,
 * disk, Slurm's settings. Every look is cheap (headers, not contents), since
 * sbatch waits for it. A trainer and a supervisor have looks of their own. */
#ifndef KB_CLI_SITE_H
#define KB_CLI_SITE_H

#include "runner/plan/plan.h"

/* All unknown. */
void site_init(struct site *site);
/* What the job's environment says where the site does not know it yet. lookup:
 * a variable's value or NULL. */
void site_take_env(struct site *site, const char *(*lookup)(const char *name));
/* run.dir and the token files of a finished conf. */
void site_look(struct site *site, const struct conf *conf);
/* Settings of slurm.conf (path NULL: where it usually is) that matter to
 * recovery; nothing where it cannot be read. */
void site_read_slurm_conf(struct site *site, const char *path);
/* One token file's header and sizes. */
void site_look_at_tokens(const char *prefix, struct site_file *ret);

#endif
