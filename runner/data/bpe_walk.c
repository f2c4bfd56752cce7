/* bpe_walk - see bpe_walk.h. The trie is a double array: the child of node s
 * by byte c is unit[unit[s].base + c] if its parent is s. */
#include "runner/data/bpe_walk.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/bpe_private.h"

struct unit {
    int32_t base;   /* of the children, -1: none */
    int32_t parent; /* -1: free */
    int32_t token;  /* that ends here, -1: none */
};

/* How a token comes about. */
struct origin {
    int32_t left, right; /* -1: it is a byte */
    int32_t rank;        /* of its merge; -1: a byte, no_rank: it never does */
    int32_t shorter;     /* the longest token that it begins with, or -1 */
};

struct walk {
    const struct bpe *bpe;
    struct origin *origin; /* [vocab] */
    struct unit *unit;     /* [units_n] */
    size_t units_n, free_from;
};

enum { ROOT = 0, FIRST_BASE = 1 };

/* ---- Neighbours ---------------------------------------------------------- */

/* Do these two stay apart, looking at merges under limit only? */
static bool stay_apart(const struct walk *w, int32_t left, int32_t right,
                       int32_t limit)
{
    const struct origin *o = w->origin;
    for (;;) {
        if (rank_of(w->bpe, left, right) < limit)
            return false;
        /* Of two equal merges the right one came last. */
        if (o[left].rank > o[right].rank) {
            limit = o[left].rank;
            left = o[left].right;
        } else if (o[right].rank >= 0) {
            limit = o[right].rank + 1;
            right = o[right].left;
        } else {
            return true;
        }
    }
}

/* The same, remembered. */
static inline bool fits(const struct walk *w, uint64_t *memo, int32_t left,
                        int32_t right)
{
    uint64_t pair = pack_pair(left, right);
    uint64_t *seen = &memo[pair_hash(pair) >> (64 - WALK_MEMO_LOG2)];
    if (*seen >> 1 == pair + 1)
        return *seen & 1;
    bool apart = stay_apart(w, left, right, no_rank);
    *seen = (pair + 1) << 1 | apart;
    return apart;
}

/* ---- Where tokens come from ---------------------------------------------- */

/* A pair of the table and its rank. */
struct made {
    int32_t rank, left, right;
};

