/* bounded - a call that may never come back, with a deadline.
 *
 * PMIx and MPI block for as long as a peer or a server is missing, and offer
 * no deadline. The call runs on a thread of its own; past the deadline the
 * thread is left behind and the caller reports the error. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "runner/base/clock.h"
#include "runner/comm/tables.h"

struct call {
    pthread_mutex_t lock;
    pthread_cond_t came_back;
    int (*f)(void *arg);
    void *arg;
    int value;
    bool done, left; /* the second of the two parties to leave frees */
};

static void call_destroy(struct call *call)
{
    pthread_cond_destroy(&call->came_back);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void *run(void *p)
{
    struct call *call = p;
    int value = call->f(call->arg);
    pthread_mutex_lock(&call->lock);
    call->value = value;
    call->done = true;
    bool left = call->left;
    pthread_cond_signal(&call->came_back);
    pthread_mutex_unlock(&call->lock);
    if (left)
        call_destroy(call);
    return NULL;
}

int bounded_call(int (*f)(void *arg), void *arg, double limit_s,
                 int *ret_value)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return -1;
    call->f = f;
    call->arg = arg;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->came_back, &attr);
    pthread_condattr_destroy(&attr);

    pthread_t thread;
    if (pthread_create(&thread, NULL, run, call)) {
        call_destroy(call);
        return -1;
    }
    pthread_detach(thread);
    double end_s = clock_mono_s() + (limit_s > 0 ? limit_s : 0);
    struct timespec end = {.tv_sec = (time_t)end_s,
                           .tv_nsec = (long)((end_s - (time_t)end_s) * 1e9)};
    pthread_mutex_lock(&call->lock);
    while (!call->done &&
           !pthread_cond_timedwait(&call->came_back, &call->lock, &end))
        ;
    bool done = call->done;
    call->left = true;
    if (done)
        *ret_value = call->value;
    pthread_mutex_unlock(&call->lock);
    if (done)
        call_destroy(call);
    return done ? 0 : -1;
}
