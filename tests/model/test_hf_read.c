/* Tests of runner/model/hf_read.c: what config.json says of each family, keys
 * that are refused by name, and that an export reads back as the same shape. */
#include <stdlib.h>
#include <string.h>

#include "runner/model/model.h"
#include "tests/tap.h"

#define GPT2 "'model_type': 'gpt2', 'n_layer': 2, 'n_embd': 64, 'n_head': 4, " \
             "'n_positions': 128, 'vocab_size': 257"
#define SIZES "'num_hidden_layers': 3, 'hidden_size': 64, "                    \
              "'num_attention_heads': 8, 'num_key_value_heads': 2, "          \
              "'intermediate_size': 96, 'vocab_size': 300, "                  \
              "'max_position_embeddings': 2048, 'hidden_act': 'silu'"
#define LLAMA "'model_type': 'llama', " SIZES

static struct shape shape;
static struct sbuf notes = SBUF_INIT;
static struct err err;

/* Keys with ' for ". */
static int reads(const char *keys)
{
    struct sbuf text = SBUF_INIT;
    sbuf_printf(&text, "{%s}", keys);
    for (char *p = text.data; *p; p++)
        if (*p == '\'')
            *p = '"';
    json_t *v = json_loads(text.data, 0, NULL);
    if (!v)
        printf("# not JSON: %s\n", text.data);
    sbuf_clear(&notes);
    err = ERR_INIT;
    int rc = model_hf_shape(v, &shape, &notes, &err);
    json_decref(v);
    sbuf_release(&text);
    return rc;
}

static void check_families(void)
{
    ok(!reads(GPT2), "GPT-2 %s", err.msg);
    ok(shape.F == 256 && shape.K == 4 && shape.D == 16 && shape.tied &&
           shape.bias_qkv && shape.norm == SHAPE_LAYERNORM,
       "with its defaults");
    ok(!reads(GPT2 ", 'n_inner': null, 'attn_pdrop': 0.1, 'n_ctx': 128"),
       "its usual keys %s", err.msg);
    ok(strstr(notes.data, "attn_pdrop"), "dropout is told: %s", notes.data);
    ok(!reads(LLAMA ", 'rope_scaling': null, 'rope_theta': 500000.0"),
       "Llama %s", err.msg);
    ok(shape.K == 2 && shape.D == 8 && !shape.tied && !shape.bias_qkv &&
           shape.rope_theta == 500000 && shape.rope_factor == 0,
       "with its defaults");
    ok(!reads(LLAMA ", 'attention_bias': true, 'mlp_bias': true") &&
           shape.bias_qkv && shape.bias_o && shape.bias_ffn, "its biases");
    ok(!reads("'model_type': 'qwen2', 'use_sliding_window': false, "
              "'sliding_window': 4096, 'max_window_layers': 2, " SIZES) &&
           shape.bias_qkv && !shape.bias_o, "Qwen 2 %s", err.msg);
    ok(!reads("'model_type': 'qwen3', " SIZES) && shape.qk_norm &&
           shape.D == 128 && !shape.bias_qkv, "Qwen 3 %s", err.msg);
    ok(!reads("'model_type': 'mistral', 'sliding_window': null, " SIZES),
       "Mistral %s", err.msg);
}

#define LLAMA3 "'rope_type': 'llama3', 'factor': 32.0, 'low_freq_factor': "    \
               "1.0, 'high_freq_factor': 4.0, "                               \
               "'original_max_position_embeddings': 8192"

static void check_rope(void)
{
    ok(!reads(LLAMA ", 'rope_theta': 5e5, 'rope_scaling': {" LLAMA3 "}"),
       "Llama 3.1's scaling %s", err.msg);
    ok(shape.rope_factor == 32 && shape.rope_low == 1 &&
           shape.rope_high == 4 && shape.rope_positions == 8192,
       "its numbers");
    ok(!reads(LLAMA ", 'rope_parameters': {" LLAMA3 ", 'rope_theta': 7e5}") &&
           shape.rope_theta == 7e5 && shape.rope_factor == 32,
       "in the newer form %s", err.msg);
    ok(!reads(LLAMA ", 'rope_parameters': {'rope_type': 'default', "
              "'rope_theta': 7e5}") && shape.rope_factor == 0, "none");
}

