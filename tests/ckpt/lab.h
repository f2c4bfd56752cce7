/* lab - what the tests of checkpoints share: a small model whose elements know
 * their place, cut into views for any number of ranks, and folders. */
#ifndef KB_TESTS_CKPT_LAB_H
#define KB_TESTS_CKPT_LAB_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/base/err.h"
#include "runner/base/file.h"
#include "runner/ckpt/fill.h"
#include "runner/ckpt/reader.h"
#include "runner/ckpt/safetensors.h"
#include "runner/ckpt/writer.h"

#define LAB_TENSORS 6
#define LAB_VIEWS 64

/* Sizes that divide nothing; one tensor larger than a block. */
static const struct lab_tensor {
    const char *name;
    enum dtype dtype;
    int dims;
    int64_t shape[VIEW_DIMS];
} lab_tensors[LAB_TENSORS] = {
    {"model.embed_tokens.weight", DT_F32, 2, {1031, 37}},
    {"master/model.layers.0.mlp.up_proj.weight", DT_F32, 2, {1201, 1031}},
    {"exp_avg/model.layers.0.mlp.up_proj.weight", DT_F64, 2, {53, 29}},
    {"model.norm.weight", DT_F32, 1, {97}},
    {"half", DT_BF16, 3, {7, 5, 11}},
    {"bytes", DT_U8, 1, {13}},
};

/* One layout: parts on rows times parts on columns. */
struct lab_layout {
    int rows, cols;
};

/* A rank's views with memory of their own. */
struct lab_rank {
    struct view views[LAB_VIEWS];
    int n;
};

/* Part p of n of a side: uneven, and empty for the last ones if n is large. */
static inline void lab_part(int64_t side, int p, int n, int64_t *first,
                            int64_t *len)
{
    int64_t each = (side + n - 1) / n, at = each * p < side ? each * p : side;
    *first = at;
    *len = side - at < each ? side - at : each;
}

/* The value of byte b of element i of tensor t. */
static inline unsigned char lab_byte(int t, int64_t i, int b)
{
    uint64_t x = ((uint64_t)t << 40 ^ (uint64_t)i) * 0x9e3779b97f4a7c15u;
    return (unsigned char)(x >> (8 * b + 3));
}

static inline int64_t lab_index(const struct view *v, const int64_t *at)
{
    int64_t i = 0;
    for (int d = 0; d < v->dims; d++)
        i = i * v->shape[d] + v->offset[d] + at[d];
    return i;
}

/* Visit each element of a view: write it, or count those that are wrong. */
static inline int64_t lab_visit(const struct view *v, int t, bool write)
{
    int64_t wrong = 0, at[VIEW_DIMS] = {0};
    int elem = st_dtype_bytes(v->dtype);
    for (;;) {
        int64_t mem = 0;
        for (int d = 0; d < v->dims; d++)
            mem += at[d] * v->stride[d];
        unsigned char *p = (unsigned char *)v->ptr + mem * elem;
        for (int b = 0; b < elem; b++) {
            unsigned char want = lab_byte(t, lab_index(v, at), b);
            if (write)
                p[b] = want;
            else
                wrong += p[b] != want;
        }
        int d = v->dims - 1;
        while (d >= 0 && ++at[d] == v->extent[d])
            at[d--] = 0;
        if (d < 0)
            return wrong;
    }
}

/* Rank r of the layout's views; memory zeroed, with a gap after each row, and
 * (odd ranks) transposed for matrices. */
static inline void lab_views(struct lab_rank *ret, struct lab_layout l, int r)
{
    ret->n = 0;
    for (int t = 0; t < LAB_TENSORS; t++) {
        const struct lab_tensor *lt = &lab_tensors[t];
        struct view *v = &ret->views[ret->n];
        *v = (struct view){.dtype = lt->dtype, .dims = lt->dims};
        snprintf(v->name, sizeof v->name, "%s", lt->name);
        memcpy(v->shape, lt->shape, sizeof v->shape);
        memcpy(v->extent, lt->shape, sizeof v->extent);
        lab_part(lt->shape[0], r / l.cols, l.rows, &v->offset[0],
                 &v->extent[0]);
        if (lt->dims > 1)
            lab_part(lt->shape[1], r % l.cols, l.cols, &v->offset[1],
                     &v->extent[1]);
        else if (r % l.cols)
            continue; /* held by the first of the columns */
        if (v->extent[0] < 1 || (lt->dims > 1 && v->extent[1] < 1))
            continue;
        int64_t n = 1;
        for (int d = lt->dims - 1; d >= 0; d--) {
            v->stride[d] = n;
            n *= v->extent[d] + (d == lt->dims - 1 && lt->dims > 1 ? 3 : 0);
        }
        if (lt->dims == 2 && r % 2) {
            v->stride[0] = 1;
            v->stride[1] = v->extent[0];
        }
        v->ptr = calloc((size_t)n, (size_t)st_dtype_bytes(v->dtype));
        ret->n++;
    }
}

