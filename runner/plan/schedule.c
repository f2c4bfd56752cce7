/* schedule - see schedule.h. */
#include "runner/plan/schedule.h"

#include <stdbool.h>
#include <stdlib.h>

struct making_schedule {
    int stages, chunks, micros;
    int rounded;         /* micros, up to whole groups */
    struct schedule *s;
};

/* The k-th forward, or backward: in groups, through all chunks. False where the
 * last group has no such micro-batch: it would stand in the same place on all
 * stages, so that leaving it out keeps what the tables promise. */
static bool entry_at(const struct making_schedule *m, enum sched_what what,
                     int k, struct sched_entry *ret)
{
    int group = m->chunks > 1 ? m->stages : m->rounded;
    int each = group * m->chunks, in = k % each;
    int chunk = in / group;
    ret->what = what;
    ret->chunk = what == SCHED_FORWARD ? chunk : m->chunks - 1 - chunk;
    ret->micro = k / each * group + in % group;
    return ret->micro < m->micros;
}

static void add(struct making_schedule *m, enum sched_what what, int k)
{
    struct sched_entry e = {0};
    if (entry_at(m, what, k, &e))
        m->s->entries[m->s->n++] = e;
}

/* Each forward takes the first free slot, its backward gives it back. */
static int slots_assign(struct making_schedule *m)
{
    struct schedule *s = m->s;
    int most = m->micros * m->chunks;
    int *slot_of = calloc((size_t)most + 1, sizeof *slot_of);
    bool *taken = calloc((size_t)most + 1, sizeof *taken);
    int rc = slot_of && taken ? 0 : -1;
    for (int i = 0; i < s->n && rc == 0; i++) {
        struct sched_entry *e = &s->entries[i];
        int *slot = &slot_of[e->chunk * m->micros + e->micro];
        if (e->what == SCHED_FORWARD)
            for (*slot = 0; taken[*slot]; ++*slot)
                ;
        e->slot = *slot;
        taken[*slot] = e->what == SCHED_FORWARD;
        if (*slot >= s->slots)
            s->slots = *slot + 1;
    }
    free(slot_of);
    free(taken);
    return rc;
}

/* A batch is needed from its first forward to its last backward: the first
 * chunk's. They are a window over the micro-batches; one more, to fill. */
static void feeds_assign(struct making_schedule *m)
{
    struct schedule *s = m->s;
    int newest = -1, oldest = 0, window = 1;
    for (int i = 0; i < s->n; i++) {
        const struct sched_entry *e = &s->entries[i];
        if (e->what == SCHED_FORWARD && e->micro > newest)
            newest = e->micro;
        if (newest - oldest + 1 > window)
            window = newest - oldest + 1;
        if (e->what == SCHED_BACKWARD && e->chunk == 0)
            oldest = e->micro + 1;
    }
    s->feeds = window + 1;
    for (int i = 0; i < s->n; i++)
        s->entries[i].feed = s->entries[i].micro % s->feeds;
}

int schedule_make(int stages, int stage, int chunks, int micros,
                  struct schedule *ret, struct err *err)
{
    struct schedule s = {0};
    int rounded = chunks > 1 ? (micros + stages - 1) / stages * stages
                             : micros;
    struct making_schedule m = {stages, chunks, micros, rounded, &s};
    int all = rounded * chunks;
    int ahead = chunks > 1 ? 2 * (stages - stage - 1) + (chunks - 1) * stages
                           : stages - stage - 1;
    if (ahead > all)
        ahead = all;
    s.entries = calloc(2 * (size_t)all + 1, sizeof *s.entries);
    if (!s.entries)
        return err_set(err, "plan: no memory for the schedule");
    for (int k = 0; k < all + ahead; k++) {
        if (k < all)
            add(&m, SCHED_FORWARD, k);
        if (k >= ahead)
            add(&m, SCHED_BACKWARD, k - ahead);
    }
    if (slots_assign(&m) != 0) {
        schedule_release(&s);
        return err_set(err, "plan: no memory for the schedule");
    }
    feeds_assign(&m);
    *ret = s;
    return 0;
}

void schedule_release(struct schedule *schedule)
{
    free(schedule->entries);
    *schedule = (struct schedule){0};
}
