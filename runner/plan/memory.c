/* memory - what a rank allocates, row by row, and the arithmetic of a token.
 * The sizes come from sizes.c, which the model carves by too; the trainer
 * holds the arena's high-water mark against the sum. */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <string.h>

#include "runner/base/str.h"
#include "runner/plan/schedule.h"
#include "runner/plan/share.h"
#include "runner/plan/sizes.h"

int plan_act_bytes(const struct plan *plan)
{
    switch (plan->precision) {
    case PLAN_FP64: return 8;
    case PLAN_BF16: case PLAN_FP16: return 2;
    default: return 4;
    }
}

int plan_stat_bytes(const struct plan *plan)
{
    return plan->precision == PLAN_FP64 ? 8 : 4;
}

const char *plan_bytes_text(int64_t bytes, char buf[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= 1024 && u < 4) {
        v /= 1024;
        u++;
    }
    snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return buf;
}

/* ---- Weights ------------------------------------------------------------ */

/* Over all places of the model: elements of the real vocabulary, and bytes in
 * memory with elem bytes an element. */
static void count_weights(const struct shape *s, int elem, int64_t *ret_n,
                          int64_t *ret_bytes)
{
    int64_t n = 0, bytes = 0;
    for (int place = 0; place < P_N; place++) {
        int out, in, times = place < P_LAYER_N ? s->L : 1;
        place_dims(s, (enum place)place, &out, &in);
        bool padded = place == P_WTE || place == P_HEAD;
        n += (int64_t)(padded && out ? s->V : out) * in * times;
        bytes += sizes_align((int64_t)out * in * elem) * times;
    }
    *ret_n = n;
    *ret_bytes = bytes;
}

/* ---- Activations -------------------------------------------------------- */

static int64_t act_row_bytes(const struct plan *plan, const struct shape *s,
                             enum act_id id)
{
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    return sizes_align(act_bytes(s, id, N, plan_act_bytes(plan),
                                 plan_stat_bytes(plan)));
}

/* Of one layer: what is kept, or what is not. */
static int64_t layer_bytes(const struct plan *plan, const struct shape *s,
                           enum keep keep, bool kept)
{
    int64_t sum = 0;
    for (int id = 0; id < A_N; id++)
        if (act_kept((enum act_id)id, keep) == kept)
            sum += act_row_bytes(plan, s, (enum act_id)id);
    return sum;
}

static enum keep keep_of(const struct plan *plan, int layer)
{
    return layer_keep(layer, plan->recompute_whole, plan->recompute_cheap);
}

/* Of the layers that a slot holds. */
static int64_t layers_bytes(const struct plan *plan, const struct shape *s)
{
    int layers = share_chunk_layers(plan, plan->stage);
    int64_t sum = 0;
    for (int l = 0; l < layers; l++)
        sum += layer_bytes(plan, s, keep_of(plan, l), true);
    return sum;
}

/* The final norm's, as a layer's first. */
static int64_t final_bytes(const struct plan *plan, const struct shape *s)
{
    static const enum act_id ids[] = {A_SUM1, A_Y1, A_MEAN1, A_RSTD1};
    int64_t sum = 0;
    for (int i = 0; i < 4 && !s->no_head; i++)
        sum += act_row_bytes(plan, s, ids[i]);
    return sum;
}

static int64_t shared_bytes(const struct plan *plan, const struct shape *s)
{
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    int64_t sum = layer_bytes(plan, s, keep_of(plan, 0), false);
    for (int id = 0; id < S_N; id++)
        sum += sizes_align(scratch_bytes(s, (enum scratch_id)id, N,
                                         plan_act_bytes(plan), true));
    if (s->pos == SHAPE_ROPE)
        sum += sizes_align(s->D / 2 * (int64_t)plan_stat_bytes(plan));
    return sum;
}

/* ---- The rows ----------------------------------------------------------- */

static void add_row(struct plan *plan, enum plan_where where,
                    const char *what, int64_t bytes)
{
    int most = sizeof plan->memory / sizeof *plan->memory;
    if (plan->memory_n == most || bytes <= 0)
        return;
    struct plan_memory_row *row = &plan->memory[plan->memory_n++];
    str_copy(row->what, sizeof row->what, what);
    row->where = where;
    row->bytes = bytes;
    plan->memory_bytes += bytes;
}

/* Micro-batches on the device, one being filled: tokens, labels and
 * positions as 32-bit numbers, with documents their mask and starts; and the
 * sums that a step adds up, of this rank and reduced, factor and scalars. */
static int64_t batch_bytes(const struct plan *plan)
{
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    int64_t one = 3 * sizes_align(4 * N);
    if (plan->eod_mask_loss)
        one += sizes_align(N);
    if (plan->eod_reset_attention)
        one += sizes_align(4 * (N + 1));
    return plan->feeds * one + 4 * SIZES_ALIGN;
}

