/* nfc - see nfc.h. Text is taken in groups: a character that nothing before
 * can change, and all behind it that may change or join it. A group is taken
 * apart, its marks are sorted by class, and put together again. */
#include "runner/data/nfc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/nfc_table.h"

/* Hangul syllables: leading consonant, vowel, trailing consonant. */
enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7,
       L_N = 19, V_N = 21, T_N = 28, S_N = L_N * V_N * T_N };

#define ROWS(table) (sizeof(table) / sizeof *(table))

static bool is_flagged(uint32_t code)
{
    return code >> 8 < ROWS(nfc_index) &&
           nfc_flags[nfc_index[code >> 8]][(code & 255) >> 3] >> (code & 7) &
               1;
}

static int class_of(uint32_t code)
{
    size_t lo = 0, hi = ROWS(nfc_class);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (nfc_class[mid].last < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ROWS(nfc_class) && nfc_class[lo].first <= code
               ? nfc_class[lo].class
               : 0;
}

/* Row of the whole in nfc_parts, or -1. */
static int parts_of(uint32_t code)
{
    size_t lo = 0, hi = ROWS(nfc_parts);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (nfc_parts[mid].whole < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ROWS(nfc_parts) && nfc_parts[lo].whole == code ? (int)lo : -1;
}

static uint64_t pair_of(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 21 | second;
}

static uint64_t row_pair(size_t i)
{
    return pair_of(nfc_parts[nfc_pair[i]].first,
                   nfc_parts[nfc_pair[i]].second);
}

/* What two code points make together, or 0. */
static uint32_t join(uint32_t first, uint32_t second)
{
    if (first - L_BASE < L_N && second - V_BASE < V_N)
        return S_BASE + ((first - L_BASE) * V_N + (second - V_BASE)) * T_N;
    if (first - S_BASE < S_N && (first - S_BASE) % T_N == 0 &&
        second > T_BASE && second < T_BASE + T_N)
        return first + (second - T_BASE);
    uint64_t pair = pair_of(first, second);
    size_t lo = 0, hi = ROWS(nfc_pair);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (row_pair(mid) < pair)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ROWS(nfc_pair) && row_pair(lo) == pair
               ? nfc_parts[nfc_pair[lo]].whole
               : 0;
}

/* A group being put together. */
struct group {
    uint32_t *code;
    unsigned char *class;
    size_t n, cap;
};

static int add_code(struct group *g, uint32_t code)
{
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        uint32_t *codes = realloc(g->code, cap * sizeof *codes);
        if (codes)
            g->code = codes;
        unsigned char *classes = realloc(g->class, cap);
        if (classes)
            g->class = classes;
        if (!codes || !classes)
            return -1;
        g->cap = cap;
    }
    g->code[g->n] = code;
    g->class[g->n++] = (unsigned char)class_of(code);
    return 0;
}

static int take_apart(struct group *g, uint32_t code)
{
    if (code - S_BASE < S_N) {
        uint32_t s = code - S_BASE;
        return add_code(g, L_BASE + s / (V_N * T_N)) ||
               add_code(g, V_BASE + s % (V_N * T_N) / T_N) ||
               (s % T_N && add_code(g, T_BASE + s % T_N));
    }
    int row = parts_of(code);
    if (row < 0)
        return add_code(g, code);
    return take_apart(g, nfc_parts[row].first) ||
           (nfc_parts[row].second && add_code(g, nfc_parts[row].second));
}

/* A long run of marks from `from` on, by counting. */
static int sort_run(struct group *g, size_t from, size_t to)
{
    size_t start[257] = {0}, n = to - from;
    uint32_t *code = malloc(n * sizeof *code);
    unsigned char *class = malloc(n);
    if (!code || !class) {
        free(code);
        free(class);
        return -1;
    }
    for (size_t i = from; i < to; i++)
        start[g->class[i] + 1]++;
    for (int c = 0; c < 256; c++)
        start[c + 1] += start[c];
    for (size_t i = from; i < to; i++) {
        size_t at = start[g->class[i]]++;
        code[at] = g->code[i];
        class[at] = g->class[i];
    }
    memcpy(&g->code[from], code, n * sizeof *code);
    memcpy(&g->class[from], class, n);
    free(code);
    free(class);
    return 0;
}

static int sort_long(struct group *g)
{
    for (size_t i = 0, to; i < g->n; i = to) {
        to = i + 1;
        if (!g->class[i])
            continue;
        while (to < g->n && g->class[to])
            to++;
        if (sort_run(g, i, to))
            return -1;
    }
    return 0;
}

/* Marks behind each other by their class, equal ones as they stood. */
static int sort_marks(struct group *g)
{
    enum { LONG = 64 };
    if (g->n > LONG)
        return sort_long(g);
    for (size_t i = 1; i < g->n; i++) {
        uint32_t code = g->code[i];
        unsigned char class = g->class[i];
        size_t j = i;
        for (; class && j && g->class[j - 1] > class; j--) {
            g->code[j] = g->code[j - 1];
            g->class[j] = g->class[j - 1];
        }
        g->code[j] = code;
        g->class[j] = class;
    }
    return 0;
}

static void put_together(struct group *g)
{
    size_t out = 0, starter = SIZE_MAX;
    int last = -1; /* class of what stays behind the starter; -1 nothing */
    for (size_t i = 0; i < g->n; i++) {
        int class = g->class[i];
        uint32_t whole = starter != SIZE_MAX && last < class
                             ? join(g->code[starter], g->code[i])
                             : 0;
        if (whole) {
            g->code[starter] = whole;
            continue;
        }
        if (!class) {
            starter = out;
            last = -1;
        } else {
            last = class;
        }
        g->code[out] = g->code[i];
        g->class[out++] = (unsigned char)class;
    }
    g->n = out;
}

static int flush(struct group *g, struct text *out, struct err *err)
{
    char bytes[4];
    if (sort_marks(g))
        return err_set(err, "data: out of memory");
    put_together(g);
    for (size_t i = 0; i < g->n; i++)
        if (text_add(out, bytes, (size_t)utf8_put(g->code[i], bytes), err))
            return -1;
    g->n = 0;
    return 0;
}

/* The first character that may change, or end; *ret_before: the one before it
 * in the same run. */
static const char *find_flagged(const char *p, const char *end,
                                const char **ret_before)
{
    const char *before = p;
    uint32_t code;
    while (p < end) {
        int len = (unsigned char)*p < 128 ? 1 : utf8_get(p, end, &code);
        if (len < 0)
            before = p - len;
        else if (len > 1 && is_flagged(code))
            break;
        else
            before = p;
        p += len < 0 ? -len : len;
    }
    *ret_before = before;
    return p;
}

bool nfc_is_plain(const char *bytes, size_t n)
{
    const char *before;
    return find_flagged(bytes, bytes + n, &before) == bytes + n;
}

int nfc_add(struct text *out, const char *bytes, size_t n, struct err *err)
{
    struct group g = {0};
    const char *p = bytes, *end = bytes + n;
    int rc = 0;
    while (p < end && !rc) {
        const char *before, *q = find_flagged(p, end, &before);
        if (q == end)
            before = end;
        rc = text_add(out, p, (size_t)(before - p), err);
        /* The group: from `before` to the next that is surely alone. */
        for (p = before; p < end && !rc;) {
            uint32_t code;
            int len = utf8_get(p, end, &code);
            if (len < 0 || (p >= q && !is_flagged(code)))
                break;
            if (take_apart(&g, code))
                rc = err_set(err, "data: out of memory");
            p += len;
        }
        if (!rc)
            rc = flush(&g, out, err);
    }
    free(g.code);
    free(g.class);
    return rc;
}
