/* import - Hugging Face's files as a checkpoint of step 0; see catalog.h.
 *
 * A shard is written as a save writes it (layout.c says what lies where), but
 * from the foreign files, a stretch at a time, hashed block by block on the
 * way. Nothing looks committed before the manifest is in place.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/ckpt/half.h"
#include "runner/ckpt/layout.h"
#include "runner/ckpt/reader.h"
#include "runner/ckpt/safetensors.h"

#define INDEX "model.safetensors.index.json"
#define CHUNK_ELEMS (1 << 18)
#define NAME "step-0000000000.a0000"

struct source {               /* one foreign file */
    char *path;
    struct st_header header;
};
struct wanted {               /* a tensor of ours: where it is */
    const struct source *source;
    const struct st_entry *entry;
};
struct import {
    const char *run_dir, *hf_dir;
    char dir[PATH_MAX];       /* the checkpoint's */
    struct source *sources;
    int sources_n;
    const struct catalog_tensor *tensors;
    int tensors_n;
    struct wanted *wanted;    /* [tensors_n] */
    struct view *views;       /* [tensors_n] master/NAME, without memory */
    struct layout layout;
};

/* ---- The foreign files --------------------------------------------------- */
static int read_at(const char *path, int fd, int64_t at, void *dst, size_t n,
                   struct err *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)dst + done, n - done,
                            at + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got ? err_set_errno(err, "ckpt: cannot read '%s'", path)
                       : err_set(err, "ckpt: '%s' ends at byte %lld", path,
                                 (long long)(at + (int64_t)done));
        done += (size_t)got;
    }
    return 0;
}

static int read_header(struct source *s, struct err *err)
{
    unsigned char first[8];
    struct stat st;
    char *json = NULL;
    int rc = -1, fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        err_set_errno(err, "ckpt: cannot open '%s'", s->path);
        goto out;
    }
    if (read_at(s->path, fd, 0, first, sizeof first, err))
        goto out;
    int64_t n = st_header_bytes(first, st.st_size, s->path, err);
    if (n < 0 || !(json = malloc((size_t)n + 1))) {
        if (n >= 0)
            err_set(err, "ckpt: out of memory");
        goto out;
    }
    if (!read_at(s->path, fd, 8, json, (size_t)n, err))
        rc = st_parse(json, (size_t)n, st.st_size, s->path, &s->header, err);
out:
    free(json);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int add_source(struct import *x, const char *name, struct err *err)
{
    char path[PATH_MAX];
    if (!*name || strchr(name, '/'))
        return err_set_class(err, ERR_REQUEST, "ckpt: '%s/" INDEX "' names the "
                             "file '%.100s', which is not in that folder",
                             x->hf_dir, name);
    if (file_join(path, sizeof path, x->hf_dir, name, err))
        return -1;
    for (int i = 0; i < x->sources_n; i++)
        if (!strcmp(x->sources[i].path, path))
            return 0;
    struct source *more =
        realloc(x->sources, (size_t)(x->sources_n + 1) * sizeof *more);
    if (!more)
        return err_set(err, "ckpt: out of memory");
    x->sources = more;
    struct source *s = &more[x->sources_n++];
    *s = (struct source){.path = strdup(path)};
    if (!s->path)
        return err_set(err, "ckpt: out of memory");
    return read_header(s, err);
}

static int open_sources(struct import *x, struct err *err)
{
    char path[PATH_MAX];
    const char *key;
    json_t *file;
    if (file_join(path, sizeof path, x->hf_dir, INDEX, err))
        return -1;
    if (!file_exists(path)) {
        if (file_join(path, sizeof path, x->hf_dir, "model.safetensors", err))
            return -1;
        if (!file_exists(path))
            return err_set_class(err, ERR_REQUEST, "ckpt: '%s' has neither "
                                 "model.safetensors nor " INDEX "; other "
                                 "formats are not read", x->hf_dir);
        return add_source(x, "model.safetensors", err);
    }
    json_t *index = json_load_path(path, MANIFEST_MAX_BYTES, err);
    json_t *map = json_object_get(index, "weight_map");
    int rc = index ? 0 : -1;
    if (index && !json_object_size(map))
        rc = err_set(err, "ckpt: '%s' has no weight_map", path);
    json_object_foreach (map, key, file)
        if (!rc)
            rc = add_source(x, json_is_string(file) ? json_string_value(file)
                                                    : "", err);
    json_decref(index);
    return rc;
}

