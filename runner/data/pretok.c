/* pretok - see pretok.h. Each scanner tries the alternatives of its expression
 * in their order. */
#include "runner/data/pretok.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runner/data/text.h"
#include "runner/data/unicode_case_table.h"
#include "runner/data/unicode_table.h"

enum class { OTHER, LETTER, NUMBER, SPACE };

/* The first 128 code points, unpacked. */
#define O OTHER
#define L LETTER
#define N NUMBER
#define S SPACE
static const unsigned char ascii[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O,
    O, O, O, O, O, O, O, O, O, O, S, O, O, O, O, O, O, O, O, O, O, O,
    O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O, O, L,
    L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    L, L, L, O, O, O, O, O, O, L, L, L, L, L, L, L, L, L, L, L, L, L,
    L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O};
#undef O
#undef L
#undef N
#undef S

static enum class class_of(uint32_t code)
{
    const unsigned char *block = unicode_block[unicode_index[code >> 8]];
    return (enum class)(block[(code & 255) >> 2] >> 2 * (code & 3) & 3);
}

/* Class and length of the character at p. */
static inline enum class look(const char *p, const char *end, int *ret_len)
{
    uint32_t code;
    if ((unsigned char)*p < 128) {
        *ret_len = 1;
        return (enum class)ascii[(unsigned char)*p];
    }
    int len = utf8_get(p, end, &code);
    if (len < 0) {
        *ret_len = -len;
        return OTHER;
    }
    *ret_len = len;
    return class_of(code);
}

static inline enum class peek(const char *p, const char *end)
{
    int len;
    return look(p, end, &len);
}

/* Behind the run of one class. */
static inline const char *run(enum class class, const char *p,
                              const char *end)
{
    while (p < end) {
        int len;
        if (look(p, end, &len) != class)
            break;
        p += len;
    }
    return p;
}

static inline bool is_newline(char c)
{
    return c == '\n' || c == '\r';
}

/* \s+(?!\S)|\s+ : all at the end of the text; else all but the last one,
 * which is for what follows; a single one by itself. With newlines, before
 * that \s*[\r\n]+ : through the last newline of the run. */
static size_t white(const char *p, const char *end, bool newlines,
                    bool end_first)
{
    const char *q = p, *last = p, *newline = NULL;
    int len;
    while (q < end && look(q, end, &len) == SPACE) {
        last = q;
        if (is_newline(*q))
            newline = q + 1;
        q += len;
    }
    if (newlines && newline && !(end_first && q == end))
        return (size_t)(newline - p);
    return (size_t)((q == end || last == p ? q : last) - p);
}

/* 's 't 're 've 'm 'll 'd behind the apostrophe at p; 0: none. Without regard
 * to case the long s (U+017F) is an s. */
static size_t contraction(const char *p, const char *end, bool any_case)
{
    size_t left = (size_t)(end - p);
    if (left < 2)
        return 0;
    char a = p[1], b = left > 2 ? p[2] : 0;
    if (any_case) {
        if (a == (char)0xc5 && b == (char)0xbf)
            return 3;
        a |= 0x20 & -(a >= 'A' && a <= 'Z');
        b |= 0x20 & -(b >= 'A' && b <= 'Z');
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') ||
        (a == 'l' && b == 'l'))
        return 3;
    return 0;
}

/* ---- Sixteen bytes at once ----------------------------------------------
 * Nearly all pieces are short and in ASCII: they are found by masks of the
 * classes of the next bytes, without a branch a byte. What does not end in
 * them before a byte of another character is left to the scanners below: 0. */

#ifdef __SSE2__
#include <emmintrin.h>

enum { NEAR_N = 16 };

struct near {
    uint32_t letter, number, space, other, high; /* a bit a byte */
    uint32_t newline;
};

/* Which bytes are in from .. from + n - 1. */
static inline uint32_t mask_range(__m128i x, char from, int n)
{
    __m128i moved = _mm_add_epi8(x, _mm_set1_epi8((char)(0x80 - from)));
    return (uint32_t)_mm_movemask_epi8(
        _mm_cmplt_epi8(moved, _mm_set1_epi8((char)(n - 128))));
}

static inline uint32_t mask_of(__m128i x, char c)
{
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8(c)));
}

static inline struct near near_of(const char *p)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    struct near m;
    m.letter = mask_range(_mm_or_si128(x, _mm_set1_epi8(0x20)), 'a', 26);
    m.number = mask_range(x, '0', 10);
    m.space = mask_range(x, '\t', 5) | mask_of(x, ' ');
    m.high = (uint32_t)_mm_movemask_epi8(x);
    m.other = ~(m.letter | m.number | m.space | m.high) & 0xffff;
    m.newline = mask_of(x, '\n') | mask_of(x, '\r');
    return m;
}

