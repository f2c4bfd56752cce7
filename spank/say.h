/* say - the plugin's words to the person or the daemon that loaded it, through
 * Slurm's own log so that they follow its -Q, prefixes and log files. The one
 * place with Slurm's log functions; tests give their own.
 */
#ifndef KB_SPANK_SAY_H
#define KB_SPANK_SAY_H

/* What is wrong: `sbatch: error: koboshi: ...`. */
void say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What to know though the job goes on: `sbatch: koboshi: ...`; reaches the
 * user from slurmstepd too. */
void say_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* For the daemon's log only. */
void say_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A child's text, line by line, at most 100 lines. */
void say_lines(const char *text, void (*say)(const char *fmt, ...));

#endif
