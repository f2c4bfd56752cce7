/* order - which tokens sample i of a corpus is, exactly as Megatron's GPT
 * data set says for the same lengths, seed, sequence length and number of
 * samples.
 *
 * The corpus' sequences are laid end to end in a shuffled order, as many
 * epochs as the samples need, cut into pieces of seq_len tokens that share
 * one token with the next (a sample reads seq_len + 1), and the pieces are
 * shuffled. The last epoch is shuffled apart when less than 80 % of it is
 * needed, so that no part of the corpus is favoured.
 *
 * An order may be extended: the part that exists stays as it is, and further
 * samples are an order of their own behind it, with a seed derived from the
 * first and the number of the part. The requested sizes of all parts (given
 * back by order_parts) rebuild the same order.
 */
#ifndef KB_DATA_ORDER_H
#define KB_DATA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/tokens.h"

#define ORDER_PARTS_MAX 64

struct order;

/* Of sequences first .. first + n of t (borrowed for the order's life). One
 * part for samples_n samples. NULL on error: no tokens, out of memory. */
struct order *order_create(const struct tokens *t, int64_t first, int64_t n,
                           int seq_len, uint64_t seed, int64_t samples_n,
                           struct err *err);
/* The same, with long parts as files in dir (order_cache.h); fingerprint: of
 * t. dir NULL: none. part: number of the first part, which its seed is derived
 * from; 0 elsewhere. */
struct order *order_create_cached(const struct tokens *t, int64_t first,
                                  int64_t n, int seq_len, uint64_t seed,
                                  int part, int64_t samples_n, const char *dir,
                                  uint64_t fingerprint, struct err *err);
void order_destroy(struct order *order);
/* One part more, for samples_n further samples. */
int order_extend(struct order *order, int64_t samples_n, struct err *err);

/* Samples that exist: at least the requested ones. */
int64_t order_samples(const struct order *order);
int order_parts(const struct order *order, int64_t sizes[ORDER_PARTS_MAX]);
/* The seq_len + 1 tokens of sample i, each in [0, vocab). */
int order_read(const struct order *order, int64_t i, int64_t vocab,
               int32_t *dst, struct err *err);
/* Where sample i lies: place in the shuffled sequences and token in it. */
void order_place(const struct order *order, int64_t i, int64_t *ret_position,
                 int32_t *ret_offset);

/* One part, open for tests. */
struct order_part {
    int64_t requested_n;
    int64_t epochs_n;
    bool last_apart;
    int32_t *sequences;    /* [sequences_n] shuffled, all epochs */
    int64_t sequences_n;
    int64_t *position;     /* [samples_n + 1] in `sequences` */
    int32_t *offset;       /* [samples_n + 1] token in it */
    int64_t *shuffle;      /* [samples_n], 64 bit, or NULL and ... */
    int32_t *shuffle_32;   /* ... 32 bit when samples_n fits */
    int64_t samples_n;
    void *map;             /* the arrays are in it, or NULL: they are owned */
    size_t map_bytes;
};
const struct order_part *order_part(const struct order *order, int i);

/* The bounds of a split string's three parts over n sequences: bounds[s] ..
 * bounds[s + 1]. "969,30,1", any separator; missing numbers are 0. */
int order_split(const char *split, int64_t n, int64_t bounds[4],
                struct err *err);

#endif
