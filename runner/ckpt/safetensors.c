/* safetensors - headers of shard files; see safetensors.h. */
#include "runner/ckpt/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int bits;
    int dtype; /* enum dtype or -1 */
} types[] = {
    {"F32", 32, DT_F32},   {"F64", 64, DT_F64}, {"BF16", 16, DT_BF16},
    {"F16", 16, DT_F16},   {"I32", 32, DT_I32}, {"I64", 64, DT_I64},
    {"U8", 8, DT_U8},      {"BOOL", 8, -1},     {"I8", 8, -1},
    {"F8_E5M2", 8, -1},    {"F8_E4M3", 8, -1},  {"F8_E8M0", 8, -1},
    {"F8_E4M3FNUZ", 8, -1}, {"F8_E5M2FNUZ", 8, -1}, {"I16", 16, -1},
    {"U16", 16, -1},       {"U32", 32, -1},     {"C64", 64, -1},
    {"U64", 64, -1},       {"F4", 4, -1},       {"F6_E2M3", 6, -1},
    {"F6_E3M2", 6, -1},
};

static int type_row(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return (int)i;
    return -1;
}

int st_dtype(const char *name)
{
    int row = type_row(name);
    return row < 0 ? -1 : types[row].dtype;
}

static int row_of_dtype(int dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype && dtype >= 0)
            return (int)i;
    return -1;
}

int st_dtype_bytes(int dtype)
{
    int row = row_of_dtype(dtype);
    return row < 0 ? 0 : types[row].bits / 8;
}

const char *st_dtype_name(int dtype)
{
    int row = row_of_dtype(dtype);
    return row < 0 ? "?" : types[row].name;
}

/* ---- Reading ----------------------------------------------------------- */

int64_t st_header_bytes(const unsigned char first[8], int64_t file_bytes,
                        const char *what, struct err *err)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    if (n < 2 || n > ST_HEADER_MAX_BYTES || (int64_t)n > file_bytes - 8)
        return err_set(err, "safetensors: '%s': header of %llu bytes in a "
                            "file of %lld",
                       what, (unsigned long long)n, (long long)file_bytes);
    return (int64_t)n;
}

/* Bytes of a shape, or -1. */
static int64_t data_bytes(const json_t *shape, int bits)
{
    int64_t n = 1;
    size_t i;
    json_t *side;
    json_array_foreach (shape, i, side) {
        int64_t v = json_is_integer(side) ? json_integer_value(side) : -1;
        if (v < 0 || (v && n > ((int64_t)1 << 56) / v))
            return -1;
        n *= v;
    }
    return n * bits % 8 ? -1 : n * bits / 8;
}

static int parse_entry(const char *key, const json_t *v, const char *what,
                       struct st_entry *ret, struct err *err)
{
    const json_t *dtype = json_object_get(v, "dtype");
    const json_t *shape = json_object_get(v, "shape");
    const json_t *range = json_object_get(v, "data_offsets");
    int row = json_is_string(dtype) ? type_row(json_string_value(dtype)) : -1;
    if (row < 0 || !json_is_array(shape) || !json_is_array(range) ||
        json_array_size(range) != 2 ||
        !json_is_integer(json_array_get(range, 0)) ||
        !json_is_integer(json_array_get(range, 1)))
        return err_set(err, "safetensors: '%s': tensor '%.100s' has no known "
                            "dtype, shape and data_offsets", what, key);
    *ret = (struct st_entry){.dtype = types[row].dtype};
    int64_t bytes = data_bytes(shape, types[row].bits);
    ret->begin = json_integer_value(json_array_get(range, 0));
    ret->end = json_integer_value(json_array_get(range, 1));
    ret->dims = (int)json_array_size(shape);
    if (!str_copy(ret->key, sizeof ret->key, key) || ret->dims > VIEW_DIMS)
        return err_set(err, "safetensors: '%s': tensor '%.100s' has a longer "
                            "name or more dimensions than are taken",
                       what, key);
    for (int i = 0; i < ret->dims; i++)
        ret->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
    if (bytes < 0 || ret->begin < 0 || ret->end < ret->begin ||
        ret->end - ret->begin != bytes)
        return err_set(err, "safetensors: '%s': tensor '%.100s': bytes %lld "
                            "to %lld are not those of its shape",
                       what, key, (long long)ret->begin, (long long)ret->end);
    return 0;
}

