/* gpu - what a GPU leaves to programs, and what a rank's libraries take of it
 * beside the arena, by model and version of the toolkit; gpu.c says which
 * figures were measured. A rank on the card asks the card; this is for who
 * plans elsewhere.
 */
#ifndef KB_PLAN_GPU_H
#define KB_PLAN_GPU_H

#include <stdint.h>

/* Context, kernels, cuBLASLt, cuDNN; with several ranks NCCL's buffers. A model
 * or version that is not in the table is taken for the nearest. cuda_version
 * as 13000; 0: the newest known. */
int64_t gpu_library_bytes(const char *name, int cuda_version, int ranks);

#endif