/* Bytes of the run at place i, up to the end of the sixteen. */
static inline uint32_t run_at(uint32_t mask, uint32_t i)
{
    return (uint32_t)__builtin_ctz(~(mask >> i));
}

/* A piece that ends at n: certain if an ASCII byte follows. */
static inline size_t sure(const struct near *m, uint32_t n)
{
    return n < NEAR_N && !(m->high >> n & 1) ? n : 0;
}

static inline size_t near_white(const struct near *m, uint32_t newline)
{
    uint32_t run = run_at(m->space, 0);
    uint32_t lines = newline & ((1u << run) - 1);
    if (!sure(m, run))
        return 0;
    if (lines)
        return 32 - (size_t)__builtin_clz(lines);
    return run > 1 ? run - 1 : 1;
}

static inline size_t near_gpt2(const char *p)
{
    struct near m = near_of(p);
    uint32_t i = *p == ' ', at = 1u << i;
    if (m.space & at)
        return near_white(&m, 0);
    if (m.high & at || *p == '\'')
        return 0;
    uint32_t mask = m.letter & at ? m.letter : m.other;
    mask = m.number & at ? m.number : mask;
    return sure(&m, i + run_at(mask, i));
}

static inline size_t near_llama3(const char *p, uint32_t digits)
{
    struct near m = near_of(p);
    uint32_t i = !(m.letter & 1), n;
    if (m.high & 3 || *p == '\'')
        return 0;
    /* One character that is no letter, number or newline, and letters. */
    if (m.letter >> i & 1 && !((m.number | m.newline) & i))
        return sure(&m, i + run_at(m.letter, i));
    if (m.number & 1) {
        n = run_at(m.number, 0);
        return n >= digits ? digits : sure(&m, n);
    }
    i = *p == ' ';
    if (!(m.other >> i & 1))
        return near_white(&m, m.newline);
    n = i + run_at(m.other, i);
    if (!sure(&m, n))
        return 0;
    n += run_at(m.newline, n);
    return n < NEAR_N ? n : 0;
}

static inline size_t near_o200k(const char *p)
{
    struct near m = near_of(p);
    uint32_t i = !(m.letter & 1), n;
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (m.high & 3)
        return 0;
    if (m.letter >> i & 1 && !((m.number | m.newline) & i)) {
        uint32_t upper = mask_range(x, 'A', 26);
        n = i + run_at(upper, i);
        n += n < NEAR_N ? run_at(m.letter & ~upper, n) : 0;
        return n < NEAR_N && p[n] != '\'' ? sure(&m, n) : 0;
    }
    if (m.number & 1) {
        n = run_at(m.number, 0);
        return n >= 3 ? 3 : sure(&m, n);
    }
    i = *p == ' ';
    if (!(m.other >> i & 1))
        return near_white(&m, m.newline);
    n = i + run_at(m.other, i);
    if (!sure(&m, n))
        return 0;
    n += run_at(m.newline | mask_of(x, '/'), n);
    return n < NEAR_N ? n : 0;
}

static inline size_t near_next(enum pretok pretok, const char *p)
{
    switch (pretok) {
    case PRETOK_GPT2:
        return near_gpt2(p);
    case PRETOK_O200K:
        return near_o200k(p);
    default:
        return near_llama3(p, pretok == PRETOK_QWEN2 ? 1 : 3);
    }
}
#else
enum { NEAR_N = INT32_MAX };
#define near_next(pretok, p) ((size_t)0)
#endif

/* ---- Any text ------------------------------------------------------------ */

static size_t next_gpt2(const char *p, const char *end)
{
    size_t n;
    if (*p == '\'' && (n = contraction(p, end, false)))
        return n;
    const char *from = *p == ' ' && p + 1 < end ? p + 1 : p;
    enum class class = peek(from, end);
    if (class == SPACE)
        return white(p, end, false, false);
    return (size_t)(run(class, from, end) - p);
}

static size_t numbers(const char *p, const char *end, int most)
{
    const char *q = p;
    int len;
    for (int i = 0; i < most && q < end; i++) {
        if (look(q, end, &len) != NUMBER)
            break;
        q += len;
    }
    return (size_t)(q - p);
}

