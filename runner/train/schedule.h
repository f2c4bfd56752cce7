/* schedule - the order of forwards and backwards of one step, as a table.
 *
 * One stage: each micro-batch forward, then backward. Pipelines are other
 * tables over the same entries.
 */
#ifndef KB_TRAIN_SCHEDULE_H
#define KB_TRAIN_SCHEDULE_H

#include "runner/base/err.h"
#include "runner/plan/plan.h"

enum sched_what { SCHED_FORWARD, SCHED_BACKWARD };
struct sched_entry {
    enum sched_what what;
    int chunk, micro, slot;
};
struct schedule {
    struct sched_entry *entries; /* owned */
    int n, slots;
};
int schedule_make(const struct plan *plan, struct schedule *ret,
                  struct err *err);
void schedule_release(struct schedule *schedule);

#endif
