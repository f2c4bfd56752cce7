/* schedule - the order of forwards and backwards of one step on one pipeline
 * stage, as a table. Pure: each stage makes its own, and all fit together.
 *
 * One stage: each micro-batch forward, then backward. Several: 1F1B, a stage
 * goes forward as often as there are stages behind it, then in turns. Several
 * chunks of layers a stage (interleaved): micro-batches go in groups of as many
 * as there are stages, a group through all chunks before the next one, so that
 * the pipeline fills in a part of the time.
 *
 * What the tables promise, held by tests/plan/test_schedule: executed in
 * order, with receives that wait and sends that do not as long as no more than
 * SCHEDULE_SENDS of them to one neighbour are under way, no stage waits for
 * ever; and no more than slots activations are held.
 */
#ifndef KB_PLAN_SCHEDULE_H
#define KB_PLAN_SCHEDULE_H

#include "runner/base/err.h"

#define SCHEDULE_SENDS 2

enum sched_what { SCHED_FORWARD, SCHED_BACKWARD };
struct sched_entry {
    enum sched_what what;
    int chunk;           /* of this stage */
    int micro;           /* micro-batch of this data parallel rank */
    int slot;            /* its activations */
    int feed;            /* its batch */
};
struct schedule {
    struct sched_entry *entries; /* owned */
    int n, slots, feeds;
};
int schedule_make(int stages, int stage, int chunks, int micros,
                  struct schedule *ret, struct err *err);
void schedule_release(struct schedule *schedule);

#endif
