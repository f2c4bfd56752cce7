/* exec - a struct exec made ready for a device and a precision. */
#ifndef KB_KERNELS_EXEC_H
#define KB_KERNELS_EXEC_H

#include "kernels/ops.h"
#include "kernels/tuned.h"

#ifdef __cplusplus
extern "C" {
#endif

/* act: what weights and activations are. CPU: DT_F32 or DT_F64. CUDA: DT_BF16,
 * DT_F16 or DT_F32. grad: DT_F32, or DT_BF16 with DT_BF16 on CUDA; ignored on
 * the CPU (as act). Opens the backend on stream 0; scratch is carved from the
 * arena (0 bytes: the caller sets ex->ws later). K_UNSUPPORTED: not on this
 * device; K_NOMEM: arena. */
enum kstatus exec_init(struct exec *ex, struct device *device, enum dtype act,
                       enum dtype grad, size_t ws_bytes, bool deterministic);
void exec_release(struct exec *ex);

#ifdef __cplusplus
}
#endif
#endif
