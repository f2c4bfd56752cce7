/* probe_gpu - what the files of the GPU probe share. */
#ifndef KB_HEALTH_PROBE_GPU_H
#define KB_HEALTH_PROBE_GPU_H

#include "health/gpu.h"
#include "health/probe.h"

struct scene {
    const struct look *look;
    struct findings *findings;
    struct gpus gpus;
    int on_bus; /* GPUs that the PCI bus shows */
};

/* What a finding is about: the UUID where the driver gave it. */
const char *gpu_subject(const struct scene *scene, int i, char dst[96]);
/* All rules on one GPU: gpu_rules.c. */
void gpu_judge(struct scene *scene, int i);
/* Ordinal that CUDA gives the GPU in the job, -1: it does not see it, or
 * nobody can tell: gpu_names.c. */
int gpu_cuda_ordinal(const struct scene *scene, int i);
/* What each GPU is called, and what the node's GPUs are, for the report. */
void gpu_tell_names(const struct scene *scene);

#endif
