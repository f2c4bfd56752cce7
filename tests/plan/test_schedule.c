/* The schedule tables of all stages, executed together: nobody waits for ever,
 * everything happens once and after what it needs, and what is held stays
 * within the bounds. */
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

#include "runner/plan/schedule.h"

enum { STAGES_MAX = 12, CHUNKS_MAX = 5, MICROS_MAX = 32 };

struct link { int sent[4096], n, taken; };

struct play {
    int stages, chunks, micros;
    struct schedule s[STAGES_MAX];
    int at[STAGES_MAX];
    struct link to_next[STAGES_MAX], to_prev[STAGES_MAX]; /* [sender] */
    bool done[2][STAGES_MAX][CHUNKS_MAX][MICROS_MAX];
    bool clash;
};

static int key(int chunk, int micro) { return chunk * 1000 + micro; }

/* Takes what stage needs from a neighbour; false: it is not there yet. */
static bool take(struct play *p, struct link *l, int want)
{
    if (l->taken == l->n)
        return false;
    if (l->sent[l->taken] != want)
        p->clash = true; /* messages of a link come in order */
    l->taken++;
    return true;
}

static bool put(struct link *l, int what)
{
    l->sent[l->n++] = what;
    return true;
}

/* One entry of a stage, if it can be executed now. */
static bool step(struct play *p, int stage)
{
    struct schedule *s = &p->s[stage];
    if (p->at[stage] == s->n)
        return false;
    const struct sched_entry *e = &s->entries[p->at[stage]];
    int last = p->stages - 1;
    int next = stage < last ? stage + 1 : 0, prev = stage ? stage - 1 : last;
    bool forward = e->what == SCHED_FORWARD;
    bool first_place = stage == 0 && e->chunk == 0;
    bool last_place = stage == last && e->chunk == p->chunks - 1;
    bool gets = forward ? !first_place : !last_place;
    bool sends = forward ? !last_place : !first_place;
    struct link *in = forward ? &p->to_next[prev] : &p->to_prev[next];
    struct link *out = forward ? &p->to_next[stage] : &p->to_prev[stage];
    int got = key(e->chunk, e->micro), gives = got;
    if (forward && stage == last)
        gives = key(e->chunk + 1, e->micro);
    if (!forward && stage == 0)
        gives = key(e->chunk - 1, e->micro);
    if (gets && in->taken == in->n)
        return false;
    /* as many as are allowed are under way: the send waits */
    if (sends && out->n - out->taken >= SCHEDULE_SENDS)
        return false;
    if (gets)
        take(p, in, got);
    if (sends)
        put(out, gives);
    bool *done = &p->done[e->what][stage][e->chunk][e->micro];
    if (*done || (!forward && !p->done[0][stage][e->chunk][e->micro]))
        p->clash = true;
    *done = true;
    p->at[stage]++;
    return true;
}

static bool all_done(const struct play *p)
{
    for (int i = 0; i < p->stages; i++)
        if (p->at[i] != p->s[i].n ||
            p->s[i].n != 2 * p->chunks * p->micros)
            return false;
    return true;
}

/* No two micro-batches in a slot or a batch at once. */
static bool memory_apart(const struct play *p, const struct schedule *s)
{
    int slot[STAGES_MAX * CHUNKS_MAX * 4], feed[MICROS_MAX + 2];
    memset(slot, -1, sizeof slot);
    memset(feed, -1, sizeof feed);
    for (int i = 0; i < s->n; i++) {
        const struct sched_entry *e = &s->entries[i];
        int me = key(e->chunk, e->micro);
        bool forward = e->what == SCHED_FORWARD;
        if (e->slot >= s->slots || e->feed >= s->feeds)
            return false;
        if (forward ? slot[e->slot] >= 0 : slot[e->slot] != me)
            return false;
        slot[e->slot] = forward ? me : -1;
        if (feed[e->feed] >= 0 && feed[e->feed] != e->micro)
            return false;
        feed[e->feed] = !forward && e->chunk == 0 ? -1 : e->micro;
    }
    (void)p;
    return true;
}

static bool bounded(const struct play *p, int stage)
{
    int behind = p->stages - stage;
    int most = p->chunks > 1
                   ? 2 * (behind - 1) + (p->chunks - 1) * p->stages + 1
                   : behind;
    return p->s[stage].slots <= most;
}

static const char *play(struct play *p, int stages, int chunks, int micros)
{
    struct err err = ERR_INIT;
    const char *bad = NULL;
    memset(p, 0, sizeof *p);
    p->stages = stages, p->chunks = chunks, p->micros = micros;
    for (int i = 0; i < stages; i++)
        if (schedule_make(stages, i, chunks, micros, &p->s[i], &err) != 0)
            return "not made";
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < stages; i++)
            while (step(p, i))
                moved = true;
    }
    if (!all_done(p))
        bad = "some stage waits for ever";
    if (p->clash)
        bad = "out of order";
    for (int i = 0; i < stages && !bad; i++)
        if (!memory_apart(p, &p->s[i]))
            bad = "two in one place";
        else if (!bounded(p, i))
            bad = "more is held than said";
    for (int i = 0; i < stages; i++)
        schedule_release(&p->s[i]);
    return bad;
}

int main(void)
{
    static struct play p;
    for (int chunks = 1; chunks <= 4; chunks++)
        for (int stages = 1; stages <= 8; stages++) {
            int wrong = 0;
            for (int micros = 1; micros <= 20; micros++) {
                if (chunks > 1 && stages == 1)
                    continue;
                const char *bad = play(&p, stages, chunks, micros);
                if (bad && !wrong++)
                    printf("# %d micro-batches: %s\n", micros, bad);
            }
            ok(!wrong, "%d stages, %d chunks, 1 to 20 micro-batches", stages,
               chunks);
        }
    struct schedule s;
    struct err err = ERR_INIT;
    schedule_make(1, 0, 1, 3, &s, &err);
    ok(s.n == 6 && s.slots == 1 && s.feeds == 2, "one stage: nothing waits");
    schedule_release(&s);
    schedule_make(4, 0, 1, 8, &s, &err);
    is_int(s.slots, 4, "1F1B: the first of four stages holds four");
    schedule_release(&s);
    schedule_make(4, 3, 1, 8, &s, &err);
    is_int(s.slots, 1, "and the last one");
    schedule_release(&s);
    return tap_done();
}
