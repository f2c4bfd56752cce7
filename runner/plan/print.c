/* print - the plan for people. */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <string.h>

#include "runner/plan/share.h"

/* "1.24 B", "124.4 M"; work: "1.24 G". */
static const char *scaled(double v, bool work, char buf[32])
{
    static const char *const counts[] = {"", " k", " M", " B", " T"};
    static const char *const works[] = {" ", " k", " M", " G", " T"};
    const char *const *units = work ? works : counts;
    int u = 0;
    while (v >= 1000 && u < 4) {
        v /= 1000;
        u++;
    }
    snprintf(buf, 32, u ? "%.4g%s" : "%.0f%s", v, units[u]);
    return buf;
}

static const char *count_text(double v, char buf[32])
{
    return scaled(v, false, buf);
}

static void print_model(const struct plan *plan, struct sbuf *out)
{
    const struct shape *s = &plan->shape;
    char n[32];
    sbuf_printf(out, "model       %s parameters: %d layers, width %d, %d heads "
                "of %d", count_text((double)plan->params_n, n), s->L, s->C,
                s->H, s->D);
    if (s->K != s->H)
        sbuf_printf(out, " (%d for keys)", s->K);
    sbuf_printf(out, ", feed-forward %d, vocabulary %d (padded %d)\n", s->F,
                s->V, s->Vp);
    sbuf_printf(out, "            %s, %s, %s%s, %s head%s\n",
                s->norm == SHAPE_RMSNORM ? "RMSNorm" : "LayerNorm",
                s->act == SHAPE_SWIGLU ? "SwiGLU" : "GELU",
                s->pos == SHAPE_ROPE ? "RoPE" : "learned positions",
                s->bias_qkv || s->bias_o || s->bias_ffn ? ", biases" : "",
                s->tied ? "tied" : "own", s->qk_norm ? ", QK-norm" : "");
}

static void print_layout(const struct plan *plan, struct sbuf *out)
{
    if (plan->chunks > 1)
        sbuf_printf(out, "            %d chunks of layers a stage, interleaved"
                    "\n", plan->chunks);
    if (*plan->layout_why)
        sbuf_printf(out, "            chosen by parallel: auto: %s\n",
                    plan->layout_why);
}

static void print_ranks(const struct plan *plan, struct sbuf *out)
{
    static const char *const precisions[] = {"fp32", "fp64", "bf16", "fp16"};
    sbuf_printf(out, "ranks       %d", plan->world);
    if (plan->nodes)
        sbuf_printf(out, " on %d node%s", plan->nodes,
                    plan->nodes == 1 ? "" : "s");
    else
        sbuf_puts(out, " (nodes not known here)");
    if (plan->spares)
        sbuf_printf(out, " and %d spare%s", plan->spares,
                    plan->spares == 1 ? "" : "s");
    sbuf_printf(out, ": data %d x tensor %d x pipeline %d, %s, %s",
                plan->data, plan->tensor, plan->pipeline,
                plan->device == PLAN_CUDA ? "GPU" : "CPU",
                precisions[plan->precision]);
    if (plan->grads_bf16)
        sbuf_puts(out, ", gradients bf16");
    if (plan->device == PLAN_CPU)
        sbuf_printf(out, ", %d thread%s", plan->blas_threads,
                    plan->blas_threads == 1 ? "" : "s");
    sbuf_puts(out, plan->deterministic ? ", deterministic\n" : "\n");
    print_layout(plan, out);
}

static void print_batch(const struct plan *plan, struct sbuf *out)
{
    char tokens[32], all[32], half[32], full[32];
    double step = (double)plan->global_batch * plan->seq_len;
    sbuf_printf(out, "batch       %d sequences of %d tokens = micro-batch %d x "
                "%d times x %d ranks; %s tokens a step\n", plan->global_batch,
                plan->seq_len, plan->micro_batch, plan->accum, plan->data,
                count_text(step, tokens));
    sbuf_printf(out, "steps       %lld, %s tokens; %sFLOP a token "
                "(%sFLOP with full attention)\n", (long long)plan->steps,
                count_text(step * (double)plan->steps, all),
                scaled(plan->flop_token_half, true, half),
                scaled(plan->flop_token_full, true, full));
}

