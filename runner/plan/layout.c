/* layout - ranks and batches: how many ranks train, and which sequences each
 * takes. world = data * tensor * pipeline;
 * global_batch = micro_batch * accum * data. */
#include "runner/plan/plan_private.h"

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

/* What this version cannot do yet is refused here, not found out later. */
static void check_degrees(struct making *m)
{
    static const char *const keys[] = {"parallel.tensor", "parallel.pipeline"};
    for (int i = 0; i < 2; i++)
        if (conf_int(m->conf, keys[i]) != 1)
            refuse(m, keys[i], "%lld is not supported by this version; give 1",
                   (long long)conf_int(m->conf, keys[i]));
}

/* It costs no more bytes on the wire than to add all gradients everywhere. On
 * GPUs only when asked: there the gathering after the update is not hidden
 * behind the next forward yet. Memory has no say: what one rank sees of it
 * another may not, and all must decide alike. */
static void make_shards(struct making *m)
{
    struct plan *plan = m->plan;
    const char *said = conf_text(m->conf, "parallel.shard_optimizer");
    bool wanted = strcmp(said, "auto") ? !strcmp(said, "true")
                                       : plan->device == PLAN_CPU;
    plan->shard_optimizer = plan->data > 1 && wanted;
}

void make_layout(struct making *m)
{
    struct plan *plan = m->plan;
    int data = (int)conf_int(m->conf, "parallel.data");

    make_nodes(m);
    check_degrees(m);
    int others = plan->tensor * plan->pipeline;
    plan->world = plan->nodes ? plan->nodes * plan->ranks_per_node
                              : others * (data ? data : 1);
    if (plan->world % others)
        refuse(m, others == plan->pipeline ? "parallel.pipeline"
                                           : "parallel.tensor",
               "%d ranks (%d nodes of %d) do not divide by tensor %d times "
               "pipeline %d; the nearest product that does is %lld",
               plan->world, plan->nodes, plan->ranks_per_node, plan->tensor,
               plan->pipeline,
               (long long)nearest_divisor(plan->world, others));
    plan->data = plan->world / others;
    if (plan->data < 1)
        plan->data = 1;
    if (data && plan->nodes && data * others != plan->world)
        refuse(m, "parallel.data", "%d data parallel ranks make %d ranks, but "
               "%d nodes of %d are %d; give %d or leave it out", data,
               data * others, plan->nodes, plan->ranks_per_node, plan->world,
               plan->data);
    make_shards(m);
}

/* Multiples of step next to want. */
static void multiples(int64_t want, int64_t step, int64_t *below,
                      int64_t *above)
{
    *below = want / step * step;
    *above = *below + step;
}

void make_batch(struct making *m)
{
    struct plan *plan = m->plan;
    int64_t unit = (int64_t)plan->micro_batch * plan->data;
    int64_t below, above;

    plan->accum = 1;
    if (plan->global_batch % unit == 0) {
        plan->accum = (int)(plan->global_batch / unit);
        return;
    }
    multiples(plan->global_batch, unit, &below, &above);
    if (plan->global_batch % plan->data == 0) {
        int64_t each = plan->global_batch / plan->data;
        refuse(m, "train.micro_batch", "%d does not divide the %lld sequences "
               "of a rank (train.global_batch %d over %d data parallel "
               "ranks); the nearest that does is %lld", plan->micro_batch,
               (long long)each, plan->global_batch, plan->data,
               (long long)nearest_divisor(each, plan->micro_batch));
    } else if (below) {
        refuse(m, "train.global_batch", "%d is not a multiple of micro_batch "
               "%d times %d data parallel ranks; give %lld or %lld",
               plan->global_batch, plan->micro_batch, plan->data,
               (long long)below, (long long)above);
    } else {
        refuse(m, "train.global_batch", "%d is too few for micro_batch %d "
               "times %d data parallel ranks; give %lld", plan->global_batch,
               plan->micro_batch, plan->data, (long long)above);
    }
}
