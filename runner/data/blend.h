/* blend - which data set each sample of a blend comes from, as Megatron's
 * greedy rule says: sample k goes to the set that is furthest behind its
 * share. The sequence for given weights never depends on how long it is, so
 * a longer run goes on where the shorter one ended.
 */
#ifndef KB_DATA_BLEND_H
#define KB_DATA_BLEND_H

#include <stdint.h>

#include "runner/base/err.h"

struct blend;

/* weights[sets_n], each >= 0, not all 0; need not sum to 1. */
struct blend *blend_create(const double *weights, int sets_n, struct err *err);
void blend_destroy(struct blend *blend);
double blend_weight(const struct blend *blend, int set); /* normalised */
/* Set of sample k, and how many samples each set gave before k
 * (counts[sets_n], may be NULL). Near the last call's k it is quick. */
int blend_find(struct blend *blend, int64_t k, int64_t *counts);

#endif
