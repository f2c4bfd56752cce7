/* ahead - see ahead.h. The ring's blocks lie between tail and head; the one at
 * head may be being read. */
#include "runner/data/ahead.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"

struct block {
    int64_t first;
    int32_t *samples; /* [B, tokens] */
    bool failed;
    struct err err;
};

struct ahead {
    int (*read)(void *ctx, int64_t sample, int32_t *dst, struct err *err);
    void *ctx;
    int B, depth;
    int64_t stride, tokens;
    struct block *block; /* [depth] */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t ready, room;
    int64_t head, tail;  /* blocks read; the next to be given */
    int64_t next;        /* first sample of the block at head */
    int64_t turn;        /* grows when the row starts anew */
    bool running, ending, lent;
    int64_t waits_n;
    double waits_s;
};

/* ---- The thread ---------------------------------------------------------- */

static void read_block(struct ahead *a, struct block *b)
{
    b->failed = false;
    b->err = ERR_INIT;
    for (int i = 0; i < a->B && !b->failed; i++)
        b->failed = a->read(a->ctx, b->first + i, b->samples + i * a->tokens,
                            &b->err) != 0;
}

/* Something to do: the row has begun, has room, and did not end in a failure
 * (past the last sample, mostly). */
static bool is_wanted(const struct ahead *a)
{
    return a->running && a->head - a->tail < a->depth &&
           (a->head == a->tail || !a->block[(a->head - 1) % a->depth].failed);
}

static void *work(void *ctx)
{
    struct ahead *a = ctx;
    pthread_mutex_lock(&a->lock);
    while (!a->ending) {
        if (!is_wanted(a)) {
            pthread_cond_wait(&a->room, &a->lock);
            continue;
        }
        int64_t turn = a->turn;
        struct block *b = &a->block[a->head % a->depth];
        b->first = a->next;
        pthread_mutex_unlock(&a->lock);
        read_block(a, b);
        pthread_mutex_lock(&a->lock);
        if (turn != a->turn)
            continue; /* nobody wants it any more */
        a->head++;
        a->next += a->stride;
        pthread_cond_signal(&a->ready);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- Who asks ------------------------------------------------------------ */

static bool goes_on(const struct ahead *a, int64_t first)
{
    return a->running &&
           first == (a->head > a->tail ? a->block[a->tail % a->depth].first
                                       : a->next);
}

const int32_t *ahead_take(struct ahead *a, int64_t first, struct err *err)
{
    pthread_mutex_lock(&a->lock);
    if (a->lent) {
        a->tail++;
        a->lent = false;
    }
    bool expected = goes_on(a, first);
    if (!expected) {
        a->tail = a->head;
        a->next = first;
        a->turn++;
        a->running = true;
    }
    pthread_cond_signal(&a->room);
    if (a->head == a->tail) {
        double from_s = clock_mono_s();
        while (a->head == a->tail)
            pthread_cond_wait(&a->ready, &a->lock);
        a->waits_n += expected;
        a->waits_s += expected ? clock_mono_s() - from_s : 0;
    }
    struct block *b = &a->block[a->tail % a->depth];
    a->lent = true;
    if (b->failed)
        *err = b->err;
    const int32_t *samples = b->failed ? NULL : b->samples;
    pthread_mutex_unlock(&a->lock);
    return samples;
}

void ahead_waits(struct ahead *a, int64_t *ret_n, double *ret_s)
{
    pthread_mutex_lock(&a->lock);
    *ret_n = a->waits_n;
    *ret_s = a->waits_s;
    pthread_mutex_unlock(&a->lock);
}

int ahead_samples(const struct ahead *a)
{
    return a->B;
}

/* ---- Life ---------------------------------------------------------------- */

struct ahead *ahead_start(int (*read)(void *ctx, int64_t sample, int32_t *dst,
                                      struct err *err),
                          void *ctx, int B, int64_t stride, int64_t tokens,
                          int depth, struct err *err)
{
    struct ahead *a = calloc(1, sizeof *a);
    if (a) {
        *a = (struct ahead){.read = read, .ctx = ctx, .B = B, .depth = depth,
                            .stride = stride, .tokens = tokens};
        pthread_mutex_init(&a->lock, NULL);
        pthread_cond_init(&a->ready, NULL);
        pthread_cond_init(&a->room, NULL);
        a->block = calloc((size_t)depth, sizeof *a->block);
    }
    for (int i = 0; a && a->block && i < depth; i++) {
        a->block[i].samples = malloc((size_t)B * (size_t)tokens *
                                     sizeof *a->block[i].samples);
        if (!a->block[i].samples)
            goto fail;
    }
    if (!a || !a->block)
        goto fail;
    int rc = pthread_create(&a->thread, NULL, work, a);
    if (rc) {
        err_set(err, "data: cannot start a thread: %s", strerror(rc));
        ahead_stop(a);
        return NULL;
    }
    a->started = true;
    return a;
fail:
    err_set(err, "data: out of memory for reading ahead");
    ahead_stop(a);
    return NULL;
}

void ahead_stop(struct ahead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    pthread_cond_signal(&a->room);
    pthread_mutex_unlock(&a->lock);
    if (a->started)
        pthread_join(a->thread, NULL);
    for (int i = 0; a->block && i < a->depth; i++)
        free(a->block[i].samples);
    free(a->block);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->ready);
    pthread_cond_destroy(&a->room);
    free(a);
}
