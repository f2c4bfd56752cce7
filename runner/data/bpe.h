/* bpe - byte-pair merges: the bytes of one piece to token numbers.
 *
 * Of all pairs of neighbours that have a merge, the one of the lowest rank is
 * merged, the leftmost of equal ones, until none is left. For vocabularies as
 * training makes them a walk finds the same in O(n) (bpe_walk.h); for others
 * it is done in O(n^2) moves of a few bytes for short pieces, by a queue in
 * O(n log n) for long ones.
 */
#ifndef KB_DATA_BPE_H
#define KB_DATA_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

struct bpe;

struct bpe *bpe_create(struct err *err);
void bpe_destroy(struct bpe *bpe);
/* A token's bytes (copied). Numbers may come in any order, once each. */
int bpe_add_token(struct bpe *bpe, int32_t id, const char *bytes, size_t n,
                  struct err *err);
/* Tokens left and right become the token of both's bytes. Ranks grow by one
 * from 0. All tokens are there before. */
int bpe_add_merge(struct bpe *bpe, int32_t left, int32_t right,
                  struct err *err);
/* The same for every pair of tokens that makes `made`, all of one rank: what
 * tiktoken's files mean. */
int bpe_add_merges_to(struct bpe *bpe, int32_t made, struct err *err);
/* Checks that each byte is a token. Nothing is added afterwards. */
int bpe_finish(struct bpe *bpe, struct err *err);
/* The same for a vocabulary of characters: bpe_merge only. */
int bpe_finish_chars(struct bpe *bpe, struct err *err);

int32_t bpe_vocab(const struct bpe *bpe); /* highest number + 1 */
/* The number of these bytes, or -1; the bytes of a number, or NULL. */
int32_t bpe_find(const struct bpe *bpe, const char *bytes, size_t n);
const char *bpe_bytes(const struct bpe *bpe, int32_t id, size_t *ret_n);

/* Working memory of one thread, for one bpe. */
struct bpe_work {
    void *room;
    size_t room_bytes;
};
void bpe_work_release(struct bpe_work *work);
/* The numbers of a piece into out, which has room for n. Their number, or -1
 * when memory ran out. */
int64_t bpe_encode(const struct bpe *bpe, struct bpe_work *work,
                   const char *bytes, size_t n, int32_t *out);
/* Merge n tokens in place. Their number then, or -1. */
int64_t bpe_merge(const struct bpe *bpe, struct bpe_work *work, int32_t *ids,
                  size_t n);

#endif
