/* make - configuration and facts to a plan, as named stages; see plan.h. */
#include "runner/plan/plan_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Saying no ---------------------------------------------------------- */

static void note(char list[][PLAN_NOTE_BYTES], int *n, const char *text)
{
    if (*n < PLAN_NOTES_MAX)
        str_copy(list[(*n)++], PLAN_NOTE_BYTES, text);
}

static void vsay(struct making *m, bool refusal, const char *key,
                 const char *fmt, va_list ap)
{
    char why[PLAN_NOTE_BYTES], text[PLAN_NOTE_BYTES + PATH_MAX];
    vsnprintf(why, sizeof why, fmt, ap);
    if (key)
        snprintf(text, sizeof text, "plan: %s: '%s': %s",
                 conf_origin(m->conf, key), key, why);
    else
        snprintf(text, sizeof text, "plan: %s", why);
    if (!refusal) {
        note(m->notes->text, &m->notes->n, text);
        return;
    }
    m->refused_n++;
    note(m->notes->refusal, &m->notes->refusals_n, text);
    err_set_class(m->err, ERR_REQUEST, "%s", text);
}

int refuse(struct making *m, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsay(m, true, key, fmt, ap);
    va_end(ap);
    return -1;
}

void warn(struct making *m, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsay(m, false, key, fmt, ap);
    va_end(ap);
}

void unseen(struct making *m, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsay(m, !m->site->submit, key, fmt, ap);
    va_end(ap);
}

int64_t nearest_divisor(int64_t n, int64_t want)
{
    int64_t best = 1;
    for (int64_t d = 1; d <= n && d * d <= n; d++) {
        if (n % d)
            continue;
        int64_t both[2] = {d, n / d};
        for (int i = 0; i < 2; i++) {
            int64_t off = both[i] > want ? both[i] - want : want - both[i];
            int64_t old = best > want ? best - want : want - best;
            if (off < old || (off == old && both[i] < best))
                best = both[i];
        }
    }
    return best;
}

/* ---- The simple fields: text to a place --------------------------------- */

enum field { F_INT, F_I64, F_REAL, F_BOOL, F_TEXT };
static const struct {
    const char *key;
    enum field field;
    size_t offset, bytes;
} fields[] = {
#define FIELD(key, field, member)                                              \
    {key, field, offsetof(struct plan, member),                                \
     sizeof(((struct plan *)0)->member)}
    FIELD("run.name", F_TEXT, name),
    FIELD("run.dir", F_TEXT, run_dir),
    FIELD("train.deterministic", F_BOOL, deterministic),
    FIELD("train.steps", F_I64, steps),
    FIELD("train.global_batch", F_INT, global_batch),
    FIELD("train.micro_batch", F_INT, micro_batch),
    FIELD("data.split", F_TEXT, split),
    FIELD("data.tokenizer", F_TEXT, tokenizer),
    FIELD("data.eod_mask_loss", F_BOOL, eod_mask_loss),
    FIELD("data.reset_positions", F_BOOL, eod_reset_positions),
    FIELD("data.reset_attention", F_BOOL, eod_reset_attention),
    FIELD("data.continue_changed", F_BOOL, data_may_change),
    FIELD("data.blend_by_size", F_BOOL, blend_by_size),
    FIELD("fp16.scale", F_REAL, scale_initial),
    FIELD("fp16.min_scale", F_REAL, scale_min),
    FIELD("fp16.window", F_INT, scale_window),
    FIELD("fp16.hysteresis", F_INT, scale_hysteresis),
    FIELD("optim.lr", F_REAL, lr),
    FIELD("optim.min_lr", F_REAL, min_lr),
    FIELD("optim.schedule", F_TEXT, schedule),
    FIELD("optim.warmup_steps", F_I64, warmup_steps),
    FIELD("optim.decay_steps", F_I64, decay_steps),
    FIELD("optim.beta1", F_REAL, beta1),
    FIELD("optim.beta2", F_REAL, beta2),
    FIELD("optim.eps", F_REAL, eps),
    FIELD("optim.weight_decay", F_REAL, weight_decay),
    FIELD("optim.clip", F_REAL, clip),
    FIELD("optim.z_loss", F_REAL, z_loss),
    FIELD("parallel.tensor", F_INT, tensor),
    FIELD("parallel.pipeline", F_INT, pipeline),
    FIELD("parallel.chunks", F_INT, chunks),
    FIELD("checkpoint.interval", F_I64, ckpt_interval),
    FIELD("checkpoint.keep", F_INT, ckpt_keep),
    FIELD("checkpoint.shard_size", F_I64, ckpt_shard_bytes),
    FIELD("checkpoint.resume", F_TEXT, resume),
    FIELD("eval.batches", F_I64, eval_batches),
    FIELD("log.interval", F_I64, log_interval),
    FIELD("log.tensorboard", F_BOOL, tensorboard),
    FIELD("log.mlflow_uri", F_TEXT, mlflow_uri),
    FIELD("log.mlflow_experiment", F_TEXT, mlflow_experiment),
    FIELD("guard.window", F_INT, guard_window),
    FIELD("guard.sigma", F_REAL, guard_sigma),
    FIELD("guard.skip_steps", F_INT, guard_skip_data),
    FIELD("guard.healthy_after", F_I64, healthy_after),
    FIELD("recovery.spares", F_INT, spares),
    FIELD("recovery.max_restarts", F_INT, max_restarts),
    FIELD("recovery.refill", F_REAL, restart_refill_s),
    FIELD("recovery.elastic", F_BOOL, elastic),
    FIELD("recovery.min_nodes", F_INT, min_nodes),
    FIELD("recovery.stall_min", F_REAL, stall_min_s),
    FIELD("recovery.stall_factor", F_REAL, stall_factor),
    FIELD("recovery.load_limit", F_REAL, load_limit_s),
    FIELD("recovery.wireup_limit", F_REAL, wireup_limit_s),
    FIELD("recovery.collective_limit", F_REAL, collective_limit_s),
    FIELD("recovery.heartbeat", F_REAL, heartbeat_s),
    FIELD("recovery.silent_limit", F_REAL, silent_s),
    FIELD("recovery.save_before_limit", F_REAL, save_before_limit_s),
    FIELD("health.mode", F_TEXT, health),
    FIELD("notify.webhook", F_TEXT, webhook),
    FIELD("notify.webhook_token", F_TEXT, webhook_token),
    FIELD("system.blas_threads", F_INT, blas_threads),
    FIELD("system.blas_core", F_TEXT, blas_core),
#undef FIELD
};

