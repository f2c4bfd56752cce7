/* lines - what people and dashboards see: the start's summary, a line, a
 * record and a status each logged step. Rank 0 alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/log.h"
#include "runner/train/train.h"

#define STATUS_EVERY_S 1.0 /* a rename each */

static const char *const precisions[] = {
    [PLAN_FP32] = "fp32", [PLAN_FP64] = "fp64", [PLAN_BF16] = "bf16",
    [PLAN_FP16] = "fp16",
};

void lines_start(const struct train *t)
{
    const struct plan *p = &t->plan;
    const struct shape *s = &p->shape;
    char name[128] = "";
    int64_t total = 0, free_bytes = 0;
    device_info(t->device, name, sizeof name, &total, &free_bytes);
    log_info("run '%s' in %s, attempt %d%s", p->name, p->run_dir,
             t->options.attempt, t->unsupervised ? ", unsupervised" : "");
    log_info("%lld parameters: L %d, C %d, H %d, K %d, D %d, F %d, V %d%s",
             (long long)p->params_n, s->L, s->C, s->H, s->K, s->D, s->F, s->V,
             s->tied ? ", tied head" : "");
    log_info("%d ranks (%s), %s on %s, %d threads a rank; global batch %d = "
             "micro batch %d x %d accumulated x %d data ranks, %d tokens a "
             "sequence", t->place.size, t->place.how, precisions[p->precision],
             name, p->blas_threads, p->global_batch, p->micro_batch, p->accum,
             p->data, p->seq_len);
    for (int i = 0; i < p->memory_n; i++)
        log_info("memory a rank: %-32s %10.1f MB", p->memory[i].what,
                 (double)p->memory[i].bytes / 1e6);
    log_info("memory a rank: %-32s %10.1f MB", "total",
             (double)p->memory_bytes / 1e6);
    log_info("arena: %lld bytes used, as planned to the byte",
             (long long)device_arena_used(t->device));
}

void lines_memory(const struct train *t)
{
    int64_t total = 0, free_bytes = 0, used;
    if (device_kind(t->device) != DEVICE_CUDA)
        return;
    device_info(t->device, NULL, 0, &total, &free_bytes);
    used = total - free_bytes;
    log_info("GPU memory: %.1f MB in use by all programs, %.1f MB planned for "
             "this rank (%+.2f %%); beside the arena %.1f MB, planned %.1f MB",
             (double)used / 1e6, (double)t->plan.memory_bytes / 1e6,
             100.0 * (double)(used - t->plan.memory_bytes) /
                 (double)t->plan.memory_bytes,
             (double)(used - (int64_t)device_arena_used(t->device)) / 1e6,
             (double)t->plan.library_bytes / 1e6);
}

static void metrics_fill(const struct train *t, const struct optim_result *r,
                         struct metrics *m)
{
    const struct plan *p = &t->plan;
    double now = clock_mono_s();
    double steps = (double)(t->step - t->mark_step);
    double spent = now - t->mark_s - t->valid_s;
    double step_s = spent / (steps > 0 ? steps : 1);
    double drawn = (double)(t->consumed - t->mark_consumed);
    double tokens = (double)(t->tokens - t->mark_tokens) / spent;
    double rank_tflop = tokens / t->place.size / 1e12;

    *m = (struct metrics){
        .step = t->step, .steps = p->steps, .consumed_samples = t->consumed,
        .consumed_tokens = t->tokens,
        .iteration_ms = step_s * 1e3, .tokens_per_s = tokens,
        .tokens_per_s_rank = tokens / t->place.size,
        .tflops_half = rank_tflop * p->flop_token_half,
        .tflops_full = rank_tflop * p->flop_token_full,
        .lr = optim_lr(p, t->step), .loss = r->loss,
        .grad_norm = r->grad_norm, .z = r->z, .accuracy = r->accuracy,
        .global_batch = (int)(drawn / (steps > 0 ? steps : 1)),
        .skipped = t->skipped, .nan = t->nan,
        .eta_s = step_s * (double)(p->steps - t->step),
        .valid_loss = t->valid_loss,
        .loss_scale = p->precision == PLAN_FP16 ? r->loss_scale : NAN,
        .overflows = p->precision == PLAN_FP16 ? (double)t->overflows : NAN,
        .ckpt_wait_ms = t->ckpt_wait_s * 1e3,
        .data_wait_ms = t->data_wait_s * 1e3,
        .wall_s = clock_wall_s(),
    };
}

static void status_write(struct train *t, const struct metrics *m)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    double now = clock_mono_s();
    if (now - t->status_s < STATUS_EVERY_S && m->step < m->steps)
        return;
    t->status_s = now;
    json_t *status = json_pack(
        "{s:I, s:I, s:f, s:f, s:f, s:f}", "step", (json_int_t)m->step, "steps",
        (json_int_t)m->steps, "loss", isfinite(m->loss) ? m->loss : 0.0,
        "tokens_per_s", m->tokens_per_s, "eta_s", m->eta_s, "time", m->wall_s);
    char *text = status ? json_line(status) : NULL;
    if (!text || attempt_path(t, KB_STATUS, path, sizeof path, &err) != 0 ||
        file_publish(path, text, strlen(text), 0600, &err) != 0)
        log_warn("%s", err.msg);
    free(text);
    json_decref(status);
}

void lines_step(struct train *t, const struct optim_result *r)
{
    char line[1024];
    struct metrics m;
    if (t->place.rank == 0) {
        metrics_fill(t, r, &m);
        metrics_line(&m, line, sizeof line);
        log_info("%s", line);
        trackers_record(t, &m);
        status_write(t, &m);
    }
    t->mark_s = clock_mono_s();
    t->mark_step = t->step;
    t->mark_consumed = t->consumed;
    t->mark_tokens = t->tokens;
    t->data_wait_s = t->ckpt_wait_s = t->valid_s = 0;
    t->valid_loss = NAN;
}