static size_t next_llama3(const char *p, const char *end, int digits,
                          bool end_first)
{
    size_t n;
    int len;
    if (*p == '\'' && (n = contraction(p, end, true)))
        return n;
    enum class class = look(p, end, &len);
    const char *behind = p + len;
    if (class == LETTER)
        return (size_t)(run(LETTER, behind, end) - p);
    if (class == NUMBER)
        return numbers(p, end, digits);
    if (!is_newline(*p) && behind < end && peek(behind, end) == LETTER)
        return (size_t)(run(LETTER, behind, end) - p);
    const char *from = *p == ' ' && behind < end ? behind : p;
    if (peek(from, end) != OTHER)
        return white(p, end, true, end_first);
    const char *q = run(OTHER, from, end);
    while (q < end && is_newline(*q))
        q++;
    return (size_t)(q - p);
}

/* ---- o200k: words are cut where their case says ------------------------- */

enum { UPPER = 1, LOWER = 2 }; /* other letters and marks are both */

static int case_at(const char *p, const char *end, int *ret_len)
{
    uint32_t code;
    int len = utf8_get(p, end, &code);
    *ret_len = len < 0 ? -len : len;
    if (len < 0)
        return 0;
    const unsigned char *block =
        unicode_case_block[unicode_case_index[code >> 8]];
    return block[(code & 255) >> 2] >> 2 * (code & 3) & 3;
}

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ , whose first
 * part may have to give back its last characters that are in both; NULL: no
 * match. *ret_upper: behind the first part alone. */
static const char *cased(const char *p, const char *end,
                         const char **ret_upper)
{
    const char *both = NULL, *from;
    int len, what;
    while (p < end && (what = case_at(p, end, &len)) & UPPER) {
        p += len;
        both = what & LOWER ? p : both;
    }
    *ret_upper = from = p;
    while (p < end && case_at(p, end, &len) & LOWER)
        p += len;
    return p > from ? p : both;
}

static size_t with_contraction(const char *p, const char *q, const char *end)
{
    size_t more = q < end && *q == '\'' ? contraction(q, end, true) : 0;
    return (size_t)(q - p) + more;
}

static size_t next_o200k(const char *p, const char *end)
{
    const char *upper[2], *q;
    int len;
    enum class class = look(p, end, &len);
    int before = class == LETTER || class == NUMBER || is_newline(*p) ? 0
                                                                      : len;
    if ((q = cased(p + before, end, &upper[0])))
        return with_contraction(p, q, end);
    upper[1] = upper[0];
    if (before && (q = cased(p, end, &upper[1])))
        return with_contraction(p, q, end);
    if (upper[0] > p + before)
        return with_contraction(p, upper[0], end);
    if (upper[1] > p)
        return with_contraction(p, upper[1], end);
    if (class == NUMBER)
        return numbers(p, end, 3);
    const char *from = *p == ' ' && p + 1 < end ? p + 1 : p;
    if (peek(from, end) != OTHER)
        return white(p, end, true, false);
    q = run(OTHER, from, end);
    while (q < end && (is_newline(*q) || *q == '/'))
        q++;
    return (size_t)(q - p);
}

size_t pretok_next(enum pretok pretok, const char *p, const char *end)
{
    size_t n = end - p >= NEAR_N ? near_next(pretok, p) : 0;
    return n ? n : pretok_scan(pretok, p, end);
}

size_t pretok_scan(enum pretok pretok, const char *p, const char *end)
{
    switch (pretok) {
    case PRETOK_GPT2:
        return next_gpt2(p, end);
    case PRETOK_LLAMA3:
        return next_llama3(p, end, 3, false);
    case PRETOK_CL100K:
        return next_llama3(p, end, 3, true);
    case PRETOK_O200K:
        return next_o200k(p, end);
    default:
        return next_llama3(p, end, 1, false);
    }
}

#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SHORTS "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
static const struct {
    const char *regex;
    enum pretok pretok;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
     "|\\s+(?!\\S)|\\s+", PRETOK_GPT2},
    {HEAD "\\p{N}{1,3}" TAIL, PRETOK_LLAMA3},
    {HEAD "\\p{N}" TAIL, PRETOK_QWEN2},
    {"[^\\r\\n\\p{L}\\p{N}]?" UPPERS "*" LOWERS "+" SHORTS
     "|[^\\r\\n\\p{L}\\p{N}]?" UPPERS "+" LOWERS "*" SHORTS
     "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)"
     "|\\s+", PRETOK_O200K},
};

const char *pretok_regex(enum pretok pretok)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].pretok == pretok)
            return known[i].regex;
    return NULL;
}

enum pretok pretok_of_regex(const char *regex)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(regex, known[i].regex))
            return known[i].pretok;
    return PRETOK_N;
}
