/* blend - see blend.h. Counts are kept for every BLOCK_N samples and the rule
 * is run from there, so that a blend of any length costs little memory. */
#include "runner/data/blend.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_N = 4096 };

struct blend {
    int sets_n;
    double *weight;  /* [sets_n] */
    int64_t *blocks; /* [blocks_n, sets_n] counts before block */
    int64_t blocks_n, blocks_cap;
    int64_t at;      /* the cursor: samples drawn so far */
    int64_t *count;  /* [sets_n] by then */
};

/* The sum that numpy forms: eight running sums for eight numbers and more. */
static double sum_of(const double *v, int n)
{
    if (n < 8) {
        double s = 0;
        for (int i = 0; i < n; i++)
            s += v[i];
        return s;
    }
    double r[8];
    int i;
    memcpy(r, v, sizeof r);
    for (i = 8; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            r[j] += v[i + j];
    double s = ((r[0] + r[1]) + (r[2] + r[3])) +
               ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++)
        s += v[i];
    return s;
}

struct blend *blend_create(const double *weights, int sets_n, struct err *err)
{
    struct blend *b = calloc(1, sizeof *b);
    if (b) {
        b->sets_n = sets_n;
        b->weight = calloc((size_t)sets_n, sizeof *b->weight);
        b->count = calloc((size_t)sets_n, sizeof *b->count);
    }
    if (!b || !b->weight || !b->count) {
        err_set(err, "data: out of memory");
        blend_destroy(b);
        return NULL;
    }
    double sum = sum_of(weights, sets_n);
    for (int i = 0; i < sets_n; i++) {
        if (!(weights[i] >= 0) || !(sum > 0)) {
            err_set_class(err, ERR_REQUEST,
                          "data: bad weight %g of the blend; give numbers "
                          ">= 0, not all 0", weights[i]);
            blend_destroy(b);
            return NULL;
        }
        b->weight[i] = weights[i] / sum;
    }
    return b;
}

void blend_destroy(struct blend *b)
{
    if (!b)
        return;
    free(b->weight);
    free(b->blocks);
    free(b->count);
    free(b);
}

double blend_weight(const struct blend *b, int set)
{
    return b->weight[set];
}

static int next_set(const struct blend *b)
{
    double k = b->at > 1 ? (double)b->at : 1;
    int best = 0;
    double most = b->weight[0] * k - (double)b->count[0];
    for (int i = 1; i < b->sets_n; i++) {
        double behind = b->weight[i] * k - (double)b->count[i];
        if (behind > most) {
            most = behind;
            best = i;
        }
    }
    return best;
}

static size_t row_bytes(const struct blend *b)
{
    return (size_t)b->sets_n * sizeof *b->count;
}

/* Remember the counts at the start of a block; without memory for it the
 * blend is only slower. */
static void keep_block(struct blend *b)
{
    if (b->at != b->blocks_n * BLOCK_N)
        return;
    if (b->blocks_n == b->blocks_cap) {
        int64_t cap = b->blocks_cap ? 2 * b->blocks_cap : 16;
        int64_t *more = realloc(b->blocks, (size_t)cap * row_bytes(b));
        if (!more)
            return;
        b->blocks = more;
        b->blocks_cap = cap;
    }
    memcpy(b->blocks + b->blocks_n++ * b->sets_n, b->count, row_bytes(b));
}

int blend_find(struct blend *b, int64_t k, int64_t *counts)
{
    int64_t block = k / BLOCK_N;
    if (block >= b->blocks_n)
        block = b->blocks_n - 1;
    if (block < 0) {
        b->at = 0;
        memset(b->count, 0, row_bytes(b));
    } else if (k < b->at || b->at < block * BLOCK_N) {
        b->at = block * BLOCK_N;
        memcpy(b->count, b->blocks + block * b->sets_n, row_bytes(b));
    }
    for (; b->at < k; b->at++) {
        keep_block(b);
        b->count[next_set(b)]++;
    }
    keep_block(b);
    if (counts)
        memcpy(counts, b->count, row_bytes(b));
    return next_set(b);
}
