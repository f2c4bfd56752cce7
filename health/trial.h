/* trial - koboshi-health-gpu as a child with a deadline, for the probes that
 * load GPUs. A GPU that somebody uses is left alone, and so is one that is cut
 * into instances or kept for others.
 */
#ifndef KB_HEALTH_TRIAL_H
#define KB_HEALTH_TRIAL_H

#include "health/active.h"
#include "health/gpu.h"
#include "runner/base/proc.h"

/* The GPUs that may be tried, into ret->gpu; the others are noted. */
void trial_choose(const struct look *look, struct findings *findings,
                  const struct gpus *gpus, struct active *ret);
/* Runs it; what it says is added to active's lines. pair: with another node
 * only; NULL: all that this node can do. -1: it did not run. In both cases why
 * says what went wrong with the program itself, "": nothing. */
int trial_run(const struct look *look, struct findings *findings,
              struct active *active, double seconds,
              const struct active_pair *pair, char *why, size_t why_bytes);

#endif
