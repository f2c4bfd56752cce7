/* ahead - a thread that reads samples before they are asked for.
 *
 * Blocks of B samples follow one another by a fixed stride, as one rank's
 * micro-batches do. A request that goes on so finds its block read; any other
 * one (after a resume, say) starts the row anew there.
 */
#ifndef KB_DATA_AHEAD_H
#define KB_DATA_AHEAD_H

#include <stdint.h>

#include "runner/base/err.h"

struct ahead;

/* read gives one sample of `tokens` tokens; it is called by the thread. */
struct ahead *ahead_start(int (*read)(void *ctx, int64_t sample, int32_t *dst,
                                      struct err *err),
                          void *ctx, int B, int64_t stride, int64_t tokens,
                          int depth, struct err *err);
void ahead_stop(struct ahead *ahead);
int ahead_samples(const struct ahead *ahead); /* B */
/* [B, tokens] of samples first .. first + B, valid until the next call. NULL:
 * reading them failed. */
const int32_t *ahead_take(struct ahead *ahead, int64_t first, struct err *err);
/* Requests that went on and yet had to wait, and how long all of them did. */
void ahead_waits(struct ahead *ahead, int64_t *ret_n, double *ret_s);

#endif
