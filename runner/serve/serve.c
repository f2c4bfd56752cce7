/* serve - see serve.h. Precision is fp32 (fp64 for a run of fp64): what the
 * checkpoint's master weights have. */
#include "runner/serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exec.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/ckpt/ckpt.h"
#include "runner/model/model.h"
#include "runner/plan/plan.h"

struct serve {
    struct plan plan;
    struct tokenizer *tokenizer;
    struct device *device;
    struct exec ex;
    struct comm *comm;
    struct model *model;
    struct kv_cache *cache;
    int past, tokens_max;
    float *logits;
    char checkpoint[64];
};

/* The run's plan, for one CPU that holds all of the model. Its data and nodes
 * need not be here: as at submit, what is not seen is no refusal. */
static int read_plan(struct serve *s, const struct serve_spec *spec,
                     struct err *err)
{
    char path[PATH_MAX];
    static const char *const sets[] = {
        "train.device=cpu", "parallel.data=", "parallel.tensor=1",
        "parallel.pipeline=1", "parallel.chunks=1", "parallel.layout=given",
        "parallel.ranks_per_node=", "data.split=",
        "train.micro_batch=1", "recovery.spares=0", "eval.interval=0",
    };
    struct site *site = calloc(1, sizeof *site);
    struct plan_notes *notes = calloc(1, sizeof *notes);
    struct conf *conf = NULL;
    int rc = -1;
    if (!site || !notes) {
        err_set(err, "serve: no memory for the plan");
        goto out;
    }
    if (file_join(path, sizeof path, spec->run_dir, KB_RUN_YAML, err) != 0)
        goto out;
    if (!(conf = plan_conf_open(path, err)))
        goto out;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (conf_set(conf, sets[i], "serve", err) != 0)
            goto out;
    const char *precision = conf_text(conf, "train.precision");
    if (conf_set(conf, strcmp(precision, "fp64") == 0 ? "train.precision=fp64"
                                                      : "train.precision=fp32",
                 "serve", err) != 0)
        goto out;
    site->submit = true;
    site->disk_free_bytes = -1;
    rc = plan_make(conf, site, &s->plan, notes, err);
out:
    conf_destroy(conf);
    free(site);
    free(notes);
    return rc;
}

/* One token a time through the model itself; prompts go through the cache. */
static int open_model(struct serve *s, int threads, struct err *err)
{
    const struct shape *sh = &s->plan.shape;
    enum dtype act = s->plan.precision == PLAN_FP64 ? DT_F64 : DT_F32;
    char why[256] = "";
    s->plan.micro_batch = 1;
    s->plan.seq_len = 1;
    ops_cpu_threads(threads);
    s->device = device_create(DEVICE_CPU, 0, why, sizeof why);
    if (!s->device)
        return err_set(err, "serve: no device: %s", why);
    if (exec_init(&s->ex, s->device, act, act, 0, true) != K_OK)
        return err_set(err, "serve: the operations do not open: %s",
                       device_error(s->device));
    size_t ws = ops_workspace_bytes(s->ex.ops, act, s->tokens_max, sh->C,
                                    sh->F, sh->H, sh->K, sh->D, sh->Vp, 1,
                                    s->tokens_max, true);
    int64_t cache = model_cache_bytes(&s->plan, act, 1, s->tokens_max);
    int64_t all = (int64_t)ws + 256 + cache +
                  model_arena_bytes(&s->plan, false, 1);
    if (device_arena(s->device, (size_t)all) != K_OK)
        return err_set(err, "serve: no memory for %lld bytes", (long long)all);
    s->ex.ws = device_alloc(s->device, ws);
    s->ex.ws_bytes = ws;
    s->model = model_create(&s->plan, NULL, &s->ex, false, 1, err);
    if (!s->model)
        return -1;
    s->cache = model_cache_create(s->model, 1, s->tokens_max, err);
    s->logits = calloc((size_t)sh->V, sizeof *s->logits);
    if (s->cache && !s->logits)
        err_set(err, "serve: no memory for logits");
    return s->cache && s->logits ? 0 : -1;
}

