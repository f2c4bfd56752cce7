/* json - Jansson with our errors. Values are Jansson's: json_decref frees. */
#ifndef KB_BASE_JSON_H
#define KB_BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "runner/base/err.h"

/* Parse text (NUL-ended) or a file; `what` names it in the message with line
 * and column. NULL on failure. Duplicate keys are refused. */
json_t *json_parse(const char *text, const char *what, struct err *err);
json_t *json_load_path(const char *path, size_t max_bytes, struct err *err);
/* Written as file_replace does. */
int json_save_path(const json_t *value, const char *path, mode_t mode,
                   struct err *err);
/* One line, sorted keys, to be freed; NULL when memory ran out. */
char *json_line(const json_t *value);

/* Members with a type: 0 and *ret, or -1 naming key and type. */
int json_get_i64(const json_t *object, const char *key, int64_t *ret,
                 struct err *err);
/* Borrowed string. */
int json_get_string(const json_t *object, const char *key, const char **ret,
                    struct err *err);
/* The same with a default when the key is absent or of another type. */
int64_t json_i64_or(const json_t *object, const char *key, int64_t fallback);
double json_double_or(const json_t *object, const char *key, double fallback);
const char *json_string_or(const json_t *object, const char *key,
                           const char *fallback);

#endif
