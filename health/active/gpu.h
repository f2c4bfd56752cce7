/* gpu - one GPU of this process, as the active probes use it: a device, its
 * whole arena, and what they say. Private to health/active.
 *
 * Each probe prints lines of JSON (koboshi-health-gpu's protocol, see
 * health/active.h) through gpu_say. A probe returns 0, or -1 when the GPU
 * failed: the process must then end, for CUDA's errors stay.
 */
#ifndef KB_HEALTH_ACTIVE_GPU_H
#define KB_HEALTH_ACTIVE_GPU_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "health/active/checks.h"
#include "kernels/device.h"

struct gpu_active {
    int index; /* what it is called in lines: its place in the request */
    int ordinal;
    char pci[32];
    int capability; /* 90: sm_90 */
    struct device *device;
    stream_t stream;
    void *arena;
    int64_t arena_bytes;
    struct checks_wrong *wrong; /* device memory */
    event_t from, to;
    int out; /* where lines go */
    const char *at;      /* what it does now */
    const char *corrupt; /* "": a fault to make: bf16, memory, ... */
};

/* Opens the GPU with this PCI address and takes want_bytes of its memory; 0:
 * all that is free, but for some. Says what it is. 1: it said why it is
 * skipped. */
int gpu_open(struct gpu_active *gpu, const char *pci, int64_t want_bytes);
void gpu_close(struct gpu_active *gpu);

/* Prints value with kind and gpu added, and releases it. */
void gpu_say(const struct gpu_active *gpu, const char *kind, json_t *value);
/* Says that CUDA gave code at what gpu->at names; returns -1. */
int gpu_fault(const struct gpu_active *gpu, int code, const char *what);
/* Says why something is not tried; returns 0. */
int gpu_skip(const struct gpu_active *gpu, const char *what, const char *why);
/* What was found so far, on the host. */
int gpu_wrong(struct gpu_active *gpu, struct checks_wrong *ret);
/* Members wrong, first, want, got of what was found, into value. */
void gpu_add_wrong(json_t *value, const struct checks_wrong *wrong);
bool gpu_corrupts(const struct gpu_active *gpu, const char *what);

/* The probes. */
int product_run(struct gpu_active *gpu, enum checks_cell cell, double time_s);
int memory_run(struct gpu_active *gpu, double time_s);
int host_run(struct gpu_active *gpu);
/* ports and ranks of the world: see reduce.c. */
struct reduce_place {
    int rank, size, local_rank, local_size;
    const char *address; /* of rank 0 */
    int port;
    const char *what; /* "node", or "pair" of nodes */
    double wireup_s;  /* how long the others are waited for */
};
int reduce_run(struct gpu_active *gpu, const struct reduce_place *place);
/* All pairs of the GPUs named; a process of its own. */
int peers_run(const char *const *pci, int n, const char *corrupt, int out);

#endif
