/* tok_bpe - byte-level BPE as GPT-2, Llama 3 and Qwen have it.
 *
 * Text is cut at the added tokens, then into pieces (pretok.h), and each piece
 * is merged (bpe.h). Most pieces of real text were seen before: the handle
 * remembers the numbers of short ones, two to a cache line.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/bpe.h"
#include "runner/data/bpe_load.h"
#include "runner/data/nfc.h"
#include "runner/data/tokenizer.h"

enum { WORD_BYTES = 15, WORD_IDS = 3, WORDS_LOG2 = 16 };

/* A piece that was seen: its bytes, their number in the last byte of the key;
 * 0: free. */
struct word {
    uint64_t key[2];
    int32_t id[WORD_IDS];
    int32_t n;
};

struct tok_bpe {
    struct bpe_model *model;
    struct bpe_work work;
    struct text normal; /* a part of the text in form C */
    struct word *words; /* [1 << WORDS_LOG2], pairs */
};

static bool bpe_knows(const char *name)
{
    return bpe_model_knows(name);
}

static void bpe_close(void *self)
{
    struct tok_bpe *t = self;
    bpe_model_release(t->model);
    bpe_work_release(&t->work);
    text_release(&t->normal);
    free(t->words);
    free(t);
}

/* Takes one hold of model. */
static struct tok_bpe *make(struct bpe_model *model, struct err *err)
{
    struct tok_bpe *t = calloc(1, sizeof *t);
    if (!t) {
        bpe_model_release(model);
        err_set(err, "data: out of memory");
        return NULL;
    }
    t->model = model;
    t->words = aligned_alloc(64, sizeof *t->words << WORDS_LOG2);
    if (!t->words) {
        bpe_close(t);
        err_set(err, "data: out of memory");
        return NULL;
    }
    memset(t->words, 0, sizeof *t->words << WORDS_LOG2);
    return t;
}

static void *bpe_open(const char *name, struct tokenizer *base,
                      struct err *err)
{
    struct bpe_model *model = bpe_model_load(name, err);
    if (!model)
        return NULL;
    base->vocab = model->vocab;
    base->eod = model->eod;
    return make(model, err);
}

static void *bpe_share(void *self, struct err *err)
{
    struct tok_bpe *t = self;
    atomic_fetch_add(&t->model->holders, 1);
    return make(t->model, err);
}

/* ---- Pieces ------------------------------------------------------------- */

static int encode_piece(struct tok_bpe *t, const char *p, size_t n,
                        struct ids *ids)
{
    const struct bpe_model *m = t->model;
    if (m->chars.on) {
        int64_t got = bpe_chars_encode(&m->chars, m->bpe, &t->work, p, n,
                                       ids->data + ids->n);
        ids->n += got > 0 ? (size_t)got : 0;
        return got < 0 ? -1 : 0;
    }
    int32_t id = m->whole_first ? bpe_find(m->bpe, p, n) : -1;
    if (id >= 0) {
        ids->data[ids->n++] = id;
        return 0;
    }
    int64_t got = bpe_encode(m->bpe, &t->work, p, n, ids->data + ids->n);
    if (got < 0)
        return -1;
    ids->n += (size_t)got;
    return 0;
}

/* What of the 16 bytes at a piece of n belongs to it. */
#define ALL UINT64_MAX
static const uint64_t keep[WORD_BYTES + 1][2] = {
    {0, 0}, {ALL >> 56, 0}, {ALL >> 48, 0}, {ALL >> 40, 0}, {ALL >> 32, 0},
    {ALL >> 24, 0}, {ALL >> 16, 0}, {ALL >> 8, 0}, {ALL, 0}, {ALL, ALL >> 56},
    {ALL, ALL >> 48}, {ALL, ALL >> 40}, {ALL, ALL >> 32}, {ALL, ALL >> 24},
    {ALL, ALL >> 16}, {ALL, ALL >> 8}};
#undef ALL

/* The piece and its length as two numbers. */
static inline void make_key(uint64_t key[2], const char *p, size_t n,
                            const char *end)
{
    key[0] = key[1] = 0;
    memcpy(key, p, end - p >= 16 ? 16 : n);
    key[0] = le64toh(key[0]) & keep[n][0];
    key[1] = (le64toh(key[1]) & keep[n][1]) | (uint64_t)n << 56;
}

static inline struct word *find_set(struct tok_bpe *t, const uint64_t key[2])
{
    uint64_t h = (key[0] ^ (key[1] * 0x9e3779b97f4a7c15u)) *
                 0xff51afd7ed558ccdu;
    return &t->words[(h >> (64 - WORDS_LOG2)) & ~(uint64_t)1];
}

static inline bool is_word(const struct word *w, const uint64_t key[2])
{
    return !((w->key[0] ^ key[0]) | (w->key[1] ^ key[1]));
}

static int learn_word(struct tok_bpe *t, struct word *set,
                      const uint64_t key[2], const char *p, size_t n,
                      struct ids *ids)
{
    size_t before = ids->n;
    if (encode_piece(t, p, n, ids))
        return -1;
    size_t got = ids->n - before;
    if (got > WORD_IDS)
        return 0;
    set[1] = set[0];
    set[0].key[0] = key[0];
    set[0].key[1] = key[1];
    set[0].n = (int32_t)got;
    memcpy(set[0].id, ids->data + before, got * sizeof *set[0].id);
    return 0;
}

/* A piece that was cut off and will be looked up. */
struct piece {
    const char *p;
    size_t n;
    uint64_t key[2];
    struct word *set; /* NULL: too long to be remembered */
};

/* Pieces are looked up some at a time: by then the nearest cache has what was
 * asked for when they were cut. */
