/* history - what a node remembers from look to look: counters, so that a
 * growth is seen and not a sum of years; what came how often within a day; and
 * how the last jobs went here.
 *
 * A file of JSON, replaced whole. One that is damaged or of another boot is as
 * good as none, counter by counter: growth is unknown until the next look.
 */
#ifndef KB_HEALTH_HISTORY_H
#define KB_HEALTH_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

enum {
    HISTORY_EVENTS_MAX = 256,
    HISTORY_JOBS_MAX = 16,
    HISTORY_COUNTS_MAX = 1024,
};
#define HISTORY_DAY_S 86400.0
#define HISTORY_LEMON_JOBS 3

struct history;

/* Empty. boot: the kernel's id of this boot, "" if not known. NULL: no memory.
 */
struct history *history_create(const char *boot);
void history_destroy(struct history *history);
/* What the file holds into `history`, over what it has; a counter of another
 * boot is left out. 0 if there is no file; -1: damaged, history as it was. */
int history_load(struct history *history, const char *path, struct err *err);
/* The same from text; `what` names it in the message. */
int history_parse(struct history *history, const char *text, const char *what,
                  struct err *err);
int history_save(const struct history *history, const char *path,
                 struct err *err);
/* All that is newer in `from`. */
int history_merge(struct history *history, const struct history *from);

struct growth {
    int64_t more;   /* than at the last look */
    double minutes; /* since then */
};
/* Remembers the value. True with *ret if there was one before. A value that
 * became smaller began anew at 0. */
bool history_count(struct history *history, const char *subject,
                   const char *counter, int64_t value, double now_s,
                   struct growth *ret);
/* n times `what` on `subject`, now; how often within the last day. */
int64_t history_event(struct history *history, const char *subject,
                      const char *what, int64_t n, double now_s);
int64_t history_events(const struct history *history, const char *subject,
                       const char *what, double now_s);
/* The job ended here; codes of what spoke against the node, "" for none. Called
 * twice for a job, codes are put together. */
void history_job(struct history *history, long job, const char *codes,
                 double now_s);
/* Did each of the last HISTORY_LEMON_JOBS jobs find another fault of the node?
 * Then dst says which. */
bool history_is_lemon(const struct history *history, char *dst,
                      size_t dst_bytes);

#endif