static int by_begin(const void *a, const void *b)
{
    const struct st_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int check_metadata(const json_t *v, const char *what, struct err *err)
{
    const char *key;
    json_t *text;
    if (!json_is_object(v))
        return err_set(err, "safetensors: '%s': __metadata__ is no object",
                       what);
    json_object_foreach ((json_t *)(uintptr_t)v, key, text)
        if (!json_is_string(text))
            return err_set(err, "safetensors: '%s': __metadata__ '%.100s' is "
                                "no text", what, key);
    return 0;
}

/* The data is covered from its start to the file's end, once. */
static int check_cover(const struct st_header *h, int64_t bytes,
                       const char *what, struct err *err)
{
    int64_t at = 0;
    for (int i = 0; i < h->n; i++) {
        const struct st_entry *e = &h->entries[i];
        if (e->begin != at)
            return err_set(err, "safetensors: '%s': tensor '%.100s' starts at "
                                "byte %lld of the data, not at %lld",
                           what, e->key, (long long)e->begin, (long long)at);
        at = e->end;
    }
    if (at != bytes)
        return err_set(err, "safetensors: '%s': tensors end at byte %lld of "
                            "the data, the file at %lld",
                       what, (long long)at, (long long)bytes);
    return 0;
}

int st_parse(const char *json, size_t json_bytes, int64_t file_bytes,
             const char *what, struct st_header *ret, struct err *err)
{
    json_error_t why;
    const char *key;
    json_t *v;
    int rc = -1;
    *ret = (struct st_header){.data_at = 8 + (int64_t)json_bytes};
    json_t *root = json_loadb(json, json_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(root) || json[0] != '{') {
        err_set(err, "safetensors: '%s': bad header: %s", what,
                root ? "no object" : why.text);
        goto out;
    }
    ret->entries = calloc(json_object_size(root) + 1, sizeof *ret->entries);
    if (!ret->entries) {
        err_set(err, "safetensors: '%s': out of memory", what);
        goto out;
    }
    json_object_foreach (root, key, v) {
        if (!strcmp(key, "__metadata__")) {
            if (check_metadata(v, what, err))
                goto out;
            continue;
        }
        if (parse_entry(key, v, what, &ret->entries[ret->n], err))
            goto out;
        ret->n++;
    }
    qsort(ret->entries, (size_t)ret->n, sizeof *ret->entries, by_begin);
    rc = check_cover(ret, file_bytes - ret->data_at, what, err);
out:
    json_decref(root);
    if (rc)
        st_release(ret);
    return rc;
}

void st_release(struct st_header *header)
{
    free(header->entries);
    *header = (struct st_header){0};
}

/* ---- Writing ----------------------------------------------------------- */

static json_t *numbers(const int64_t *v, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

int st_write(const struct st_entry *entries, int n, struct sbuf *out,
             struct err *err)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    for (int i = 0; root && i < n; i++) {
        const struct st_entry *e = &entries[i];
        int64_t range[2] = {e->begin, e->end};
        json_t *v = json_pack("{s:s,s:o,s:o}", "dtype", st_dtype_name(e->dtype),
                              "shape", numbers(e->shape, e->dims),
                              "data_offsets", numbers(range, 2));
        if (!v || json_object_set_new(root, e->key, v)) {
            json_decref(root);
            root = NULL;
        }
    }
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return err_set(err, "safetensors: a header of %d tensors: out of "
                            "memory, or a name that is not UTF-8", n);
    size_t bytes = strlen(text);
    size_t padded = (8 + bytes + ST_ALIGN - 1) / ST_ALIGN * ST_ALIGN - 8;
    char number[8];
    for (int i = 0; i < 8; i++)
        number[i] = (char)((uint64_t)padded >> 8 * i);
    sbuf_add(out, number, sizeof number);
    sbuf_add(out, text, bytes);
    free(text);
    for (size_t i = bytes; i < padded; i++)
        sbuf_add(out, " ", 1);
    if (out->failed || padded > ST_HEADER_MAX_BYTES)
        return err_set(err, "safetensors: the header of %d tensors is too "
                            "long; lower checkpoint.shard_bytes", n);
    return 0;
}
