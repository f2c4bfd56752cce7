/* export - a checkpoint as Hugging Face's files; see catalog.h.
 *
 * Names, shapes and orientation are Hugging Face's already, so this only puts
 * the boxes of each tensor together, a stretch of rows at a time. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/ckpt/fill.h"
#include "runner/ckpt/half.h"
#include "runner/ckpt/reader.h"
#include "runner/ckpt/safetensors.h"

#define CHUNK_BYTES (16 << 20)
#define MASTER "master/"

/* One tensor on its way out. */
struct out_tensor {
    const struct tensor *tensor;
    int file;
    int dtype;
    int64_t bytes;
};
struct export {
    const char *from, *dir; /* the checkpoint's folder, and ours */
    struct manifest m;
    struct out_tensor *list;
    int n, files_n;
    int64_t bytes;
    unsigned char *rows; /* CHUNK_BYTES, or one row if that is larger */
};

static int list_tensors(struct export *x, int narrow, int64_t shard_bytes,
                        struct err *err)
{
    int64_t used = 0, largest = CHUNK_BYTES;
    x->list = calloc((size_t)x->m.tensors_n + 1, sizeof *x->list);
    if (!x->list)
        return err_set(err, "ckpt: out of memory");
    for (int i = 0; i < x->m.tensors_n; i++) {
        const struct tensor *t = &x->m.tensors[i];
        if (!str_starts(t->name, MASTER))
            continue;
        struct out_tensor *o = &x->list[x->n++];
        o->tensor = t;
        o->dtype = narrow >= 0 && t->dtype == DT_F32 ? narrow : t->dtype;
        o->bytes = box_shape_count(t->dims, t->shape) *
                   st_dtype_bytes(o->dtype);
        if (used && used + o->bytes > shard_bytes) {
            x->files_n++;
            used = 0;
        }
        o->file = x->files_n;
        used += o->bytes;
        x->bytes += o->bytes;
        if (fill_row_bytes(t) > largest)
            largest = fill_row_bytes(t);
    }
    if (!x->n)
        return err_set(err, "ckpt: '%s' has no weights (%sNAME)", x->from,
                       MASTER);
    x->files_n++;
    x->rows = malloc((size_t)largest);
    return x->rows ? 0 : err_set(err, "ckpt: out of memory");
}

static void file_name(const struct export *x, int file, char dst[64])
{
    if (x->files_n == 1)
        snprintf(dst, 64, "model.safetensors");
    else
        snprintf(dst, 64, "model-%05d-of-%05d.safetensors", file + 1,
                 x->files_n);
}

static int write_tensor(struct export *x, const struct out_tensor *o, int fd,
                        struct err *err)
{
    const struct tensor *t = o->tensor;
    int64_t row_bytes = fill_row_bytes(t), step = CHUNK_BYTES / row_bytes;
    if (step < 1)
        step = 1;
    for (int64_t first = 0; first < t->shape[0]; first += step) {
        int64_t n = t->shape[0] - first < step ? t->shape[0] - first : step;
        int64_t bytes = n * row_bytes;
        if (fill_rows(x->from, &x->m, t, first, n, x->rows, err))
            return -1;
        if (o->dtype != t->dtype) {
            half_from_f32(x->rows, bytes / 4, (enum dtype)o->dtype);
            bytes /= 2;
        }
        if (file_write_all(fd, x->rows, (size_t)bytes))
            return err_set_errno(err, "ckpt: cannot write to '%s'", x->dir);
    }
    return 0;
}