/* ---- Which is which ------------------------------------------------------ */
static bool is_named(const char *key, const char *name)
{
    const char *dot = strchr(name, '.');
    return !strcmp(key, name) || (dot && !strcmp(key, dot + 1));
}

static int check_shape(const struct catalog_tensor *t,
                       const struct st_entry *e, struct err *err)
{
    if (e->dtype != DT_F32 && e->dtype != DT_BF16 && e->dtype != DT_F16)
        return err_set_class(err, ERR_REQUEST, "ckpt: tensor '%s' is of a "
                             "dtype that is not imported; F32, BF16 and F16 "
                             "are", t->name);
    bool same = e->dims == t->dims;
    for (int i = 0; i < t->dims && same; i++)
        same = e->shape[i] == t->shape[i];
    if (!same)
        return err_set_class(err, ERR_REQUEST, "ckpt: tensor '%s' has %d sides "
                             "[%lld, %lld], config.json says %d [%lld, %lld]",
                             t->name, e->dims, (long long)e->shape[0],
                             (long long)e->shape[1], t->dims,
                             (long long)t->shape[0],
                             (long long)(t->dims > 1 ? t->shape[1] : 0));
    return 0;
}

/* The tensor that the entry is, or -1. */
static int find_tensor(const struct import *x, const char *key)
{
    for (int i = 0; i < x->tensors_n; i++)
        if (is_named(key, x->tensors[i].name))
            return i;
    return -1;
}

static int match_all(struct import *x,
                     bool (*ignored)(void *ctx, const char *name), void *ctx,
                     struct err *err)
{
    for (int f = 0; f < x->sources_n; f++)
        for (int k = 0; k < x->sources[f].header.n; k++) {
            const struct st_entry *e = &x->sources[f].header.entries[k];
            if (ignored(ctx, e->key))
                continue;
            int i = find_tensor(x, e->key);
            if (i < 0)
                return err_set_class(err, ERR_REQUEST, "ckpt: '%s': tensor "
                                     "'%.150s' has no place in this model",
                                     x->sources[f].path, e->key);
            if (x->wanted[i].entry)
                return err_set_class(err, ERR_REQUEST, "ckpt: '%s': tensor "
                                     "'%.150s' is there twice", x->hf_dir,
                                     e->key);
            if (check_shape(&x->tensors[i], e, err))
                return -1;
            x->wanted[i] = (struct wanted){&x->sources[f], e};
        }
    for (int i = 0; i < x->tensors_n; i++)
        if (!x->wanted[i].entry)
            return err_set_class(err, ERR_REQUEST, "ckpt: '%s' has no tensor "
                                 "'%s'", x->hf_dir, x->tensors[i].name);
    return 0;
}

/* ---- Writing ------------------------------------------------------------- */
struct out {                  /* a shard on its way, a block at a time */
    const char *path;
    int fd;
    unsigned char *block;
    size_t used;
    struct sbuf hex;
};

static int out_block(struct out *o, struct err *err)
{
    char digits[17];
    if (!o->used)
        return 0;
    manifest_hex(XXH3_64bits(o->block, o->used), digits);
    sbuf_puts(&o->hex, digits);
    if (file_write_all(o->fd, o->block, o->used))
        return err_set_errno(err, "ckpt: cannot write '%s'", o->path);
    o->used = 0;
    return 0;
}