static void print_optim(const struct plan *plan, struct sbuf *out)
{
    sbuf_printf(out, "optimizer   AdamW, lr %g to %g, %s, warmup %lld steps, "
                "decay until %lld; clip %g, weight decay %g\n", plan->lr,
                plan->min_lr, plan->schedule, (long long)plan->warmup_steps,
                (long long)plan->decay_steps, plan->clip, plan->weight_decay);
}

static void print_data(const struct plan *plan, struct sbuf *out)
{
    for (int i = 0; i < plan->train_n; i++)
        sbuf_printf(out, "%-11s %g %s\n", i ? "" : "data",
                    plan->train[i].weight, plan->train[i].prefix);
    for (int i = 0; i < plan->valid_n; i++)
        sbuf_printf(out, "%-11s %g %s\n", i ? "" : "validation",
                    plan->valid[i].weight, plan->valid[i].prefix);
    if (strcmp(plan->tokenizer, "byte"))
        sbuf_printf(out, "tokenizer   %s\n", plan->tokenizer);
    if (*plan->split)
        sbuf_printf(out, "            split %s\n", plan->split);
}

/* What the optimizer's state would take more if each rank kept all of it. */
static int64_t saved_bytes(const struct plan *plan)
{
    int copies = plan_act_bytes(plan) == plan_stat_bytes(plan) ? 2 : 3;
    return (plan->held_n - plan->owned_n) * plan_stat_bytes(plan) * copies;
}

static void print_recompute(const struct plan *plan, struct sbuf *out)
{
    int whole = plan->recompute_whole, cheap = plan->recompute_cheap;
    if (!whole && !cheap)
        return;
    sbuf_puts(out, "            backward computes again:");
    if (whole)
        sbuf_printf(out, " %d of %d layers whole%s", whole,
                    share_chunk_layers(plan, 0), cheap ? "," : "");
    if (cheap)
        sbuf_printf(out, " of %d layers what is cheap", cheap);
    sbuf_puts(out, "\n");
}

static void print_memory(const struct plan *plan, struct sbuf *out)
{
    char text[32];
    sbuf_printf(out, "memory      %s a rank%s\n",
                plan_bytes_text(plan->memory_bytes, text),
                plan->device == PLAN_CUDA ? " of its GPU's" : "");
    for (int i = 0; i < plan->memory_n; i++)
        sbuf_printf(out, "            %10s %s\n",
                    plan_bytes_text(plan->memory[i].bytes, text),
                    plan->memory[i].what);
    print_recompute(plan, out);
    if (plan->device == PLAN_CUDA)
        sbuf_printf(out, "            and %s of the host's for a checkpoint\n",
                    plan_bytes_text(plan->snapshot_bytes, text));
    if (plan->shard_optimizer)
        sbuf_printf(out, "            a rank keeps 1/%d of the optimizer's "
                    "state: %s less\n", plan->data,
                    plan_bytes_text(saved_bytes(plan), text));
}

static void print_safety(const struct plan *plan, struct sbuf *out)
{
    char text[32];
    sbuf_printf(out, "checkpoints each %lld steps, %s, %d kept; resume %s\n",
                (long long)plan->ckpt_interval,
                plan_bytes_text(plan->ckpt_bytes, text), plan->ckpt_keep,
                plan->resume);
    sbuf_printf(out, "recovery    at most %d restarts, health %s%s\n",
                plan->max_restarts, plan->health,
                plan->elastic ? ", elastic" : "");
    sbuf_printf(out, "run         %s in %s\nplan        %s\n", plan->name,
                plan->run_dir, plan->hash);
}

void plan_print(const struct plan *plan, struct sbuf *out)
{
    print_model(plan, out);
    print_ranks(plan, out);
    print_batch(plan, out);
    print_optim(plan, out);
    print_data(plan, out);
    print_memory(plan, out);
    print_safety(plan, out);
}
