/* hf_read - Hugging Face's config.json as a shape.
 *
 * One table row a key: where it goes, or what it must say. A key without a row
 * is refused by name: it may change what the model computes. Defaults are
 * those of their configuration classes.
 */
#include "runner/model/model.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum family { GPT2 = 1, LLAMA = 2, QWEN2 = 4, QWEN3 = 8, MISTRAL = 16 };
#define ROPED (LLAMA | QWEN2 | QWEN3 | MISTRAL)
#define ALL (GPT2 | ROPED)

static const struct {
    const char *type;
    enum family family;
} families[] = {
    {"gpt2", GPT2}, {"llama", LLAMA}, {"qwen2", QWEN2}, {"qwen3", QWEN3},
    {"mistral", MISTRAL},
};

enum kind {
    IS_INT, IS_REAL, IS_BOOL,   /* into the shape; null: the default */
    MUST_BE,                    /* one of the words */
    MUST_TRUE, MUST_FALSE, MUST_NULL, MUST_ONE,
    DROPOUT,                    /* not done here: a note */
    ROPE,                       /* an object of its own */
    CLASS,                      /* architectures */
    FULL,                       /* a list of "full_attention" */
    HARMLESS,
};

#define AT(member) offsetof(struct shape, member)
static const struct row {
    int family;
    const char *key;
    enum kind kind;
    size_t at;
    const char *words; /* MUST_BE: separated by |; else why it is refused */
} rows[] = {
    {GPT2, "n_layer", IS_INT, AT(L), NULL},
    {GPT2, "n_embd", IS_INT, AT(C), NULL},
    {GPT2, "n_head", IS_INT, AT(H), NULL},
    {GPT2, "n_inner", IS_INT, AT(F), NULL},
    {GPT2, "n_positions", IS_INT, AT(T_max), NULL},
    {GPT2, "n_ctx", HARMLESS, 0, NULL},
    {GPT2, "layer_norm_epsilon", IS_REAL, AT(norm_eps), NULL},
    {GPT2, "activation_function", MUST_BE, 0, "gelu_new|gelu_pytorch_tanh"},
    {GPT2, "attn_pdrop", DROPOUT, 0, NULL},
    {GPT2, "embd_pdrop", DROPOUT, 0, NULL},
    {GPT2, "resid_pdrop", DROPOUT, 0, NULL},
    {GPT2, "scale_attn_weights", MUST_TRUE, 0, "scores are always scaled"},
    {GPT2, "scale_attn_by_inverse_layer_idx", MUST_FALSE, 0,
     "scores are not scaled by the layer"},
    {GPT2, "add_cross_attention", MUST_FALSE, 0, "there is no encoder"},
    {GPT2, "reorder_and_upcast_attn", HARMLESS, 0, NULL},
    {GPT2, "summary_activation", HARMLESS, 0, NULL},
    {GPT2, "summary_first_dropout", HARMLESS, 0, NULL},
    {GPT2, "summary_proj_to_labels", HARMLESS, 0, NULL},
    {GPT2, "summary_type", HARMLESS, 0, NULL},
    {GPT2, "summary_use_proj", HARMLESS, 0, NULL},

    {ROPED, "num_hidden_layers", IS_INT, AT(L), NULL},
    {ROPED, "hidden_size", IS_INT, AT(C), NULL},
    {ROPED, "num_attention_heads", IS_INT, AT(H), NULL},
    {ROPED, "num_key_value_heads", IS_INT, AT(K), NULL},
    {ROPED, "head_dim", IS_INT, AT(D), NULL},
    {ROPED, "intermediate_size", IS_INT, AT(F), NULL},
    {ROPED, "max_position_embeddings", IS_INT, AT(T_max), NULL},
    {ROPED, "rms_norm_eps", IS_REAL, AT(norm_eps), NULL},
    {ROPED, "rope_theta", IS_REAL, AT(rope_theta), NULL},
    {ROPED, "rope_scaling", ROPE, 0, NULL},
    {ROPED, "rope_parameters", ROPE, 0, NULL},
    {ROPED, "partial_rotary_factor", MUST_ONE, 0, "all of a head is turned"},
    {ROPED, "hidden_act", MUST_BE, 0, "silu"},
    {ROPED, "attention_dropout", DROPOUT, 0, NULL},
    {LLAMA | QWEN3, "attention_bias", IS_BOOL, AT(bias_qkv), NULL},
    {QWEN2 | MISTRAL, "attention_bias", MUST_FALSE, 0,
     "this family has a rule of its own"},
    {LLAMA, "mlp_bias", IS_BOOL, AT(bias_ffn), NULL},
    {QWEN2 | QWEN3 | MISTRAL, "mlp_bias", MUST_FALSE, 0,
     "this family has none"},
    {LLAMA, "pretraining_tp", HARMLESS, 0, NULL},
    {MISTRAL, "sliding_window", MUST_NULL, 0,
     "sliding windows are not supported"},
    {QWEN2 | QWEN3, "use_sliding_window", MUST_FALSE, 0,
     "sliding windows are not supported"},
    {QWEN2 | QWEN3, "sliding_window", HARMLESS, 0, NULL}, /* unused then */
    {QWEN2 | QWEN3, "max_window_layers", HARMLESS, 0, NULL},
    {ROPED, "layer_types", FULL, 0, NULL},

    {ALL, "model_type", HARMLESS, 0, NULL}, /* looked at first */
    {ALL, "architectures", CLASS, 0, NULL},
    {ALL, "vocab_size", IS_INT, AT(V), NULL},
    {ALL, "initializer_range", IS_REAL, AT(init_std), NULL},
    {ALL, "tie_word_embeddings", IS_BOOL, AT(tied), NULL},
    {ALL, "is_encoder_decoder", MUST_FALSE, 0, "there is no encoder"},
    {ALL, "is_decoder", HARMLESS, 0, NULL},
    {ALL, "torch_dtype", HARMLESS, 0, NULL}, /* the files say it */
    {ALL, "dtype", HARMLESS, 0, NULL},
    {ALL, "transformers_version", HARMLESS, 0, NULL},
    {ALL, "_name_or_path", HARMLESS, 0, NULL},
    {ALL, "_attn_implementation_autoset", HARMLESS, 0, NULL},
    {ALL, "use_cache", HARMLESS, 0, NULL},
    {ALL, "bos_token_id", HARMLESS, 0, NULL},
    {ALL, "eos_token_id", HARMLESS, 0, NULL},
    {ALL, "pad_token_id", HARMLESS, 0, NULL},
    {ALL, "task_specific_params", HARMLESS, 0, NULL},
    {ALL, "tokenizer_class", HARMLESS, 0, NULL},
    {ALL, "output_attentions", HARMLESS, 0, NULL},
    {ALL, "output_hidden_states", HARMLESS, 0, NULL},
    {ALL, "return_dict", HARMLESS, 0, NULL},
    {ALL, "chunk_size_feed_forward", HARMLESS, 0, NULL},
    {ALL, "id2label", HARMLESS, 0, NULL},
    {ALL, "label2id", HARMLESS, 0, NULL},
    {ALL, "problem_type", HARMLESS, 0, NULL},
};