static int out_bytes(struct out *o, const void *bytes, size_t n,
                     struct err *err)
{
    const unsigned char *at = bytes;
    while (n) {
        size_t left = MANIFEST_BLOCK_BYTES - o->used;
        size_t now = n < left ? n : left;
        memcpy(o->block + o->used, at, now);
        o->used += now;
        at += now;
        n -= now;
        if (o->used == MANIFEST_BLOCK_BYTES && out_block(o, err))
            return -1;
    }
    return 0;
}

/* Whole rows of one tensor, converted. */
static int out_piece(const struct import *x, const struct piece *p,
                     struct out *o, float *wide, void *raw, struct err *err)
{
    const struct wanted *w = &x->wanted[p->view];
    enum dtype dtype = (enum dtype)w->entry->dtype;
    int64_t e = st_dtype_bytes(w->entry->dtype), n = box_count(&p->box);
    int64_t at = w->source->header.data_at + w->entry->begin +
                 n / p->box.extent[0] * p->box.offset[0] * e;
    int rc = 0, fd = open(w->source->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, "ckpt: cannot open '%s'", w->source->path);
    for (int64_t now; n && !rc; n -= now, at += now * e) {
        now = n < CHUNK_ELEMS ? n : CHUNK_ELEMS;
        rc = read_at(w->source->path, fd, at, raw, (size_t)(now * e), err);
        if (rc)
            break;
        half_to_f32(wide, raw, now, dtype);
        rc = out_bytes(o, wide, (size_t)now * sizeof *wide, err);
    }
    close(fd);
    return rc;
}

static int out_shard(const struct import *x, int f, struct out *o,
                     struct err *err)
{
    const struct layout_file *file = &x->layout.files[f];
    float *wide = malloc(CHUNK_ELEMS * sizeof *wide);
    void *raw = malloc(CHUNK_ELEMS * sizeof *wide);
    int rc = wide && raw ? out_bytes(o, file->header, (size_t)file->data_at,
                                     err)
                         : err_set(err, "ckpt: out of memory");
    for (int i = 0; i < x->layout.pieces_n && !rc; i++)
        if (x->layout.pieces[i].file == f)
            rc = out_piece(x, &x->layout.pieces[i], o, wide, raw, err);
    free(wide);
    free(raw);
    return rc ? rc : out_block(o, err);
}

/* The shard, and its entry for the manifest. */
static json_t *write_shard(const struct import *x, int f, struct err *err)
{
    char path[PATH_MAX];
    json_t *entry = NULL;
    const struct layout_file *file = &x->layout.files[f];
    struct out o = {.path = path, .fd = -1, .hex = SBUF_INIT,
                    .block = malloc(MANIFEST_BLOCK_BYTES)};
    if (!o.block || file_join(path, sizeof path, x->dir, file->name, err)) {
        if (!o.block)
            err_set(err, "ckpt: out of memory");
        goto out;
    }
    o.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                0600);
    if (o.fd < 0) {
        err_set_errno(err, "ckpt: cannot write '%s'", path);
        goto out;
    }
    if (out_shard(x, f, &o, err))
        goto out;
    if (fsync(o.fd)) {
        err_set_errno(err, "ckpt: cannot write '%s'", path);
        goto out;
    }
    entry = json_pack("{s:s,s:I,s:s}", "file", file->name, "bytes",
                      (json_int_t)file->bytes, "xxh3", o.hex.data);
    if (!entry)
        err_set(err, "ckpt: out of memory");
out:
    if (o.fd >= 0)
        close(o.fd);
    free(o.block);
    sbuf_release(&o.hex);
    return entry;
}

