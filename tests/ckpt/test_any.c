/* Any layout of ranks loads what any other saved: the real model's and
 * optimizer's views, all ranks played in this process, tensor x pipeline x data
 * with the optimizer sharded, sizes that divide nothing. Each element knows its
 * tensor and place. Prints what was read too much, per pair. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/ckpt/fill.h"
#include "runner/ckpt/reader.h"
#include "runner/ckpt/writer.h"
#include "runner/base/contract.h"
#include "runner/model/model.h"
#include "runner/optim/optim.h"
#include "runner/train/tensors.h"
#include "tests/ckpt/lab.h"
#include "tests/model/tiny.h"
#include "tests/tap.h"

static const struct any_layout {
    int tensor, pipeline, data, chunks;
    bool whole; /* the optimizer is not sharded */
} layouts[] = {
    {1, 1, 1, 1, false}, {2, 1, 1, 1, false}, {1, 2, 1, 1, false},
    {1, 1, 3, 1, false}, {4, 1, 1, 1, false}, {2, 2, 1, 1, false},
    {1, 2, 2, 2, false}, {2, 1, 3, 1, false}, {6, 1, 1, 1, false},
    {2, 3, 1, 1, false}, {1, 5, 1, 1, false}, {2, 2, 2, 1, true},
    {4, 2, 1, 2, false}, {1, 1, 16, 1, false}, {1, 1, 24, 1, false},
    {2, 3, 4, 1, false},
};
#define LAYOUTS ((int)(sizeof layouts / sizeof *layouts))

static const struct shape any_gpt2 = {
    .names = SHAPE_NAMES_GPT2, .norm = SHAPE_LAYERNORM, .act = SHAPE_GELU,
    .pos = SHAPE_LEARNED, .L = 5, .C = 36, .H = 12, .K = 12, .D = 3, .F = 60,
    .V = 263, .T_max = 17, .norm_eps = 1e-5, .bias_qkv = true,
    .bias_o = true, .bias_ffn = true, .bias_norm = true, .tied = true,
    .init_std = 0.02,
};
static const struct shape any_llama = {
    .names = SHAPE_NAMES_LLAMA, .norm = SHAPE_RMSNORM, .act = SHAPE_SWIGLU,
    .pos = SHAPE_ROPE, .L = 5, .C = 25, .H = 12, .K = 2, .D = 6, .F = 36,
    .V = 263, .T_max = 16, .rope_theta = 10000, .norm_eps = 1e-5,
    .qk_norm = true, .bias_qkv = true, .init_std = 0.02,
};

/* ---- A rank ---------------------------------------------------------------- */
struct any_rank {
    struct plan plan;
    struct exec ex;
    struct model *model;
    struct optim *optim;
    struct view *views;
    int n;
};

static int ranks_of(const struct any_layout *l)
{
    return l->tensor * l->pipeline * l->data;
}

static struct plan plan_of(const struct shape *shape,
                           const struct any_layout *l)
{
    struct plan p = {
        .shape = *shape, .precision = PLAN_FP32, .device = PLAN_CPU,
        .deterministic = true, .world = ranks_of(l), .data = l->data,
        .tensor = l->tensor, .pipeline = l->pipeline, .chunks = l->chunks,
        .shard_optimizer = l->data > 1 && !l->whole, .seq_len = 4,
        .global_batch = 64, .micro_batch = 1, .accum = 64 / l->data,
        .schedule = "constant",
    };
    int unit = 8 * l->tensor;
    p.shape.Vp = (shape->V + unit - 1) / unit * unit;
    return p;
}

static int optim_open(struct any_rank *r, struct err *err)
{
    int n;
    struct optim_tensor *tensors = train_tensors(r->model, &n, err);
    if (!tensors)
        return -1;
    r->optim = optim_create(&r->plan, NULL, &r->ex, tensors, n, err);
    free(tensors);
    return r->optim ? 0 : -1;
}

/* owned: what it saves, else all that it holds. */
static int rank_open(struct any_rank *r, const struct shape *shape,
                     const struct any_layout *l, int rank, bool owned,
                     struct err *err)
{
    char why[100];
    *r = (struct any_rank){.plan = plan_of(shape, l)};
    plan_settle(&r->plan, rank);
    r->ex = (struct exec){.ops = &ops_cpu_f32, .deterministic = true,
                          .act = DT_F32, .grad = DT_F32, .stat = DT_F32};
    r->ex.device = device_create(DEVICE_CPU, 0, why, sizeof why);
    if (device_arena(r->ex.device, (size_t)r->plan.memory_bytes + 65536))
        return err_set(err, "no arena");
    r->model = model_create(&r->plan, NULL, &r->ex, true, 1, err);
    if (!r->model || optim_open(r, err) != 0)
        return -1;
    r->n = optim_views(r->optim, owned, NULL, 0);
    r->views = calloc((size_t)r->n + 1, sizeof *r->views);
    optim_views(r->optim, owned, r->views, r->n);
    return 0;
}

static void rank_close(struct any_rank *r)
{
    free(r->views);
    optim_destroy(r->optim);
    model_destroy(r->model);
    device_destroy(r->ex.device);
}

/* ---- Values ---------------------------------------------------------------- */
static float value_of(const char *name, int64_t i)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    h = (h ^ (uint64_t)i) * 0x9e3779b97f4a7c15u;
    return (float)(int32_t)(h >> 33);
}

