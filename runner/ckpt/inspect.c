/* inspect - a checkpoint described and digested for people; see catalog.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/ckpt/catalog.h"
#include "runner/ckpt/fill.h"
#include "runner/ckpt/reader.h"
#include "runner/ckpt/safetensors.h"

#define CHUNK_BYTES (16 << 20) /* of a tensor in memory at a time */

/* ---- Described --------------------------------------------------------- */

static json_t *describe_tensor(const struct tensor *t)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->dims; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s,s:s,s:o,s:i}", "name", t->name, "dtype",
                     st_dtype_name(t->dtype), "shape", shape, "boxes",
                     t->boxes_n);
}

static json_t *describe(const char *dir, const char *name,
                        const struct manifest *m)
{
    char healthy[PATH_MAX];
    bool is_healthy =
        !file_join(healthy, sizeof healthy, dir, KB_CKPT_HEALTHY, NULL) &&
        file_exists(healthy);
    json_t *shards = json_array(), *tensors = json_array();
    for (int i = 0; i < m->shards_n; i++)
        json_array_append_new(shards,
                              json_pack("{s:s,s:I}", "file",
                                        m->shards[i].file, "bytes",
                                        (json_int_t)m->shards[i].bytes));
    for (int i = 0; i < m->tensors_n; i++)
        json_array_append_new(tensors, describe_tensor(&m->tensors[i]));
    return json_pack("{s:s,s:I,s:i,s:i,s:s,s:f,s:I,s:b,s:o,s:o,s:O}", "name",
                     name, "step", (json_int_t)m->step, "attempt", m->attempt,
                     "world", m->world, "plan_hash", m->plan_hash, "time",
                     m->wall_s, "bytes", (json_int_t)m->bytes, "healthy",
                     is_healthy, "shards", shards, "tensors", tensors,
                     "state", m->state);
}

json_t *catalog_describe(const char *run_dir, const char *name,
                         struct err *err)
{
    char dir[PATH_MAX];
    struct manifest m;
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        reader_manifest(dir, name, &m, err))
        return NULL;
    json_t *ret = describe(dir, name, &m);
    manifest_release(&m);
    if (!ret)
        err_set(err, "ckpt: out of memory");
    return ret;
}

/* ---- Digested ---------------------------------------------------------- */

static void add_head(XXH3_state_t *hash, const struct tensor *t)
{
    XXH3_128bits_update(hash, t->name, strlen(t->name) + 1);
    XXH3_128bits_update(hash, st_dtype_name(t->dtype),
                        strlen(st_dtype_name(t->dtype)) + 1);
    for (int i = 0; i < t->dims; i++) {
        unsigned char side[8];
        for (int b = 0; b < 8; b++)
            side[b] = (unsigned char)((uint64_t)t->shape[i] >> 8 * b);
        XXH3_128bits_update(hash, side, sizeof side);
    }
}

/* The tensor's values, a stretch of rows at a time. */
static int add_values(XXH3_state_t *hash, const char *dir,
                      const struct manifest *m, const struct tensor *t,
                      struct err *err)
{
    int64_t row_bytes = fill_row_bytes(t);
    int64_t rows = CHUNK_BYTES / row_bytes;
    if (rows < 1)
        rows = 1;
    if (rows > t->shape[0])
        rows = t->shape[0];
    unsigned char *chunk = malloc((size_t)(rows * row_bytes));
    if (!chunk)
        return err_set(err, "ckpt: out of memory for rows of '%s'", t->name);
    int rc = 0;
    for (int64_t first = 0; first < t->shape[0] && !rc; first += rows) {
        int64_t n = t->shape[0] - first < rows ? t->shape[0] - first : rows;
        rc = fill_rows(dir, m, t, first, n, chunk, err);
        if (!rc)
            XXH3_128bits_update(hash, chunk, (size_t)(n * row_bytes));
    }
    free(chunk);
    return rc;
}

int catalog_digest(const char *run_dir, const char *name, char ret[33],
                   struct err *err)
{
    char dir[PATH_MAX];
    struct manifest m;
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        reader_manifest(dir, name, &m, err))
        return -1;
    XXH3_state_t *hash = XXH3_createState();
    int rc = hash ? 0 : err_set(err, "ckpt: out of memory");
    if (hash)
        XXH3_128bits_reset(hash);
    for (int i = 0; i < m.tensors_n && !rc; i++) {
        add_head(hash, &m.tensors[i]);
        rc = add_values(hash, dir, &m, &m.tensors[i], err);
    }
    if (!rc) {
        XXH128_hash_t sum = XXH3_128bits_digest(hash);
        manifest_hex(sum.high64, ret);
        manifest_hex(sum.low64, ret + 16);
    }
    XXH3_freeState(hash);
    manifest_release(&m);
    return rc;
}