static int refused(struct err *err, const char *key, const char *why)
{
    return err_set_class(err, ERR_REQUEST,
                         "model: config.json: '%s': %s: it cannot be imported",
                         key, why);
}

/* ---- RoPE's object ------------------------------------------------------- */
static int rope_real(const json_t *v, const char *key, double *ret,
                     struct err *err)
{
    if (!json_is_number(v) || json_number_value(v) <= 0)
        return refused(err, key, "not a number above 0");
    *ret = json_number_value(v);
    return 0;
}

static int rope_check(const struct shape *s, const char *type, struct err *err)
{
    if (!strcmp(type, "default"))
        return 0;
    if (strcmp(type, "llama3")) {
        char why[200];
        snprintf(why, sizeof why, "RoPE of type '%.60s' is not supported "
                 "(default and llama3 are)", type);
        return refused(err, "rope_scaling", why);
    }
    if (s->rope_factor < 1 || s->rope_low <= 0 || s->rope_positions < 1 ||
        s->rope_high <= s->rope_low)
        return refused(err, "rope_scaling", "llama3 needs factor, "
                       "low_freq_factor, high_freq_factor and "
                       "original_max_position_embeddings");
    return 0;
}

static int take_rope(const json_t *object, struct shape *s, struct err *err)
{
    const char *key, *type = "default";
    json_t *v;
    double positions = s->rope_positions, whole = 1;
    if (json_is_null(object))
        return 0;
    if (!json_is_object(object))
        return refused(err, "rope_scaling", "not an object");
    const struct { const char *key; double *to; } reals[] = {
        {"factor", &s->rope_factor}, {"low_freq_factor", &s->rope_low},
        {"high_freq_factor", &s->rope_high}, {"rope_theta", &s->rope_theta},
        {"original_max_position_embeddings", &positions},
        {"partial_rotary_factor", &whole},
    };
    json_object_foreach ((json_t *)(uintptr_t)object, key, v) {
        size_t i = 0;
        if (!strcmp(key, "rope_type") || !strcmp(key, "type")) {
            type = json_is_string(v) ? json_string_value(v) : "?";
            continue;
        }
        while (i < sizeof reals / sizeof *reals && strcmp(reals[i].key, key))
            i++;
        if (i == sizeof reals / sizeof *reals)
            return refused(err, key, "in RoPE's settings, not known");
        if (!json_is_null(v) && rope_real(v, key, reals[i].to, err) != 0)
            return -1;
    }
    if (whole != 1)
        return refused(err, "partial_rotary_factor", "all of a head is turned");
    s->rope_positions = positions < INT_MAX ? (int)positions : INT_MAX;
    if (!strcmp(type, "default"))
        s->rope_factor = s->rope_low = s->rope_high = s->rope_positions = 0;
    return rope_check(s, type, err);
}

