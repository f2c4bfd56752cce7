/* Tests of runner/model/hf_config.c: which class a shape is exported as, and
 * what none of Hugging Face's classes has. */
#include <stdlib.h>
#include <string.h>

#include "runner/model/model.h"
#include "tests/tap.h"

static struct shape gpt2(void)
{
    return (struct shape){
        .names = SHAPE_NAMES_GPT2, .norm = SHAPE_LAYERNORM, .act = SHAPE_GELU,
        .pos = SHAPE_LEARNED, .L = 2, .C = 64, .H = 4, .K = 4, .D = 16,
        .F = 256, .V = 257, .T_max = 128, .norm_eps = 1e-5, .bias_qkv = true,
        .bias_o = true, .bias_ffn = true, .bias_norm = true, .tied = true};
}

static struct shape llama(void)
{
    return (struct shape){
        .names = SHAPE_NAMES_LLAMA, .norm = SHAPE_RMSNORM,
        .act = SHAPE_SWIGLU, .pos = SHAPE_ROPE, .L = 2, .C = 64, .H = 4,
        .K = 2, .D = 16, .F = 128, .V = 257, .T_max = 128,
        .rope_theta = 5e5, .norm_eps = 1e-6};
}

/* The class, or the refusal. */
static const char *class_of(struct shape s)
{
    static char text[1000];
    struct err err = ERR_INIT;
    json_t *v = model_hf_config(&s, "float32", &err);
    json_t *list = json_object_get(v, "architectures");
    snprintf(text, sizeof text, "%s",
             v ? json_string_value(json_array_get(list, 0)) : err.msg);
    if (!v && err.class != ERR_REQUEST)
        snprintf(text, sizeof text, "class %d", err.class);
    json_decref(v);
    return text;
}

#define REFUSED(change, says)                                                  \
    do {                                                                       \
        change;                                                                \
        ok(strstr(class_of(s), says), "refused: %s", #change);                 \
    } while (0)

int main(void)
{
    struct shape s = gpt2();
    struct err err = ERR_INIT;
    is_str(class_of(s), "GPT2LMHeadModel", "GPT-2");
    REFUSED(s.K = 2, "grouped heads");
    s = gpt2();
    REFUSED(s.pos = SHAPE_ROPE, "RoPE");
    s = gpt2();
    REFUSED(s.bias_ffn = false, "without biases");
    s = gpt2();
    REFUSED(s.qk_norm = true, "QK-norm");

    s = llama();
    is_str(class_of(s), "LlamaForCausalLM", "Llama");
    json_t *v = model_hf_config(&s, "bfloat16", &err);
    is_int(json_integer_value(json_object_get(v, "num_key_value_heads")), 2,
           "its heads");
    is_near(json_number_value(json_object_get(
                json_object_get(v, "rope_parameters"), "rope_theta")),
            5e5, 0, "its rotation");
    json_decref(v);
    s.D = 32;
    is_str(class_of(s), "LlamaForCausalLM", "a head width of its own");
    s.qk_norm = true;
    is_str(class_of(s), "Qwen3ForCausalLM", "QK-norm");
    REFUSED(s.bias_qkv = true, "Qwen 3");
    s = llama();
    s.bias_qkv = true;
    is_str(class_of(s), "Qwen2ForCausalLM", "biases on q, k, v");
    REFUSED(s.D = 32, "Qwen 2");
    s = llama();
    REFUSED(s.norm = SHAPE_LAYERNORM, "RMSNorm");
    s = llama();
    REFUSED(s.act = SHAPE_GELU, "GELU");
    s = llama();
    REFUSED(s.bias_o = true, "alone");
    return tap_done();
}
