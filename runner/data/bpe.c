/* bpe - the tables: tokens by their bytes, merges by their pair. */
#include "runner/data/bpe_private.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runner/data/bpe_walk.h"

struct bpe *bpe_create(struct err *err)
{
    struct bpe *b = calloc(1, sizeof *b);
    if (!b)
        err_set(err, "data: out of memory");
    return b;
}

void bpe_destroy(struct bpe *b)
{
    if (!b)
        return;
    free(b->bytes);
    free(b->token);
    free(b->by_bytes);
    free(b->slot);
    free(b->maybe);
    free(b->made);
    free(b->byte_pair);
    walk_destroy(b->walk);
    free(b);
}

/* ---- Tokens by their bytes ---------------------------------------------- */

static size_t slot_of(const struct bpe *b, const char *bytes, size_t n)
{
    size_t mask = b->by_bytes_n - 1;
    size_t slot = XXH3_64bits(bytes, n) & mask;
    for (;; slot = (slot + 1) & mask) {
        int32_t id = b->by_bytes[slot];
        if (id < 0 || (b->token[id].n == n &&
                       !memcmp(b->bytes + b->token[id].at, bytes, n)))
            return slot;
    }
}

static int grow_by_bytes(struct bpe *b, struct err *err)
{
    size_t cap = b->by_bytes_n ? 2 * b->by_bytes_n : 1024;
    int32_t *old = b->by_bytes;
    size_t old_n = b->by_bytes_n;
    b->by_bytes = malloc(cap * sizeof *b->by_bytes);
    if (!b->by_bytes) {
        b->by_bytes = old;
        return err_set(err, "data: out of memory for the vocabulary");
    }
    memset(b->by_bytes, -1, cap * sizeof *b->by_bytes);
    b->by_bytes_n = cap;
    for (size_t i = 0; i < old_n; i++) {
        if (old[i] < 0)
            continue;
        const struct token *t = &b->token[old[i]];
        b->by_bytes[slot_of(b, b->bytes + t->at, t->n)] = old[i];
    }
    free(old);
    return 0;
}

static int make_room(struct bpe *b, int32_t id, size_t n, struct err *err)
{
    if ((size_t)id >= b->tokens_cap) {
        size_t cap = b->tokens_cap ? b->tokens_cap : 1024;
        while (cap <= (size_t)id)
            cap *= 2;
        struct token *more = realloc(b->token, cap * sizeof *more);
        if (!more)
            return err_set(err, "data: out of memory for the vocabulary");
        memset(more + b->tokens_cap, 0, (cap - b->tokens_cap) * sizeof *more);
        b->token = more;
        b->tokens_cap = cap;
    }
    if (b->bytes_n + n > b->bytes_cap) {
        size_t cap = b->bytes_cap ? b->bytes_cap : 1 << 16;
        while (cap < b->bytes_n + n)
            cap *= 2;
        char *more = realloc(b->bytes, cap);
        if (!more)
            return err_set(err, "data: out of memory for the vocabulary");
        b->bytes = more;
        b->bytes_cap = cap;
    }
    return 2 * (b->tokens_n + 1) > b->by_bytes_n ? grow_by_bytes(b, err) : 0;
}

int bpe_add_token(struct bpe *b, int32_t id, const char *bytes, size_t n,
                  struct err *err)
{
    if (id < 0 || id >= 1 << ID_BITS || !n || n > 1 << 20)
        return err_set_class(err, ERR_REQUEST,
                             "data: bad token: number %d, %zu bytes", id, n);
    if (make_room(b, id, n, err))
        return -1;
    size_t slot = slot_of(b, bytes, n);
    if (b->token[id].n || b->by_bytes[slot] >= 0)
        return err_set_class(err, ERR_REQUEST,
                             "data: bad vocabulary: token %d is there twice",
                             id);
    memcpy(b->bytes + b->bytes_n, bytes, n);
    b->token[id] = (struct token){(uint32_t)b->bytes_n, (uint32_t)n};
    b->bytes_n += n;
    b->by_bytes[slot] = id;
    b->tokens_n++;
    if (id >= b->vocab)
        b->vocab = id + 1;
    return 0;
}

int32_t bpe_vocab(const struct bpe *b)
{
    return b->vocab;
}

int32_t bpe_find(const struct bpe *b, const char *bytes, size_t n)
{
    return b->by_bytes_n ? b->by_bytes[slot_of(b, bytes, n)] : -1;
}

const char *bpe_bytes(const struct bpe *b, int32_t id, size_t *ret_n)
{
    if (id < 0 || id >= b->vocab || !b->token[id].n)
        return NULL;
    *ret_n = b->token[id].n;
    return b->bytes + b->token[id].at;
}

/* ---- Merges ------------------------------------------------------------- */

