/* choose - layouts of ranks: which there are, which is nearest to one that
 * cannot be, and which is best where the planner shall say (parallel: auto).
 *
 * The estimate is coarse and the same everywhere: it sees the configuration,
 * the number of nodes and ranks, and the GPU's model, nothing that one rank
 * sees and another does not. What is lost of a step: to talking (tensor ranks
 * several times a layer; data ranks once a step, half of it behind backward),
 * to waiting (stages while the pipeline fills), to computing again.
 */
#include "runner/plan/plan_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/plan/share.h"

/* Rates of a rank: what products reach, and bytes to ranks of its own node and
 * of others. */
struct rates { double flop, near, far; };
static const struct rates rates_gpu = {400e12, 250e9, 25e9};
static const struct rates rates_cpu = {50e9, 5e9, 1e9};

struct lost { double talk, wait, again; };

static int divides(int64_t a, int64_t b)
{
    return b > 0 && a % b == 0;
}

/* Key and value heads: whole ones to each rank, or each to whole ranks. */
bool layout_heads_fit(const struct shape *s, int tensor)
{
    return divides(s->H, tensor) && divides(s->F, tensor) &&
           (divides(s->K, tensor) ||
            (divides(tensor, s->K) && s->names != SHAPE_NAMES_GPT2));
}

/* Can these ranks share the model in this way, memory aside? */
static bool is_possible(const struct plan *plan)
{
    int64_t others = (int64_t)plan->tensor * plan->pipeline;
    bool warms_up = plan->batch_ramp.start || plan->seq_ramp.start;
    return divides(plan->world, others) &&
           (plan->pipeline == 1 || !warms_up) &&
           layout_heads_fit(&plan->shape, plan->tensor) &&
           (int64_t)plan->pipeline * plan->chunks <= plan->shape.L &&
           plan->global_batch / plan->micro_batch >= plan->world / others;
}

static void set_layout(struct plan *plan, int tensor, int pipeline, int chunks)
{
    bool sharded = plan->shard_optimizer;
    plan->tensor = tensor;
    plan->pipeline = pipeline;
    plan->chunks = chunks;
    plan->data = plan->world / (tensor * pipeline);
    if (plan->data < 1)
        plan->data = 1;
    plan->shard_optimizer = sharded && plan->data > 1;
    plan->accum = plan_micros(plan, plan->global_batch, 0);
}

/* ---- The nearest --------------------------------------------------------- */
static double away(int a, int b)
{
    return fabs(log2((double)a / b));
}

bool layout_nearest(const struct plan *plan, int64_t limit, int *ret_tensor,
                    int *ret_pipeline)
{
    double best = INFINITY;
    for (int t = 1; t <= plan->world; t++)
        for (int p = 1; p <= plan->world / t; p++) {
            if (!divides(plan->world, (int64_t)t * p))
                continue; /* before half a megabyte is copied */
            struct plan trial = *plan;
            double off = away(t, plan->tensor) + away(p, plan->pipeline);
            set_layout(&trial, t, p, p > 1 ? plan->chunks : 1);
            if (!is_possible(&trial) || off >= best)
                continue;
            plan_memory(&trial);
            if (limit > 0 && trial.memory_bytes > limit)
                continue;
            best = off;
            *ret_tensor = t;
            *ret_pipeline = p;
        }
    return best < INFINITY;
}

/* ---- The best ------------------------------------------------------------ */
/* As little computed again as fits, in three steps; false: it does not fit. */
static bool fits(struct plan *plan, int64_t limit, double *ret_again)
{
    static const double again[] = {0, 0.04, 0.33};
    int L = share_chunk_layers(plan, 0);
    int first = plan->recompute == PLAN_RECOMPUTE_FULL        ? 2
                : plan->recompute == PLAN_RECOMPUTE_SELECTIVE ? 1
                                                              : 0;
    int last = plan->recompute == PLAN_RECOMPUTE_AUTO ? 2 : first;
    for (int i = first; i <= last; i++) {
        plan->recompute_whole = i == 2 ? L : 0;
        plan->recompute_cheap = i == 1 ? L : 0;
        plan_memory(plan);
        *ret_again = again[i];
        if (limit <= 0 || plan->memory_bytes <= limit)
            return true;
    }
    return false;
}

