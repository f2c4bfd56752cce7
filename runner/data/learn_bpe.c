/* learn_bpe - the merges of counted pieces; see learn.h. Each pair knows the
 * pieces it was seen in; the queue is lazy: what it says of a pair may be old
 * and is looked at again when it comes up. */
#include "runner/data/learn.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct pair {
    uint64_t key;   /* left, right */
    int64_t times;
    uint32_t *in;   /* [in_n] words, some twice */
    size_t in_n, in_cap;
};
struct offer {
    int64_t times;
    uint64_t key;
};

struct learning {
    struct learn_word *word;
    struct pair *pair;
    size_t pairs_n, pairs_cap;
    int32_t *slot;      /* [slots_n] of pairs, -1 free */
    size_t slots_n;
    struct offer *heap;
    size_t heap_n, heap_cap;
    char **text;
    int32_t *by_text;   /* [by_text_n] of tokens, -1 free */
    size_t by_text_n;
    bool failed;        /* memory ran out */
};

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Room for one more of n; NULL: memory ran out, what was is still there. */
static void *grown(void *old, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return old;
    size_t more = *cap ? 2 * *cap : 16;
    void *p = realloc(old, more * size);
    if (p)
        *cap = more;
    return p;
}

/* ---- The queue ---------------------------------------------------------- */

static bool sooner(const struct offer *a, const struct offer *b)
{
    return a->times != b->times ? a->times > b->times : a->key < b->key;
}

