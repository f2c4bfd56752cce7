/* hash - a number for all that changes the mathematics of a run: two plans
 * with the same hash compute the same function of the same data. Not in it:
 * where files lie, how many steps the run has, how ranks share the work. */
#include "runner/plan/plan_private.h"

#include <stdio.h>

/* FNV-1a of 128 bits: fixed by its definition, so that a hash in a manifest
 * of today is the hash of tomorrow. */
static void fnv1a(const char *text, size_t n, char hex[33])
{
    unsigned __int128 h = ((unsigned __int128)0x6c62272e07bb0142ULL << 64) |
                          0x62b821756295c58dULL;
    const unsigned __int128 prime = ((unsigned __int128)1 << 88) | 0x13b;
    for (size_t i = 0; i < n; i++) {
        h ^= (unsigned char)text[i];
        h *= prime;
    }
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)(h >> 64),
             (unsigned long long)h);
}

static void add_ramp(struct sbuf *text, const char *what,
                     const struct plan_ramp *r)
{
    if (r->start)
        sbuf_printf(text, "%s from %d by %d over %lld\n", what, r->start,
                    r->add, (long long)r->over);
}

void make_hash(struct making *m)
{
    struct plan *plan = m->plan;
    const struct shape *s = &plan->shape;
    struct sbuf text = SBUF_INIT;
    sbuf_printf(&text, "koboshi 1\nseed %llu precision %d\n",
                (unsigned long long)plan->seed, plan->precision);
    sbuf_printf(&text, "shape %d %d %d %d\n", s->names, s->norm, s->act,
                s->pos);
    sbuf_printf(&text, "sizes %d %d %d %d %d %d %d %d\n", s->L, s->C, s->H,
                s->K, s->D, s->F, s->V,
                s->pos == SHAPE_LEARNED ? s->T_max : 0);
    sbuf_printf(&text, "numbers %.17g %.17g %.17g\n", s->rope_theta,
                s->norm_eps, s->init_std);
    if (s->rope_factor > 0)
        sbuf_printf(&text, "rope %.17g %.17g %.17g %d\n", s->rope_factor,
                    s->rope_low, s->rope_high, s->rope_positions);
    sbuf_printf(&text, "parts %d %d %d %d %d %d\n", s->bias_qkv, s->bias_o,
                s->bias_ffn, s->bias_norm, s->tied, s->qk_norm);
    sbuf_printf(&text, "batch %d %d\n", plan->seq_len, plan->global_batch);
    add_ramp(&text, "batch", &plan->batch_ramp);
    add_ramp(&text, "length", &plan->seq_ramp);
    if (plan->blend_by_size)
        sbuf_puts(&text, "blend by size\n");
    sbuf_printf(&text, "data %s %d %d %d %d", plan->split, plan->eod_token,
                plan->eod_mask_loss, plan->eod_reset_positions,
                plan->eod_reset_attention);
    for (int i = 0; i < plan->train_n; i++)
        sbuf_printf(&text, " %.17g", plan->train[i].weight);
    sbuf_printf(&text, "\noptim %.17g %.17g %.17g %.17g %.17g %.17g %.17g "
                "%.17g\n", plan->lr, plan->min_lr, plan->beta1, plan->beta2,
                plan->eps, plan->weight_decay, plan->clip, plan->z_loss);
    sbuf_printf(&text, "schedule %s %lld %lld\n", plan->schedule,
                (long long)plan->warmup_steps, (long long)plan->decay_steps);
    if (plan->grads_bf16)
        sbuf_puts(&text, "gradients bf16\n");
    if (text.failed)
        refuse(m, NULL, "out of memory");
    else
        fnv1a(text.data, text.len, plan->hash);
    sbuf_release(&text);
}
