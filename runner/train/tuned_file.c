/* tuned_file - see tuned.h. A row is what a product's key has, the time, and
 * the library's own form of the algorithm in hexadecimal digits. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/train/tuned.h"

#define NUMBERS 16
#define WORDS 8
#define FILE_MOST (1 << 20)

/* The key's members in their order, as numbers. */
static void key_numbers(const struct product_key *k, int64_t n[NUMBERS])
{
    const int64_t all[NUMBERS] = {
        k->M, k->N, k->K, k->lda, k->ldb, k->ldc, k->act, k->out, k->ta,
        k->tb, k->add, k->bias, k->gelu, k->dgelu, k->bias_grad, k->aligned,
    };
    memcpy(n, all, sizeof all);
}

static struct product_key key_of(const int64_t n[NUMBERS])
{
    return (struct product_key){
        n[0], n[1], n[2], n[3], n[4], n[5], (int)n[6], (int)n[7], (int)n[8],
        (int)n[9], (int)n[10], (int)n[11], (int)n[12], (int)n[13], (int)n[14],
        (int)n[15],
    };
}

/* FNV-1a over the rows' bytes: damage, not malice. */
static uint64_t sum_of(const struct tuned *tuned, int n)
{
    const unsigned char *p = (const unsigned char *)tuned;
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < (size_t)n * sizeof *tuned; i++)
        h = (h ^ p[i]) * 0x100000001b3ULL;
    return h;
}

/* ---- Writing ------------------------------------------------------------- */
static json_t *row_json(const struct tuned *t)
{
    int64_t n[NUMBERS];
    char hex[WORDS * 16 + 1];
    json_t *numbers = json_array();
    key_numbers(&t->key, n);
    for (int i = 0; i < NUMBERS; i++)
        json_array_append_new(numbers, json_integer((json_int_t)n[i]));
    for (int i = 0; i < WORDS; i++)
        snprintf(hex + 16 * i, 17, "%016" PRIx64, t->algo[i]);
    return json_pack("{s:o, s:f, s:s}", "product", numbers, "ms",
                     (double)t->ms, "algorithm", hex);
}

int tuned_write(const char *path, const char *id, const struct tuned *tuned,
                int n, struct err *err)
{
    char sum[20];
    json_t *rows = json_array();
    snprintf(sum, sizeof sum, "%016" PRIx64, sum_of(tuned, n));
    for (int i = 0; i < n; i++)
        json_array_append_new(rows, row_json(&tuned[i]));
    json_t *file = json_pack("{s:s, s:s, s:o}", "id", id, "sum", sum,
                             "products", rows);
    int rc = file ? json_save_path(file, path, 0600, err)
                  : err_set(err, "train: no memory for '%s'", path);
    json_decref(file);
    return rc;
}

/* ---- Reading ------------------------------------------------------------- */
static int row_read(const json_t *row, struct tuned *ret)
{
    const json_t *numbers = json_object_get(row, "product");
    const json_t *ms = json_object_get(row, "ms");
    const char *hex = json_string_value(json_object_get(row, "algorithm"));
    int64_t n[NUMBERS];
    if (json_array_size(numbers) != NUMBERS || !json_is_number(ms) || !hex ||
        strspn(hex, "0123456789abcdef") != WORDS * 16 ||
        hex[WORDS * 16])
        return -1;
    for (int i = 0; i < NUMBERS; i++) {
        const json_t *v = json_array_get(numbers, (size_t)i);
        if (!json_is_integer(v))
            return -1;
        n[i] = json_integer_value(v);
    }
    memset(ret, 0, sizeof *ret);
    ret->key = key_of(n);
    ret->ms = (float)json_number_value(ms);
    for (int i = 0; i < WORDS; i++) {
        char word[17];
        memcpy(word, hex + 16 * i, 16);
        word[16] = 0;
        ret->algo[i] = strtoull(word, NULL, 16);
    }
    return 0;
}

static int rows_read(const json_t *file, struct tuned **ret, int *ret_n)
{
    const json_t *rows = json_object_get(file, "products");
    const char *sum = json_string_value(json_object_get(file, "sum"));
    size_t n = json_array_size(rows);
    char again[20];
    if (!json_is_array(rows) || n > TUNED_MAX || !sum)
        return -1;
    struct tuned *tuned = calloc(n + 1, sizeof *tuned);
    int rc = tuned ? 0 : -1;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = row_read(json_array_get(rows, i), &tuned[i]);
    if (rc == 0)
        snprintf(again, sizeof again, "%016" PRIx64, sum_of(tuned, (int)n));
    if (rc != 0 || strcmp(again, sum) != 0) {
        free(tuned);
        return -1;
    }
    *ret = tuned;
    *ret_n = (int)n;
    return 0;
}

int tuned_read(const char *path, const char *id, struct tuned **ret,
               int *ret_n, struct err *err)
{
    if (!file_exists(path))
        return 0;
    json_t *file = json_load_path(path, FILE_MOST, err);
    if (!file)
        return -1;
    const char *its = json_string_value(json_object_get(file, "id"));
    bool other = its && strcmp(its, id) != 0;
    int rc = other ? 0 : its && rows_read(file, ret, ret_n) == 0 ? 1 : -1;
    json_decref(file);
    return rc < 0 ? err_set(err, "train: '%s': damaged", path) : rc;
}