/* Header of the file's tensors, list[first .. first + n). */
static int make_header(const struct out_tensor *list, int n,
                       struct sbuf *header, struct err *err)
{
    struct st_entry *entries = calloc((size_t)n, sizeof *entries);
    int64_t at = 0;
    if (!entries)
        return err_set(err, "ckpt: out of memory");
    for (int i = 0; i < n; i++) {
        const struct tensor *t = list[i].tensor;
        struct st_entry *e = &entries[i];
        str_copy(e->key, sizeof e->key, t->name + strlen(MASTER));
        e->dtype = list[i].dtype;
        e->dims = t->dims;
        memcpy(e->shape, t->shape, sizeof e->shape);
        e->begin = at;
        e->end = at += list[i].bytes;
    }
    int rc = st_write(entries, n, header, err);
    free(entries);
    return rc;
}

static int write_file(struct export *x, int first, int n, struct err *err)
{
    char name[64], path[PATH_MAX], tmp[PATH_MAX + 8];
    struct sbuf header = SBUF_INIT;
    int rc = -1, fd = -1;
    file_name(x, x->list[first].file, name);
    if (file_join(path, sizeof path, x->dir, name, err) ||
        make_header(&x->list[first], n, &header, err))
        goto out;
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
              0666);
    if (fd < 0 || file_write_all(fd, header.data, header.len)) {
        err_set_errno(err, "ckpt: cannot write '%s'", tmp);
        goto out;
    }
    for (int i = 0; i < n; i++)
        if (write_tensor(x, &x->list[first + i], fd, err))
            goto out;
    if (fsync(fd) || rename(tmp, path))
        err_set_errno(err, "ckpt: cannot put '%s' in place", path);
    else
        rc = 0;
out:
    if (fd >= 0)
        close(fd);
    if (rc && fd >= 0)
        unlink(tmp);
    sbuf_release(&header);
    return rc;
}

static int put_json(const struct export *x, const char *name, json_t *v,
                    struct err *err)
{
    char path[PATH_MAX];
    int rc = v ? file_join(path, sizeof path, x->dir, name, err)
               : err_set(err, "ckpt: out of memory");
    if (!rc)
        rc = json_save_path(v, path, 0666, err);
    json_decref(v);
    return rc;
}

static int write_index(const struct export *x, struct err *err)
{
    json_t *map = json_object();
    for (int i = 0; map && i < x->n; i++) {
        char name[64];
        file_name(x, x->list[i].file, name);
        json_object_set_new(map, x->list[i].tensor->name + strlen(MASTER),
                            json_string(name));
    }
    return put_json(x, "model.safetensors.index.json",
                    json_pack("{s:{s:I},s:o}", "metadata", "total_size",
                              (json_int_t)x->bytes, "weight_map", map), err);
}

/* The config last: a folder with one is complete. */
static int write_all(struct export *x, const json_t *config, struct err *err)
{
    for (int first = 0, n; first < x->n; first += n) {
        for (n = 1; first + n < x->n; n++)
            if (x->list[first + n].file != x->list[first].file)
                break;
        if (write_file(x, first, n, err))
            return -1;
    }
    if (x->files_n > 1 && write_index(x, err))
        return -1;
    if (put_json(x, "generation_config.json",
                 json_pack("{s:b}", "_from_model_config", 1), err))
        return -1;
    return put_json(x, "config.json", json_deep_copy(config), err);
}

int catalog_export(const char *run_dir, const char *name, const char *dir,
                   const json_t *config, int narrow, int64_t shard_bytes,
                   struct err *err)
{
    char from[PATH_MAX], path[PATH_MAX];
    struct export x = {.from = from, .dir = dir};
    if (reader_dir(run_dir, name, from, sizeof from, err) ||
        file_join(path, sizeof path, dir, "config.json", err))
        return -1;
    if (file_exists(path))
        return err_set_class(err, ERR_REQUEST, "ckpt: '%s' is there already; "
                             "name another folder", path);
    if (reader_manifest(from, name, &x.m, err))
        return -1;
    int rc = -1;
    if (!list_tensors(&x, narrow, shard_bytes, err) &&
        !file_make_dirs(dir, 0777, err))
        rc = write_all(&x, config, err);
    free(x.list);
    free(x.rows);
    manifest_release(&x.m);
    return rc;
}
