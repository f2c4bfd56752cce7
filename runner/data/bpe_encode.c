/* bpe_encode - one piece to tokens; see bpe.h. */
#include "runner/data/bpe_private.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/bpe_walk.h"

/* Longest piece for the short way; its places take PLACE_BITS bits. */
enum { SHORT_N = 128, PLACE_BITS = 7 };

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

/* The n tokens of a piece and the keys of its pairs. */
struct piece {
    union {
        lanes lane[SHORT_N / 4];
        int32_t at[SHORT_N];
    } key;
    int32_t id[SHORT_N];
};

static inline int64_t merge_short(const struct bpe *b, struct piece *piece,
                                  size_t n, int32_t *out)
{
    uint8_t before[SHORT_N + 1], behind[SHORT_N + 1];
    int32_t *id = piece->id, *key = piece->key.at;
    size_t padded = (n + 7) & ~(size_t)7;
    for (size_t i = 0; i < n; i++) {
        before[i] = (uint8_t)(i - 1);
        behind[i] = (uint8_t)(i + 1);
    }
    for (size_t i = n - 1; i < padded; i++)
        key[i] = no_key;
    for (int32_t k; (k = least(piece->key.lane, padded)) != no_key;) {
        size_t i = (size_t)k & (SHORT_N - 1);
        size_t gone = behind[i], next = behind[gone];
        id[i] = b->made[k >> PLACE_BITS];
        key[gone] = no_key;
        behind[i] = (uint8_t)next;
        before[next] = (uint8_t)i;
        key[i] = next < n ? make_key(rank_of(b, id[i], id[next]), i) : no_key;
        if (i > 0) {
            size_t prev = before[i];
            key[prev] = make_key(rank_of(b, id[prev], id[i]), prev);
        }
    }
    int64_t out_n = 0;
    for (size_t i = 0; i < n; i = behind[i])
        out[out_n++] = id[i];
    return out_n;
}

static int64_t encode_short(const struct bpe *b, const char *bytes, size_t n,
                            int32_t *out)
{
    struct piece piece;
    const unsigned char *s = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i++)
        piece.id[i] = b->byte_id[s[i]];
    for (size_t i = 0; i + 1 < n; i++)
        piece.key.at[i] = make_key(b->byte_pair[s[i] << 8 | s[i + 1]], i);
    return merge_short(b, &piece, n, out);
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

/* The tokens of bytes, or those given in ids, which may be out. */
static int64_t encode_long(const struct bpe *b, struct bpe_work *work,
                           const char *bytes, const int32_t *ids, size_t n,
                           int32_t *out)
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
            ids ? ids[i] : b->byte_id[(unsigned char)bytes[i]],
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
    if (!b->walk || !n)
        return bpe_encode_merging(b, work, bytes, n, out);
    int64_t got = walk_encode(b->walk, work, bytes, n, out);
    if (work->room_bytes > 64u << 20)
        bpe_work_release(work);
    return got;
}

int64_t bpe_encode_merging(const struct bpe *b, struct bpe_work *work,
                           const char *bytes, size_t n, int32_t *out)
{
    if (n <= SHORT_N)
        return encode_short(b, bytes, n, out);
    int64_t got = encode_long(b, work, bytes, NULL, n, out);
    if (work->room_bytes > 64u << 20) /* a rare giant is not kept */
        bpe_work_release(work);
    return got;
}

int64_t bpe_merge(const struct bpe *b, struct bpe_work *work, int32_t *ids,
                  size_t n)
{
    struct piece piece;
    if (n > SHORT_N) {
        int64_t got = encode_long(b, work, NULL, ids, n, ids);
        if (work->room_bytes > 64u << 20)
            bpe_work_release(work);
        return got;
    }
    if (n < 2)
        return (int64_t)n;
    memcpy(piece.id, ids, n * sizeof *ids);
    for (size_t i = 0; i + 1 < n; i++)
        piece.key.at[i] = make_key(rank_of(b, ids[i], ids[i + 1]), i);
    return merge_short(b, &piece, n, ids);
}
