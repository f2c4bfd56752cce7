/* bpe - see bpe.h. */
#include "runner/data/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const uint32_t no_rank = UINT32_MAX;
enum { SHORT_N = 128 };

struct token {
    uint32_t at, n; /* in bytes; n 0: no such number */
};

/* A pair of tokens and what becomes of it; rank no_rank: a free slot. */
struct merge {
    int32_t left, right;
    uint32_t rank;
    int32_t made;
};

struct bpe {
    char *bytes;         /* of all tokens */
    size_t bytes_n, bytes_cap;
    struct token *token; /* [vocab], cap tokens_cap */
    int32_t vocab;
    size_t tokens_cap;
    int32_t *by_bytes;   /* [by_bytes_n] hash of ids, -1 free */
    size_t by_bytes_n, tokens_n;
    struct merge *merge; /* [merges_cap] hash, a power of two */
    size_t merges_cap;
    uint32_t merges_n;
    int32_t byte_id[256];
    /* Rank of two bytes, for the first look at a piece. */
    struct merge *byte_pair; /* [256, 256] */
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
    free(b->merge);
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
    if (id < 0 || id > 1 << 24 || !n || n > 1 << 20)
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

static inline size_t pair_hash(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)((key * 0x9e3779b97f4a7c15u) >> 32);
}

/* The pair's slot, or the free one where it would be. */
static inline const struct merge *find_pair(const struct bpe *b, int32_t left,
                                            int32_t right)
{
    size_t mask = b->merges_cap - 1;
    size_t slot = pair_hash(left, right) & mask;
    for (;; slot = (slot + 1) & mask) {
        const struct merge *m = &b->merge[slot];
        if ((m->left == left && m->right == right) || m->rank == no_rank)
            return m;
    }
}

static int grow_merges(struct bpe *b, struct err *err)
{
    struct merge *old = b->merge;
    size_t old_cap = b->merges_cap, cap = old_cap ? 2 * old_cap : 1024;
    struct merge *more = malloc(cap * sizeof *more);
    if (!more)
        return err_set(err, "data: out of memory for the merges");
    for (size_t i = 0; i < cap; i++)
        more[i] = (struct merge){-1, -1, no_rank, -1};
    b->merge = more;
    b->merges_cap = cap;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].rank != no_rank)
            *(struct merge *)find_pair(b, old[i].left, old[i].right) = old[i];
    free(old);
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
                             "data: bad merge %u: no such tokens",
                             b->merges_n);
    memcpy(both, l, left_n);
    memcpy(both + left_n, r, right_n);
    int32_t made = bpe_find(b, both, left_n + right_n);
    if (made < 0)
        return err_set_class(err, ERR_REQUEST,
                             "data: bad merge %u: '%.*s' is not in the "
                             "vocabulary", b->merges_n,
                             (int)(left_n + right_n), both);
    if (2 * ((size_t)b->merges_n + 1) > b->merges_cap && grow_merges(b, err))
        return -1;
    struct merge *m = (struct merge *)find_pair(b, left, right);
    if (m->rank == no_rank) /* of the same merge twice the first counts */
        *m = (struct merge){left, right, b->merges_n, made};
    b->merges_n++;
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
    if (!b->merges_cap && grow_merges(b, err))
        return -1;
    b->byte_pair = malloc(256 * 256 * sizeof *b->byte_pair);
    if (!b->byte_pair)
        return err_set(err, "data: out of memory for the merges");
    for (int i = 0; i < 256 * 256; i++)
        b->byte_pair[i] = *find_pair(b, b->byte_id[i >> 8],
                                     b->byte_id[i & 255]);
    return 0;
}

/* ---- Short pieces ------------------------------------------------------- */

/* Leftmost of the lowest ranks. */
static inline size_t lowest(const uint32_t *rank, size_t n)
{
    size_t at = 0;
    uint32_t best = rank[0];
    for (size_t i = 1; i < n; i++) {
        at = rank[i] < best ? i : at;
        best = rank[i] < best ? rank[i] : best;
    }
    return at;
}

static int64_t encode_short(const struct bpe *b, const char *bytes, size_t n,
                            int32_t *id)
{
    uint32_t rank[SHORT_N + 1];
    int32_t made[SHORT_N + 1];
    const unsigned char *s = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i++)
        id[i] = b->byte_id[s[i]];
    for (size_t i = 0; i + 1 < n; i++) {
        const struct merge *m = &b->byte_pair[s[i] << 8 | s[i + 1]];
        rank[i] = m->rank;
        made[i] = m->made;
    }
    while (n > 1) {
        size_t i = lowest(rank, n - 1);
        if (rank[i] == no_rank)
            break;
        id[i] = made[i];
        size_t behind = n - i - 2;
        memmove(&id[i + 1], &id[i + 2], behind * sizeof *id);
        memmove(&rank[i], &rank[i + 1], behind * sizeof *rank);
        memmove(&made[i], &made[i + 1], behind * sizeof *made);
        n--;
        if (i + 1 < n) {
            const struct merge *m = find_pair(b, id[i], id[i + 1]);
            rank[i] = m->rank;
            made[i] = m->made;
        }
        if (i > 0) {
            const struct merge *m = find_pair(b, id[i - 1], id[i]);
            rank[i - 1] = m->rank;
            made[i - 1] = m->made;
        }
    }
    return (int64_t)n;
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
    uint32_t rank, place;
    int32_t left, right, made;
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
    const struct merge *m = find_pair(b, l, r);
    if (m->rank != no_rank)
        push(q, (struct offer){m->rank, left, l, r, m->made});
}

static void apply(const struct bpe *b, struct queue *q, struct place *places,
                  const struct offer *o)
{
    struct place *left = &places[o->place];
    if (left->id != o->left || left->behind == nowhere ||
        places[left->behind].id != o->right)
        return;
    struct place *right = &places[left->behind];
    left->id = o->made;
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
