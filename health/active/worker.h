/* worker - a process with one GPU, told by lines what to try; see worker.c. */
#ifndef KB_HEALTH_ACTIVE_WORKER_H
#define KB_HEALTH_ACTIVE_WORKER_H

#include <stdint.h>

/* Until its standard input ends; lines to out. want_bytes of the GPU's memory
 * are taken, 0: nearly all. The exit code. */
int worker_main(int index, const char *pci, int64_t want_bytes,
                const char *corrupt, int out);

#endif