/* Shares of the time that a rank computes. */
static struct lost lost_of(const struct plan *plan, double again)
{
    bool cuda = plan->device == PLAN_CUDA;
    const struct rates *r = cuda ? &rates_gpu : &rates_cpu;
    double N = (double)plan->micro_batch * plan->seq_len;
    double t = plan->tensor, d = plan->data;
    double micros = (double)plan->global_batch / plan->micro_batch / d;
    double compute = plan->flop_token_half * N * micros /
                     (t * plan->pipeline * r->flop);
    int node = plan->ranks_per_node;
    double tensor_rate = node % plan->tensor ? r->far : r->near;
    double data_rate = plan->tensor * plan->data <= node ? r->near : r->far;
    double layers = ceil((double)plan->shape.L / plan->pipeline);
    double tensor_s = 8 * (t - 1) / t * N * plan->shape.C *
                      plan_act_bytes(plan) * layers * micros / tensor_rate;
    double data_s = 2 * (d - 1) / d * (double)plan->held_n *
                    plan_stat_bytes(plan) / data_rate / 2;
    double turns = micros * plan->chunks;
    return (struct lost){
        .talk = (tensor_s + data_s) / compute + 0.02 * log2(t) +
                0.01 * (plan->pipeline > 1 ? plan->chunks : 0),
        .wait = (plan->pipeline - 1) / (turns > 1 ? turns : 1),
        .again = again,
    };
}

static double sum_of(const struct lost *lost)
{
    return lost->talk + lost->wait + lost->again;
}

struct best {
    struct plan plan;
    struct lost lost;
    int possible, fitting;
    bool found;
};

static void consider(struct best *best, const struct plan *plan, int tensor,
                     int pipeline, int chunks, int64_t limit)
{
    struct plan trial = *plan;
    double again;
    set_layout(&trial, tensor, pipeline, chunks);
    if (!is_possible(&trial))
        return;
    best->possible++;
    bool good = fits(&trial, limit, &again);
    struct lost lost = lost_of(&trial, again);
    best->fitting += good;
    if (!good && best->fitting)
        return;
    bool first = good && best->fitting == 1;
    bool better = good ? sum_of(&lost) < sum_of(&best->lost) - 1e-9
                       : trial.memory_bytes < best->plan.memory_bytes;
    if (!best->found || first || better) {
        best->found = true;
        best->plan = trial;
        best->lost = lost;
    }
}

/* What was given stays. */
static bool wanted(const struct making *m, const char *key, int value)
{
    return !conf_is_set(m->conf, key) || conf_int(m->conf, key) == value;
}

static void search(const struct making *m, int64_t limit, struct best *best)
{
    static const int chunks[] = {1, 2, 4};
    int world = m->plan->world;
    for (int t = 1; t <= world; t++)
        for (int p = 1; t * p <= world; p++)
            for (int c = 0; c < (p > 1 ? 3 : 1); c++)
                if (world % (t * p) == 0 && wanted(m, "parallel.tensor", t) &&
                    wanted(m, "parallel.pipeline", p) &&
                    wanted(m, "parallel.chunks", chunks[c]))
                    consider(best, m->plan, t, p, chunks[c], limit);
}

/* Why not data parallel alone: it does not fit, or loses more. */
static void say_why(struct making *m, const struct best *best, int64_t limit)
{
    struct plan *plan = m->plan, plain = *plan;
    char need[32], have[32], other[128] = "";
    double again;
    set_layout(&plain, 1, 1, 1);
    if (plan->tensor * plan->pipeline > 1 && is_possible(&plain)) {
        bool good = fits(&plain, limit, &again);
        struct lost lost = lost_of(&plain, again);
        if (good)
            snprintf(other, sizeof other, "; data parallel alone would lose "
                     "%.0f %%", 100 * sum_of(&lost));
        else
            snprintf(other, sizeof other, "; data parallel alone needs %s a "
                     "rank, of %s", plan_bytes_text(plain.memory_bytes, need),
                     plan_bytes_text(limit, have));
    }
    snprintf(plan->layout_why, sizeof plan->layout_why,
             "of %d layouts %d fit%s; this one loses least: about %.0f %% "
             "talking, %.0f %% waiting, %.0f %% computing again%s",
             best->possible, best->fitting,
             limit > 0 ? "" : " (memory not known)", 100 * best->lost.talk,
             100 * best->lost.wait, 100 * best->lost.again, other);
}

/* Memory that auto plans for: what is given, or the GPU's by its model. */
static int64_t memory_limit(const struct making *m)
{
    int64_t given = conf_int(m->conf, "parallel.memory");
    if (given > 0 || m->plan->device != PLAN_CUDA)
        return given;
    int64_t gpu = plan_gpu_bytes(m->site->gpu);
    return gpu > 0 ? gpu - gpu / 32 : 0;
}

void layout_choose(struct making *m)
{
    struct plan *plan = m->plan;
    struct best best = {0};
    int64_t limit = memory_limit(m);
    if (!plan->nodes) {
        warn(m, "parallel.layout", "auto, but the number of nodes is not known "
             "here: the layout is chosen when it is");
        return;
    }
    search(m, limit, &best);
    if (!best.found)
        return; /* what is given cannot be: the checks say so */
    set_layout(plan, best.plan.tensor, best.plan.pipeline, best.plan.chunks);
    say_why(m, &best, limit);
}
