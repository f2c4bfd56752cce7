/* half - 16-bit floats to and from float. Private to runner/ckpt. */
#ifndef KB_CKPT_HALF_H
#define KB_CKPT_HALF_H

#include <stdint.h>

#include "kernels/device.h"

/* In place: n floats become n DT_BF16 or DT_F16, to nearest, ties to even. */
void half_from_f32(void *p, int64_t n, enum dtype to);
/* n DT_F32, DT_BF16 or DT_F16 at src become floats, exactly. */
void half_to_f32(float *dst, const void *src, int64_t n, enum dtype from);

#endif