static void take_fields(struct making *m)
{
    m->plan->seed = (uint64_t)conf_int(m->conf, "run.seed");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *key = fields[i].key;
        void *to = (char *)m->plan + fields[i].offset;
        switch (fields[i].field) {
        case F_INT: *(int *)to = (int)conf_int(m->conf, key); break;
        case F_I64: *(int64_t *)to = conf_int(m->conf, key); break;
        case F_REAL: *(double *)to = conf_real(m->conf, key); break;
        case F_BOOL: *(bool *)to = conf_bool(m->conf, key); break;
        case F_TEXT:
            if (!str_copy(to, fields[i].bytes, conf_text(m->conf, key)))
                refuse(m, key, "longer than %zu bytes", fields[i].bytes - 1);
            break;
        }
    }
}

/* ---- Run directory, device, schedule: small stages ---------------------- */

/* %a in run.dir is the task's number (plan_conf_finish puts it in). */
static void make_run_dir(struct making *m)
{
    struct plan *plan = m->plan;
    bool named = strstr(plan->run_dir, "%a") != NULL;
    if (!named && m->site->array_job) {
        refuse(m, "run.dir", "all tasks of a job array would write to '%.200s'"
               "; put %%a, the task's number, into it", plan->run_dir);
        return;
    }
    if (named && !m->site->array_job)
        refuse(m, "run.dir", "%%a is for job arrays, and this is none; "
               "submit with --array or take it out");
    if (!m->site->run_dir_known)
        unseen(m, "run.dir", "'%.300s' cannot be seen from here%s%s; check "
               "the path",
               plan->run_dir, *m->site->run_dir_problem ? ": " : "",
               m->site->run_dir_problem);
    else if (!m->site->run_dir_writable)
        refuse(m, "run.dir", "'%.250s' cannot be written%s%.180s; give a "
               "folder that you may write",
               plan->run_dir, *m->site->run_dir_problem ? ": " : "",
               m->site->run_dir_problem);
}