enum { PIECES_N = 32 };

static inline size_t next_piece(const struct bpe_model *m, const char *p,
                                const char *end)
{
    return m->chars.on ? bpe_chars_next(&m->chars, p, end)
                       : pretok_next(m->pretok, p, end);
}

/* Cut off pieces at *p until there are enough; their number. */
static size_t cut_pieces(struct tok_bpe *t, const char **p, const char *end,
                         struct piece piece[PIECES_N], size_t *ret_bytes)
{
    const char *at = *p;
    size_t pieces_n = 0;
    for (; at < end && pieces_n < PIECES_N; pieces_n++) {
        struct piece *q = &piece[pieces_n];
        q->p = at;
        q->n = next_piece(t->model, at, end);
        q->set = NULL;
        if (q->n <= WORD_BYTES) {
            make_key(q->key, at, q->n, end);
            q->set = find_set(t, q->key);
            __builtin_prefetch(q->set);
        }
        at += q->n;
    }
    *ret_bytes = (size_t)(at - *p);
    *p = at;
    return pieces_n;
}

static inline int look_up(struct tok_bpe *t, const struct piece *q,
                          struct ids *ids)
{
    if (!q->set)
        return encode_piece(t, q->p, q->n, ids);
    const struct word *w = q->set + !is_word(&q->set[0], q->key);
    if (!is_word(w, q->key))
        return learn_word(t, q->set, q->key, q->p, q->n, ids);
    memcpy(ids->data + ids->n, w->id, sizeof w->id);
    ids->n += (size_t)w->n;
    return 0;
}

/* Text without added tokens. */
static int encode_plain(struct tok_bpe *t, const char *p, const char *end,
                        struct ids *ids, struct err *err)
{
    struct piece piece[PIECES_N];
    while (p < end) {
        size_t bytes_n, n = cut_pieces(t, &p, end, piece, &bytes_n);
        /* A piece has at most a number a byte; a word is copied whole. */
        if (ids->cap - ids->n < bytes_n + WORD_IDS &&
            ids_reserve(ids, bytes_n + WORD_IDS, err))
            return -1;
        for (size_t i = 0; i < n; i++)
            if (look_up(t, &piece[i], ids))
                return err_set(err, "data: out of memory for a piece of %zu "
                                    "bytes", piece[i].n);
    }
    return 0;
}

/* ---- Text --------------------------------------------------------------- */

/* The same, brought into form C if the tokenizer asks for it, or with spaces
 * as its vocabulary has them. first: text begins here. */
static int encode_part(struct tok_bpe *t, const char *p, const char *end,
                       bool first, struct ids *ids, struct err *err)
{
    size_t n = (size_t)(end - p);
    if (t->model->chars.on) {
        t->normal.n = 0;
        if (bpe_chars_normalize(&t->model->chars, p, n, first, &t->normal,
                                err))
            return -1;
        return encode_plain(t, t->normal.data, t->normal.data + t->normal.n,
                            ids, err);
    }
    if (!t->model->nfc || nfc_is_plain(p, n))
        return encode_plain(t, p, end, ids, err);
    t->normal.n = 0;
    if (nfc_add(&t->normal, p, n, err))
        return -1;
    return encode_plain(t, t->normal.data, t->normal.data + t->normal.n, ids,
                        err);
}

/* The added token at p, the longest that fits; NULL: none. */
static const struct added *added_at(const struct bpe_model *m, const char *p,
                                    const char *end)
{
    for (size_t i = 0; i < m->added_n; i++) {
        const struct added *a = &m->added[i];
        if ((size_t)(end - p) >= a->n && !memcmp(p, a->text, a->n))
            return a;
    }
    return NULL;
}

/* The next one from *p on, which becomes its place. */
static const struct added *find_added(const struct bpe_model *m,
                                      const char **p, const char *end)
{
    const struct added *a = NULL;
    if (m->added_firsts == 1) {
        int first = (unsigned char)*m->added[0].text;
        while ((*p = memchr(*p, first, (size_t)(end - *p))) &&
               !(a = added_at(m, *p, end)))
            ++*p;
        return a;
    }
    for (; m->added_n && *p < end; ++*p)
        if (m->added_first[(unsigned char)**p] && (a = added_at(m, *p, end)))
            return a;
    return NULL;
}

static int bpe_encode_text(void *self, const char *text, size_t text_bytes,
                           struct ids *ids, struct err *err)
{
    struct tok_bpe *t = self;
    const char *end = text + text_bytes, *from = text, *p = text;
    const struct added *a;
    while (from < end && (a = find_added(t->model, &p, end))) {
        if (encode_part(t, from, p, from == text, ids, err) ||
            ids_reserve(ids, 1, err))
            return -1;
        ids->data[ids->n++] = a->id;
        p = from = p + a->n;
    }
    return from < end ? encode_part(t, from, end, from == text, ids, err) : 0;
}

static int bpe_decode(void *self, const int32_t *ids, size_t n,
                      struct sbuf *out, struct err *err)
{
    const struct tok_bpe *t = self;
    if (t->model->chars.on) {
        bpe_chars_decode(&t->model->chars, t->model->bpe, ids, n, out);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        size_t bytes_n;
        const char *bytes = bpe_bytes(t->model->bpe, ids[i], &bytes_n);
        if (bytes) /* a number that no token has is nothing */
            sbuf_add(out, bytes, bytes_n);
    }
    return 0;
}

const struct tokenizer_kind tok_bpe = {
    .name = "bpe", .knows = bpe_knows, .open = bpe_open, .share = bpe_share,
    .close = bpe_close, .encode = bpe_encode_text, .decode = bpe_decode,
};
