/* gpu_model - what a healthy GPU of a model does at least, one row a model.
 *
 * Each figure is the data sheet's peak and the share of it that a healthy one
 * reaches at least in the active probes, cold or warm, with ECC on, at its
 * default power limit: products of 8192 x 8192 matrices, device copies (read
 * and write), pinned copies of the host one way, copies to a peer one way, the
 * bus bandwidth of an all-reduce in rings (NVLS off). A site may say otherwise
 * (active.* of health.yaml). A model without a row is only held against the
 * other GPUs of its node and job.
 */
#ifndef KB_HEALTH_GPU_MODEL_H
#define KB_HEALTH_GPU_MODEL_H

#include <stdint.h>

enum gpu_figure {
    GPU_FIGURE_BF16, /* TFLOP/s */
    GPU_FIGURE_FP8,
    GPU_FIGURE_FP32,
    GPU_FIGURE_MEMORY, /* GB/s */
    GPU_FIGURE_HOST_IN,
    GPU_FIGURE_HOST_OUT,
    GPU_FIGURE_PEER,
    GPU_FIGURE_REDUCE,
    GPU_FIGURE_N
};
extern const char *const gpu_figure_names[GPU_FIGURE_N];
const char *gpu_figure_unit(enum gpu_figure figure);

struct gpu_model {
    const char *name; /* in NVML's name of the GPU */
    double peak[GPU_FIGURE_N]; /* 0: the model has no such thing */
    double share[GPU_FIGURE_N];
};
extern const struct gpu_model gpu_models[];
extern const int gpu_models_n;

/* The row whose name fits best (the longest), or NULL. */
const struct gpu_model *gpu_model_find(const char *name);
/* peak * share, 0 where there is none; model may be NULL. */
double gpu_model_floor(const struct gpu_model *model, enum gpu_figure figure);

#endif