static void make_device(struct making *m)
{
    struct plan *plan = m->plan;
    const char *device = conf_text(m->conf, "train.device");
    const char *precision = conf_text(m->conf, "train.precision");
    bool gpus = m->site->gpus_per_node > 0;

    plan->device = !strcmp(device, "cuda") ||
                           (!strcmp(device, "auto") && gpus)
                       ? PLAN_CUDA
                       : PLAN_CPU;
    if (plan->device == PLAN_CUDA && !gpus)
        unseen(m, "train.device", "cuda, but no GPU is known here; ask for "
               "them (--gpus-per-node), or give cpu");
    bool cuda = plan->device == PLAN_CUDA;
    plan->precision = !strcmp(precision, "fp64")   ? PLAN_FP64
                      : !strcmp(precision, "fp32") ? PLAN_FP32
                      : !strcmp(precision, "bf16") ? PLAN_BF16
                      : !strcmp(precision, "fp16") ? PLAN_FP16
                      : cuda                       ? PLAN_BF16
                                                   : PLAN_FP32;
    if (cuda && plan->precision == PLAN_FP64)
        refuse(m, "train.precision", "fp64 is for CPUs; give bf16 or fp32");
    if (!cuda && (plan->precision == PLAN_BF16 ||
                  plan->precision == PLAN_FP16))
        refuse(m, "train.precision", "%s is for GPUs; give fp32 or fp64, or "
               "ask for GPUs (--gpus-per-node)", precision);
    plan->grads_bf16 = !strcmp(conf_text(m->conf, "train.gradients"), "bf16");
    if (plan->grads_bf16 && plan->precision != PLAN_BF16)
        refuse(m, "train.gradients", "bf16 goes with train.precision: bf16 "
               "alone; give fp32");
    const char *recompute = conf_text(m->conf, "train.recompute");
    plan->recompute = !strcmp(recompute, "full")        ? PLAN_RECOMPUTE_FULL
                      : !strcmp(recompute, "selective")
                          ? PLAN_RECOMPUTE_SELECTIVE
                      : !strcmp(recompute, "none") ? PLAN_RECOMPUTE_NONE
                                                   : PLAN_RECOMPUTE_AUTO;
    if (!cuda)
        plan->deterministic = true;
    if (!conf_is_set(m->conf, "system.blas_threads"))
        plan->blas_threads = m->site->cores_per_rank > 0
                                 ? m->site->cores_per_rank
                                 : 1;
    if (!strcmp(plan->blas_core, "auto"))
        plan->blas_core[0] = 0;
    if (plan->scale_min > plan->scale_initial)
        refuse(m, "fp16.min_scale", "%g is above fp16.scale %g; give at most "
               "that", plan->scale_min, plan->scale_initial);
}

static void make_schedule(struct making *m)
{
    struct plan *plan = m->plan;
    if (!conf_is_set(m->conf, "optim.min_lr"))
        plan->min_lr = plan->lr / 10;
    if (!conf_is_set(m->conf, "optim.decay_steps"))
        plan->decay_steps = plan->steps;
    if (plan->min_lr > plan->lr)
        refuse(m, "optim.min_lr", "%g is above optim.lr %g; give at most %g",
               plan->min_lr, plan->lr, plan->lr);
    if (plan->warmup_steps > plan->decay_steps)
        refuse(m, "optim.warmup_steps", "%lld steps of warmup end after the "
               "%lld of %s; give at most %lld", (long long)plan->warmup_steps,
               (long long)plan->decay_steps,
               conf_is_set(m->conf, "optim.decay_steps") ? "optim.decay_steps"
                                                         : "train.steps",
               (long long)plan->decay_steps);
    if (plan->warmup_steps == plan->decay_steps && plan->steps > 1)
        warn(m, "optim.warmup_steps", "the learning rate only rises: warmup "
             "takes all %lld steps", (long long)plan->decay_steps);
}

static bool is_http(const char *uri)
{
    return str_starts(uri, "http://") || str_starts(uri, "https://");
}

static void make_addresses(struct making *m)
{
    static const char *const keys[] = {"log.mlflow_uri", "notify.webhook"};
    for (int i = 0; i < 2; i++) {
        const char *uri = conf_text(m->conf, keys[i]);
        if (*uri && !is_http(uri))
            refuse(m, keys[i], "'%.200s' is not an http address; give "
                   "http://... or https://...", uri);
    }
}

static const struct {
    const char *name;
    void (*make)(struct making *m);
} stages[] = {
    {"fields", take_fields},       {"run directory", make_run_dir},
    {"device", make_device},       {"schedule", make_schedule},
    {"addresses", make_addresses}, {"model", make_model},
    {"ramps", make_ramps},         {"layout", make_layout},
    {"shares", make_shares},       {"batch", make_batch},
    {"ramps' fit", make_ramps_fit}, {"data", make_data},
    {"memory", make_memory},
    {"checkpoints", make_checkpoints},
    {"recovery", make_recovery},   {"hash", make_hash},
};

int plan_make(const struct conf *conf, const struct site *site,
              struct plan *ret, struct plan_notes *notes, struct err *err)
{
    static const struct plan_notes no_notes;
    struct plan_notes unheard;
    struct plan plan;
    if (!notes)
        notes = &unheard;
    *notes = no_notes;
    memset(&plan, 0, sizeof plan);
    struct making m = {conf, site, &plan, notes, err, 0};

    if (conf_check(conf, err))
        return -1;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        stages[i].make(&m);
    if (m.refused_n)
        return -1;
    *ret = plan;
    return 0;
}
