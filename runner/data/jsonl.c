/* jsonl - see jsonl.h. A scan_ function starts at s->p and leaves it behind
 * what it took; it returns false with the reason in s->why. */
#include "runner/data/jsonl.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { DEPTH_MAX = 512 };

struct scan {
    const char *start, *p, *end;
    bool replace_surrogates;
    int depth;
    char *why;
};

static bool scan_value(struct scan *s, struct text *text);

static bool fail(struct scan *s, const char *why)
{
    snprintf(s->why, JSONL_WHY_BYTES, "column %zu: %s",
             (size_t)(s->p - s->start) + 1, why);
    return false;
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' ||
                             *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool take(struct scan *s, char c)
{
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool scan_hex4(struct scan *s, uint32_t *ret)
{
    uint32_t v = 0;
    if (s->end - s->p < 4)
        return fail(s, "\\u needs four hexadecimal digits");
    for (int i = 0; i < 4; i++) {
        char c = s->p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return fail(s, "\\u needs four hexadecimal digits");
        v = v << 4 | (uint32_t)digit;
    }
    s->p += 4;
    *ret = v;
    return true;
}

/* Behind `\u`: one character, by a pair of escapes above U+FFFF. */
static bool scan_unicode(struct scan *s, char utf8[4], int *ret_n)
{
    uint32_t code, low;
    if (!scan_hex4(s, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && s->end - s->p >= 6 &&
        s->p[0] == '\\' && s->p[1] == 'u') {
        const char *behind = s->p;
        s->p += 2;
        if (!scan_hex4(s, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        else
            s->p = behind;
    }
    if (code >= 0xd800 && code < 0xe000) {
        if (!s->replace_surrogates)
            return fail(s, "half a surrogate pair is not a character");
        code = 0xfffd;
    }
    *ret_n = utf8_put(code, utf8);
    return true;
}

static bool scan_escape(struct scan *s, char out[4], int *ret_n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->p == s->end)
        return fail(s, "the string has no end");
    if (*s->p == 'u') {
        s->p++;
        return scan_unicode(s, out, ret_n);
    }
    const char *found = memchr(from, *s->p, sizeof from - 1);
    if (!found)
        return fail(s, "unknown escape in a string");
    out[0] = to[found - from];
    *ret_n = 1;
    s->p++;
    return true;
}

static bool add(struct scan *s, struct text *text, const char *bytes, size_t n)
{
    if (text && text_add(text, bytes, n, NULL))
        return fail(s, "out of memory");
    return true;
}

/* Bytes that do not end a run. */
static bool is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* Behind the run of plain bytes at p. */
static const char *skip_plain(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
                  low = _mm_set1_epi8(0x1f);
    for (; end - p >= 16; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i ends = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
            _mm_cmpeq_epi8(_mm_min_epu8(x, low), x));
        int mask = _mm_movemask_epi8(ends);
        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
#endif
    while (p < end && is_plain(*p))
        p++;
    return p;
}

/* Behind the opening quote. */
static bool scan_string(struct scan *s, struct text *text)
{
    for (;;) {
        const char *run = s->p;
        s->p = skip_plain(run, s->end);
        if (!add(s, text, run, (size_t)(s->p - run)))
            return false;
        if (take(s, '"'))
            return true;
        char out[4];
        int n;
        if (s->p == s->end)
            return fail(s, "the string has no end");
        if (!take(s, '\\'))
            return fail(s, "a control character in a string");
        if (!scan_escape(s, out, &n) || !add(s, text, out, (size_t)n))
            return false;
    }
}

static bool is_digit(struct scan *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static bool scan_digits(struct scan *s)
{
    if (!is_digit(s))
        return fail(s, "a digit is missing in a number");
    while (is_digit(s))
        s->p++;
    return true;
}

static bool scan_number(struct scan *s)
{
    take(s, '-');
    if (!take(s, '0') && !scan_digits(s))
        return false;
    if (take(s, '.') && !scan_digits(s))
        return false;
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+'))
            take(s, '-');
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scan *s)
{
    static const char *const words[] = {"true", "false", "null", "NaN",
                                        "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->p) >= n && !memcmp(s->p, words[i], n)) {
            s->p += n;
            return true;
        }
    }
    return false;
}

static bool scan_array(struct scan *s)
{
    skip_space(s);
    if (take(s, ']'))
        return true;
    do {
        if (!scan_value(s, NULL))
            return false;
        skip_space(s);
    } while (take(s, ','));
    return take(s, ']') || fail(s, "no , or ] in an array");
}

/* Behind the brace. With key: its string goes to text, *found tells. */
static bool scan_object(struct scan *s, const char *key, struct text *text,
                        bool *found)
{
    struct text name = TEXT_INIT;
    bool good = false;
    skip_space(s);
    if (take(s, '}'))
        return true;
    do {
        skip_space(s);
        if (!take(s, '"')) {
            fail(s, "no name in an object");
            goto out;
        }
        name.n = 0;
        if (!scan_string(s, key ? &name : NULL))
            goto out;
        skip_space(s);
        if (!take(s, ':')) {
            fail(s, "no : behind a name");
            goto out;
        }
        bool ours = key && name.n == strlen(key) &&
                    (!name.n || !memcmp(name.data, key, name.n));
        skip_space(s);
        if (ours && (s->p == s->end || *s->p != '"')) {
            fail(s, "the key's value is not a string");
            goto out;
        }
        if (ours) {
            text->n = 0;
            *found = true;
        }
        if (!scan_value(s, ours ? text : NULL))
            goto out;
        skip_space(s);
    } while (take(s, ','));
    good = take(s, '}') || fail(s, "no , or } in an object");
out:
    text_release(&name);
    return good;
}

static bool scan_value(struct scan *s, struct text *text)
{
    bool good;
    skip_space(s);
    if (s->p == s->end)
        return fail(s, "a value is missing");
    if (take(s, '"'))
        return scan_string(s, text);
    if (s->depth == DEPTH_MAX)
        return fail(s, "nested too deeply");
    s->depth++;
    if (take(s, '{'))
        good = scan_object(s, NULL, NULL, NULL);
    else if (take(s, '['))
        good = scan_array(s);
    else if (scan_word(s))
        good = true;
    else if (is_digit(s) || *s->p == '-')
        good = scan_number(s);
    else
        good = fail(s, "not a value");
    s->depth--;
    return good;
}

int jsonl_text(const char *line, size_t line_bytes, const char *key,
               bool replace_surrogates, struct text *text,
               char why[JSONL_WHY_BYTES])
{
    struct scan s = {.start = line, .p = line, .end = line + line_bytes,
                     .replace_surrogates = replace_surrogates, .why = why};
    bool found = false;
    text->n = 0;
    skip_space(&s);
    if (!take(&s, '{')) {
        fail(&s, "the line is not a JSON object");
        return -1;
    }
    if (!scan_object(&s, key, text, &found))
        return -1;
    skip_space(&s);
    if (s.p != s.end) {
        fail(&s, "something follows the object");
        return -1;
    }
    if (!found) {
        snprintf(why, JSONL_WHY_BYTES, "no key '%.80s'", key);
        return -1;
    }
    return 0;
}