static void check_refused(void)
{
    static const struct { const char *keys, *says; } rows[] = {
        {"'model_type': 'bert'", "bert"},
        {"'n_layer': 2", "model_type"},
        {LLAMA ", 'rope_scaling': {'type': 'linear', 'factor': 2.0}", "linear"},
        {LLAMA ", 'rope_scaling': {'rope_type': 'yarn', 'beta_fast': 32}",
         "beta_fast"},
        {LLAMA ", 'rope_scaling': {'rope_type': 'llama3', 'factor': 8}",
         "low_freq_factor"},
        {LLAMA ", 'num_experts': 8", "num_experts"},
        {LLAMA ", 'quantization_config': {}", "quantization_config"},
        {LLAMA ", 'partial_rotary_factor': 0.5", "partial_rotary_factor"},
        {LLAMA ", 'architectures': ['LlamaForSequenceClassification']",
         "architectures"},
        {LLAMA ", 'hidden_size': -1", "hidden_size"},
        {LLAMA ", 'layer_types': ['full_attention', 'sliding_attention']",
         "layer_types"},
        {"'model_type': 'llama', 'hidden_size': 64", "missing"},
        {"'model_type': 'mistral', 'sliding_window': 4096, " SIZES,
         "sliding_window"},
        {"'model_type': 'mistral', " SIZES, "4096"},
        {"'model_type': 'qwen2', 'use_sliding_window': true, " SIZES,
         "use_sliding_window"},
        {GPT2 ", 'activation_function': 'gelu'", "activation_function"},
        {GPT2 ", 'scale_attn_by_inverse_layer_idx': true", "inverse_layer"},
        {GPT2 ", 'add_cross_attention': true", "add_cross_attention"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ok(reads(rows[i].keys) && err.class == ERR_REQUEST &&
               strstr(err.msg, rows[i].says), "refused: %s", err.msg);
}

/* A shape, its config.json, and the shape that this reads as. */
static void check_back(struct shape s, const char *what)
{
    err = ERR_INIT;
    json_t *v = model_hf_config(&s, "float32", &err);
    struct shape got;
    struct hf_tensor *a = NULL, *b = NULL;
    bool same = v && !model_hf_shape(v, &got, &notes, &err);
    if (!ok(same, "%s is read back %s", what, err.msg))
        return;
    int n = model_hf_tensors(&s, &a);
    same = n == model_hf_tensors(&got, &b) && n > 0 &&
           !memcmp(a, b, (size_t)n * sizeof *a);
    ok(same, "with the same %d tensors", n);
    ok(got.rope_theta == s.rope_theta && got.norm_eps == s.norm_eps &&
           got.rope_factor == s.rope_factor && got.tied == s.tied &&
           got.qk_norm == s.qk_norm && got.rope_positions == s.rope_positions,
       "and the same numbers");
    free(a);
    free(b);
    json_decref(v);
}

static void check_round(void)
{
    struct shape s = {
        .names = SHAPE_NAMES_GPT2, .norm = SHAPE_LAYERNORM, .act = SHAPE_GELU,
        .pos = SHAPE_LEARNED, .L = 2, .C = 64, .H = 4, .K = 4, .D = 16,
        .F = 250, .V = 257, .Vp = 384, .T_max = 128, .norm_eps = 1e-5,
        .bias_qkv = true, .bias_o = true, .bias_ffn = true, .bias_norm = true};
    check_back(s, "GPT-2, untied");
    s = (struct shape){
        .names = SHAPE_NAMES_LLAMA, .norm = SHAPE_RMSNORM,
        .act = SHAPE_SWIGLU, .pos = SHAPE_ROPE, .L = 2, .C = 64, .H = 4,
        .K = 2, .D = 16, .F = 128, .V = 257, .Vp = 384, .T_max = 128,
        .rope_theta = 5e5, .norm_eps = 1e-6, .tied = true};
    check_back(s, "Llama");
    s.rope_factor = 8, s.rope_low = 1, s.rope_high = 4, s.rope_positions = 64;
    check_back(s, "Llama 3.1");
    s.bias_qkv = true;
    check_back(s, "Qwen 2");
    s.bias_qkv = false, s.qk_norm = true;
    check_back(s, "Qwen 3");
}

int main(void)
{
    check_families();
    check_rope();
    check_refused();
    check_round();
    ok(model_hf_ignored(&(struct shape){.names = SHAPE_NAMES_GPT2},
                        "h.3.attn.bias") &&
           !model_hf_ignored(&(struct shape){.names = SHAPE_NAMES_GPT2},
                             "h.3.ln_1.bias"),
       "GPT-2's buffers are no tensors");
    sbuf_release(&notes);
    return tap_done();
}
