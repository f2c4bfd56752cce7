/* str - growing strings with a cap, and numbers from text.
 *
 * A struct sbuf starts as SBUF_INIT; sbuf_release frees it. `data` is always a
 * valid NUL-ended string. A failed allocation or a string past SBUF_MAX_BYTES
 * sets `failed` and later additions do nothing: check once, at the end.
 */
#ifndef KB_BASE_STR_H
#define KB_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SBUF_MAX_BYTES (64u << 20)

struct sbuf {
    char *data;     /* owned; "" when empty */
    size_t len;     /* bytes without the NUL */
    size_t cap;     /* bytes allocated, 0 while data is static */
    bool failed;
};

extern char sbuf_empty[1];
#define SBUF_INIT ((struct sbuf){.data = sbuf_empty})

void sbuf_add(struct sbuf *s, const char *bytes, size_t bytes_n);
void sbuf_puts(struct sbuf *s, const char *text);
void sbuf_printf(struct sbuf *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void sbuf_vprintf(struct sbuf *s, const char *fmt, va_list ap);
void sbuf_clear(struct sbuf *s);
void sbuf_release(struct sbuf *s);
/* The string itself, owned by the caller (free()); s is empty after. NULL if
 * anything failed. */
char *sbuf_take(struct sbuf *s);

/* Whole-string conversions: 0 and *ret set, or -1 (trailing text, range). */
int str_to_i64(const char *text, int64_t *ret);
int str_to_u64(const char *text, uint64_t *ret);
int str_to_double(const char *text, double *ret);
int str_to_bool(const char *text, bool *ret); /* true|false|yes|no|on|off|1|0 */

bool str_starts(const char *text, const char *prefix);
/* Copy with truncation told: true if all of it fitted. */
bool str_copy(char *dst, size_t dst_bytes, const char *src);
/* Edit distance, for naming the nearest key. */
int str_distance(const char *a, const char *b);

#endif
