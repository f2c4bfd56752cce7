/* sdpa - attention by cuDNN, behind four C calls.
 *
 * cuDNN's graph API has a kept wrapper in C++ only (cudnn-frontend); this is
 * the one file over it. Built when configure finds its headers; the CUDA
 * backend falls back to its own kernels when a call says K_UNSUPPORTED.
 * Proved by tests/gpu/sdpa_check.cu. Causal self-attention over whole sequences
 * of bf16 or f16: no cu_seqlens, Tq == Tk, D a multiple of 8 and at most 128.
 * Graphs are built once a shape and kept; building takes a good part of a
 * second, so the first step pays for it.
 */
#ifndef KB_KERNELS_SDPA_H
#define KB_KERNELS_SDPA_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sdpa;

/* NULL: no cuDNN at run time, or memory ran out. */
struct sdpa *sdpa_create(void);
void sdpa_destroy(struct sdpa *sdpa);
/* Scratch for a backward (the larger one), an upper bound from the shape. */
size_t sdpa_workspace_bytes(int B, int T, int H, int K, int D,
                            int deterministic);
enum kstatus sdpa_forward(struct sdpa *sdpa, const struct exec *ex,
                          const struct attn_args *a);
enum kstatus sdpa_backward(struct sdpa *sdpa, const struct exec *ex,
                           const struct attn_args *a,
                           const struct attn_grad *g);
/* Why the last call failed. */
const char *sdpa_error(const struct sdpa *sdpa);

#ifdef __cplusplus
}
#endif
#endif
