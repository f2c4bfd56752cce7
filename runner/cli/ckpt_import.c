/* ckpt_import - see ckpt_import.h. The checkpoint of step 0 holds the weights
 * as masters and no moments, and says that they are zero; its state keeps
 * config.json, so that it can be exported before a run.yaml is there. */
#include "runner/cli/ckpt_import.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/model/model.h"

#define CONFIG_MAX_BYTES ((size_t)16 << 20)
#define SHARD_BYTES ((int64_t)4 << 30)

/* ---- run.yaml ------------------------------------------------------------ */
static void put_flag(struct sbuf *out, const char *key, bool value)
{
    sbuf_printf(out, "  %s: %s\n", key, value ? "true" : "false");
}

/* The shortest text that is the same number. */
static void put_real(struct sbuf *out, const char *key, double value)
{
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    sbuf_printf(out, "  %s: %s\n", key, text);
}

static void put_parts(struct sbuf *out, const struct shape *s)
{
    put_flag(out, "bias_qkv", s->bias_qkv);
    put_flag(out, "bias_out", s->bias_o);
    put_flag(out, "bias_ffn", s->bias_ffn);
    put_flag(out, "tied", s->tied);
    if (s->names == SHAPE_NAMES_GPT2)
        return;
    put_flag(out, "qk_norm", s->qk_norm);
    put_real(out, "rope_theta", s->rope_theta);
    if (s->rope_factor <= 0)
        return;
    sbuf_puts(out, "  rope_scaling: llama3\n");
    put_real(out, "rope_factor", s->rope_factor);
    put_real(out, "rope_low", s->rope_low);
    put_real(out, "rope_high", s->rope_high);
    put_real(out, "rope_positions", s->rope_positions);
}

static void put_yaml(struct sbuf *out, const struct shape *s,
                     const char *hf_dir, const char *tokenizer)
{
    sbuf_printf(out, "# The model that was imported from %s: take these keys "
                "over into run.yaml,\n# and give train.seq_len.\nmodel:\n",
                hf_dir);
    sbuf_printf(out, "  family: %s\n  layers: %d\n  hidden_size: %d\n"
                "  heads: %d\n  kv_heads: %d\n  head_dim: %d\n  ffn_size: %d\n"
                "  vocab_size: %d\n  max_positions: %d\n",
                s->names == SHAPE_NAMES_GPT2 ? "gpt2" : "llama", s->L, s->C,
                s->H, s->K, s->D, s->F, s->V, s->T_max);
    put_real(out, "norm_eps", s->norm_eps);
    put_real(out, "init_std", s->init_std);
    put_parts(out, s);
    if (*tokenizer)
        sbuf_printf(out, "data:\n  tokenizer: \"%s\"\n", tokenizer);
}

/* dir/tokenizer.json, absolute, or "". */
static void find_tokenizer(const char *dir, char dst[PATH_MAX])
{
    char path[PATH_MAX];
    if (file_join(path, sizeof path, dir, "tokenizer.json", NULL) ||
        !file_exists(path) || !realpath(path, dst))
        *dst = 0;
}

static int write_yaml(const char *run_dir, const char *hf_dir,
                      const struct shape *s, struct err *err)
{
    char path[PATH_MAX], tokenizer[PATH_MAX];
    struct sbuf text = SBUF_INIT;
    find_tokenizer(hf_dir, tokenizer);
    put_yaml(&text, s, hf_dir, tokenizer);
    int rc = text.failed ? err_set(err, "out of memory")
                         : file_join(path, sizeof path, run_dir, IMPORT_YAML,
                                     err);
    if (!rc)
        rc = file_replace(path, text.data, text.len, 0600, err);
    if (!rc)
        printf("%s", text.data);
    sbuf_release(&text);
    return rc;
}

/* ---- The checkpoint ------------------------------------------------------ */
/* As koboshi-train would have left it before its first step. */
static json_t *state_make(const json_t *config)
{
    return json_pack("{s:i,s:i,s:s,s:i,s:i,s:i,s:s,s:{s:i,s:i,s:i},s:{s:O}}",
                     "step", 0, "consumed_samples", 0, "plan_hash", "",
                     "updates", 0, "skipped", 0, "nan", 0, "moments", "zero",
                     "guard", "good", 0, "bad_row", 0, "recent", 0, "import",
                     "config", config);
}

static bool ignored(void *ctx, const char *name)
{
    return model_hf_ignored(ctx, name);
}

static int write_checkpoint(const char *run_dir, const char *hf_dir,
                            const json_t *config, struct shape *s,
                            char name[64], struct err *err)
{
    struct hf_tensor *have = NULL;
    int rc = -1, n = model_hf_tensors(s, &have);
    struct catalog_tensor *list =
        n < 0 ? NULL : calloc((size_t)n + 1, sizeof *list);
    json_t *state = state_make(config);
    for (int i = 0; list && i < n; i++) {
        list[i] = (struct catalog_tensor){have[i].name, have[i].dims, {0}};
        memcpy(list[i].shape, have[i].shape, sizeof list[i].shape);
    }
    if (!list || !state)
        err_set(err, "out of memory");
    else
        rc = catalog_import(run_dir, hf_dir, list, n, ignored, s, state,
                            SHARD_BYTES, name, err);
    json_decref(state);
    free(list);
    free(have);
    return rc;
}

int ckpt_import(const char *run_dir, const char *hf_dir, struct sbuf *notes,
                struct err *err)
{
    char path[PATH_MAX], name[64];
    struct shape shape;
    json_t *config = NULL;
    int rc = -1;
    if (!file_join(path, sizeof path, hf_dir, "config.json", err) &&
        (config = json_load_path(path, CONFIG_MAX_BYTES, err)) &&
        !model_hf_shape(config, &shape, notes, err) &&
        !write_checkpoint(run_dir, hf_dir, config, &shape, name, err))
        rc = write_yaml(run_dir, hf_dir, &shape, err);
    if (!rc)
        printf("# %s imported as %s; these keys are in %s/" IMPORT_YAML "\n",
               hf_dir, name, run_dir);
    json_decref(config);
    return rc;
}
