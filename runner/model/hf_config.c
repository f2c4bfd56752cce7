/* hf_config - a model's shape as Hugging Face's config.json. What their
 * classes cannot say is refused by name: an export that loads and computes
 * something else is worse than none. */
#include "runner/model/model.h"

#include <stdio.h>
#include <string.h>

static int cannot(struct err *err, const char *family, const char *what)
{
    return err_set_class(err, ERR_REQUEST, "model: Hugging Face's %s has no "
                         "%s: it cannot be exported", family, what);
}

/* ---- GPT-2 ------------------------------------------------------------- */

static int check_gpt2(const struct shape *s, struct err *err)
{
    if (s->norm != SHAPE_LAYERNORM || !s->bias_norm)
        return cannot(err, "GPT-2", "norm but LayerNorm with a bias");
    if (s->act != SHAPE_GELU)
        return cannot(err, "GPT-2", "SwiGLU");
    if (s->pos != SHAPE_LEARNED)
        return cannot(err, "GPT-2", "RoPE");
    if (!s->bias_qkv || !s->bias_o || !s->bias_ffn)
        return cannot(err, "GPT-2", "layers without biases");
    if (s->qk_norm)
        return cannot(err, "GPT-2", "QK-norm");
    if (s->K != s->H || s->H * s->D != s->C)
        return cannot(err, "GPT-2", "grouped heads or head width of its own");
    return 0;
}

static json_t *gpt2(const struct shape *s, const char *dtype)
{
    return json_pack(
        "{s:s,s:[s],s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:f,s:f,s:b,s:f,s:f,s:f,s:s,"
        "s:n,s:n}",
        "model_type", "gpt2", "architectures", "GPT2LMHeadModel",
        "vocab_size", s->V, "n_positions", s->T_max, "n_embd", s->C,
        "n_layer", s->L, "n_head", s->H, "n_inner", s->F,
        "activation_function", "gelu_new", "layer_norm_epsilon", s->norm_eps,
        "initializer_range", s->init_std, "tie_word_embeddings", s->tied,
        "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0,
        "torch_dtype", dtype, "bos_token_id", "eos_token_id");
}

/* ---- Llama, Qwen 2 and 3 ----------------------------------------------- */

/* The class that has this one's biases and norms; NULL with err. */
static const char *llama_class(const struct shape *s, const char **ret_type,
                               struct err *err)
{
    bool qkv_alone = s->bias_qkv && !s->bias_o;
    if (s->norm != SHAPE_RMSNORM || s->bias_norm)
        cannot(err, "Llama", "norm but RMSNorm");
    else if (s->act != SHAPE_SWIGLU)
        cannot(err, "Llama", "GELU");
    else if (s->pos != SHAPE_ROPE)
        cannot(err, "Llama", "learned positions");
    else if (s->bias_o && !s->bias_qkv)
        cannot(err, "Llama", "bias at the attention's end alone");
    else if (s->qk_norm && (qkv_alone || s->bias_ffn))
        cannot(err, "Qwen 3", "such biases beside QK-norm");
    else if (qkv_alone && (s->bias_ffn || s->H * s->D != s->C))
        cannot(err, "Qwen 2", "feed-forward biases or head width of its own");
    else {
        *ret_type = s->qk_norm ? "qwen3" : qkv_alone ? "qwen2" : "llama";
        return s->qk_norm   ? "Qwen3ForCausalLM"
               : qkv_alone ? "Qwen2ForCausalLM"
                           : "LlamaForCausalLM";
    }
    return NULL;
}

/* transformers 4 reads rope_scaling, 5 rope_parameters. */
static void put_rope_scaling(json_t *v, const struct shape *s)
{
    json_t *scaling = json_pack(
        "{s:s,s:f,s:f,s:f,s:i}", "rope_type", "llama3", "factor",
        s->rope_factor, "low_freq_factor", s->rope_low, "high_freq_factor",
        s->rope_high, "original_max_position_embeddings", s->rope_positions);
    json_object_update(json_object_get(v, "rope_parameters"), scaling);
    json_object_set_new(v, "rope_scaling", scaling);
}

static json_t *llama(const struct shape *s, const char *class,
                     const char *type, const char *dtype)
{
    json_t *v = json_pack(
        "{s:s,s:[s],s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:f,s:f,s:b,s:b,s:b,"
        "s:f,s:n,s:{s:f,s:s},s:f,s:s,s:n,s:n}",
        "model_type", type, "architectures", class, "vocab_size", s->V,
        "hidden_size", s->C, "intermediate_size", s->F, "num_hidden_layers",
        s->L, "num_attention_heads", s->H, "num_key_value_heads", s->K,
        "head_dim", s->D, "max_position_embeddings", s->T_max, "hidden_act",
        "silu", "rms_norm_eps", s->norm_eps, "initializer_range", s->init_std,
        "tie_word_embeddings", s->tied, "attention_bias",
        s->bias_qkv && s->bias_o, "mlp_bias", s->bias_ffn, "rope_theta",
        s->rope_theta, "rope_scaling", "rope_parameters", "rope_theta",
        s->rope_theta, "rope_type", "default", "attention_dropout", 0.0,
        "torch_dtype", dtype, "bos_token_id", "eos_token_id");
    if (v && s->rope_factor > 0)
        put_rope_scaling(v, s);
    if (v && strcmp(type, "llama")) /* off there, but for other readers */
        json_object_set_new(v, "use_sliding_window", json_false());
    return v;
}

json_t *model_hf_config(const struct shape *shape, const char *dtype,
                        struct err *err)
{
    json_t *v;
    const char *class, *type;
    if (shape->names == SHAPE_NAMES_GPT2) {
        if (check_gpt2(shape, err))
            return NULL;
        v = gpt2(shape, dtype);
    } else {
        if (!(class = llama_class(shape, &type, err)))
            return NULL;
        v = llama(shape, class, type, dtype);
    }
    if (!v)
        err_set(err, "model: out of memory for the configuration");
    return v;
}
