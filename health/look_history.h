/* look_history - what a look's parent does about the history; private to
 * look.c and watch.c. */
#ifndef KB_HEALTH_LOOK_HISTORY_H
#define KB_HEALTH_LOOK_HISTORY_H

#include "health/child.h"
#include "health/history.h"

#define LOOK_HISTORY_SAVE_S 5.0

/* A RECORD_COUNT or RECORD_EVENT into what was seen; -1: it is none. */
int look_history_take(struct history *seen, const struct record *record,
                      double now_s);
/* A child that adds `seen`, and how the job (0: none) went, to the file. */
int look_history_save(struct child *child, const struct look *look,
                      const struct history *seen, long job, const char *codes,
                      struct err *err);

#endif
