/* layout - which files a rank writes; see layout.h. */
#include "runner/ckpt/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/ckpt/safetensors.h"

static int check_view(const struct view *v, struct err *err)
{
    struct box box = box_of_view(v);
    size_t n = strnlen(v->name, sizeof v->name);
    if (!n || n == sizeof v->name)
        return err_set(err, "ckpt: a tensor without a name, or with too long "
                            "a one");
    if (strchr(v->name, '@'))
        return err_set(err, "ckpt: tensor '%s': names have no '@'", v->name);
    if (!st_dtype_bytes(v->dtype))
        return err_set(err, "ckpt: tensor '%s': dtype %d cannot be saved",
                       v->name, v->dtype);
    if (v->dims < 1 || v->dims > VIEW_DIMS || box_check(&box, v->shape))
        return err_set(err, "ckpt: tensor '%s': its box is not inside its "
                            "shape", v->name);
    return 0;
}

/* Wide elements first: then each lies at a multiple of its size. */
static int *order_views(const struct view *views, int views_n)
{
    int *order = malloc(((size_t)views_n + 1) * sizeof *order), at = 0;
    for (int bytes = 8; order && bytes; bytes /= 2)
        for (int i = 0; i < views_n; i++)
            if (st_dtype_bytes(views[i].dtype) == bytes)
                order[at++] = i;
    return order;
}

static int add_piece(struct layout *l, int *cap, struct piece piece)
{
    if (l->pieces_n == *cap) {
        int more = *cap ? 2 * *cap : 64;
        struct piece *p = realloc(l->pieces, (size_t)more * sizeof *p);
        if (!p)
            return -1;
        l->pieces = p;
        *cap = more;
    }
    l->pieces[l->pieces_n++] = piece;
    return 0;
}

/* Cut the views into pieces and the pieces into files; at counts in the
 * file's data for now. */
static int cut_views(struct layout *l, const struct view *views,
                     const int *order, int views_n, int64_t limit)
{
    int cap = 0, file = 0;
    int64_t used = 0;
    for (int i = 0; i < views_n; i++) {
        const struct view *v = &views[order[i]];
        struct box box = box_of_view(v);
        int64_t rows = box.extent[0];
        int64_t row_bytes = box_count(&box) / rows * st_dtype_bytes(v->dtype);
        while (rows) {
            int64_t fit = (limit - used) / row_bytes;
            if (fit < 1 && used) { /* the file is full */
                file++;
                used = 0;
                continue;
            }
            box.extent[0] = fit < 1 ? 1 : fit < rows ? fit : rows;
            if (add_piece(l, &cap, (struct piece){order[i], file, box, used}))
                return -1;
            used += box.extent[0] * row_bytes;
            rows -= box.extent[0];
            box.offset[0] += box.extent[0];
        }
    }
    l->files_n = l->pieces_n ? file + 1 : 0;
    return 0;
}

/* The header of file f from its pieces, and their place in the file. */
static int write_header(struct layout *l, const struct view *views, int f,
                        int first, int n, struct err *err)
{
    struct layout_file *file = &l->files[f];
    struct sbuf text = SBUF_INIT;
    struct st_entry *entries = calloc((size_t)n, sizeof *entries);
    int rc = entries ? 0 : err_set(err, "ckpt: out of memory");
    int64_t end = 0;
    for (int i = 0; i < n && !rc; i++) {
        const struct piece *p = &l->pieces[first + i];
        const struct view *v = &views[p->view];
        struct st_entry *e = &entries[i];
        char box[128];
        box_text(&p->box, box, sizeof box);
        snprintf(e->key, sizeof e->key, "%s@%s", v->name, box);
        e->dtype = v->dtype;
        e->dims = v->dims;
        memcpy(e->shape, p->box.extent, sizeof e->shape);
        e->begin = p->at;
        e->end = end = p->at + box_count(&p->box) * st_dtype_bytes(v->dtype);
    }
    if (!rc)
        rc = st_write(entries, n, &text, err);
    file->data_at = (int64_t)text.len;
    file->bytes = file->data_at + end;
    file->header = sbuf_take(&text);
    if (!rc && !file->header)
        rc = err_set(err, "ckpt: out of memory");
    free(entries);
    return rc;
}

int layout_build(const struct view *views, int views_n, int rank,
                 int64_t shard_bytes, struct layout *ret, struct err *err)
{
    *ret = (struct layout){0};
    for (int i = 0; i < views_n; i++)
        if (check_view(&views[i], err))
            return -1;
    int *order = order_views(views, views_n);
    int64_t limit = shard_bytes > 0 ? shard_bytes : INT64_MAX / 4;
    if (!order || cut_views(ret, views, order, views_n, limit))
        goto no_memory;
    ret->files = calloc((size_t)ret->files_n + 1, sizeof *ret->files);
    if (!ret->files)
        goto no_memory;
    for (int f = 0, first = 0; f < ret->files_n; f++) {
        struct layout_file *file = &ret->files[f];
        int n = 0;
        while (first + n < ret->pieces_n && ret->pieces[first + n].file == f)
            n++;
        snprintf(file->name, sizeof file->name, SHARD_FMT, rank, f);
        if (write_header(ret, views, f, first, n, err))
            goto fail;
        for (int i = 0; i < n; i++)
            ret->pieces[first + i].at += file->data_at;
        file->memory_at = ret->memory_bytes;
        ret->memory_bytes +=
            (file->bytes + ST_ALIGN - 1) / ST_ALIGN * ST_ALIGN;
        ret->bytes += file->bytes;
        first += n;
    }
    free(order);
    return 0;
no_memory:
    err_set(err, "ckpt: out of memory for the layout of the shards");
fail:
    free(order);
    layout_release(ret);
    return -1;
}

void layout_release(struct layout *layout)
{
    for (int f = 0; f < layout->files_n && layout->files; f++)
        free(layout->files[f].header);
    free(layout->files);
    free(layout->pieces);
    *layout = (struct layout){0};
}

void layout_put_headers(const struct layout *layout, unsigned char *memory)
{
    for (int f = 0; f < layout->files_n; f++) {
        const struct layout_file *file = &layout->files[f];
        memcpy(memory + file->memory_at, file->header, (size_t)file->data_at);
    }
}

static json_t *numbers(const int64_t *v, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

json_t *layout_boxes(const struct layout *layout, const struct view *views)
{
    json_t *list = json_array();
    for (int i = 0; list && i < layout->pieces_n; i++) {
        const struct piece *p = &layout->pieces[i];
        const struct view *v = &views[p->view];
        json_t *box = json_pack(
            "{s:s,s:s,s:o,s:i,s:o,s:o,s:I}", "tensor", v->name, "dtype",
            st_dtype_name(v->dtype), "shape", numbers(v->shape, v->dims),
            "shard", p->file, "offset", numbers(p->box.offset, v->dims),
            "extent", numbers(p->box.extent, v->dims), "at",
            (json_int_t)p->at);
        if (!box || json_array_append_new(list, box)) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}
