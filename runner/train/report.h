/* report - what a rank tells its watcher: the beat, and datagrams.
 *
 * Without a watcher (no node folder) both are silent. Never waits.
 */
#ifndef KB_TRAIN_REPORT_H
#define KB_TRAIN_REPORT_H

#include <jansson.h>
#include <sys/un.h>

#include "runner/base/contract.h"
#include "runner/base/err.h"

struct report {
    int sock;                 /* -1: nobody listens */
    struct sockaddr_un to;
    int rank, attempt;
    struct kb_beat *beat;     /* mapped, or `own` */
    struct kb_beat own;
    bool mapped;
};

/* dir: the node's folder, or NULL: no watcher. */
int report_open(struct report *report, const char *dir, int rank,
                int local_rank, int attempt, struct err *err);
void report_close(struct report *report);
/* Takes fields (may be NULL). */
void report_event(struct report *report, enum kb_event event, json_t *fields);
void report_error(struct report *report, const struct err *err);
void report_phase(struct report *report, enum kb_phase phase);
void report_step(struct report *report, int64_t step);
void report_writing(struct report *report, int64_t step); /* -1: none */

#endif
