/* conf - configuration as rows: one a key. Parsing, defaults, --help, the
 * effective dump and the man page check come from the row.
 *
 * A struct conf holds the text of every key and where it came from. Order:
 * default < file < environment < command line; a later source overrides.
 * Files are YAML mappings whose nesting gives dotted keys (model: {layers: 2}
 * is model.layers); lists give KEY with '\n' between the items. Anchors are
 * allowed, duplicate keys, unknown keys and tags are errors. An unknown key
 * names the nearest known one and its file:line. A key without a value (or
 * null, or "") is unset: it has its default. Reading goes on after a mistake,
 * so that conf_mistakes tells all of them.
 */
#ifndef KB_BASE_CONF_H
#define KB_BASE_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

enum conf_type { CONF_INT, CONF_REAL, CONF_BOOL, CONF_TEXT, CONF_CHOICE,
                 CONF_PATH, CONF_LIST, CONF_DURATION /* seconds: 30, 5m, 2h */,
                 CONF_SIZE /* bytes: 512, 4M, 2G */ };

struct conf_row {
    const char *key;     /* dotted */
    enum conf_type type;
    const char *fallback;/* default as text; NULL: must be given; "" : unset */
    double min, max;     /* for numbers; min == max == 0: no limit */
    const char *unit;    /* "" or "tokens", "s", ... */
    const char *choices; /* CONF_CHOICE: "a|b|c" */
    bool secret;         /* redacted in dumps */
    const char *doc;     /* one line */
    const char *also;    /* names elsewhere, "num_layers|n_layer": hints */
};

struct conf; /* owned by its creator */

/* Rows are borrowed for the conf's life. NULL when memory ran out. */
struct conf *conf_create(const struct conf_row *rows, int rows_n,
                         struct err *err);
void conf_destroy(struct conf *conf);

int conf_read_file(struct conf *conf, const char *path, struct err *err);
int conf_read_text(struct conf *conf, const char *text, const char *name,
                   struct err *err);
/* "KEY=VALUE"; origin as "command line" or "KOBOSHI_SET". Relative CONF_PATH
 * and path lists stay as they are: the caller knows against what they count. */
int conf_set(struct conf *conf, const char *assignment, const char *origin,
             struct err *err);
/* The same from parts; list items have '\n' between them. */
int conf_put(struct conf *conf, const char *key, const char *text,
             const char *origin, struct err *err);
/* What reading found wrong, types and ranges of all keys, and the required
 * ones; the first mistake. */
int conf_check(const struct conf *conf, struct err *err);
/* The same, every one of them: say is called with each; their number. */
typedef void (*conf_say_f)(void *ctx, const char *message);
int conf_mistakes(const struct conf *conf, conf_say_f say, void *ctx);

/* Values; the key must be in the table (a programming error otherwise is
 * reported as an empty value). Call after conf_check. An unset number is 0.
 * conf_int gives bytes of a CONF_SIZE, conf_real seconds of a CONF_DURATION. */
const char *conf_text(const struct conf *conf, const char *key);
int64_t conf_int(const struct conf *conf, const char *key);
double conf_real(const struct conf *conf, const char *key);
bool conf_bool(const struct conf *conf, const char *key);
/* Given, and not as the default has it: a dump that is read back, which gives
 * every key, is as the file it came from. */
bool conf_is_set(const struct conf *conf, const char *key);
/* "file:line", "command line", "default", ... */
const char *conf_origin(const struct conf *conf, const char *key);

/* YAML of all keys with their origins as comments, secrets redacted. */
void conf_dump(const struct conf *conf, struct sbuf *out);
/* The table for --help and man pages. */
void conf_help(const struct conf_row *rows, int rows_n, struct sbuf *out);

#endif
