/* bpe - see bpe.h. */
#include "runner/data/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Longest piece for the short way; its places take PLACE_BITS bits. */
enum { SHORT_N = 128, PLACE_BITS = 7 };
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
};

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
    if ((!b->slots_n && grow_slots(b, err)) || make_maybe(b, err))
        return -1;
    b->byte_pair = malloc(256 * 256 * sizeof *b->byte_pair);
    if (!b->byte_pair)
        return err_set(err, "data: out of memory for the merges");
    for (int i = 0; i < 256 * 256; i++)
        b->byte_pair[i] = rank_of(b, b->byte_id[i >> 8], b->byte_id[i & 255]);
    return 0;
}

/* ---- Short pieces -------------------------------------------------------
 * Each place that can merge with the next living one has rank and place in
 * one number, so that the least of all numbers is the merge to make. */

typedef int32_t lanes __attribute__((vector_size(16)));

static const int32_t no_key = INT32_MAX;

static inline lanes lower(lanes a, lanes b)
{
    lanes first = a < b;
    return (a & first) | (b & ~first);
}

/* The least of n numbers; n is a multiple of 8, at least 8. */
static inline int32_t least(const lanes *key, size_t n)
{
    lanes a = key[0], b = key[1];
    for (size_t i = 2; i < n / 4; i += 2) {
        a = lower(a, key[i]);
        b = lower(b, key[i + 1]);
    }
    a = lower(a, b);
    int32_t x = a[0] < a[1] ? a[0] : a[1], y = a[2] < a[3] ? a[2] : a[3];
    return x < y ? x : y;
}

static inline int32_t make_key(int32_t rank, size_t place)
{
    return rank == no_rank ? no_key : rank << PLACE_BITS | (int32_t)place;
}

static int64_t encode_short(const struct bpe *b, const char *bytes, size_t n,
                            int32_t *out)
{
    union {
        lanes lane[SHORT_N / 4];
        int32_t at[SHORT_N];
    } key;
    int32_t id[SHORT_N];
    uint8_t before[SHORT_N + 1], behind[SHORT_N + 1];
    const unsigned char *s = (const unsigned char *)bytes;
    size_t padded = (n + 7) & ~(size_t)7;
    for (size_t i = 0; i < n; i++) {
        id[i] = b->byte_id[s[i]];
        before[i] = (uint8_t)(i - 1);
        behind[i] = (uint8_t)(i + 1);
    }
    for (size_t i = 0; i + 1 < n; i++)
        key.at[i] = make_key(b->byte_pair[s[i] << 8 | s[i + 1]], i);
    for (size_t i = n - 1; i < padded; i++)
        key.at[i] = no_key;
    for (int32_t k; (k = least(key.lane, padded)) != no_key;) {
        size_t i = (size_t)k & (SHORT_N - 1);
        size_t gone = behind[i], next = behind[gone];
        id[i] = b->made[k >> PLACE_BITS];
        key.at[gone] = no_key;
        behind[i] = (uint8_t)next;
        before[next] = (uint8_t)i;
        key.at[i] = next < n ? make_key(rank_of(b, id[i], id[next]), i)
                             : no_key;
        if (i > 0) {
            size_t prev = before[i];
            key.at[prev] = make_key(rank_of(b, id[prev], id[i]), prev);
        }
    }
    int64_t out_n = 0;
    for (size_t i = 0; i < n; i = behind[i])
        out[out_n++] = id[i];
    return out_n;
}

/* ---- Long pieces -------------------------------------------------------- */

/* A place of the piece: its token and neighbours. A merged-away place has id
 * -1. */
struct place {
    int32_t id;
    uint32_t before, behind; /* places; nowhere at the ends */
};
/* A possible merge, oldest rank first, then place. Stale when the tokens there
 * are no longer those it was made of. */
struct offer {
    int32_t rank;
    uint32_t place;
    int32_t left, right;
};

static const uint32_t nowhere = UINT32_MAX;

struct queue {
    struct offer *heap;
    size_t n;
};

static inline bool earlier(const struct offer *a, const struct offer *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->place < b->place;
}

static void push(struct queue *q, struct offer offer)
{
    size_t i = q->n++;
    while (i && earlier(&offer, &q->heap[(i - 1) / 2])) {
        q->heap[i] = q->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->heap[i] = offer;
}

static struct offer pop(struct queue *q)
{
    struct offer first = q->heap[0], last = q->heap[--q->n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < q->n) {
        if (child + 1 < q->n && earlier(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!earlier(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
        i = child;
    }
    q->heap[i] = last;
    return first;
}

static void offer_pair(const struct bpe *b, struct queue *q,
                       const struct place *places, uint32_t left)
{
    if (left == nowhere || places[left].behind == nowhere)
        return;
    int32_t l = places[left].id, r = places[places[left].behind].id;
    int32_t rank = rank_of(b, l, r);
    if (rank != no_rank)
        push(q, (struct offer){rank, left, l, r});
}

static void apply(const struct bpe *b, struct queue *q, struct place *places,
                  const struct offer *o)
{
    struct place *left = &places[o->place];
    if (left->id != o->left || left->behind == nowhere ||
        places[left->behind].id != o->right)
        return;
    struct place *right = &places[left->behind];
    left->id = b->made[o->rank];
    right->id = -1;
    left->behind = right->behind;
    if (left->behind != nowhere)
        places[left->behind].before = o->place;
    offer_pair(b, q, places, left->before);
    offer_pair(b, q, places, o->place);
}

static int64_t encode_long(const struct bpe *b, struct bpe_work *work,
                           const char *bytes, size_t n, int32_t *out)
{
    /* Each merge makes at most two offers and there are n - 1 merges. */
    size_t places_bytes = n * sizeof(struct place);
    size_t need = places_bytes + 3 * n * sizeof(struct offer);
    if (n >= UINT32_MAX)
        return -1;
    if (work->room_bytes < need) {
        free(work->room);
        work->room = malloc(need);
        work->room_bytes = work->room ? need : 0;
        if (!work->room)
            return -1;
    }
    struct place *places = work->room;
    struct queue q = {.heap = (struct offer *)((char *)work->room +
                                               places_bytes)};
    for (size_t i = 0; i < n; i++)
        places[i] = (struct place){
            b->byte_id[(unsigned char)bytes[i]],
            i ? (uint32_t)i - 1 : nowhere,
            i + 1 < n ? (uint32_t)i + 1 : nowhere};
    for (size_t i = 0; i + 1 < n; i++)
        offer_pair(b, &q, places, (uint32_t)i);
    while (q.n) {
        struct offer o = pop(&q);
        apply(b, &q, places, &o);
    }
    int64_t out_n = 0;
    for (uint32_t i = 0; i != nowhere; i = places[i].behind)
        out[out_n++] = places[i].id;
    return out_n;
}

void bpe_work_release(struct bpe_work *work)
{
    free(work->room);
    *work = (struct bpe_work){0};
}

int64_t bpe_encode(const struct bpe *b, struct bpe_work *work,
                   const char *bytes, size_t n, int32_t *out)
{
    if (n <= SHORT_N)
        return encode_short(b, bytes, n, out);
    int64_t got = encode_long(b, work, bytes, n, out);
    if (work->room_bytes > 64u << 20) /* a rare giant is not kept */
        bpe_work_release(work);
    return got;
}