/* ---- The other keys ------------------------------------------------------ */
static bool is_word(const char *words, const json_t *v)
{
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    size_t n = strlen(text);
    for (const char *p = words; *p; p += strcspn(p, "|"), p += *p == '|')
        if (n && strcspn(p, "|") == n && !memcmp(p, text, n))
            return true;
    return false;
}

static int check_class(const json_t *list, struct err *err)
{
    const char *name = json_string_value(json_array_get(list, 0));
    static const char *const ends[] = {"ForCausalLM", "LMHeadModel", "Model"};
    size_t n = name ? strlen(name) : 0;
    if (!n)
        return 0;
    for (int i = 0; i < 3; i++)
        if (n > strlen(ends[i]) && !strcmp(name + n - strlen(ends[i]), ends[i]))
            return 0;
    return refused(err, "architectures", "not a language model");
}

static int check_full(const json_t *list, struct err *err)
{
    size_t i;
    json_t *v;
    json_array_foreach (list, i, v)
        if (!is_word("full_attention", v))
            return refused(err, "layer_types", "layers with another attention "
                           "than full_attention");
    return 0;
}

static int take_number(const struct row *row, const json_t *v,
                       struct shape *s, struct err *err)
{
    char *to = (char *)s + row->at;
    json_int_t n = json_integer_value(v);
    if (json_is_null(v))
        return 0;
    switch (row->kind) {
    case IS_INT:
        if (!json_is_integer(v) || n < 1 || n > 1 << 30)
            return refused(err, row->key, "not a whole number above 0");
        *(int *)to = (int)n;
        return 0;
    case IS_REAL:
        if (!json_is_number(v) || json_number_value(v) < 0)
            return refused(err, row->key, "not a number");
        *(double *)to = json_number_value(v);
        return 0;
    default:
        if (!json_is_boolean(v))
            return refused(err, row->key, "neither true nor false");
        *(bool *)to = json_is_true(v);
        return 0;
    }
}

