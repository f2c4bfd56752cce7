/* text - see text.h. */
#include "runner/data/text.h"

#include <stdlib.h>
#include <string.h>

int text_reserve(struct text *t, size_t more, struct err *err)
{
    if (t->cap - t->n >= more)
        return 0;
    size_t cap = t->cap ? t->cap : 4096;
    while (cap - t->n < more)
        cap *= 2;
    char *data = realloc(t->data, cap);
    if (!data)
        return err_set(err, "data: out of memory for %zu bytes of text", cap);
    t->data = data;
    t->cap = cap;
    return 0;
}

int text_add(struct text *t, const char *bytes, size_t n, struct err *err)
{
    if (text_reserve(t, n, err))
        return -1;
    if (n)
        memcpy(t->data + t->n, bytes, n);
    t->n += n;
    return 0;
}

void text_release(struct text *t)
{
    free(t->data);
    *t = TEXT_INIT;
}

/* Second bytes that a first byte allows; the rest are 80 .. BF. */
static bool second_fits(unsigned char first, unsigned char second)
{
    unsigned char lo = 0x80, hi = 0xbf;
    if (first == 0xe0)
        lo = 0xa0;
    else if (first == 0xed)
        hi = 0x9f;
    else if (first == 0xf0)
        lo = 0x90;
    else if (first == 0xf4)
        hi = 0x8f;
    return second >= lo && second <= hi;
}

int utf8_get(const char *p, const char *end, uint32_t *ret)
{
    const unsigned char *s = (const unsigned char *)p;
    unsigned char first = *s;
    int need = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2
               : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (need == 1) {
        *ret = first;
        return 1;
    }
    if (!need)
        return -1;
    uint32_t code = first & (0xff >> (need + 1));
    for (int i = 1; i < need; i++) {
        if (p + i >= end || (s[i] & 0xc0) != 0x80 ||
            (i == 1 && !second_fits(first, s[1])))
            return -i;
        code = code << 6 | (s[i] & 0x3f);
    }
    *ret = code;
    return need;
}

int utf8_put(uint32_t code, char dst[4])
{
    if (code < 0x80) {
        dst[0] = (char)code;
        return 1;
    }
    int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--) {
        dst[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    dst[0] = (char)((0xf00 >> n) | code);
    return n;
}

size_t utf8_valid(const char *bytes, size_t n)
{
    const char *p = bytes, *end = bytes + n;
    while (p < end) {
        uint64_t eight;
        if (end - p >= 8) {
            memcpy(&eight, p, 8);
            if (!(eight & 0x8080808080808080u)) {
                p += 8;
                continue;
            }
        }
        uint32_t code;
        int len = utf8_get(p, end, &code);
        if (len < 0)
            break;
        p += len;
    }
    return (size_t)(p - bytes);
}

int utf8_repair(struct text *t, struct err *err)
{
    struct text good = TEXT_INIT;
    const char *p = t->data, *end = t->data + t->n;
    for (;;) {
        size_t n = utf8_valid(p, (size_t)(end - p));
        if (text_add(&good, p, n, err))
            goto fail;
        p += n;
        if (p == end)
            break;
        uint32_t code;
        p -= utf8_get(p, end, &code);
        if (text_add(&good, "\xef\xbf\xbd", 3, err))
            goto fail;
    }
    free(t->data);
    *t = good;
    return 0;
fail:
    text_release(&good);
    return -1;
}
