/* fill - views filled from a checkpoint of any layout; see fill.h. */
#include "runner/ckpt/fill.h"

#include <stdlib.h>
#include <string.h>

#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/move.h"
#include "runner/ckpt/reader.h"
#include "runner/ckpt/safetensors.h"

/* A part of a view that comes from one box: bytes begin .. end of a shard. */
struct need {
    const struct view *view;
    struct move move;
    int shard;
    size_t elem;
    int64_t at, begin, end;
};
struct needs {
    struct need *list;
    int n, cap;
};

static int need_add(struct needs *needs, const struct need *need)
{
    if (needs->n == needs->cap) {
        int cap = needs->cap ? 2 * needs->cap : 256;
        struct need *more =
            realloc(needs->list, (size_t)cap * sizeof *more);
        if (!more)
            return -1;
        needs->list = more;
        needs->cap = cap;
    }
    needs->list[needs->n++] = *need;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct need *x = a, *y = b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int check_tensor(const struct view *v, const struct tensor *t,
                        struct err *err)
{
    if (!t)
        return err_set_class(err, ERR_REQUEST,
                             "ckpt: the checkpoint has no tensor '%s': it is "
                             "of another model", v->name);
    if (t->dtype != (int)v->dtype)
        return err_set_class(err, ERR_REQUEST,
                             "ckpt: tensor '%s': the checkpoint has %s, this "
                             "run %s", v->name, st_dtype_name(t->dtype),
                             st_dtype_name(v->dtype));
    for (int i = 0; i < VIEW_DIMS; i++)
        if (t->dims != v->dims || (i < v->dims && t->shape[i] != v->shape[i]))
            return err_set_class(
                err, ERR_REQUEST,
                "ckpt: tensor '%s': side %d is %lld in the checkpoint and "
                "%lld in this run (%d and %d sides): another model", v->name,
                i, (long long)t->shape[i], (long long)v->shape[i], t->dims,
                v->dims);
    struct box box = box_of_view(v);
    if (box_check(&box, v->shape))
        return err_set(err, "ckpt: tensor '%s': the box wanted is not inside "
                            "its shape", v->name);
    return 0;
}

/* The rule for a checkpoint that began elsewhere (an import): it has no
 * moments, says so, and they are zero. */
static bool is_zero(const struct manifest *m, const struct view *v)
{
    return (str_starts(v->name, "exp_avg/") ||
            str_starts(v->name, "exp_avg_sq/")) &&
           !strcmp(json_string_or(m->state, "moments", ""), "zero");
}

static int fill_zero(const struct view *v, struct device *device,
                     struct err *err)
{
    int64_t n = 1;
    for (int i = v->dims - 1; i >= 0; i--) {
        if (v->extent[i] > 1 && v->stride[i] != n)
            return err_set(err, "ckpt: tensor '%s': its memory has gaps",
                           v->name);
        n *= v->extent[i];
    }
    size_t bytes = (size_t)n * (size_t)st_dtype_bytes(v->dtype);
    if (!v->on_device || !device)
        memset(v->ptr, 0, bytes);
    else if (device_zero(device, v->ptr, bytes, device_stream(device, 0)) !=
                 K_OK ||
             device_sync(device, device_stream(device, 0)) != K_OK)
        return err_set_class(err, ERR_GPU, "ckpt: cannot zero '%s': %s",
                             v->name, device_error(device));
    return 0;
}

static int list_needs(const struct manifest *m, const struct view *views,
                      int views_n, struct device *device, struct needs *needs,
                      int64_t *ret_wanted, struct err *err)
{
    for (int i = 0; i < views_n; i++) {
        const struct view *v = &views[i];
        const struct tensor *t = manifest_find(m, v->name);
        if (!t && is_zero(m, v)) {
            if (fill_zero(v, device, err))
                return -1;
            continue;
        }
        if (check_tensor(v, t, err))
            return -1;
        struct need need = {.view = v,
                            .elem = (size_t)st_dtype_bytes(v->dtype)};
        struct box box = box_of_view(v);
        *ret_wanted += box_count(&box) * (int64_t)need.elem;
        for (int k = 0; k < t->boxes_n; k++) {
            if (!move_plan(v, &t->boxes[k].box, &need.move))
                continue;
            need.shard = t->boxes[k].shard;
            need.at = t->boxes[k].at;
            need.begin = need.at + need.move.first * (int64_t)need.elem;
            need.end = need.at + need.move.end * (int64_t)need.elem;
            if (need_add(needs, &need))
                return err_set(err, "ckpt: out of memory for the boxes");
        }
    }
    qsort(needs->list, (size_t)needs->n, sizeof *needs->list, by_place);
    return 0;
}

/* Copy what `need` has in the block: bytes at .. at + n of the file. */
static enum kstatus take_block(const struct need *need,
                               const unsigned char *block, int64_t at,
                               int64_t n, struct device *device)
{
    int64_t begin = need->begin > at ? need->begin : at;
    int64_t end = need->end < at + n ? need->end : at + n;
    if (begin >= end)
        return K_OK;
    int64_t elem = (int64_t)need->elem; /* blocks and boxes lie at multiples */
    return move_in(&need->move, need->elem, (begin - need->at) / elem,
                   (end - need->at) / elem, block + (begin - at),
                   need->view->ptr, need->view->on_device ? device : NULL);
}

/* All needs of one shard, in one pass over its blocks. */
static int fill_from_shard(const char *dir, const struct manifest *m,
                           const struct need *list, int n,
                           struct device *device, int64_t *read_bytes,
                           struct err *err)
{
    struct shard_reader reader;
    enum kstatus status = K_OK;
    int rc = -1, first = 0;
    if (shard_open(&reader, dir, m, list->shard, err))
        return -1;
    for (int64_t b = 0; first < n && b < reader.shard->blocks_n; b++) {
        int64_t at = b * m->block_bytes;
        while (first < n && list[first].end <= at)
            first++;
        bool wanted = false;
        for (int i = first; i < n && list[i].begin < at + m->block_bytes; i++)
            wanted |= list[i].end > at;
        if (!wanted)
            continue;
        int64_t bytes = shard_read(&reader, b, err);
        if (bytes < 0)
            goto out;
        *read_bytes += bytes;
        for (int i = first; i < n && list[i].begin < at + bytes; i++)
            if (status == K_OK)
                status = take_block(&list[i], reader.block, at, bytes, device);
        if (status == K_OK && device)
            status = device_sync(device, device_stream(device, 0));
        if (status != K_OK) {
            err_set_class(err, ERR_GPU, "ckpt: cannot copy to the device: %s",
                          device ? device_error(device) : "no device");
            goto out;
        }
    }
    rc = 0;
out:
    shard_close(&reader);
    return rc;
}

int fill_views(const char *dir, const struct manifest *m,
               const struct view *views, int views_n, struct device *device,
               struct fill_stats *stats, struct err *err)
{
    struct needs needs = {0};
    struct fill_stats sum = {0};
    if (device && device_kind(device) == DEVICE_CPU)
        device = NULL; /* its memory is ours */
    int rc = list_needs(m, views, views_n, device, &needs,
                        &sum.wanted_bytes, err);
    for (int i = 0, n; i < needs.n && !rc; i += n) {
        for (n = 1; i + n < needs.n; n++)
            if (needs.list[i + n].shard != needs.list[i].shard)
                break;
        rc = fill_from_shard(dir, m, &needs.list[i], n, device,
                             &sum.read_bytes, err);
    }
    free(needs.list);
    if (!rc && stats)
        *stats = sum;
    return rc;
}

/* Rows first .. first + rows of t, row-major at ptr. */
static struct view view_rows(const struct tensor *t, int64_t first,
                             int64_t rows, void *ptr)
{
    struct view v = {.dtype = (enum dtype)t->dtype, .dims = t->dims,
                     .ptr = ptr};
    memcpy(v.name, t->name, sizeof v.name);
    memcpy(v.shape, t->shape, sizeof v.shape);
    memcpy(v.extent, t->shape, sizeof v.extent);
    v.offset[0] = first;
    v.extent[0] = rows;
    int64_t n = 1;
    for (int i = t->dims - 1; i >= 0; i--) {
        v.stride[i] = n;
        n *= v.extent[i];
    }
    return v;
}

int fill_rows(const char *dir, const struct manifest *m,
              const struct tensor *t, int64_t first, int64_t rows, void *dst,
              struct err *err)
{
    struct view v = view_rows(t, first, rows, dst);
    return fill_views(dir, m, &v, 1, NULL, NULL, err);
}

int64_t fill_row_bytes(const struct tensor *t)
{
    return box_shape_count(t->dims, t->shape) / t->shape[0] *
           st_dtype_bytes(t->dtype);
}