static int grow_slots(struct bpe *b, struct err *err)
{
    uint64_t *old = b->slot;
    size_t old_n = b->slots_n, n = old_n ? 2 * old_n : 1024;
    uint64_t *more = malloc(n * sizeof *more);
    if (!more)
        return err_set(err, "data: out of memory for the merges");
    for (size_t i = 0; i < n; i++)
        more[i] = SLOT_FREE;
    b->slot = more;
    b->slots_n = n;
    for (size_t i = 0; i < old_n; i++)
        if (old[i] != SLOT_FREE)
            more[find_slot(b, old[i] >> RANK_BITS)] = old[i];
    free(old);
    return 0;
}

static int room_for_merge(struct bpe *b, struct err *err)
{
    if (b->merges_n == no_rank - 1)
        return err_set_class(err, ERR_REQUEST, "data: too many merges");
    if ((size_t)b->merges_n == b->made_cap) {
        size_t cap = b->made_cap ? 2 * b->made_cap : 1024;
        int32_t *more = realloc(b->made, cap * sizeof *more);
        if (!more)
            return err_set(err, "data: out of memory for the merges");
        b->made = more;
        b->made_cap = cap;
    }
    return 0;
}

/* The next rank's; of the same pair twice the first counts. */
static int add_pair(struct bpe *b, int32_t left, int32_t right,
                    struct err *err)
{
    if (2 * (b->pairs_n + 1) > b->slots_n && grow_slots(b, err))
        return -1;
    uint64_t pair = pack_pair(left, right);
    size_t slot = find_slot(b, pair);
    if (b->slot[slot] == SLOT_FREE) {
        b->slot[slot] = pair << RANK_BITS | (uint32_t)b->merges_n;
        b->pairs_n++;
    }
    return 0;
}

int bpe_add_merges_to(struct bpe *b, int32_t made, struct err *err)
{
    size_t n;
    const char *bytes = bpe_bytes(b, made, &n);
    if (room_for_merge(b, err))
        return -1;
    for (size_t cut = 1; bytes && cut < n; cut++) {
        int32_t left = bpe_find(b, bytes, cut);
        int32_t right = bpe_find(b, bytes + cut, n - cut);
        if (left >= 0 && right >= 0 && add_pair(b, left, right, err))
            return -1;
    }
    b->made[b->merges_n++] = made;
    return 0;
}

int bpe_add_merge(struct bpe *b, int32_t left, int32_t right, struct err *err)
{
    size_t left_n = 0, right_n = 0;
    const char *l = bpe_bytes(b, left, &left_n);
    const char *r = bpe_bytes(b, right, &right_n);
    char both[512];
    if (!l || !r || left_n + right_n > sizeof both)
        return err_set_class(err, ERR_REQUEST,
                             "data: bad merge %d: no such tokens",
                             b->merges_n);
    memcpy(both, l, left_n);
    memcpy(both + left_n, r, right_n);
    int32_t made = bpe_find(b, both, left_n + right_n);
    if (made < 0)
        return err_set_class(err, ERR_REQUEST,
                             "data: bad merge %d: '%.*s' is not in the "
                             "vocabulary", b->merges_n,
                             (int)(left_n + right_n), both);
    if (room_for_merge(b, err) || add_pair(b, left, right, err))
        return -1;
    b->made[b->merges_n++] = made;
    return 0;
}

static int make_maybe(struct bpe *b, struct err *err)
{
    size_t bits = 4 * b->slots_n; /* slots are at most half full */
    b->maybe = calloc(bits / 64, sizeof *b->maybe);
    if (!b->maybe)
        return err_set(err, "data: out of memory for the merges");
    b->maybe_shift = __builtin_clzll(bits) + 1;
    for (size_t i = 0; i < b->slots_n; i++) {
        if (b->slot[i] == SLOT_FREE)
            continue;
        uint64_t bit = pair_hash(b->slot[i] >> RANK_BITS) >> b->maybe_shift;
        b->maybe[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    return 0;
}

int bpe_finish_chars(struct bpe *b, struct err *err)
{
    return (!b->slots_n && grow_slots(b, err)) || make_maybe(b, err) ? -1 : 0;
}

int bpe_finish(struct bpe *b, struct err *err)
{
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        b->byte_id[i] = bpe_find(b, &byte, 1);
        if (b->byte_id[i] < 0)
            return err_set_class(err, ERR_REQUEST,
                                 "data: bad vocabulary: byte %d is not a "
                                 "token", i);
    }
    if (bpe_finish_chars(b, err))
        return -1;
    b->byte_pair = malloc(256 * 256 * sizeof *b->byte_pair);
    if (!b->byte_pair)
        return err_set(err, "data: out of memory for the merges");
    for (int i = 0; i < 256 * 256; i++)
        b->byte_pair[i] = rank_of(b, b->byte_id[i >> 8], b->byte_id[i & 255]);
    return walk_create(b, &b->walk, err);
}