static inline int lab_tensor_of(const char *name)
{
    for (int t = 0; t < LAB_TENSORS; t++)
        if (!strcmp(lab_tensors[t].name, name))
            return t;
    return -1;
}

static inline void lab_write(struct lab_rank *rank)
{
    for (int i = 0; i < rank->n; i++)
        lab_visit(&rank->views[i], lab_tensor_of(rank->views[i].name), true);
}

static inline int64_t lab_wrong(struct lab_rank *rank)
{
    int64_t wrong = 0;
    for (int i = 0; i < rank->n; i++)
        wrong += lab_visit(&rank->views[i],
                           lab_tensor_of(rank->views[i].name), false);
    return wrong;
}

static inline void lab_free(struct lab_rank *rank)
{
    for (int i = 0; i < rank->n; i++)
        free(rank->views[i].ptr);
    rank->n = 0;
}

/* ---- Folders ----------------------------------------------------------- */

/* A fresh run directory under TMPDIR, and its end. */
static inline const char *lab_run_dir(void)
{
    static char path[256];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/kb-ckpt-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(path);
}

static inline void lab_remove(const char *path)
{
    char command[4600];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command))
        printf("# cannot remove %s\n", path);
}

/* Save step as all ranks of the layout would: the writers of ranks 1.. first,
 * rank 0's commits. */
static inline int lab_save(const char *run_dir, struct lab_layout l,
                           int64_t step, int attempt, int64_t shard_bytes,
                           struct err *err)
{
    int size = l.rows * l.cols, rc = 0;
    char name[64];
    snprintf(name, sizeof name, KB_CKPT_FMT, (long long)step, attempt);
    for (int r = size - 1; r >= 0 && !rc; r--) {
        struct lab_rank rank;
        struct layout layout;
        lab_views(&rank, l, r);
        lab_write(&rank);
        rc = layout_build(rank.views, rank.n, r, shard_bytes, &layout, err);
        if (rc)
            break;
        unsigned char *memory = calloc(1, (size_t)layout.memory_bytes + 1);
        layout_put_headers(&layout, memory);
        for (int i = 0; i < layout.pieces_n; i++) {
            struct piece *p = &layout.pieces[i];
            struct view *v = &rank.views[p->view];
            struct view file = *v; /* the piece, as the file has it */
            memcpy(file.offset, p->box.offset, sizeof file.offset);
            memcpy(file.extent, p->box.extent, sizeof file.extent);
            int64_t n = 1;
            for (int d = v->dims - 1; d >= 0; d--) {
                file.stride[d] = n;
                n *= file.extent[d];
            }
            file.ptr = memory + layout.files[p->file].memory_at + p->at;
            lab_visit(&file, lab_tensor_of(v->name), true);
        }
        struct writer w = {.rank = r, .size = size, .attempt = attempt,
                           .layout = &layout, .memory = memory, .step = step,
                           .wait_limit_s = 0.2,
                           .boxes = layout_boxes(&layout, rank.views),
                           .state = json_pack("{s:i}", "consumed", 77)};
        snprintf(w.run_dir, sizeof w.run_dir, "%s", run_dir);
        rc = writer_save(&w, name, err);
        json_decref(w.boxes);
        json_decref(w.state);
        free(memory);
        layout_release(&layout);
        lab_free(&rank);
    }
    return rc;
}

/* Load it as all ranks of another layout would: elements that are wrong, or -1
 * with err. */
static inline int64_t lab_load(const char *run_dir, const char *name,
                               struct lab_layout l, struct fill_stats *sum,
                               struct err *err)
{
    char dir[4600];
    struct manifest m;
    int64_t wrong = 0;
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        reader_manifest(dir, name, &m, err))
        return -1;
    for (int r = 0; r < l.rows * l.cols && wrong >= 0; r++) {
        struct lab_rank rank;
        struct fill_stats stats = {0};
        lab_views(&rank, l, r);
        if (fill_views(dir, &m, rank.views, rank.n, NULL, &stats, err))
            wrong = -1;
        else
            wrong += lab_wrong(&rank);
        if (sum) {
            sum->read_bytes += stats.read_bytes;
            sum->wanted_bytes += stats.wanted_bytes;
        }
        lab_free(&rank);
    }
    manifest_release(&m);
    return wrong;
}

#endif
