/* json - Jansson with our errors; see json.h. */
#include "runner/base/json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"

json_t *json_parse(const char *text, const char *what, struct err *err)
{
    json_error_t why;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!value)
        err_set(err, "json: cannot parse '%s': line %d column %d: %s", what,
                why.line, why.column, why.text);
    return value;
}

json_t *json_load_path(const char *path, size_t max_bytes, struct err *err)
{
    char *text = file_read(path, max_bytes, NULL, err);
    if (!text)
        return NULL;
    json_t *value = json_parse(text, path, err);
    free(text);
    return value;
}

int json_save_path(const json_t *value, const char *path, mode_t mode,
                   struct err *err)
{
    char *text = json_dumps(value, JSON_INDENT(1) | JSON_SORT_KEYS |
                                       JSON_REAL_PRECISION(17));
    if (!text)
        return err_set(err, "json: cannot write '%s': out of memory or a "
                            "value that JSON does not have", path);
    int rc = file_replace(path, text, strlen(text), mode, err);
    free(text);
    return rc;
}

char *json_line(const json_t *value)
{
    return json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS |
                                 JSON_REAL_PRECISION(17));
}

static const json_t *member(const json_t *object, const char *key,
                            const char *type,
                            bool (*right)(const json_t *),
                            struct err *err)
{
    const json_t *v = json_object_get(object, key);
    if (!v)
        err_set(err, "json: member '%s' is missing", key);
    else if (!right(v)) {
        err_set(err, "json: member '%s' is not %s", key, type);
        v = NULL;
    }
    return v;
}

static bool is_int(const json_t *v)
{
    return json_is_integer(v);
}

static bool is_string(const json_t *v)
{
    return json_is_string(v);
}

int json_get_i64(const json_t *object, const char *key, int64_t *ret,
                 struct err *err)
{
    const json_t *v = member(object, key, "an integer", is_int, err);
    if (!v)
        return -1;
    *ret = json_integer_value(v);
    return 0;
}

int json_get_string(const json_t *object, const char *key, const char **ret,
                    struct err *err)
{
    const json_t *v = member(object, key, "a string", is_string, err);
    if (!v)
        return -1;
    *ret = json_string_value(v);
    return 0;
}

int64_t json_i64_or(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

double json_double_or(const json_t *object, const char *key, double fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

const char *json_string_or(const json_t *object, const char *key,
                           const char *fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_string(v) ? json_string_value(v) : fallback;
}
