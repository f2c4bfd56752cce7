/* tok_bpe - byte-level BPE as GPT-2, Llama 3 and Qwen have it.
 *
 * Text is cut at the added tokens, then into pieces (pretok.h), and each piece
 * is merged (bpe.h). Most pieces of real text were seen before: the handle
 * remembers the numbers of short ones, two to a cache line.
 */
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

/* The piece and its length as two numbers. */
static inline void make_key(uint64_t key[2], const char *p, size_t n,
                            const char *end)
{
    if (end - p >= 16) {
        memcpy(key, p, 16);
        uint64_t keep = UINT64_MAX >> (8 * (8 - (n & 7)) & 63);
        if (n < 8) {
            key[0] &= keep & -(uint64_t)(n > 0);
            key[1] = 0;
        } else {
            key[1] &= n == 8 ? 0 : keep;
        }
    } else {
        key[0] = key[1] = 0;
        memcpy(key, p, n);
    }
    key[1] |= (uint64_t)n << 56;
}

static inline struct word *find_set(struct tok_bpe *t, const uint64_t key[2])
{
    uint64_t h = (key[0] ^ (key[1] * 0x9e3779b97f4a7c15u)) *
                 0xff51afd7ed558ccdu;
    return &t->words[(h >> (64 - WORDS_LOG2)) & ~(uint64_t)1];
}

static inline bool is_word(const struct word *w, const uint64_t key[2])
{
    return w->key[0] == key[0] && w->key[1] == key[1];
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

/* Text without added tokens. */
static int encode_plain(struct tok_bpe *t, const char *p, const char *end,
                        struct ids *ids, struct err *err)
{
    enum pretok pretok = t->model->pretok;
    const struct bpe_chars *chars = &t->model->chars;
    for (size_t n; p < end; p += n) {
        n = chars->on ? bpe_chars_next(chars, p, end)
                      : pretok_next(pretok, p, end);
        /* A piece has at most a number a byte; a word is copied whole. */
        if (ids->cap - ids->n < n + WORD_IDS &&
            ids_reserve(ids, n + WORD_IDS, err))
            return -1;
        int rc = 0;
        if (n <= WORD_BYTES) {
            uint64_t key[2];
            make_key(key, p, n, end);
            struct word *set = find_set(t, key);
            const struct word *w = is_word(&set[0], key)   ? &set[0]
                                   : is_word(&set[1], key) ? &set[1]
                                                           : NULL;
            if (w) {
                memcpy(ids->data + ids->n, w->id, sizeof w->id);
                ids->n += (size_t)w->n;
            } else {
                rc = learn_word(t, set, key, p, n, ids);
            }
        } else {
            rc = encode_piece(t, p, n, ids);
        }
        if (rc)
            return err_set(err, "data: out of memory for a piece of %zu "
                                "bytes", n);
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
    if (!m->added_first[(unsigned char)*p])
        return NULL;
    for (size_t i = 0; i < m->added_n; i++) {
        const struct added *a = &m->added[i];
        if ((size_t)(end - p) >= a->n && !memcmp(p, a->text, a->n))
            return a;
    }
    return NULL;
}

static int bpe_encode_text(void *self, const char *text, size_t text_bytes,
                           struct ids *ids, struct err *err)
{
    struct tok_bpe *t = self;
    const struct bpe_model *m = t->model;
    const char *end = text + text_bytes, *from = text;
    for (const char *p = text; m->added_n && p < end;) {
        const struct added *a = added_at(m, p, end);
        if (!a) {
            p++;
            continue;
        }
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