static int by_rank(const void *a, const void *b)
{
    const struct made *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Whether merging makes the token out of its bytes. */
static bool is_made(const struct bpe *b, int32_t id)
{
    size_t n;
    const char *bytes = bpe_bytes(b, id, &n);
    int32_t ids[1024];
    struct bpe_work work = {0};
    bool good = n <= sizeof ids / sizeof *ids &&
                bpe_encode_merging(b, &work, bytes, n, ids) == 1 &&
                ids[0] == id;
    bpe_work_release(&work);
    return good;
}

/* The merge that really makes each token: of the pairs that could, the one
 * whose halves come about and stay apart till then. False: some token comes
 * about in another way. */
static bool find_origins(struct walk *w, struct made *list, size_t n)
{
    const struct bpe *b = w->bpe;
    struct origin *o = w->origin;
    for (int32_t id = 0; id < b->vocab; id++)
        o[id] = (struct origin){-1, -1, no_rank, -1};
    for (int i = 0; i < 256; i++)
        o[b->byte_id[i]].rank = -1;
    qsort(list, n, sizeof *list, by_rank);
    for (size_t i = 0; i < n; i++) {
        int32_t made = b->made[list[i].rank];
        if (o[made].rank == no_rank && o[list[i].left].rank < list[i].rank &&
            o[list[i].right].rank < list[i].rank &&
            stay_apart(w, list[i].left, list[i].right, list[i].rank))
            o[made] = (struct origin){list[i].left, list[i].right,
                                      list[i].rank, -1};
    }
    for (int32_t id = 0; id < b->vocab; id++)
        if (b->token[id].n > 1 && (o[id].rank != no_rank) != is_made(b, id))
            return false;
    return true;
}

static struct made *list_pairs(const struct bpe *b)
{
    struct made *list = malloc((b->pairs_n + 1) * sizeof *list);
    size_t n = 0;
    for (size_t i = 0; list && i < b->slots_n; i++) {
        if (b->slot[i] == SLOT_FREE)
            continue;
        uint64_t pair = b->slot[i] >> RANK_BITS;
        list[n++] = (struct made){
            (int32_t)(b->slot[i] & ((1u << RANK_BITS) - 1)),
            (int32_t)(pair >> ID_BITS),
            (int32_t)(pair & ((1u << ID_BITS) - 1))};
    }
    return list;
}

/* ---- The trie ------------------------------------------------------------ */

struct words {
    const struct bpe *bpe;
    int32_t *id; /* [n] by their bytes */
    size_t n;
};

static int by_bytes(const void *a, const void *b, void *ctx)
{
    const struct bpe *bpe = ctx;
    size_t x_n, y_n;
    const char *x = bpe_bytes(bpe, *(const int32_t *)a, &x_n);
    const char *y = bpe_bytes(bpe, *(const int32_t *)b, &y_n);
    int order = memcmp(x, y, x_n < y_n ? x_n : y_n);
    return order ? order : (x_n > y_n) - (x_n < y_n);
}

static int grow_units(struct walk *w, size_t need, struct err *err)
{
    if (need <= w->units_n)
        return 0;
    size_t n = w->units_n ? w->units_n : 1 << 16;
    while (n < need)
        n *= 2;
    struct unit *more = realloc(w->unit, n * sizeof *more);
    if (!more)
        return err_set(err, "data: out of memory for the vocabulary");
    for (size_t i = w->units_n; i < n; i++)
        more[i] = (struct unit){-1, -1, -1};
    w->unit = more;
    w->units_n = n;
    return 0;
}

/* A base at which all children fit. */
static int find_base(struct walk *w, const unsigned char *child, int children,
                     int32_t *ret, struct err *err)
{
    while (w->free_from < w->units_n && w->unit[w->free_from].parent >= 0)
        w->free_from++;
    size_t at = w->free_from > child[0] + (size_t)FIRST_BASE
                    ? w->free_from
                    : child[0] + (size_t)FIRST_BASE;
    for (int tries = 0;; at++) {
        size_t base = at - child[0];
        int i = 0;
        if (grow_units(w, base + 256, err))
            return -1;
        while (i < children && w->unit[base + child[i]].parent < 0)
            i++;
        if (i == children) {
            *ret = (int32_t)base;
            return 0;
        }
        if (++tries % 4096 == 0) /* this stretch is as good as full */
            w->free_from = at;
    }
}

/* The children of node for the words lo .. hi, which agree in depth bytes.
 * longest: the token on the way. */
static int add_children(struct walk *w, const struct words *words, size_t lo,
                        size_t hi, size_t depth, int32_t node,
                        int32_t longest, struct err *err)
{
    unsigned char child[256];
    size_t from[257], n;
    int children = 0;
    const char *p = bpe_bytes(words->bpe, words->id[lo], &n);
    if (n == depth) {
        w->origin[words->id[lo]].shorter = longest;
        longest = w->unit[node].token = words->id[lo++];
    }
    for (size_t i = lo; i < hi; i++) {
        p = bpe_bytes(words->bpe, words->id[i], &n);
        if (i == lo || (unsigned char)p[depth] != child[children - 1]) {
            from[children] = i;
            child[children++] = (unsigned char)p[depth];
        }
    }
    if (!children)
        return 0;
    from[children] = hi;
    int32_t base;
    if (find_base(w, child, children, &base, err))
        return -1;
    w->unit[node].base = base;
    for (int i = 0; i < children; i++)
        w->unit[base + child[i]].parent = node;
    for (int i = 0; i < children; i++)
        if (add_children(w, words, from[i], from[i + 1], depth + 1,
                         base + child[i], longest, err))
            return -1;
    return 0;
}

static int make_trie(struct walk *w, struct err *err)
{
    const struct bpe *b = w->bpe;
    struct words words = {.bpe = b};
    words.id = malloc(((size_t)b->vocab + 1) * sizeof *words.id);
    if (!words.id || grow_units(w, 1 << 16, err)) {
        free(words.id);
        return err_set(err, "data: out of memory for the vocabulary");
    }
    for (int32_t id = 0; id < b->vocab; id++)
        if (b->token[id].n && w->origin[id].rank != no_rank)
            words.id[words.n++] = id;
    qsort_r(words.id, words.n, sizeof *words.id, by_bytes, (void *)b);
    w->unit[ROOT].parent = ROOT;
    int rc = add_children(w, &words, 0, words.n, 0, ROOT, -1, err);
    free(words.id);
    return rc;
}

int walk_create(const struct bpe *bpe, struct walk **ret, struct err *err)
{
    struct walk *w = calloc(1, sizeof *w);
    struct made *list = list_pairs(bpe);
    int rc = 0;
    *ret = NULL;
    if (w) {
        w->bpe = bpe;
        w->origin = malloc(((size_t)bpe->vocab + 1) * sizeof *w->origin);
    }
    if (!w || !w->origin || !list)
        rc = err_set(err, "data: out of memory for the vocabulary");
    else if (find_origins(w, list, bpe->pairs_n) && !(rc = make_trie(w, err)))
        *ret = w;
    free(list);
    if (!*ret)
        walk_destroy(w);
    return rc;
}

void walk_destroy(struct walk *w)
{
    if (!w)
        return;
    free(w->origin);
    free(w->unit);
    free(w);
}

/* ---- A piece ------------------------------------------------------------- */

/* The longest token at p; there is one for each byte. */
static inline int32_t longest_at(const struct walk *w, const char *p,
                                 const char *end)
{
    const struct unit *unit = w->unit;
    int32_t node = ROOT, token = -1;
    while (p < end && unit[node].base >= 0) {
        int32_t child = unit[node].base + (unsigned char)*p++;
        if (unit[child].parent != node)
            break;
        node = child;
        token = unit[node].token >= 0 ? unit[node].token : token;
    }
    return token;
}

/* Working memory: the memo, then a bit for each place at which a token may
 * not end. */
static uint64_t *make_room(struct bpe_work *work, size_t n)
{
    size_t memo = (size_t)1 << WALK_MEMO_LOG2;
    size_t need = (memo + n / 64 + 1) * sizeof(uint64_t);
    if (work->room_bytes < need) {
        size_t had = work->room_bytes;
        uint64_t *more = realloc(work->room, need);
        if (!more)
            return NULL;
        if (!had)
            memset(more, 0, memo * sizeof *more);
        work->room = more;
        work->room_bytes = need;
    }
    uint64_t *room = work->room;
    memset(room + memo, 0, (n / 64 + 1) * sizeof *room);
    return room;
}

int64_t walk_encode(const struct walk *w, struct bpe_work *work,
                    const char *bytes, size_t n, int32_t *out)
{
    const struct token *size = w->bpe->token;
    int32_t next = longest_at(w, bytes, bytes + n);
    if (size[next].n == n) {
        out[0] = next;
        return 1;
    }
    uint64_t *memo = make_room(work, n);
    if (!memo)
        return -1;
    uint64_t *closed = memo + ((size_t)1 << WALK_MEMO_LOG2);
    size_t at = 0, out_n = 0;
    while (at < n) {
        size_t end = at + size[next].n;
        if (!(closed[end >> 6] >> (end & 63) & 1) &&
            (!out_n || fits(w, memo, out[out_n - 1], next))) {
            out[out_n++] = next;
            at = end;
            next = at < n ? longest_at(w, bytes + at, bytes + n) : -1;
            continue;
        }
        next = w->origin[next].shorter;
        if (next >= 0)
            continue;
        closed[at >> 6] |= (uint64_t)1 << (at & 63);
        next = out[--out_n];
        at -= size[next].n;
    }
    return (int64_t)out_n;
}
