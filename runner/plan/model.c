/* model - the stage that fills the shape and checks that its parts fit. */
#include "runner/plan/plan_private.h"

#include <string.h>

/* Stands for a vocabulary that a login node cannot see. */
enum { UNSEEN_VOCAB = 32000 };

/* The vocabulary is the tokenizer's, whose file told nothing. */
static void miss_vocab(struct making *m)
{
    const struct site_tokenizer *t = &m->site->tokenizer;
    const char *name = conf_text(m->conf, "data.tokenizer");
    const char *why = *t->problem ? t->problem : "was not looked at";
    if (t->known)
        refuse(m, "data.tokenizer", "%s", why);
    else
        unseen(m, "data.tokenizer", "'%.250s' cannot be seen from here "
               "(%.150s), and model.vocab_size is unset", name, why);
}

/* What the shape cannot be without; true when all are there. */
static bool has_sizes(struct making *m)
{
    static const char *const keys[] = {"model.layers", "model.hidden_size",
                                       "model.heads", "model.vocab_size"};
    const char *missing = NULL;
    if (!conf_is_set(m->conf, "model.family")) {
        refuse(m, "model.preset", "no model is described; give model.preset "
               "(as gpt2-124m, llama-1b), or model.family, layers, "
               "hidden_size, heads and vocab_size");
        return false;
    }
    bool file = strcmp(conf_text(m->conf, "data.tokenizer"), "byte") != 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (conf_is_set(m->conf, keys[i]))
            continue;
        if (file && !strcmp(keys[i], "model.vocab_size")) {
            miss_vocab(m);
            continue;
        }
        missing = keys[i];
        refuse(m, keys[i], "must be given where there is no model.preset");
    }
    return !missing;
}

static void take_parts(struct making *m)
{
    const struct conf *conf = m->conf;
    struct shape *s = &m->plan->shape;
    bool llama = !strcmp(conf_text(conf, "model.family"), "llama");

    *s = (struct shape){
        .names = llama ? SHAPE_NAMES_LLAMA : SHAPE_NAMES_GPT2,
        .norm = !strcmp(conf_text(conf, "model.norm"), "rmsnorm")
                    ? SHAPE_RMSNORM : SHAPE_LAYERNORM,
        .act = !strcmp(conf_text(conf, "model.activation"), "swiglu")
                   ? SHAPE_SWIGLU : SHAPE_GELU,
        .pos = !strcmp(conf_text(conf, "model.position"), "rope")
                   ? SHAPE_ROPE : SHAPE_LEARNED,
        .L = (int)conf_int(conf, "model.layers"),
        .C = (int)conf_int(conf, "model.hidden_size"),
        .H = (int)conf_int(conf, "model.heads"),
        .K = (int)conf_int(conf, "model.kv_heads"),
        .D = (int)conf_int(conf, "model.head_dim"),
        .F = (int)conf_int(conf, "model.ffn_size"),
        .V = conf_is_set(conf, "model.vocab_size")
                 ? (int)conf_int(conf, "model.vocab_size") : UNSEEN_VOCAB,
        .T_max = (int)conf_int(conf, "model.max_positions"),
        .rope_theta = conf_real(conf, "model.rope_theta"),
        .norm_eps = conf_real(conf, "model.norm_eps"),
        .bias_qkv = conf_bool(conf, "model.bias_qkv"),
        .bias_o = conf_bool(conf, "model.bias_out"),
        .bias_ffn = conf_bool(conf, "model.bias_ffn"),
        .bias_norm = conf_bool(conf, "model.bias_norm"),
        .tied = conf_bool(conf, "model.tied"),
        .qk_norm = conf_bool(conf, "model.qk_norm"),
        .init_std = conf_real(conf, "model.init_std"),
    };
    if (s->pos != SHAPE_ROPE)
        s->rope_theta = 0;
    if (s->norm == SHAPE_RMSNORM)
        s->bias_norm = false;
}

/* As Llama 3.1 does it, or not at all. */
static void take_rope_scaling(struct making *m)
{
    const struct conf *conf = m->conf;
    struct shape *s = &m->plan->shape;
    if (strcmp(conf_text(conf, "model.rope_scaling"), "llama3"))
        return;
    if (s->pos != SHAPE_ROPE) {
        refuse(m, "model.rope_scaling", "this model has no RoPE; give none, or "
               "model.position: rope");
        return;
    }
    s->rope_factor = conf_real(conf, "model.rope_factor");
    s->rope_low = conf_real(conf, "model.rope_low");
    s->rope_high = conf_real(conf, "model.rope_high");
    s->rope_positions = (int)conf_int(conf, "model.rope_positions");
    if (s->rope_high <= s->rope_low)
        refuse(m, "model.rope_high", "%g is not above model.rope_low %g",
               s->rope_high, s->rope_low);
}

