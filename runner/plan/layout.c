/* layout - ranks and batches: how many ranks train, and which sequences each
 * takes. world = data * tensor * pipeline; micro-batches are dealt out in
 * turn. */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <string.h>

/* Nodes that train and ranks on each; 0 nodes when unknown. */
static void make_nodes(struct making *m)
{
    struct plan *plan = m->plan;
    const struct site *site = m->site;
    bool cuda = plan->device == PLAN_CUDA;
    int spares = site->spares < 0 ? plan->spares : site->spares;

    if (site->nodes > 0 && spares >= site->nodes)
        refuse(m, "recovery.spares", "%d spare%s of %d node%s leave none to "
               "train; give at most %d, or ask for at least %d nodes (-N)",
               spares, spares == 1 ? "" : "s", site->nodes,
               site->nodes == 1 ? "" : "s", site->nodes - 1, spares + 1);
    plan->nodes = site->nodes > spares ? site->nodes - spares : 0;
    plan->ranks_per_node = (int)conf_int(m->conf, "parallel.ranks_per_node");
    if (plan->ranks_per_node && cuda && site->gpus_per_node > 0 &&
        plan->ranks_per_node > site->gpus_per_node)
        refuse(m, "parallel.ranks_per_node", "%d ranks on nodes of %d GPU%s; "
               "give at most %d", plan->ranks_per_node, site->gpus_per_node,
               site->gpus_per_node == 1 ? "" : "s", site->gpus_per_node);
    if (!plan->ranks_per_node)
        plan->ranks_per_node = cuda && site->gpus_per_node > 0
                                   ? site->gpus_per_node
                               : site->ranks_per_node > 0
                                   ? site->ranks_per_node
                                   : 1;
}

/* It costs no more bytes on the wire than to add all gradients everywhere. On
 * GPUs only when asked: there the gathering after the update is not hidden
 * behind the next forward yet. Memory has no say: what one rank sees of it
 * another may not, and all must decide alike. */
static bool shards_wanted(const struct making *m)
{
    const char *said = conf_text(m->conf, "parallel.shard_optimizer");
    return strcmp(said, "auto") ? !strcmp(said, "true")
                                : m->plan->device == PLAN_CPU;
}

/* "; the nearest layout that works: ..." */
static const char *nearest_text(const struct plan *plan, char buf[128])
{
    int tensor, pipeline;
    buf[0] = 0;
    if (layout_nearest(plan, 0, &tensor, &pipeline))
        snprintf(buf, 128, "; the nearest layout that works is tensor %d x "
                 "pipeline %d x data %d", tensor, pipeline,
                 plan->world / (tensor * pipeline));
    return buf;
}

static void check_product(struct making *m)
{
    struct plan *plan = m->plan;
    int data = (int)conf_int(m->conf, "parallel.data");
    int others = plan->tensor * plan->pipeline;
    char text[128];
    if (plan->world % others)
        refuse(m, others == plan->pipeline ? "parallel.pipeline"
                                           : "parallel.tensor",
               "%d ranks (%d nodes of %d) do not divide by tensor %d times "
               "pipeline %d%s", plan->world, plan->nodes,
               plan->ranks_per_node, plan->tensor, plan->pipeline,
               nearest_text(plan, text));
    plan->data = plan->world / others;
    if (plan->data < 1)
        plan->data = 1;
    if (data && plan->nodes && data * others != plan->world)
        refuse(m, "parallel.data", "%d data parallel ranks make %d ranks, but "
               "%d nodes of %d are %d; give %d or leave it out", data,
               data * others, plan->nodes, plan->ranks_per_node, plan->world,
               plan->data);
}

/* After the model is known: which ranks share it how. */
void make_layout(struct making *m)
{
    struct plan *plan = m->plan;
    int data = (int)conf_int(m->conf, "parallel.data");
    bool given = strcmp(conf_text(m->conf, "parallel.layout"), "auto");

    make_nodes(m);
    plan->data = data ? data : 1;
    plan->world = plan->nodes
                      ? plan->nodes * plan->ranks_per_node
                      : plan->tensor * plan->pipeline * plan->data;
    plan->shard_optimizer = shards_wanted(m);
    if (!given && !m->refused_n)
        layout_choose(m);
    check_product(m);
    plan->shard_optimizer = plan->data > 1 && shards_wanted(m);
}