static void push(struct learning *l, struct offer o)
{
    struct offer *heap = grown(l->heap, l->heap_n, &l->heap_cap, sizeof o);
    if (!heap) {
        l->failed = true;
        return;
    }
    l->heap = heap;
    size_t i = l->heap_n++;
    for (; i && sooner(&o, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = o;
}

static struct offer pop(struct learning *l)
{
    struct offer first = l->heap[0], last = l->heap[--l->heap_n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < l->heap_n) {
        if (child + 1 < l->heap_n &&
            sooner(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!sooner(&l->heap[child], &last))
            break;
        l->heap[i] = l->heap[child];
        i = child;
    }
    l->heap[i] = last;
    return first;
}

/* ---- Pairs -------------------------------------------------------------- */

static size_t slot_of(const struct learning *l, uint64_t key)
{
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (l->slots_n - 1);
    while (l->slot[i] >= 0 && l->pair[l->slot[i]].key != key)
        i = (i + 1) & (l->slots_n - 1);
    return i;
}

static bool grow_slots(struct learning *l)
{
    int32_t *slot = malloc(2 * l->slots_n * sizeof *slot);
    if (!slot)
        return false;
    free(l->slot);
    l->slot = slot;
    l->slots_n *= 2;
    memset(slot, -1, l->slots_n * sizeof *slot);
    for (size_t i = 0; i < l->pairs_n; i++)
        slot[slot_of(l, l->pair[i].key)] = (int32_t)i;
    return true;
}

/* The pair, made where it is not there; NULL: memory ran out. */
static struct pair *need_pair(struct learning *l, uint64_t key)
{
    size_t i = slot_of(l, key);
    if (l->slot[i] >= 0)
        return &l->pair[l->slot[i]];
    struct pair *pair = grown(l->pair, l->pairs_n, &l->pairs_cap,
                              sizeof *pair);
    if (!pair || (l->pair = pair,
                  2 * l->pairs_n >= l->slots_n && !grow_slots(l))) {
        l->failed = true;
        return NULL;
    }
    l->slot[slot_of(l, key)] = (int32_t)l->pairs_n;
    l->pair[l->pairs_n] = (struct pair){.key = key};
    return &l->pair[l->pairs_n++];
}

/* times more (or fewer) of a pair in a word. */
static void change(struct learning *l, int32_t left, int32_t right,
                   int64_t times, uint32_t word)
{
    struct pair *p = need_pair(l, key_of(left, right));
    if (!p)
        return;
    p->times += times;
    if (times < 0 || (p->in_n && p->in[p->in_n - 1] == word))
        return;
    uint32_t *in = grown(p->in, p->in_n, &p->in_cap, sizeof *in);
    if (!in) {
        l->failed = true;
        return;
    }
    p->in = in;
    in[p->in_n++] = word;
}

/* ---- Merging ------------------------------------------------------------ */

static void merge_word(struct learning *l, uint32_t which, uint64_t key,
                       int32_t made)
{
    struct learn_word *w = &l->word[which];
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++) {
        if (i + 1 == w->n ||
            key_of(w->symbol[i], w->symbol[i + 1]) != key) {
            w->symbol[n++] = w->symbol[i];
            continue;
        }
        int32_t left = w->symbol[i], right = w->symbol[i + 1];
        if (n > 0) {
            change(l, w->symbol[n - 1], left, -w->times, which);
            change(l, w->symbol[n - 1], made, w->times, which);
        }
        if (i + 2 < w->n) {
            change(l, right, w->symbol[i + 2], -w->times, which);
            change(l, made, w->symbol[i + 2], w->times, which);
        }
        w->symbol[n++] = made;
        i++;
    }
    w->n = n;
}

/* Pairs that may have become more frequent are those with what was made. */
static void offer_news(struct learning *l, const uint32_t *in, size_t in_n,
                       int32_t made)
{
    for (size_t i = 0; i < in_n; i++) {
        const struct learn_word *w = &l->word[in[i]];
        for (int32_t k = 0; k + 1 < w->n; k++) {
            if (w->symbol[k] != made && w->symbol[k + 1] != made)
                continue;
            uint64_t key = key_of(w->symbol[k], w->symbol[k + 1]);
            push(l, (struct offer){need_pair(l, key)->times, key});
        }
    }
}

static void apply(struct learning *l, uint64_t key, int32_t made)
{
    struct pair *p = need_pair(l, key);
    uint32_t *in = p->in;
    size_t in_n = p->in_n;
    p->in = NULL; /* pairs may move, and this one is seen no more */
    p->in_n = p->in_cap = 0;
    p->times = 0;
    for (size_t i = 0; i < in_n && !l->failed; i++)
        merge_word(l, in[i], key, made);
    need_pair(l, key)->times = 0;
    if (!l->failed)
        offer_news(l, in, in_n, made);
    free(in);
}

static size_t text_slot(const struct learning *l, const char *text)
{
    size_t i = XXH3_64bits(text, strlen(text)) & (l->by_text_n - 1);
    while (l->by_text[i] >= 0 && strcmp(l->text[l->by_text[i]], text))
        i = (i + 1) & (l->by_text_n - 1);
    return i;
}

/* The token of both's text: that of before, or one more. */
static int32_t make_token(struct learning *l, uint64_t key, int32_t *vocab)
{
    const char *left = l->text[key >> 32], *right = l->text[(uint32_t)key];
    char *text = malloc(strlen(left) + strlen(right) + 1);
    if (!text) {
        l->failed = true;
        return -1;
    }
    strcpy(stpcpy(text, left), right);
    size_t slot = text_slot(l, text);
    if (l->by_text[slot] >= 0) {
        free(text);
        return l->by_text[slot];
    }
    l->text[*vocab] = text;
    return l->by_text[slot] = (*vocab)++;
}

static bool begin(struct learning *l, int64_t words_n, int32_t bytes_n,
                  int32_t vocab)
{
    l->slots_n = 1 << 16;
    l->by_text_n = 1024;
    while (l->by_text_n < 2 * (size_t)vocab)
        l->by_text_n *= 2;
    l->slot = malloc(l->slots_n * sizeof *l->slot);
    l->by_text = malloc(l->by_text_n * sizeof *l->by_text);
    if (!l->slot || !l->by_text)
        return false;
    memset(l->slot, -1, l->slots_n * sizeof *l->slot);
    memset(l->by_text, -1, l->by_text_n * sizeof *l->by_text);
    for (int32_t i = 0; i < bytes_n; i++)
        l->by_text[text_slot(l, l->text[i])] = i;
    for (int64_t i = 0; i < words_n; i++)
        for (int32_t k = 0; k + 1 < l->word[i].n; k++)
            change(l, l->word[i].symbol[k], l->word[i].symbol[k + 1],
                   l->word[i].times, (uint32_t)i);
    for (size_t i = 0; i < l->pairs_n; i++)
        push(l, (struct offer){l->pair[i].times, l->pair[i].key});
    return !l->failed;
}

static void end(struct learning *l)
{
    for (size_t i = 0; i < l->pairs_n; i++)
        free(l->pair[i].in);
    free(l->pair);
    free(l->slot);
    free(l->heap);
    free(l->by_text);
}

int learn_bpe(struct learn_word *word, int64_t words_n, int32_t bytes_n,
              int32_t vocab, char **text, struct learn_merge **ret_merges,
              int32_t *ret_merges_n, int32_t *ret_vocab, struct err *err)
{
    struct learning l = {.word = word, .text = text};
    struct learn_merge *merges = NULL;
    size_t n = 0, cap = 0;
    *ret_vocab = bytes_n;
    l.failed = !begin(&l, words_n, bytes_n, vocab);
    while (!l.failed && *ret_vocab < vocab && l.heap_n) {
        struct offer o = pop(&l);
        int64_t times = need_pair(&l, o.key)->times;
        if (times != o.times) {
            if (times > 0 && times < o.times)
                push(&l, (struct offer){times, o.key});
            continue;
        }
        if (times < 2)
            break;
        struct learn_merge *more = grown(merges, n, &cap, sizeof *more);
        int32_t made = more ? make_token(&l, o.key, ret_vocab) : -1;
        l.failed |= made < 0;
        if (!more || made < 0)
            break;
        merges = more;
        merges[n++] = (struct learn_merge){(int32_t)(o.key >> 32),
                                           (int32_t)(uint32_t)o.key, made};
        apply(&l, o.key, made);
    }
    bool failed = l.failed;
    end(&l);
    *ret_merges = merges;
    *ret_merges_n = (int32_t)n;
    return failed ? err_set(err, "data: out of memory for the pairs") : 0;
}
