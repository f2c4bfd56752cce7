/* rank_main - the wrapper around one rank: `koboshi-supervise --rank PROGRAM`.
 *
 * slurmstepd is the parent of a task, so nobody of ours would see its exit
 * status. The wrapper is the rank's parent: it says hello for it, waits, and
 * tells the watcher the status, then ends in the same way. It ignores the
 * signals that are meant for the rank, and takes the rank along if it dies.
 */
#ifndef KB_SUPERVISE_RANK_MAIN_H
#define KB_SUPERVISE_RANK_MAIN_H

#include "runner/base/err.h"

struct rank_facts {
    long job;
    int attempt, rank, local;
};
/* Returns the exit status for this process, or kills it by the rank's signal.
 * -1 with err when the rank could not be started. */
int rank_main(const struct rank_facts *facts, char **argv, struct err *err);

#endif
