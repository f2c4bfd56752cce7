/* tiny - a small model on the CPU for tests: plan, device, exec, batch. */
#ifndef KB_TESTS_MODEL_TINY_H
#define KB_TESTS_MODEL_TINY_H

#include <stdlib.h>
#include <string.h>

#include "runner/model/model.h"

struct tiny {
    struct plan plan;
    struct exec ex;
    struct model *model;
    struct batch batch;
    double *sums;
};

static const struct shape tiny_gpt2 = {
    .names = SHAPE_NAMES_GPT2, .norm = SHAPE_LAYERNORM, .act = SHAPE_GELU,
    .pos = SHAPE_LEARNED, .L = 2, .C = 12, .H = 3, .K = 3, .D = 4, .F = 20,
    .V = 29, .Vp = 32, .T_max = 16, .norm_eps = 1e-5, .bias_qkv = true,
    .bias_o = true, .bias_ffn = true, .bias_norm = true, .tied = true,
    .init_std = 0.3,
};
static const struct shape tiny_llama = {
    .names = SHAPE_NAMES_LLAMA, .norm = SHAPE_RMSNORM, .act = SHAPE_SWIGLU,
    .pos = SHAPE_ROPE, .L = 2, .C = 12, .H = 4, .K = 2, .D = 6, .F = 20,
    .V = 29, .Vp = 32, .T_max = 16, .rope_theta = 10000, .norm_eps = 1e-5,
    .init_std = 0.3,
};

__attribute__((unused)) static uint32_t tiny_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A plan of B x T tokens a micro-batch in fp64 or fp32; no model yet. */
__attribute__((unused)) static int
tiny_open(struct tiny *t, const struct shape *shape, enum plan_precision
          precision, int B, int T, struct err *err)
{
    char why[200] = "";
    bool wide = precision == PLAN_FP64;
    memset(t, 0, sizeof *t);
    t->plan = (struct plan){
        .shape = *shape, .precision = precision, .device = PLAN_CPU,
        .deterministic = true, .world = 1, .data = 1, .tensor = 1,
        .pipeline = 1, .blas_threads = 1, .steps = 10, .seq_len = T,
        .global_batch = B, .micro_batch = B, .accum = 1, .lr = 1e-3,
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1,
        .schedule = "constant", .seed = 1,
    };
    enum dtype dt = wide ? DT_F64 : DT_F32;
    t->ex = (struct exec){.ops = wide ? &ops_cpu_f64 : &ops_cpu_f32,
                          .deterministic = true, .act = dt, .grad = dt,
                          .stat = dt};
    t->ex.device = device_create(DEVICE_CPU, 0, why, sizeof why);
    if (!t->ex.device)
        return err_set(err, "no device: %s", why);
    t->ex.ws_bytes = ops_workspace_bytes(
        t->ex.ops, dt, (int64_t)B * T, shape->C, shape->F, shape->H, shape->K,
        shape->D, shape->Vp, B, T, true);
    if (device_arena(t->ex.device, (64u << 20) + t->ex.ws_bytes) != K_OK)
        return err_set(err, "no arena");
    t->ex.ws = device_alloc(t->ex.device, t->ex.ws_bytes);
    if (t->ex.ops->open(&t->ex) != K_OK)
        return err_set(err, "ops do not open");
    t->sums = device_alloc(t->ex.device, 4 * sizeof(double));
    size_t N = (size_t)B * T;
    t->batch = (struct batch){
        .B = B, .T = T, .tokens = device_alloc(t->ex.device, N * 4),
        .labels = device_alloc(t->ex.device, N * 4),
        .loss_mask = device_alloc(t->ex.device, N),
        .positions = device_alloc(t->ex.device, N * 4),
    };
    uint32_t r = 7;
    for (size_t i = 0; i < N; i++) {
        t->batch.tokens[i] = (int)(tiny_random(&r) % (uint32_t)shape->V);
        t->batch.labels[i] = (int)(tiny_random(&r) % (uint32_t)shape->V);
        t->batch.loss_mask[i] = tiny_random(&r) % 5 != 0;
        t->batch.positions[i] = (int)(i % (size_t)T);
    }
    return 0;
}

__attribute__((unused)) static void tiny_close(struct tiny *t)
{
    model_destroy(t->model);
    if (t->ex.device) {
        t->ex.ops->close(&t->ex);
        device_destroy(t->ex.device);
    }
}

/* All parameters, norms and biases too, away from their special values. */
__attribute__((unused)) static void tiny_shake(struct tiny *t)
{
    struct param *p;
    int n = model_params(t->model, &p);
    uint32_t r = 99;
    for (int i = 0; i < n; i++)
        for (int64_t j = 0; p[i].dims == 1 && j < p[i].n; j++) {
            double d = (tiny_random(&r) % 1000) / 1000.0 - 0.5;
            if (t->ex.act == DT_F64)
                ((double *)p[i].data)[j] += d;
            else
                ((float *)p[i].data)[j] += (float)d;
        }
}

#endif
