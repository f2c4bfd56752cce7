/* text - bytes that grow, and whether they are UTF-8. */
#ifndef KB_DATA_TEXT_H
#define KB_DATA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

/* TEXT_INIT, text_release. */
struct text {
    char *data; /* owned */
    size_t n, cap;
};
#define TEXT_INIT ((struct text){0})

int text_reserve(struct text *t, size_t more, struct err *err);
int text_add(struct text *t, const char *bytes, size_t n, struct err *err);
void text_release(struct text *t);

/* The code point at p (p < end) and its length; a length of 0 - n tells that
 * the n bytes there are not UTF-8: the longest start of a character, as
 * browsers and Python cut it, so that each is one replacement. */
int utf8_get(const char *p, const char *end, uint32_t *ret);
/* 1 to 4 bytes into dst; returns their number. */
int utf8_put(uint32_t code, char dst[4]);
/* Offset of the first byte that is not UTF-8, or n. */
size_t utf8_valid(const char *bytes, size_t n);
/* Each bad piece becomes U+FFFD. */
int utf8_repair(struct text *t, struct err *err);

#endif
