/* fit - the plan's memory against a rank's: how much of the layers backward
 * computes again, and what to change where it does not fit.
 */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <string.h>

#include "runner/plan/gpu.h"
#include "runner/plan/share.h"

#define RESERVE 64 /* auto leaves 1/64 of the memory free */

/* Sizes that 64 bits cannot hold are a mistake in the file, not a plan. */
static bool is_countable(const struct plan *plan)
{
    const struct shape *s = &plan->shape;
    double N = (double)plan->micro_batch * plan->seq_len;
    double wide = 8.0 * s->C + 6.0 * s->F + 8.0 * s->H * s->D + 64;
    return N * wide * (s->L + 2) * 8 < 1e18;
}

/* Layers that a micro-batch's activations are of: a stage's largest chunk. */
static int layers_of(const struct plan *plan)
{
    return share_chunk_layers(plan, 0);
}

/* ---- Recomputation ------------------------------------------------------- */

static void set_recompute(struct plan *plan, int whole, int cheap)
{
    plan->recompute_whole = whole;
    plan->recompute_cheap = cheap;
    plan_memory(plan);
}

/* The first n layers whole and the others what is cheap; or, not whole, the
 * first n what is cheap. */
static bool fits_with(struct plan *plan, int n, bool whole, int64_t limit)
{
    set_recompute(plan, whole ? n : 0, whole ? layers_of(plan) - n : n);
    return plan->memory_bytes <= limit;
}