static void derive(struct making *m)
{
    struct shape *s = &m->plan->shape;
    int multiple = (int)conf_int(m->conf, "model.vocab_multiple");
    s->Vp = (s->V + multiple - 1) / multiple * multiple;
    if (!s->K)
        s->K = s->H;
    if (!s->F)
        s->F = s->act == SHAPE_SWIGLU ? (8 * s->C / 3 + 255) / 256 * 256
                                      : 4 * s->C;
    if (!s->D && s->C % s->H)
        refuse(m, "model.heads", "%d heads do not divide hidden_size %d; give "
               "%lld, or give model.head_dim", s->H, s->C,
               (long long)nearest_divisor(s->C, s->H));
    if (!s->D)
        s->D = s->C / s->H;
}

static void check_heads(struct making *m)
{
    const struct shape *s = &m->plan->shape;
    if (s->K > s->H || s->H % s->K)
        refuse(m, "model.kv_heads", "%d key and value heads do not divide %d "
               "query heads; give %lld", s->K, s->H,
               (long long)nearest_divisor(s->H, s->K));
    if (s->pos == SHAPE_ROPE && s->D % 2)
        refuse(m, "model.head_dim", "RoPE turns pairs, and %d is odd; give %d",
               s->D, s->D + 1);
}

static void check_names(struct making *m)
{
    const struct shape *s = &m->plan->shape;
    if (s->names != SHAPE_NAMES_GPT2)
        return;
    if (s->act != SHAPE_GELU)
        refuse(m, "model.activation", "the gpt2 family's tensor names have no "
               "place for SwiGLU; give model.family: llama");
    if (s->norm != SHAPE_LAYERNORM && s->bias_norm)
        refuse(m, "model.bias_norm", "RMSNorm has no bias; give false");
}

static void make_length(struct making *m)
{
    struct plan *plan = m->plan;
    struct shape *s = &plan->shape;
    plan->seq_len = (int)conf_int(m->conf, "train.seq_len");
    if (!plan->seq_len && !s->T_max) {
        refuse(m, "train.seq_len", "must be given where there is no "
               "model.preset");
        plan->seq_len = 1;
    }
    if (!plan->seq_len)
        plan->seq_len = s->T_max;
    if (!s->T_max || (s->pos == SHAPE_ROPE && s->T_max < plan->seq_len))
        s->T_max = plan->seq_len;
    if (plan->seq_len > s->T_max)
        refuse(m, "train.seq_len", "%d tokens, but the model has %d learned "
               "positions; give at most %d, or raise model.max_positions",
               plan->seq_len, s->T_max, s->T_max);
}

static void make_tokens(struct making *m)
{
    struct plan *plan = m->plan;
    const struct shape *s = &plan->shape;
    bool uses_eod = plan->eod_mask_loss || plan->eod_reset_positions ||
                    plan->eod_reset_attention;
    plan->eod_token = conf_is_set(m->conf, "data.eod_token")
                          ? (int)conf_int(m->conf, "data.eod_token")
                          : -1;
    if (!strcmp(plan->tokenizer, "byte") && s->V < 257)
        refuse(m, "model.vocab_size", "%d is less than the byte tokenizer's "
               "257; give at least 257", s->V);
    if (m->site->tokenizer.vocab > s->V)
        warn(m, "model.vocab_size", "%d, but '%.250s' has %d tokens: those "
             "above cannot be trained", s->V, plan->tokenizer,
             m->site->tokenizer.vocab);
    if (plan->eod_token >= s->V)
        refuse(m, "data.eod_token", "%d is not in a vocabulary of %d; give at "
               "most %d", plan->eod_token, s->V, s->V - 1);
    if (uses_eod && plan->eod_token < 0)
        refuse(m, "data.eod_token", "must be given, since eod_mask_loss, "
               "reset_positions or reset_attention is on");
    if (plan->eod_reset_attention && !plan->eod_reset_positions)
        warn(m, "data.reset_attention", "documents do not see each other, but "
             "their positions run on; data.reset_positions: true is usual");
}

void make_model(struct making *m)
{
    struct shape *s = &m->plan->shape;
    if (!has_sizes(m)) {
        /* a shape that the later stages can count with */
        *s = (struct shape){.L = 1, .C = 8, .H = 1, .K = 1, .D = 8, .F = 8,
                            .V = 257, .Vp = 257, .T_max = 1};
        m->plan->seq_len = 1;
        return;
    }
    take_parts(m);
    take_rope_scaling(m);
    derive(m);
    check_heads(m);
    check_names(m);
    make_length(m);
    make_tokens(m);
}