/* Writes a view's elements, or counts those that are wrong. */
static int64_t visit(const struct view *v, bool write)
{
    int64_t wrong = 0, cols = v->dims > 1 ? v->extent[1] : 1;
    int64_t width = v->dims > 1 ? v->shape[1] : 1;
    for (int64_t i = 0; i < v->extent[0]; i++)
        for (int64_t j = 0; j < cols; j++) {
            float *p = (float *)v->ptr + i * v->stride[0] +
                       (v->dims > 1 ? j * v->stride[1] : 0);
            float want = value_of(v->name,
                                  (v->offset[0] + i) * width +
                                      (v->dims > 1 ? v->offset[1] + j : 0));
            if (write)
                *p = want;
            else
                wrong += *p != want;
        }
    return wrong;
}

/* ---- Saving and loading ---------------------------------------------------- */
static int rank_save(struct any_rank *r, const char *run_dir, int rank,
                     int size, int64_t step, struct err *err)
{
    struct layout layout;
    char name[64];
    snprintf(name, sizeof name, KB_CKPT_FMT, (long long)step, 1);
    if (layout_build(r->views, r->n, rank, step % 2 ? 20000 : 0, &layout, err))
        return -1;
    unsigned char *memory = calloc(1, (size_t)layout.memory_bytes + 1);
    layout_put_headers(&layout, memory);
    for (int i = 0; i < layout.pieces_n; i++) {
        const struct piece *p = &layout.pieces[i];
        struct view file = r->views[p->view]; /* as the file has it */
        memcpy(file.offset, p->box.offset, sizeof file.offset);
        memcpy(file.extent, p->box.extent, sizeof file.extent);
        file.stride[0] = file.dims > 1 ? file.extent[1] : 1;
        file.stride[1] = 1;
        file.ptr = memory + layout.files[p->file].memory_at + p->at;
        visit(&file, true);
    }
    struct writer w = {.rank = rank, .size = size, .attempt = 1,
                       .layout = &layout, .memory = memory, .step = step,
                       .wait_limit_s = 0.2,
                       .boxes = layout_boxes(&layout, r->views),
                       .state = json_pack("{s:i}", "consumed", 77)};
    snprintf(w.run_dir, sizeof w.run_dir, "%s", run_dir);
    int rc = writer_save(&w, name, err);
    json_decref(w.boxes);
    json_decref(w.state);
    free(memory);
    layout_release(&layout);
    return rc;
}

/* Ranks 1.. first: rank 0 commits when all are there. */
static int save_as(const char *run_dir, const struct shape *shape,
                   const struct any_layout *l, int64_t step, struct err *err)
{
    int rc = 0;
    for (int i = ranks_of(l) - 1; i >= 0 && rc == 0; i--) {
        struct any_rank r;
        rc = rank_open(&r, shape, l, i, true, err);
        if (rc == 0)
            rc = rank_save(&r, run_dir, i, ranks_of(l), step, err);
        rank_close(&r);
    }
    return rc;
}

/* Elements that are wrong on any rank, or -1. */
static int64_t load_as(const char *run_dir, const char *name,
                       const struct shape *shape, const struct any_layout *l,
                       struct fill_stats *sum, struct err *err)
{
    char dir[4600];
    struct manifest m;
    int64_t wrong = 0;
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        reader_manifest(dir, name, &m, err))
        return -1;
    for (int i = 0; i < ranks_of(l) && wrong >= 0; i++) {
        struct any_rank r;
        struct fill_stats stats = {0};
        if (rank_open(&r, shape, l, i, false, err) ||
            fill_views(dir, &m, r.views, r.n, NULL, &stats, err))
            wrong = -1;
        for (int v = 0; v < r.n && wrong >= 0; v++)
            wrong += visit(&r.views[v], false);
        sum->read_bytes += stats.read_bytes;
        sum->wanted_bytes += stats.wanted_bytes;
        rank_close(&r);
    }
    manifest_release(&m);
    return wrong;
}

/* Of the second shape without --long: no more than 8 ranks. */
static bool wanted(const struct shape *s, const struct any_layout *l)
{
    return getenv("KOBOSHI_TEST_LONG") || ranks_of(l) <= 8 ||
           (s == &any_gpt2 && l->tensor == 1);
}

static void check_shape(const char *what, const struct shape *shape)
{
    const char *run_dir = lab_run_dir();
    for (int s = 0; s < LAYOUTS; s++) {
        const struct any_layout *from = &layouts[s];
        struct err err = ERR_INIT;
        char name[64], reads[400] = "";
        int64_t wrong = 0;
        if (!wanted(shape, from))
            continue;
        if (!ok(!save_as(run_dir, shape, from, s + 1, &err),
                "%s saved by %d x %d x %d", what, from->tensor,
                from->pipeline, from->data))
            printf("# %s\n", err.msg);
        snprintf(name, sizeof name, KB_CKPT_FMT, (long long)s + 1, 1);
        for (int d = 0; d < LAYOUTS; d++) {
            struct fill_stats sum = {0};
            if (!wanted(shape, &layouts[d]))
                continue;
            int64_t w = load_as(run_dir, name, shape, &layouts[d], &sum, &err);
            if (w && !wrong++)
                printf("# %d x %d x %d: %lld wrong: %s\n", layouts[d].tensor,
                       layouts[d].pipeline, layouts[d].data, (long long)w,
                       err.msg);
            size_t at = strlen(reads);
            snprintf(reads + at, sizeof reads - at, " %.2f",
                     (double)sum.read_bytes / (double)sum.wanted_bytes);
        }
        ok(!wrong, "and loaded by all");
        printf("# read / wanted:%s\n", reads);
    }
    lab_remove(run_dir);
}

int main(void)
{
    check_shape("gpt2", &any_gpt2);
    check_shape("llama", &any_llama);
    return tap_done();
}