static int take_key(const struct row *row, const json_t *v, struct shape *s,
                    struct sbuf *notes, struct err *err)
{
    bool off = json_is_null(v) || json_is_false(v);
    switch (row->kind) {
    case IS_INT: case IS_REAL: case IS_BOOL:
        return take_number(row, v, s, err);
    case MUST_BE:
        return is_word(row->words, v)
                   ? 0
                   : refused(err, row->key, "another function than the ones "
                             "that are supported");
    case MUST_TRUE:
        return json_is_true(v) ? 0 : refused(err, row->key, row->words);
    case MUST_FALSE:
        return off ? 0 : refused(err, row->key, row->words);
    case MUST_NULL:
        return json_is_null(v) ? 0 : refused(err, row->key, row->words);
    case MUST_ONE:
        return json_is_null(v) || json_number_value(v) == 1
                   ? 0
                   : refused(err, row->key, row->words);
    case DROPOUT:
        if (json_number_value(v) > 0)
            sbuf_printf(notes, "config.json: '%s': %g is left out: there is no "
                        "dropout\n", row->key, json_number_value(v));
        return 0;
    case ROPE:
        return take_rope(v, s, err);
    case CLASS:
        return check_class(v, err);
    case FULL:
        return check_full(v, err);
    default:
        return 0;
    }
}

static const struct row *find_row(enum family family, const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((rows[i].family & (int)family) && !strcmp(rows[i].key, key))
            return &rows[i];
    return NULL;
}

/* ---- The whole ----------------------------------------------------------- */
static int find_family(const json_t *config, enum family *ret, struct err *err)
{
    const json_t *v = json_object_get(config, "model_type");
    const char *type = json_is_string(v) ? json_string_value(v) : "";
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].type, type)) {
            *ret = families[i].family;
            return 0;
        }
    return err_set_class(err, ERR_REQUEST, "model: config.json: 'model_type': "
                         "'%.60s' is not gpt2, llama, qwen2, qwen3 or mistral: "
                         "it cannot be imported", type);
}

static struct shape defaults(enum family family)
{
    if (family == GPT2)
        return (struct shape){
            .names = SHAPE_NAMES_GPT2, .norm = SHAPE_LAYERNORM,
            .act = SHAPE_GELU, .pos = SHAPE_LEARNED, .norm_eps = 1e-5,
            .bias_qkv = true, .bias_o = true, .bias_ffn = true,
            .bias_norm = true, .tied = true, .init_std = 0.02};
    return (struct shape){
        .names = SHAPE_NAMES_LLAMA, .norm = SHAPE_RMSNORM,
        .act = SHAPE_SWIGLU, .pos = SHAPE_ROPE, .rope_theta = 10000,
        .norm_eps = 1e-6, .bias_qkv = family == QWEN2,
        .qk_norm = family == QWEN3, .D = family == QWEN3 ? 128 : 0,
        .init_std = 0.02};
}

/* What follows from the rest, and what must not be missing. */
static int complete(enum family family, struct shape *s, struct err *err)
{
    if (s->L < 1 || s->C < 1 || s->H < 1 || s->V < 1 || s->T_max < 1 ||
        (family != GPT2 && s->F < 1))
        return err_set_class(err, ERR_REQUEST, "model: config.json: a size is "
                             "missing (layers, width, heads, feed-forward "
                             "width, vocabulary or positions)");
    s->K = s->K ? s->K : s->H;
    s->F = s->F ? s->F : 4 * s->C;
    if (!s->D && s->C % s->H)
        return err_set_class(err, ERR_REQUEST, "model: config.json: %d heads "
                             "do not divide a width of %d", s->H, s->C);
    s->D = s->D ? s->D : s->C / s->H;
    s->Vp = s->V;
    if (family == GPT2)
        s->K = s->H;
    if (family == LLAMA || family == QWEN3)
        s->bias_o = s->bias_qkv;
    return 0;
}

int model_hf_shape(const json_t *config, struct shape *ret, struct sbuf *notes,
                   struct err *err)
{
    enum family family = GPT2;
    const char *key;
    json_t *v;
    if (find_family(config, &family, err) != 0)
        return -1;
    struct shape s = defaults(family);
    json_object_foreach ((json_t *)(uintptr_t)config, key, v) {
        const struct row *row = find_row(family, key);
        if (!row)
            return refused(err, key, "not known, and it may change the model");
        if (take_key(row, v, &s, notes, err) != 0)
            return -1;
    }
    if (family == MISTRAL && !json_object_get(config, "sliding_window"))
        return refused(err, "sliding_window", "absent, which means 4096");
    if (complete(family, &s, err) != 0)
        return -1;
    *ret = s;
    return 0;
}
