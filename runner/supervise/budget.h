/* budget - how many restarts are left, and is there progress. Pure.
 *
 * A bucket of max_restarts; each failure that counts takes one; one comes back
 * each refill_s. Preemption, requeue by others, time limits, wire-ups and lost
 * supervisors count nothing. Progress is a newer committed checkpoint.
 */
#ifndef KB_SUPERVISE_BUDGET_H
#define KB_SUPERVISE_BUDGET_H

#include "runner/supervise/attempt.h"

/* Restarts left at now_s (wall) before the failure that is being judged. */
int budget_left(const struct history *history, int max_restarts,
                double refill_s, double now_s);
/* Did the last failure that counts have this signature, with no checkpoint
 * newer than ckpt_step's since? */
bool budget_repeated(const struct history *history, const char *signature,
                     int64_t ckpt_step);
/* Requeues of ours in a row that gained no checkpoint. */
int budget_requeues_idle(const struct history *history, int64_t ckpt_step);
/* The last attempts that ended by this cause. */
int budget_in_row(const struct history *history, enum cause cause);

#endif
