/* twister - the MT19937 generator and the shuffle that Megatron's order rests
 * on: numpy's legacy RandomState. The same seed gives the same order on every
 * machine, for ever.
 */
#ifndef KB_DATA_TWISTER_H
#define KB_DATA_TWISTER_H

#include <stdint.h>

enum { TWISTER_N = 624 };

struct twister {
    uint32_t state[TWISTER_N];
    int at;
};

void twister_seed(struct twister *t, uint32_t seed);
/* From several words: what RandomState makes of a list. */
void twister_seed_words(struct twister *t, const uint32_t *words, int words_n);
uint32_t twister_u32(struct twister *t);
/* Uniform in 0 .. max, by masking and rejection. */
uint64_t twister_interval(struct twister *t, uint64_t max);
void twister_shuffle_i32(struct twister *t, int32_t *items, int64_t n);
void twister_shuffle_i64(struct twister *t, int64_t *items, int64_t n);

#endif