/* ---- How the model is shared -------------------------------------------- */
static void check_tensor(struct making *m)
{
    const struct plan *plan = m->plan;
    const struct shape *s = &plan->shape;
    int tensor = plan->tensor;
    char text[128];
    if (tensor == 1)
        return;
    if (s->H % tensor || s->F % tensor)
        refuse(m, "parallel.tensor", "%d ranks cannot share %d heads and a "
               "feed-forward width of %d evenly%s", tensor, s->H, s->F,
               nearest_text(plan, text));
    else if (!layout_heads_fit(s, tensor))
        refuse(m, "parallel.tensor", "%d ranks cannot share %d key and value "
               "heads: neither divides the other%s%s", tensor, s->K,
               s->names == SHAPE_NAMES_GPT2 && tensor % s->K == 0
                   ? " (the gpt2 family cannot repeat them)" : "",
               nearest_text(plan, text));
    else if (plan->nodes > 1 && plan->ranks_per_node % tensor)
        warn(m, "parallel.tensor", "%d ranks share each layer, but a node has "
             "%d: they talk several times a layer, over the network; %lld "
             "would stay within a node", tensor, plan->ranks_per_node,
             (long long)nearest_divisor(plan->ranks_per_node, tensor));
}

static void check_pipeline(struct making *m)
{
    const struct plan *plan = m->plan;
    int L = plan->shape.L, stages = plan->pipeline, chunks = plan->chunks;
    char text[128];
    if (stages > L)
        refuse(m, "parallel.pipeline", "%d stages, but the model has %d "
               "layers%s", stages, L, nearest_text(plan, text));
    else if (chunks > 1 && stages == 1)
        refuse(m, "parallel.chunks", "%d chunks of layers a stage, but there "
               "is one stage; give 1, or parallel.pipeline", chunks);
    else if ((int64_t)chunks * stages > L)
        refuse(m, "parallel.chunks", "%d chunks on each of %d stages need as "
               "many layers, but the model has %d; give at most %d", chunks,
               stages, L, L / stages);
}

/* Each tensor rank has as many rows of the vocabulary. */
static void pad_vocabulary(struct making *m)
{
    struct shape *s = &m->plan->shape;
    int64_t unit = conf_int(m->conf, "model.vocab_multiple") *
                   m->plan->tensor;
    s->Vp = (int)((s->V + unit - 1) / unit * unit);
}

void make_shares(struct making *m)
{
    pad_vocabulary(m);
    if (m->refused_n)
        return;
    check_tensor(m);
    check_pipeline(m);
}

/* ---- Batches ------------------------------------------------------------- */
int plan_micros(const struct plan *plan, int batch, int data_rank)
{
    int all = batch / plan->micro_batch;
    return (all - data_rank + plan->data - 1) / plan->data;
}

void make_batch(struct making *m)
{
    struct plan *plan = m->plan;
    int64_t all = plan->global_batch / plan->micro_batch;

    plan->accum = 1;
    if (plan->global_batch % plan->micro_batch) {
        refuse(m, "train.micro_batch", "%d does not divide train.global_batch "
               "%d; the nearest that does is %lld", plan->micro_batch,
               plan->global_batch,
               (long long)nearest_divisor(plan->global_batch,
                                          plan->micro_batch));
        return;
    }
    if (all < plan->data) {
        refuse(m, "train.global_batch", "%d is too few for micro_batch %d "
               "times %d data parallel ranks; give %lld", plan->global_batch,
               plan->micro_batch, plan->data,
               (long long)plan->micro_batch * plan->data);
        return;
    }
    plan->accum = plan_micros(plan, plan->global_batch, 0);
    int64_t last = all % plan->data;
    if (last)
        warn(m, "train.global_batch", "%d is not a multiple of micro_batch %d "
             "times %d data parallel ranks: %lld of them wait in the last "
             "of %d turns; %lld would not", plan->global_batch,
             plan->micro_batch, plan->data, (long long)(plan->data - last),
             plan->accum,
             (long long)plan->accum * plan->micro_batch * plan->data);
    if (plan->pipeline > 1 && all / plan->data < plan->pipeline)
        warn(m, "parallel.pipeline", "%d stages, but only %lld micro-batches "
             "a step on each data parallel rank: most stages wait most of "
             "the time", plan->pipeline, (long long)(all / plan->data));
}