/* master/NAME of each tensor straight into the parameter. */
static struct view *param_views(struct serve *s, int *ret_n)
{
    struct param *params;
    int n = model_params(s->model, &params);
    struct view *views = calloc((size_t)n + 1, sizeof *views);
    for (int i = 0; views && i < n; i++) {
        const struct param *p = &params[i];
        struct view *v = &views[i];
        *v = (struct view){.dtype = s->ex.act, .dims = p->dims,
                           .on_device = true, .ptr = p->data};
        snprintf(v->name, sizeof v->name, "master/%.160s", p->name);
        for (int d = 0; d < p->dims; d++) {
            v->shape[d] = p->shape[d];
            v->offset[d] = p->offset[d];
            v->extent[d] = p->extent[d];
        }
        v->stride[0] = p->dims > 1 ? p->extent[1] : 1;
        v->stride[1] = 1;
    }
    *ret_n = n;
    return views;
}

static int load(struct serve *s, const struct serve_spec *spec,
                struct err *err)
{
    struct comm_place place = {.size = 1, .local_size = 1, .how = "single"};
    struct comm_spec wiring = {.kind = DEVICE_CPU, .device = s->device,
                               .data = 1, .tensor = 1, .pipeline = 1,
                               .wireup_limit_s = 10};
    json_t *state = NULL;
    int64_t step;
    int n, rc = -1;
    struct view *views = param_views(s, &n);
    if (!views)
        return err_set(err, "serve: no memory for the checkpoint's table");
    s->comm = comm_open(&place, &wiring, err);
    if (s->comm)
        rc = ckpt_load(s->comm, spec->run_dir, 0, spec->step, views, n,
                       s->device, NULL, NULL, &step, s->checkpoint, &state,
                       err);
    if (rc == 1)
        rc = err_set_class(err, ERR_REQUEST,
                           "serve: no checkpoint in '%s'", spec->run_dir);
    json_decref(state);
    free(views);
    return rc;
}

struct serve *serve_open(const struct serve_spec *spec, struct err *err)
{
    struct serve *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(err, "serve: no memory");
        return NULL;
    }
    s->tokens_max = spec->tokens_max;
    if (read_plan(s, spec, err) != 0)
        goto fail;
    if (s->plan.shape.pos == SHAPE_LEARNED &&
        spec->tokens_max > s->plan.shape.T_max) {
        err_set_class(err, ERR_REQUEST,
                      "serve: %d tokens of prompt and continuation: the model "
                      "knows %d positions; give fewer", spec->tokens_max,
                      s->plan.shape.T_max);
        goto fail;
    }
    s->tokenizer = tokenizer_open(s->plan.tokenizer, err);
    if (!s->tokenizer || open_model(s, spec->threads, err) != 0 ||
        load(s, spec, err) != 0)
        goto fail;
    return s;
fail:
    serve_close(s);
    return NULL;
}

void serve_close(struct serve *s)
{
    if (!s)
        return;
    model_cache_destroy(s->cache);
    model_destroy(s->model);
    comm_close(s->comm);
    exec_release(&s->ex);
    if (s->device)
        device_destroy(s->device);
    tokenizer_close(s->tokenizer);
    free(s->logits);
    free(s);
}

struct tokenizer *serve_tokenizer(struct serve *s) { return s->tokenizer; }
int serve_vocab(const struct serve *s) { return s->plan.shape.V; }
int serve_eod(const struct serve *s) { return s->plan.eod_token; }

int serve_feed(struct serve *s, const int32_t *tokens, int n,
               const float **ret_logits, struct err *err)
{
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s->plan.shape.V)
            return err_set_class(err, ERR_REQUEST,
                                 "serve: token %d is not in the vocabulary of "
                                 "%d", tokens[i], s->plan.shape.V);
    if (model_decode(s->model, s->cache, 1, n, s->past, tokens, s->logits,
                     err) != 0)
        return -1;
    s->past += n;
    *ret_logits = s->logits;
    return 0;
}