/* Floating point operations of a token, forward and backward: 6 for each
 * weight of a product that the token meets, plus attention's two products.
 * Terms as Megatron-LM counts them: since 0.12 it counts what causality
 * leaves of attention (half), up to 0.11 and torchtitan all of it (full).
 * The vocabulary is the padded one, and the head counts, tied or not. */
static void count_flop(struct plan *plan)
{
    const struct shape *s = &plan->shape;
    double q = (double)s->H * s->D, kv = (double)s->K * s->D;
    double layer = s->C * (q + 2 * kv) + q * s->C +
                   (double)s->C * s->F * (s->act == SHAPE_SWIGLU ? 3 : 2);
    double products = 6 * (s->L * layer + (double)s->C * s->Vp);
    double attention = 6.0 * s->L * q * plan->seq_len;
    plan->flop_token_half = products + attention;
    plan->flop_token_full = products + 2 * attention;
}

/* Activations on their way to the stages before and after. */
static int64_t pipe_bytes(const struct plan *plan, const struct shape *s)
{
    int64_t N = (int64_t)plan->micro_batch * plan->seq_len;
    int64_t one = share_tokens(s, N) * s->C * plan_act_bytes(plan);
    return plan->pipeline > 1 ? 2 * SCHEDULE_SENDS * sizes_align(one) : 0;
}

/* How many activations and batches a stage's schedule holds. More micro-batches
 * than these hold no more (tests/plan/test_schedule). */
static void hold(struct plan *plan)
{
    struct schedule schedule;
    struct err err = ERR_INIT;
    int stages = plan->pipeline > 1 ? plan->pipeline : 1;
    int chunks = plan->chunks > 1 ? plan->chunks : 1;
    int micros = stages == 1 ? 2 : 4 * stages;
    plan->slots = 1;
    plan->feeds = 2;
    if (micros > plan->accum)
        micros = plan->accum > 0 ? plan->accum : 1;
    if (schedule_make(stages, plan->stage, chunks, micros, &schedule, &err))
        return;
    plan->slots = schedule.slots;
    plan->feeds = schedule.feeds;
    schedule_release(&schedule);
}

/* Of the rank at plan's stage and tensor rank. */
static void rank_rows(struct plan *plan)
{
    int act = plan_act_bytes(plan), stat = plan_stat_bytes(plan);
    bool cuda = plan->device == PLAN_CUDA;
    int64_t weights, grads, states, n;
    struct shape s;
    share_shape(plan, plan->stage, plan->tensor_rank, &s);
    hold(plan);
    plan->memory_n = 0;
    plan->memory_bytes = 0;
    count_weights(&s, act, &n, &weights);
    count_weights(&s, plan->grads_bf16 ? 2 : stat, &n, &grads);
    plan->held_n = sizes_owned(&s, 1);
    plan->owned_n = sizes_owned(&s, plan->shard_optimizer ? plan->data : 1);
    /* master, and first and second moment, each packed; in full precision the
     * weights are their own master */
    states = sizes_align(plan->owned_n * stat) * (act == stat ? 2 : 3);
    add_row(plan, PLAN_ARENA, "weights", weights);
    add_row(plan, PLAN_ARENA, "gradients", grads);
    add_row(plan, PLAN_ARENA, "optimizer", states);
    add_row(plan, PLAN_ARENA, "activations",
            plan->slots * (layers_bytes(plan, &s) + final_bytes(plan, &s)));
    add_row(plan, PLAN_ARENA, "workspace", shared_bytes(plan, &s));
    add_row(plan, PLAN_ARENA, "operations",
            operations_bytes(&s, cuda, plan->micro_batch, plan->seq_len, act,
                             plan->deterministic));
    add_row(plan, PLAN_ARENA, "buffers",
            batch_bytes(plan) + pipe_bytes(plan, &s));
    plan->snapshot_bytes = n * 3 * stat / (plan->data > 0 ? plan->data : 1);
    if (cuda)
        add_row(plan, PLAN_OUTSIDE, "context and libraries",
                plan->library_bytes);
    else
        add_row(plan, PLAN_HOST, "checkpoint snapshot", plan->snapshot_bytes);
}

void plan_memory(struct plan *plan)
{
    int64_t bytes;
    count_weights(&plan->shape, 1, &plan->params_n, &bytes);
    plan->stage = plan->tensor_rank = plan->data_rank = 0;
    rank_rows(plan);
    /* The first stage has the embedding and most under way, the last one the
     * head: no other has more than both. */
    bytes = plan->memory_bytes;
    if (plan->pipeline > 1) {
        plan->stage = plan->pipeline - 1;
        rank_rows(plan);
        if (plan->memory_bytes < bytes) {
            plan->stage = 0;
            rank_rows(plan);
        }
    }
    count_flop(plan);
}

void plan_settle(struct plan *plan, int rank)
{
    plan->stage = rank / plan->tensor / plan->data;
    plan->tensor_rank = rank % plan->tensor;
    plan->data_rank = rank / plan->tensor % plan->data;
    rank_rows(plan);
}
