/* save - the snapshot and the thread behind it; see ckpt.h.
 *
 * The step waits for a copy into memory that was allocated once; one thread
 * per rank then runs writer_save. State passes under one lock. The memory is
 * much on GPUs, and pinned: the thread makes it after the first poll, beside
 * the steps that follow the first. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/ckpt/ckpt.h"
#include "runner/ckpt/move.h"
#include "runner/ckpt/safetensors.h"
#include "runner/ckpt/writer.h"

#define NEWS_MAX 4
#define WAIT_LIMIT_S 900.0 /* rank 0's writer for the slowest other one */

struct ckpt {
    const struct view *views; /* borrowed */
    int views_n;
    struct device *device;
    struct layout layout;
    unsigned char *memory;    /* the device's */
    struct writer writer;
    int64_t last_step;
    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, busy, stop;
    bool wanted, ripe;        /* the memory: begin with it; it is there */
    double begin_s;
    struct ckpt_news news[NEWS_MAX]; /* oldest first */
    int news_n;
};

/* ---- The thread -------------------------------------------------------- */

/* When nobody polls, the oldest goes. */
static void add_news(struct ckpt *c, const struct ckpt_news *news)
{
    if (c->news_n == NEWS_MAX) {
        c->news_n--;
        memmove(c->news, c->news + 1, (NEWS_MAX - 1) * sizeof *c->news);
    }
    c->news[c->news_n++] = *news;
}

/* A piece of the memory, without the lock. */
static void ripen(struct ckpt *c)
{
    pthread_mutex_unlock(&c->lock);
    bool more = device_ripen_host(c->device, c->memory);
    pthread_mutex_lock(&c->lock);
    if (more)
        return;
    c->ripe = true;
    pthread_cond_broadcast(&c->changed);
}

static void *write_saves(void *p)
{
    struct ckpt *c = p;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->busy && !c->stop && (c->ripe || !c->wanted))
            pthread_cond_wait(&c->changed, &c->lock);
        if (c->stop && !c->busy)
            break;
        if (!c->ripe) {
            ripen(c);
            continue;
        }
        struct ckpt_news news = {.step = c->writer.step,
                                 .bytes = c->layout.bytes};
        snprintf(news.name, sizeof news.name, KB_CKPT_FMT,
                 (long long)news.step, c->writer.attempt);
        pthread_mutex_unlock(&c->lock);
        int rc = writer_save(&c->writer, news.name, &news.err);
        pthread_mutex_lock(&c->lock);
        news.what = rc ? CKPT_FAILED : CKPT_SAVED;
        news.seconds = clock_mono_s() - c->begin_s;
        json_decref(c->writer.state);
        c->writer.state = NULL;
        add_news(c, &news);
        c->busy = false;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Signals are for the step loop alone. */
static int start_thread(struct ckpt *c, struct err *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&c->thread, NULL, write_saves, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return err_set(err, "ckpt: cannot start the writer: %s", strerror(rc));
    c->started = true;
    return 0;
}

/* ---- Opening ----------------------------------------------------------- */

struct ckpt *ckpt_open(struct comm *comm, const struct plan *plan,
                       struct device *device, const struct view *views,
                       int views_n, int attempt, struct err *err)
{
    const struct comm_place *place = comm_place(comm);
    struct ckpt *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(err, "ckpt: out of memory");
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->views = views;
    c->views_n = views_n;
    c->device = device;
    c->last_step = -1;
    c->writer = (struct writer){
        .rank = place->rank,
        .size = place->size,
        .attempt = attempt,
        .wait_limit_s = WAIT_LIMIT_S,
    };
    snprintf(c->writer.run_dir, sizeof c->writer.run_dir, "%s", plan->run_dir);
    snprintf(c->writer.plan_hash, sizeof c->writer.plan_hash, "%s",
             plan->hash);
    if (layout_build(views, views_n, place->rank, plan->ckpt_shard_bytes,
                     &c->layout, err))
        goto fail;
    c->memory = device_reserve_host(device,
                                    (size_t)c->layout.memory_bytes + 1);
    c->writer.boxes = layout_boxes(&c->layout, views);
    if (!c->memory || !c->writer.boxes) {
        err_set(err, "ckpt: no %lld bytes of host memory for the snapshot",
                (long long)c->layout.memory_bytes);
        goto fail;
    }
    c->writer.layout = &c->layout;
    c->writer.memory = c->memory;
    layout_put_headers(&c->layout, c->memory);
    if (start_thread(c, err))
        goto fail;
    return c;
fail:
    ckpt_close(c);
    return NULL;
}

