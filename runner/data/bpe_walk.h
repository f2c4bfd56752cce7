/* bpe_walk - the merges of a piece in one walk from left to right.
 *
 * A row of tokens is what the merges give if, and only if, each two neighbours
 * are what the merges give for their own bytes; that is seen by undoing the
 * merges of both, the last one first, and looking whether a pair across the
 * border would have been merged before. So the longest token that fits behind
 * the last one is taken, and where none does the last one is given up for a
 * shorter one: O(n) for a piece of n bytes.
 *
 * This needs a vocabulary in which a merge's parts are older than the merge.
 * Trained ones are so; for another, walk_create gives none, and the merges
 * are made one by one (bpe_encode.c).
 */
#ifndef KB_DATA_BPE_WALK_H
#define KB_DATA_BPE_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/bpe.h"

struct walk;

/* Of a finished bpe (borrowed). *ret: NULL if the vocabulary is not such. */
int walk_create(const struct bpe *bpe, struct walk **ret, struct err *err);
void walk_destroy(struct walk *walk);
/* As bpe_encode, n > 0. */
int64_t walk_encode(const struct walk *walk, struct bpe_work *work,
                    const char *bytes, size_t n, int32_t *out);

#endif
