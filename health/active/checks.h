/* checks - the arithmetic of the active probes on a GPU: cells with known
 * values, and counts of those that are not as they must be.
 *
 * Matrices hold small integers, so that every product and every sum is exact
 * in any order and on any GPU: what is wrong is wrong. All work is queued on
 * the stream; each function returns a cudaError_t (0: queued). Memory is the
 * caller's. What is found comes in struct checks_wrong, in device memory that
 * checks_clear set up, and adds up until it is cleared again.
 */
#ifndef KB_HEALTH_ACTIVE_CHECKS_H
#define KB_HEALTH_ACTIVE_CHECKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum checks_cell { CHECKS_BF16, CHECKS_FP8, CHECKS_FP32, CHECKS_CELL_N };

struct checks_wrong {
    unsigned long long n;     /* cells that are wrong */
    unsigned long long first; /* the lowest of them; ~0: none */
    unsigned long long want, got; /* of one of them, as bits */
};

int checks_clear(struct checks_wrong *wrong, void *stream);

/* dst[n] = integers in [-most, most], by seed and index. */
int checks_fill(enum checks_cell cell, void *dst, int64_t n, uint64_t seed,
                int most, void *stream);
/* A[M][K], B[N][K], and D[N][M] of floats which must be sum over k of
 * B[n][k] A[m][k]. Both sides are multiplied by a vector of random numbers of
 * 64 bits, in integers modulo 2^64: u[K] is A's share, made once (sums[K] is
 * its place). Counts rows of D that are wrong, first is the row. */
int checks_sums(enum checks_cell cell, const void *a, int64_t m, int64_t k,
                unsigned long long *sums, void *stream);
int checks_rows(enum checks_cell cell, const void *b, const float *d,
                const unsigned long long *sums, int64_t m, int64_t n,
                int64_t k, struct checks_wrong *wrong, void *stream);
/* One row of D, cell by cell; first is the column, want and got are floats. */
int checks_row(enum checks_cell cell, const void *a, const void *b,
               const float *d, int64_t row, int64_t m, int64_t k,
               struct checks_wrong *wrong, void *stream);
/* *sum += a number of all bits and where they are; the same in any order. */
int checks_bits(const void *data, int64_t bytes, unsigned long long *sum,
                void *stream);

/* Memory as words of 8 bytes. */
enum checks_pattern {
    CHECKS_ADDRESS, /* each word holds its own index */
    CHECKS_ADDRESS_NOT,
    CHECKS_ZEROS,
    CHECKS_ONES,
    CHECKS_CHECKER,     /* 0xaaaa... */
    CHECKS_CHECKER_NOT, /* 0x5555... */
    CHECKS_WALKING,     /* one bit, another in each word */
    CHECKS_RANDOM,
    CHECKS_PATTERN_N
};
int checks_write(void *data, int64_t words, enum checks_pattern pattern,
                 void *stream);
/* Counts words that do not hold the pattern; first is the word. */
int checks_read(const void *data, int64_t words, enum checks_pattern pattern,
                struct checks_wrong *wrong, void *stream);
/* Flip bits of a word: a fault for tests. */
int checks_flip(void *data, int64_t word, uint64_t bits, void *stream);

/* What rank puts into an all-reduce, and what must come of `ranks` of them:
 * small integers. Counts cells; want and got are floats. */
int checks_reduce_fill(float *data, int64_t n, int rank, void *stream);
int checks_reduce_read(const float *data, int64_t n, int ranks,
                       struct checks_wrong *wrong, void *stream);

#ifdef __cplusplus
}
#endif
#endif