void ckpt_close(struct ckpt *ckpt)
{
    if (!ckpt)
        return;
    if (ckpt->started) {
        pthread_mutex_lock(&ckpt->lock);
        ckpt->stop = true;
        pthread_cond_broadcast(&ckpt->changed);
        pthread_mutex_unlock(&ckpt->lock);
        pthread_join(ckpt->thread, NULL);
    }
    json_decref(ckpt->writer.boxes);
    json_decref(ckpt->writer.state);
    layout_release(&ckpt->layout);
    pthread_cond_destroy(&ckpt->changed);
    pthread_mutex_destroy(&ckpt->lock);
    free(ckpt);
}

/* ---- Saving ------------------------------------------------------------ */

static int take_snapshot(struct ckpt *c, struct err *err)
{
    enum kstatus rc = K_OK;
    bool queued = false;
    for (int i = 0; i < c->layout.pieces_n && rc == K_OK; i++) {
        const struct piece *p = &c->layout.pieces[i];
        const struct view *v = &c->views[p->view];
        struct move move;
        bool apart = v->on_device && device_kind(c->device) != DEVICE_CPU;
        queued |= apart;
        move_plan(v, &p->box, &move);
        rc = move_out(&move, (size_t)st_dtype_bytes(v->dtype), 0,
                      box_count(&p->box),
                      c->memory + c->layout.files[p->file].memory_at + p->at,
                      v->ptr, apart ? c->device : NULL);
    }
    if (rc == K_OK && queued)
        rc = device_sync(c->device, device_stream(c->device, 0));
    if (rc != K_OK)
        return err_set_class(err, ERR_GPU, "ckpt: cannot copy from the "
                             "device: %s", device_error(c->device));
    return 0;
}

int ckpt_save(struct ckpt *ckpt, int64_t step, const json_t *state, bool wait,
              struct err *err)
{
    pthread_mutex_lock(&ckpt->lock);
    ckpt->wanted = true;
    pthread_cond_broadcast(&ckpt->changed);
    while (!ckpt->ripe || (ckpt->busy && wait))
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    bool busy = ckpt->busy;
    pthread_mutex_unlock(&ckpt->lock);
    if (busy || step == ckpt->last_step)
        return 1;
    double begin_s = clock_mono_s();
    if (take_snapshot(ckpt, err)) /* the thread sleeps: memory is ours */
        return -1;
    json_t *copy = NULL;
    if (ckpt->writer.rank == 0) {
        copy = state ? json_deep_copy(state) : json_object();
        if (!copy)
            return err_set(err, "ckpt: out of memory for the state");
    }
    pthread_mutex_lock(&ckpt->lock);
    ckpt->last_step = step;
    ckpt->begin_s = begin_s;
    ckpt->writer.step = step;
    ckpt->writer.state = copy;
    ckpt->busy = true;
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
    return 0;
}

bool ckpt_busy(struct ckpt *ckpt)
{
    pthread_mutex_lock(&ckpt->lock);
    bool busy = ckpt->busy;
    pthread_mutex_unlock(&ckpt->lock);
    return busy;
}

void ckpt_poll(struct ckpt *ckpt, struct ckpt_news *ret)
{
    pthread_mutex_lock(&ckpt->lock);
    if (!ckpt->wanted) {
        ckpt->wanted = true;
        pthread_cond_broadcast(&ckpt->changed);
    }
    *ret = (struct ckpt_news){.what = CKPT_NONE};
    if (ckpt->news_n) {
        *ret = ckpt->news[0];
        memmove(ckpt->news, ckpt->news + 1,
                (size_t)--ckpt->news_n * sizeof *ckpt->news);
    }
    pthread_mutex_unlock(&ckpt->lock);
}

int ckpt_drain(struct ckpt *ckpt, struct err *err)
{
    pthread_mutex_lock(&ckpt->lock);
    while (ckpt->busy)
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    pthread_mutex_unlock(&ckpt->lock);
    return 0;
}
