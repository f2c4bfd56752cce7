/* share - what of a model one rank holds: the layers of its pipeline stage, and
 * of each the heads and columns of its tensor rank.
 *
 * Layers lie in line over the chunks of all stages, chunk by chunk: the first
 * chunk of stage 0, of stage 1, ..., the second chunk of stage 0, .... Those
 * that do not divide are spread, earlier chunks having one more.
 */
#ifndef KB_PLAN_SHARE_H
#define KB_PLAN_SHARE_H

#include "runner/plan/plan.h"

/* Layers of a stage's chunk: the first one's number, and how many. */
void share_layers(const struct plan *plan, int stage, int chunk,
                  int *ret_first, int *ret_n);
/* The same model's shape as it is on one rank: L, H, K, F, V and Vp are what
 * lies there (V may be 0 where all rows are padding). */
void share_shape(const struct plan *plan, int stage, int tensor_rank,
                 struct shape *ret);
/* Tensor ranks that hold the same key and value heads: neighbours. */
int share_replicas(const struct plan *plan);
/* Layers of the largest chunk of a stage. */
int share_chunk_layers(const struct plan *plan, int stage);
/* Tokens of N whose norms and residuals a tensor rank computes; the last ones
 * may have fewer. */
int64_t share_tokens(const struct shape *share, int64_t N);

#endif
