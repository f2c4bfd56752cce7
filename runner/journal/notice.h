/* notice - tells a webhook of incidents: one POST of JSON each, in order.
 *
 * For a loop that must not be held up: notice_send only queues, notice_pump
 * moves what can be moved now and never waits. What cannot be delivered is
 * tried again with growing pauses, a few times, then dropped; a notice never
 * fails a run. The token goes into the Authorization header and nowhere else.
 */
#ifndef KB_JOURNAL_NOTICE_H
#define KB_JOURNAL_NOTICE_H

#include <jansson.h>

#include "runner/base/err.h"

struct notice;

/* url: http or https. token: "" or NULL, none. NULL on error. */
struct notice *notice_open(const char *url, const char *token,
                           struct err *err);
/* Waits at most wait_s for what is queued. NULL is allowed. */
void notice_close(struct notice *notice, double wait_s);

/* Queues {"text": text, "record": record}; text is for people (chat programs
 * show it), record (may be NULL) for machines; both are copied. When the queue
 * is full the oldest is dropped. */
void notice_send(struct notice *notice, const char *text,
                 const json_t *record);
/* Call often: at each turn of the caller's loop. */
void notice_pump(struct notice *notice);

int notice_waiting(const struct notice *notice);   /* queued or on the way */
int notice_delivered(const struct notice *notice);
int notice_dropped(const struct notice *notice);
/* The last failure, "" when there was none since a delivery. */
const char *notice_problem(const struct notice *notice);

#endif