static int commit(const struct import *x, json_t *shards, const json_t *state,
                  struct err *err)
{
    char path[PATH_MAX];
    json_t *boxes = layout_boxes(&x->layout, x->views);
    json_t *report = json_pack("{s:i,s:i,s:O,s:o}", "rank", 0, "step", 0,
                               "shards", shards, "boxes", boxes);
    char *text = report ? manifest_write(&report, 1, 0, 0, "", state, err)
                        : NULL;
    int rc = text ? file_join(path, sizeof path, x->dir, KB_CKPT_MANIFEST, err)
                  : -1;
    if (!report)
        err_set(err, "ckpt: out of memory");
    if (!rc)
        rc = file_replace(path, text, strlen(text), 0600, err);
    free(text);
    json_decref(report);
    return rc;
}

static void remove_all(const struct import *x)
{
    char path[PATH_MAX];
    for (int f = 0; f < x->layout.files_n; f++)
        if (!file_join(path, sizeof path, x->dir, x->layout.files[f].name,
                       NULL))
            unlink(path);
    rmdir(x->dir);
}

static int write_all(const struct import *x, const json_t *state,
                     struct err *err)
{
    json_t *shards = json_array();
    int rc = shards ? file_make_dirs(x->dir, 0700, err)
                    : err_set(err, "ckpt: out of memory");
    for (int f = 0; f < x->layout.files_n && !rc; f++) {
        json_t *entry = write_shard(x, f, err);
        if (!entry || json_array_append_new(shards, entry))
            rc = -1;
    }
    if (!rc)
        rc = commit(x, shards, state, err);
    if (rc)
        remove_all(x);
    json_decref(shards);
    return rc;
}

/* ---- The whole ----------------------------------------------------------- */
static int check_run_dir(const char *run_dir, struct err *err)
{
    struct catalog c;
    char path[PATH_MAX];
    if (catalog_load(run_dir, 0, &c, err) ||
        file_join(path, sizeof path, run_dir, KB_ATTEMPTS_DIR, err))
        return -1;
    bool used = c.n > 0 || file_exists(path);
    catalog_release(&c);
    return used ? err_set_class(err, ERR_REQUEST, "ckpt: '%s' holds a run "
                                "already; import into a new folder", run_dir)
                : 0;
}

static int plan_views(struct import *x, int64_t shard_bytes, struct err *err)
{
    size_t n = (size_t)x->tensors_n + 1;
    x->wanted = calloc(n, sizeof *x->wanted);
    x->views = calloc(n, sizeof *x->views);
    if (!x->wanted || !x->views)
        return err_set(err, "ckpt: out of memory");
    for (int i = 0; i < x->tensors_n; i++) {
        const struct catalog_tensor *t = &x->tensors[i];
        struct view *v = &x->views[i];
        *v = (struct view){.dtype = DT_F32, .dims = t->dims};
        snprintf(v->name, sizeof v->name, "master/%.180s", t->name);
        for (int d = 0; d < t->dims; d++)
            v->shape[d] = v->extent[d] = t->shape[d];
    }
    return layout_build(x->views, x->tensors_n, 0, shard_bytes, &x->layout,
                        err);
}

int catalog_import(const char *run_dir, const char *hf_dir,
                   const struct catalog_tensor *tensors, int tensors_n,
                   bool (*ignored)(void *ctx, const char *name), void *ctx,
                   const json_t *state, int64_t shard_bytes, char ret_name[64],
                   struct err *err)
{
    struct import x = {.run_dir = run_dir, .hf_dir = hf_dir,
                       .tensors = tensors, .tensors_n = tensors_n};
    int rc = -1;
    if (!check_run_dir(run_dir, err) &&
        !reader_dir(run_dir, NAME, x.dir, sizeof x.dir, err) &&
        !plan_views(&x, shard_bytes, err) && !open_sources(&x, err) &&
        !match_all(&x, ignored, ctx, err))
        rc = write_all(&x, state, err);
    if (!rc)
        str_copy(ret_name, 64, NAME);
    for (int i = 0; i < x.sources_n; i++) {
        free(x.sources[i].path);
        st_release(&x.sources[i].header);
    }
    free(x.sources);
    free(x.wanted);
    free(x.views);
    layout_release(&x.layout);
    return rc;
}
