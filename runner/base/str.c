/* str - growing strings with a cap, and numbers from text; see str.h. */
#include "runner/base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

char sbuf_empty[1];

/* Make room for `more` bytes and the NUL; false sets failed. */
static bool reserve(struct sbuf *s, size_t more)
{
    if (s->failed)
        return false;
    if (more > SBUF_MAX_BYTES || s->len + more + 1 > SBUF_MAX_BYTES) {
        s->failed = true;
        return false;
    }
    size_t need = s->len + more + 1;
    if (need <= s->cap)
        return true;
    size_t cap = s->cap ? s->cap : 64;
    while (cap < need)
        cap *= 2;
    char *data = realloc(s->cap ? s->data : NULL, cap);
    if (!data) {
        s->failed = true;
        return false;
    }
    if (!s->cap)
        data[0] = 0;
    s->data = data;
    s->cap = cap;
    return true;
}

void sbuf_add(struct sbuf *s, const char *bytes, size_t bytes_n)
{
    if (!reserve(s, bytes_n))
        return;
    memcpy(s->data + s->len, bytes, bytes_n);
    s->len += bytes_n;
    s->data[s->len] = 0;
}

void sbuf_puts(struct sbuf *s, const char *text)
{
    sbuf_add(s, text, strlen(text));
}

void sbuf_vprintf(struct sbuf *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        s->failed = true;
    else if (reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

void sbuf_printf(struct sbuf *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sbuf_vprintf(s, fmt, ap);
    va_end(ap);
}

void sbuf_clear(struct sbuf *s)
{
    s->len = 0;
    s->failed = false;
    if (s->cap)
        s->data[0] = 0;
}

void sbuf_release(struct sbuf *s)
{
    if (s->cap)
        free(s->data);
    *s = SBUF_INIT;
}

char *sbuf_take(struct sbuf *s)
{
    char *data = NULL;
    if (!s->failed)
        data = s->cap ? s->data : strdup("");
    else if (s->cap)
        free(s->data);
    *s = SBUF_INIT;
    return data;
}

int str_to_i64(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return -1;
    *ret = v;
    return 0;
}

int str_to_u64(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    if (strchr(text, '-'))
        return -1;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end || errno)
        return -1;
    *ret = v;
    return 0;
}

int str_to_double(const char *text, double *ret)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || (errno && (v > 1 || v < -1)))
        return -1;
    *ret = v;
    return 0;
}

int str_to_bool(const char *text, bool *ret)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"yes", true},
                 {"no", false},  {"on", true},     {"off", false},
                 {"1", true},    {"0", false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strcasecmp(text, words[i].word)) {
            *ret = words[i].value;
            return 0;
        }
    }
    return -1;
}

bool str_starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

bool str_copy(char *dst, size_t dst_bytes, const char *src)
{
    int n = snprintf(dst, dst_bytes, "%s", src);
    return n >= 0 && (size_t)n < dst_bytes;
}

int str_distance(const char *a, const char *b)
{
    enum { MAX = 128 };
    int row[MAX + 1];
    int b_n = (int)strnlen(b, MAX);
    for (int j = 0; j <= b_n; j++)
        row[j] = j;
    for (int i = 0; a[i] && i < MAX; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < b_n; j++) {
            int best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[b_n];
}
