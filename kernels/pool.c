/* pool - see pool.h. Helpers sleep on a condition between operations, after a
 * short spin: operations follow each other closely within a step. */
#include "kernels/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define SPINS 4000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    pthread_t threads[POOL_WORKERS_MAX];
    int helpers;              /* threads beside the caller */
    bool stop;
    atomic_uint round;        /* changes when there is work */
    int busy;                 /* helpers not yet done with this round */
    pool_task task;
    void *ctx;
    int64_t tasks_n;
    atomic_llong next;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .idle = PTHREAD_COND_INITIALIZER};

static void work(pool_task task, void *ctx, int64_t tasks_n, int worker)
{
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&pool.next, 1,
                                              memory_order_relaxed);
        if (i >= tasks_n)
            return;
        task(ctx, i, worker);
    }
}

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void *helper(void *arg)
{
    int worker = (int)(intptr_t)arg;
    unsigned seen = 0;

    for (;;) {
        for (int i = 0; i < SPINS && atomic_load(&pool.round) == seen; i++)
            relax();
        pthread_mutex_lock(&pool.lock);
        while (atomic_load(&pool.round) == seen && !pool.stop)
            pthread_cond_wait(&pool.wake, &pool.lock);
        seen = atomic_load(&pool.round);
        pool_task task = pool.task;
        void *ctx = pool.ctx;
        int64_t tasks_n = pool.tasks_n;
        bool stop = pool.stop;
        pthread_mutex_unlock(&pool.lock);
        if (stop)
            return NULL;
        work(task, ctx, tasks_n, worker);
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0)
            pthread_cond_signal(&pool.idle);
        pthread_mutex_unlock(&pool.lock);
    }
}

void pool_run(pool_task task, void *ctx, int64_t tasks_n)
{
    if (pool.helpers == 0 || tasks_n <= 1) {
        for (int64_t i = 0; i < tasks_n; i++)
            task(ctx, i, 0);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    pool.task = task;
    pool.ctx = ctx;
    pool.tasks_n = tasks_n;
    pool.busy = pool.helpers;
    atomic_store(&pool.next, 0);
    atomic_fetch_add(&pool.round, 1);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    work(task, ctx, tasks_n, 0);
    pthread_mutex_lock(&pool.lock);
    while (pool.busy)
        pthread_cond_wait(&pool.idle, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void stop_helpers(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.stop = true;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.helpers; i++)
        pthread_join(pool.threads[i], NULL);
    pool.helpers = 0;
    pool.stop = false;
    atomic_store(&pool.round, 0);
}

/* Helpers block all signals: they are the main thread's business. */
void pool_resize(int workers)
{
    sigset_t all, old;

    if (workers < 1)
        workers = 1;
    if (workers > POOL_WORKERS_MAX)
        workers = POOL_WORKERS_MAX;
    if (workers - 1 == pool.helpers)
        return;
    stop_helpers();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool.helpers < workers - 1 &&
           !pthread_create(&pool.threads[pool.helpers], NULL, helper,
                           (void *)(intptr_t)(pool.helpers + 1)))
        pool.helpers++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
