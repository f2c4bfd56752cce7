/* pool - the threads of the CPU operations.
 *
 * An operation cuts itself into tasks by its shape alone, never by the number
 * of threads; a task's result depends on its index alone. So results are the
 * same with any number of threads. Private to kernels.
 */
#ifndef KB_KERNELS_POOL_H
#define KB_KERNELS_POOL_H

#include <stdint.h>

#define POOL_WORKERS_MAX 16 /* what scratch is sized for */

/* worker: 0 .. POOL_WORKERS_MAX - 1, names the scratch that is free to use. */
typedef void (*pool_task)(void *ctx, int64_t index, int worker);

/* Returns when all tasks are done. The caller is worker 0. Not reentrant. */
void pool_run(pool_task task, void *ctx, int64_t tasks_n);
void pool_resize(int workers);

#endif
