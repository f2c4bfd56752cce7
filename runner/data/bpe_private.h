/* bpe_private - the tables of bpe.c, for the merging of bpe_encode.c. */
#ifndef KB_DATA_BPE_PRIVATE_H
#define KB_DATA_BPE_PRIVATE_H

#include "runner/data/bpe.h"

/* A rank and a place make one int32_t, a slot of merges one uint64_t. */
enum { RANK_BITS = 24, ID_BITS = 20 };
static const int32_t no_rank = 1 << RANK_BITS;

struct token {
    uint32_t at, n; /* in bytes; n 0: no such number */
};

/* A pair of tokens and its rank, packed so that eight share a cache line. */
#define SLOT_FREE UINT64_MAX

struct bpe {
    char *bytes;         /* of all tokens */
    size_t bytes_n, bytes_cap;
    struct token *token; /* [vocab], cap tokens_cap */
    int32_t vocab;
    size_t tokens_cap;
    int32_t *by_bytes;   /* [by_bytes_n] hash of ids, -1 free */
    size_t by_bytes_n, tokens_n;
    uint64_t *slot;      /* [slots_n] hash of left, right, rank */
    size_t slots_n;      /* a power of two */
    uint64_t *maybe;     /* bits, eight a merge: most pairs have no merge, */
    int maybe_shift;     /* and this says so from the nearest cache */
    int32_t *made;       /* [merges_n] what a merge makes, by rank */
    size_t made_cap;
    int32_t merges_n;    /* ranks */
    size_t pairs_n;      /* in slots */
    int32_t byte_id[256];
    int32_t *byte_pair;  /* [256, 256] rank of two bytes */
    struct walk *walk;   /* or NULL */
};

/* bpe_walk.c remembers so many pairs in a thread's working memory. */
enum { WALK_MEMO_LOG2 = 15 };

/* bpe_encode without the walk. */
int64_t bpe_encode_merging(const struct bpe *bpe, struct bpe_work *work,
                           const char *bytes, size_t n, int32_t *out);

static inline uint64_t pack_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << ID_BITS | (uint32_t)right;
}

static inline uint64_t pair_hash(uint64_t pair)
{
    return pair * 0x9e3779b97f4a7c15u;
}

/* The pair's slot, or the free one where it would be. */
static inline size_t find_slot(const struct bpe *b, uint64_t pair)
{
    size_t mask = b->slots_n - 1;
    size_t i = (size_t)(pair_hash(pair) >> 32) & mask;
    while (b->slot[i] != SLOT_FREE && b->slot[i] >> RANK_BITS != pair)
        i = (i + 1) & mask;
    return i;
}

static inline int32_t rank_of(const struct bpe *b, int32_t left,
                              int32_t right)
{
    uint64_t pair = pack_pair(left, right);
    uint64_t bit = pair_hash(pair) >> b->maybe_shift;
    if (!(b->maybe[bit >> 6] >> (bit & 63) & 1))
        return no_rank;
    uint64_t slot = b->slot[find_slot(b, pair)];
    return slot == SLOT_FREE ? no_rank
                             : (int32_t)(slot & ((1u << RANK_BITS) - 1));
}

#endif
