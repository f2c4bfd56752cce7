/* schedule - see schedule.h. */
#include "runner/train/schedule.h"

#include <stdlib.h>

int schedule_make(const struct plan *plan, struct schedule *ret,
                  struct err *err)
{
    struct schedule s = {.n = 2 * plan->accum, .slots = 1};
    if (plan->pipeline > 1)
        return err_set_class(err, ERR_REQUEST,
                             "train: %d pipeline stages: only one is known",
                             plan->pipeline);
    s.entries = calloc((size_t)s.n, sizeof *s.entries);
    if (!s.entries)
        return err_set(err, "train: no memory for the schedule");
    for (int m = 0; m < plan->accum; m++) {
        s.entries[2 * m] = (struct sched_entry){SCHED_FORWARD, 0, m, 0};
        s.entries[2 * m + 1] = (struct sched_entry){SCHED_BACKWARD, 0, m, 0};
    }
    *ret = s;
    return 0;
}

void schedule_release(struct schedule *schedule)
{
    free(schedule->entries);
    *schedule = (struct schedule){0};
}
