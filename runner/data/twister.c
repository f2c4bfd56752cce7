/* twister - see twister.h. After Matsumoto and Nishimura's description of
 * MT19937. */
#include "runner/data/twister.h"

enum { MIDDLE = 397 };

void twister_seed(struct twister *t, uint32_t seed)
{
    for (int i = 0; i < TWISTER_N; i++) {
        t->state[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + (uint32_t)i + 1;
    }
    t->at = TWISTER_N;
}

void twister_seed_words(struct twister *t, const uint32_t *words, int words_n)
{
    uint32_t *s = t->state;
    twister_seed(t, 19650218u);
    int i = 1, j = 0;
    int rounds = words_n > TWISTER_N ? words_n : TWISTER_N;
    for (int k = 0; k < rounds; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + words[j] +
               (uint32_t)j;
        if (++i == TWISTER_N) {
            s[0] = s[TWISTER_N - 1];
            i = 1;
        }
        if (++j == words_n)
            j = 0;
    }
    for (int k = 0; k < TWISTER_N - 1; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) -
               (uint32_t)i;
        if (++i == TWISTER_N) {
            s[0] = s[TWISTER_N - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
}

static void refill(struct twister *t)
{
    uint32_t *s = t->state;
    for (int i = 0; i < TWISTER_N; i++) {
        uint32_t y = (s[i] & 0x80000000u) |
                     (s[(i + 1) % TWISTER_N] & 0x7fffffffu);
        s[i] = s[(i + MIDDLE) % TWISTER_N] ^ (y >> 1) ^
               (y & 1 ? 0x9908b0dfu : 0);
    }
    t->at = 0;
}

uint32_t twister_u32(struct twister *t)
{
    if (t->at == TWISTER_N)
        refill(t);
    uint32_t y = t->state[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t twister_interval(struct twister *t, uint64_t max)
{
    if (!max)
        return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max), v;
    do {
        v = twister_u32(t);
        if (max > UINT32_MAX)
            v = v << 32 | twister_u32(t);
        v &= mask;
    } while (v > max);
    return v;
}

void twister_shuffle_i32(struct twister *t, int32_t *items, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)twister_interval(t, (uint64_t)i);
        int32_t kept = items[i];
        items[i] = items[j];
        items[j] = kept;
    }
}

void twister_shuffle_i64(struct twister *t, int64_t *items, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)twister_interval(t, (uint64_t)i);
        int64_t kept = items[i];
        items[i] = items[j];
        items[j] = kept;
    }
}
