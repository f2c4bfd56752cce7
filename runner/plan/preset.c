/* preset - known models and the families' habits, as values of keys that the
 * user did not give. Sizes are those of the published models; gpt3-7b is the
 * 6.7 B row of the GPT-3 paper's table with 2048 positions. micro and nano are
 * for CPUs and tests, with the byte tokenizer. */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <string.h>

static const struct preset {
    const char *name, *family;
    int layers, hidden, heads, kv_heads, head_dim, ffn, vocab, positions;
    const char *rope_theta; /* NULL: no matter */
    bool tied;
} presets[] = {
    {"gpt2-micro", "gpt2", 2, 64, 2, 2, 32, 256, 257, 128, NULL, true},
    {"gpt2-nano", "gpt2", 4, 128, 4, 4, 32, 512, 257, 256, NULL, true},
    {"gpt2-124m", "gpt2", 12, 768, 12, 12, 64, 3072, 50257, 1024, NULL, true},
    {"gpt2-350m", "gpt2", 24, 1024, 16, 16, 64, 4096, 50257, 1024, NULL, true},
    {"gpt2-774m", "gpt2", 36, 1280, 20, 20, 64, 5120, 50257, 1024, NULL, true},
    {"gpt2-1558m", "gpt2", 48, 1600, 25, 25, 64, 6400, 50257, 1024, NULL,
     true},
    {"gpt3-7b", "gpt2", 32, 4096, 32, 32, 128, 16384, 50257, 2048, NULL, true},
    {"llama-micro", "llama", 2, 64, 2, 1, 32, 192, 257, 128, "10000", true},
    {"llama-nano", "llama", 4, 128, 4, 2, 32, 384, 257, 256, "10000", true},
    {"llama-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 8192, "500000",
     true},
    {"llama-3b", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 8192, "500000",
     true},
    {"llama-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 8192, "500000",
     false},
};
enum { BYTE_VOCAB = 257 };
#define PRESETS_N ((int)(sizeof presets / sizeof *presets))

static const struct habit {
    const char *key, *gpt2, *llama;
} habits[] = {
    {"model.norm", "layernorm", "rmsnorm"},
    {"model.activation", "gelu", "swiglu"},
    {"model.position", "learned", "rope"},
    {"model.bias_qkv", "true", "false"},
    {"model.bias_out", "true", "false"},
    {"model.bias_ffn", "true", "false"},
    {"model.bias_norm", "true", "false"},
    {"model.tied", "true", "false"},
    {"model.rope_theta", "10000", "10000"},
};

const char *const *plan_presets(void)
{
    static const char *names[PRESETS_N + 1];
    for (int i = 0; i < PRESETS_N; i++)
        names[i] = presets[i].name;
    return names;
}

/* Set what is not set; text NULL: nothing. */
static int fill(struct conf *conf, const char *key, const char *text,
                const char *origin, struct err *err)
{
    if (!text || conf_is_set(conf, key))
        return 0;
    return conf_put(conf, key, text, origin, err);
}

static int fill_int(struct conf *conf, const char *key, int value,
                    const char *origin, struct err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    return fill(conf, key, text, origin, err);
}

static bool has_tokenizer_file(const struct conf *conf)
{
    return strcmp(conf_text(conf, "data.tokenizer"), "byte") != 0;
}

/* The small models' vocabulary is that of bytes and no part of them.
 * Width, heads and the feed-forward block hang together: a preset's head width
 * or ffn_size does not fit a width or heads that the user changed. */
static int fill_preset(struct conf *conf, const struct preset *p,
                       struct err *err)
{
    char origin[64];
    bool own_width = conf_is_set(conf, "model.hidden_size");
    bool own_heads = conf_is_set(conf, "model.heads");
    bool own_family = conf_is_set(conf, "model.family") &&
                      strcmp(conf_text(conf, "model.family"), p->family);
    snprintf(origin, sizeof origin, "preset %s", p->name);
    if (fill(conf, "model.family", p->family, origin, err) ||
        fill_int(conf, "model.layers", p->layers, origin, err) ||
        fill_int(conf, "model.hidden_size", p->hidden, origin, err) ||
        fill_int(conf, "model.heads", p->heads, origin, err) ||
        (!(p->vocab == BYTE_VOCAB && has_tokenizer_file(conf)) &&
         fill_int(conf, "model.vocab_size", p->vocab, origin, err)) ||
        fill_int(conf, "model.max_positions", p->positions, origin, err))
        return -1;
    if (!own_heads && fill_int(conf, "model.kv_heads", p->kv_heads, origin,
                               err))
        return -1;
    if (!own_heads && !own_width &&
        fill_int(conf, "model.head_dim", p->head_dim, origin, err))
        return -1;
    if (!own_width && !own_family &&
        fill_int(conf, "model.ffn_size", p->ffn, origin, err))
        return -1;
    if (!own_family &&
        (fill(conf, "model.rope_theta", p->rope_theta, origin, err) ||
         fill(conf, "model.tied", p->tied ? "true" : "false", origin, err)))
        return -1;
    return 0;
}

static int fill_family(struct conf *conf, struct err *err)
{
    const char *family = conf_text(conf, "model.family");
    bool llama = !strcmp(family, "llama");
    char origin[64];
    if (!llama && strcmp(family, "gpt2"))
        return 0; /* unset or wrong: conf_check or the plan tells */
    snprintf(origin, sizeof origin, "family %s", family);
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (fill(conf, habits[i].key,
                 llama ? habits[i].llama : habits[i].gpt2, origin, err))
            return -1;
    return 0;
}

/* The byte tokenizer's size and end are known. */
static int fill_tokenizer(struct conf *conf, struct err *err)
{
    if (has_tokenizer_file(conf))
        return 0;
    return fill(conf, "model.vocab_size", "257", "tokenizer byte", err) ||
                   fill(conf, "data.eod_token", "256", "tokenizer byte", err)
               ? -1
               : 0;
}

int plan_conf_tokenizer(struct conf *conf, int vocab, int eod, struct err *err)
{
    char origin[PATH_MAX + 16];
    snprintf(origin, sizeof origin, "tokenizer %s",
             conf_text(conf, "data.tokenizer"));
    if (fill_int(conf, "model.vocab_size", vocab, origin, err))
        return -1;
    return eod < 0 ? 0 : fill_int(conf, "data.eod_token", eod, origin, err);
}

int preset_fill(struct conf *conf, struct err *err)
{
    const char *name = conf_text(conf, "model.preset");
    for (int i = 0; i < PRESETS_N; i++)
        if (!strcmp(presets[i].name, name) &&
            fill_preset(conf, &presets[i], err))
            return -1;
    return fill_family(conf, err) || fill_tokenizer(conf, err) ? -1 : 0;
}