/* The fewest layers that do it; -1: not even all of them. */
static int fewest_layers(struct plan *plan, bool whole, int64_t limit)
{
    int low = 1, high = layers_of(plan);
    if (!fits_with(plan, high, whole, limit))
        return -1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (fits_with(plan, middle, whole, limit))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* As little as fits, what is cheap first. */
static void choose_recompute(struct plan *plan, int64_t limit)
{
    int L = layers_of(plan), n;
    set_recompute(plan, 0, 0);
    if (limit <= 0 || plan->memory_bytes <= limit)
        return;
    if ((n = fewest_layers(plan, false, limit)) > 0)
        set_recompute(plan, 0, n);
    else if ((n = fewest_layers(plan, true, limit)) > 0)
        set_recompute(plan, n, L - n);
    else
        set_recompute(plan, L, 0);
}

/* What auto chose the layout for, where that is less. */
static int64_t auto_limit(const struct making *m, int64_t limit)
{
    int64_t given = conf_int(m->conf, "parallel.memory");
    bool chosen = !strcmp(conf_text(m->conf, "parallel.layout"), "auto");
    return chosen && given > 0 && (limit <= 0 || given < limit) ? given : limit;
}

static void make_recompute(struct making *m, int64_t limit)
{
    struct plan *plan = m->plan;
    int L = layers_of(plan);
    int n = conf_is_set(m->conf, "train.recompute_layers")
                ? (int)conf_int(m->conf, "train.recompute_layers")
                : L;
    if (n > L) {
        refuse(m, "train.recompute_layers", "%d, but there are %d; give at "
               "most that", n, L);
        n = L;
    }
    switch (plan->recompute) {
    case PLAN_RECOMPUTE_FULL: set_recompute(plan, n, L - n); break;
    case PLAN_RECOMPUTE_SELECTIVE: set_recompute(plan, 0, n); break;
    case PLAN_RECOMPUTE_NONE: set_recompute(plan, 0, 0); break;
    default: choose_recompute(plan, limit - limit / RESERVE); break;
    }
    if (n < L && plan->recompute < PLAN_RECOMPUTE_SELECTIVE)
        warn(m, "train.recompute_layers", "is for train.recompute: selective "
             "or full");
}

/* ---- Remedies ------------------------------------------------------------ */

static bool try_shard(struct plan *plan)
{
    bool was = plan->shard_optimizer;
    plan->shard_optimizer = plan->data > 1;
    return plan->shard_optimizer != was;
}

static bool try_recompute(struct plan *plan)
{
    bool more = plan->recompute_whole < layers_of(plan);
    plan->recompute_whole = layers_of(plan);
    plan->recompute_cheap = 0;
    return more;
}

static bool try_gradients(struct plan *plan)
{
    bool was = plan->grads_bf16;
    plan->grads_bf16 = plan->precision == PLAN_BF16;
    return plan->grads_bf16 != was;
}

static bool try_micro_batch(struct plan *plan)
{
    bool more = plan->micro_batch > 1;
    plan->micro_batch = 1;
    plan->accum = plan_micros(plan, plan->global_batch, 0);
    return more;
}

enum remedy { SHARD, RECOMPUTE, GRADIENTS, MICRO_BATCH, REMEDIES_N };
static const struct {
    const char *key, *give;
    bool (*apply)(struct plan *trial); /* false: changes nothing */
} remedies[] = {
    [SHARD] = {"parallel.shard_optimizer", "true", try_shard},
    [RECOMPUTE] = {"train.recompute", "full", try_recompute},
    [GRADIENTS] = {"train.gradients", "bf16", try_gradients},
    [MICRO_BATCH] = {"train.micro_batch", "1", try_micro_batch},
};

/* Do they (a set of bits), each of which changes something, make it fit? */
static bool fits_remedied(const struct plan *plan, unsigned set, int64_t limit)
{
    struct plan trial = *plan;
    for (int i = 0; i < REMEDIES_N; i++)
        if (set >> i & 1 && !remedies[i].apply(&trial))
            return false;
    plan_memory(&trial);
    return trial.memory_bytes <= limit;
}

/* The largest micro-batch that fits, 0: none. */
static int fitting_micro_batch(const struct plan *plan, int64_t limit)
{
    struct plan trial = *plan;
    for (int64_t b = plan->micro_batch - 1; b >= 1; b--) {
        if (plan->global_batch % b)
            continue;
        trial.micro_batch = (int)b;
        trial.accum = plan_micros(&trial, trial.global_batch, 0);
        plan_memory(&trial);
        if (trial.memory_bytes <= limit)
            return (int)b;
    }
    return 0;
}

static void refuse_with(struct making *m, unsigned set, const char *need,
                        const char *have)
{
    char more[160] = "";
    int first = __builtin_ctz(set), at = 0;
    for (int i = first + 1; i < REMEDIES_N; i++)
        if (set >> i & 1)
            at += snprintf(more + at, sizeof more - (size_t)at, ", and %s: %s",
                           remedies[i].key, remedies[i].give);
    refuse(m, remedies[first].key, "a rank needs %s and has %s; give %s%s",
           need, have, remedies[first].give, more);
}

/* Fewest data parallel ranks that share the optimizer's state and fit, with
 * all other remedies; 0: no number does. */
static int fitting_ranks(const struct plan *plan, int64_t limit)
{
    struct plan trial = *plan;
    for (int i = 0; i < REMEDIES_N; i++)
        remedies[i].apply(&trial);
    for (int ranks = plan->data > 1 ? plan->data : 2; ranks <= 1024;
         ranks *= 2) {
        trial.shard_optimizer = true;
        trial.data = ranks;
        plan_memory(&trial);
        if (trial.memory_bytes <= limit)
            return ranks;
    }
    return 0;
}

/* The cheapest change that helps: one remedy, then two and more. */
static void refuse_memory(struct making *m, int64_t limit)
{
    static const unsigned sets[] = {
        1 << RECOMPUTE, 1 << GRADIENTS, 1 << SHARD | 1 << RECOMPUTE,
        1 << RECOMPUTE | 1 << GRADIENTS, 1 << RECOMPUTE | 1 << MICRO_BATCH,
        1 << RECOMPUTE | 1 << GRADIENTS | 1 << MICRO_BATCH,
        1 << SHARD | 1 << RECOMPUTE | 1 << MICRO_BATCH,
        1 << SHARD | 1 << RECOMPUTE | 1 << GRADIENTS | 1 << MICRO_BATCH,
        1 << GRADIENTS | 1 << MICRO_BATCH,
    };
    const struct plan *plan = m->plan;
    char need[32], have[32];
    int fits = fitting_micro_batch(plan, limit), ranks;
    plan_bytes_text(plan->memory_bytes, need);
    plan_bytes_text(limit, have);
    if (fits_remedied(plan, 1 << SHARD, limit)) {
        refuse_with(m, 1 << SHARD, need, have);
        return;
    }
    if (fits) {
        refuse(m, "train.micro_batch", "a rank needs %s and has %s; give %d%s",
               need, have, fits,
               fits_remedied(plan, 1 << RECOMPUTE, limit)
                   ? ", or train.recompute: full"
                   : "");
        return;
    }
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (fits_remedied(plan, sets[i], limit)) {
            refuse_with(m, sets[i], need, have);
            return;
        }
    int tensor, pipeline;
    if (layout_nearest(plan, limit, &tensor, &pipeline)) {
        refuse(m, "parallel.tensor", "a rank needs %s and has %s; the nearest "
               "layout that fits is tensor %d x pipeline %d x data %d", need,
               have, tensor, pipeline, plan->world / (tensor * pipeline));
        return;
    }
    ranks = fitting_ranks(plan, limit);
    if (ranks)
        refuse(m, "model.layers", "a rank needs %s and has %s, whatever the "
               "micro-batch; take %d ranks or more with "
               "parallel.shard_optimizer: true, a smaller model or more "
               "memory", need, have, ranks);
    else
        refuse(m, "model.layers", "a rank needs %s and has %s, whatever the "
               "micro-batch; take a smaller model or more memory", need, have);
}

/* ---- The stage ----------------------------------------------------------- */

/* A checkpoint waits in the host's memory while it is written. */
static void check_snapshot(struct making *m)
{
    const struct plan *plan = m->plan;
    char need[32], have[32];
    if (plan->device != PLAN_CUDA || m->site->mem_per_rank_bytes <= 0 ||
        plan->snapshot_bytes <= m->site->mem_per_rank_bytes)
        return;
    warn(m, NULL, "a checkpoint's snapshot takes %s of a rank's host memory, "
         "and it has %s; ask for more (--mem)",
         plan_bytes_text(plan->snapshot_bytes, need),
         plan_bytes_text(m->site->mem_per_rank_bytes, have));
}

void make_memory(struct making *m)
{
    struct plan *plan = m->plan;
    const struct site *site = m->site;
    bool cuda = plan->device == PLAN_CUDA;
    int64_t limit = !cuda               ? site->mem_per_rank_bytes
                    : site->gpu_bytes > 0 ? site->gpu_bytes
                                          : plan_gpu_bytes(site->gpu);
    char need[32], have[32];
    if (!is_countable(plan)) {
        refuse(m, "train.micro_batch", "%d sequences of %d tokens at once are "
               "more than any memory holds; give 1 to 64", plan->micro_batch,
               plan->seq_len);
        return;
    }
    if (cuda)
        plan->library_bytes =
            gpu_library_bytes(site->gpu, site->cuda_version, plan->world);
    make_recompute(m, auto_limit(m, limit));
    check_snapshot(m);
    if (limit <= 0 || m->refused_n)
        return;
    if (plan->memory_bytes > limit)
        refuse_memory(m, limit);
    else if ((double)plan->memory_bytes > 0.985 * (double)limit)
        warn(m, "train.micro_batch", "%s of a rank's %s are planned: tight",
             plan_bytes_text(plan->memory_bytes, need),
             plan_bytes_text(limit, have));
}
