/* verb_ckpt - `koboshi ckpt`: a run's checkpoints listed, shown, verified,
 * digested, exported and imported. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/cli/ckpt_import.h"
#include "runner/cli/site.h"
#include "runner/cli/verbs.h"
#include "runner/model/model.h"

static const char usage[] =
    "usage: koboshi ckpt list|show|verify|digest [--json] [--run-dir DIR] "
    "[NAME]\n"
    "       koboshi ckpt export --hf DIR [--bf16|--f16] [--run-dir DIR] "
    "[NAME]\n"
    "       koboshi ckpt import --hf DIR --run-dir DIR\n"
    "\n"
    "  list     every checkpoint of the run, newest first\n"
    "  show     what one holds: step, shards, tensors, state\n"
    "  verify   read every byte and compare; without NAME, all of them\n"
    "  digest   one hash of all tensors, the same for any layout and attempt\n"
    "  export   the weights as Hugging Face's files, with config.json\n"
    "  import   such files as step 0 of a new run, to go on training them;\n"
    "           prints the model's keys for run.yaml (also in import.yaml)\n"
    "\n"
    "NAME is a checkpoint's name (step-0000001000.a0001), a step, or absent:\n"
    "the newest that can be used.\n"
    "  --run-dir DIR  the run directory (KOBOSHI_RUN_DIR, or the current one)\n"
    "  --json         for machines\n"
    "  --hf DIR       export: a folder, made, that holds no model yet;\n"
    "                 import: config.json and safetensors of GPT-2, Llama,\n"
    "                 Qwen 2, Qwen 3 or Mistral\n"
    "  --bf16, --f16  export: rounded to 16 bits (as they are: float32)\n";

struct request {
    const char *run_dir, *name; /* name may be NULL */
    const char *hf_dir;         /* export's, import's */
    bool as_json, bf16, f16;
};

/* ---- Which one --------------------------------------------------------- */

static bool is_usable(const struct catalog_entry *e)
{
    return e->committed && e->accepted && !*e->problem;
}

/* The name that is meant, into dst. */
static int find_name(const struct request *r, char dst[64], struct err *err)
{
    struct catalog c;
    int64_t step = -1;
    const struct catalog_entry *found = NULL;
    if (r->name && str_to_i64(r->name, &step)) {
        if (!str_copy(dst, 64, r->name))
            return err_set_class(err, ERR_REQUEST, "no checkpoint has the "
                                 "name '%.80s'", r->name);
        return 0;
    }
    if (catalog_load(r->run_dir, 0, &c, err))
        return -1;
    if (r->name)
        found = catalog_find(&c, step);
    for (int i = 0; i < c.n && !found && !r->name; i++)
        if (is_usable(&c.entries[i]))
            found = &c.entries[i];
    if (found)
        memcpy(dst, found->name, 64);
    catalog_release(&c);
    if (found)
        return 0;
    if (r->name)
        return err_set_class(err, ERR_REQUEST, "no checkpoint of step %s in "
                             "'%s'; see koboshi ckpt list", r->name,
                             r->run_dir);
    return err_set_class(err, ERR_REQUEST, "no checkpoint in '%s' can be "
                         "used; see koboshi ckpt list", r->run_dir);
}

/* ---- list -------------------------------------------------------------- */

static const char *state_of(const struct catalog_entry *e)
{
    if (!e->committed)
        return "unfinished";
    if (!e->accepted || *e->problem)
        return "refused";
    return e->healthy ? "healthy" : "good";
}

static void print_size(int64_t bytes, char dst[16])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1000 && u < 4; u++)
        v /= 1000;
    snprintf(dst, 16, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static json_t *entry_json(const struct catalog_entry *e)
{
    return json_pack("{s:s,s:I,s:i,s:s,s:b,s:b,s:b,s:I,s:f,s:s}", "name",
                     e->name, "step", (json_int_t)e->step, "attempt",
                     e->attempt, "state", state_of(e), "committed",
                     e->committed, "accepted", e->accepted, "healthy",
                     e->healthy, "bytes", (json_int_t)e->bytes, "time",
                     e->wall_s, "problem", e->problem);
}

static int print_json(json_t *value, struct err *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1) |
                                               JSON_REAL_PRECISION(17))
                       : NULL;
    json_decref(value);
    if (!text)
        return err_set(err, "out of memory");
    puts(text);
    free(text);
    return 0;
}

static int run_list(const struct request *r, struct err *err)
{
    struct catalog c;
    int rc = 0;
    if (catalog_load(r->run_dir, 0, &c, err))
        return -1;
    if (r->as_json) {
        json_t *list = json_array();
        for (int i = 0; i < c.n; i++)
            json_array_append_new(list, entry_json(&c.entries[i]));
        rc = print_json(list, err);
    } else if (!c.n) {
        printf("no checkpoints in %s\n", r->run_dir);
    } else {
        printf("%-24s %10s  %-10s %-20s %s\n", "NAME", "SIZE", "STATE",
               "TIME", "");
        for (int i = 0; i < c.n; i++) {
            const struct catalog_entry *e = &c.entries[i];
            char size[16], when[40] = "";
            print_size(e->bytes, size);
            if (e->wall_s > 0)
                clock_iso(e->wall_s, when, sizeof when)[19] = 0;
            printf("%-24s %10s  %-10s %-20s %s\n", e->name, size, state_of(e),
                   when, e->problem);
        }
    }
    catalog_release(&c);
    return rc;
}

/* ---- show -------------------------------------------------------------- */

static void print_tensors(const json_t *list)
{
    size_t i, k;
    json_t *t, *side;
    json_array_foreach (list, i, t) {
        char shape[100] = "";
        json_array_foreach (json_object_get(t, "shape"), k, side) {
            size_t at = strlen(shape);
            snprintf(shape + at, sizeof shape - at, "%s%lld", k ? "," : "",
                     (long long)json_integer_value(side));
        }
        printf("  %-5s [%s] in %lld  %s\n",
               json_string_value(json_object_get(t, "dtype")), shape,
               (long long)json_integer_value(json_object_get(t, "boxes")),
               json_string_value(json_object_get(t, "name")));
    }
}

static void print_described(const json_t *v)
{
    char size[16], when[40];
    size_t i;
    json_t *shard;
    const json_t *tensors = json_object_get(v, "tensors");
    const json_t *shards = json_object_get(v, "shards");
    print_size(json_integer_value(json_object_get(v, "bytes")), size);
    clock_iso(json_number_value(json_object_get(v, "time")), when,
              sizeof when);
    printf("%s: step %lld, attempt %lld, %lld ranks, %s, written %s%s\n",
           json_string_value(json_object_get(v, "name")),
           (long long)json_integer_value(json_object_get(v, "step")),
           (long long)json_integer_value(json_object_get(v, "attempt")),
           (long long)json_integer_value(json_object_get(v, "world")), size,
           when,
           json_is_true(json_object_get(v, "healthy")) ? ", healthy" : "");
    printf("plan %s\n", json_string_value(json_object_get(v, "plan_hash")));
    printf("%zu shards\n", json_array_size(shards));
    json_array_foreach (shards, i, shard) {
        print_size(json_integer_value(json_object_get(shard, "bytes")), size);
        printf("  %10s  %s\n", size,
               json_string_value(json_object_get(shard, "file")));
    }
    printf("%zu tensors (dtype, shape, in how many boxes)\n",
           json_array_size(tensors));
    print_tensors(tensors);
    char *state = json_dumps(json_object_get(v, "state"),
                             JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    printf("state %s\n", state ? state : "?");
    free(state);
}

static int run_show(const struct request *r, struct err *err)
{
    char name[64];
    if (find_name(r, name, err))
        return -1;
    json_t *v = catalog_describe(r->run_dir, name, err);
    if (!v)
        return -1;
    if (r->as_json)
        return print_json(v, err);
    print_described(v);
    json_decref(v);
    return 0;
}

/* ---- verify ------------------------------------------------------------ */

/* One checkpoint's verdict: printed, or added to list. */
static int verify_one(const struct request *r, const char *name, json_t *list)
{
    struct err why = ERR_INIT;
    int rc = catalog_verify(r->run_dir, name, &why);
    if (list)
        json_array_append_new(list, json_pack("{s:s,s:b,s:s}", "name", name,
                                              "valid", !rc, "problem",
                                              why.msg));
    else
        printf("%s: %s\n", name, rc ? why.msg : "valid");
    return rc;
}

static int run_verify(const struct request *r, struct err *err)
{
    struct catalog c;
    char name[64];
    int bad = 0, n = 0;
    json_t *list = r->as_json ? json_array() : NULL;
    if (r->name) {
        if (find_name(r, name, err))
            goto fail;
        n = 1;
        bad = verify_one(r, name, list) != 0;
    } else {
        if (catalog_load(r->run_dir, 0, &c, err))
            goto fail;
        for (int i = 0; i < c.n; i++) {
            if (!c.entries[i].committed)
                continue;
            n++;
            bad += verify_one(r, c.entries[i].name, list) != 0;
        }
        catalog_release(&c);
    }
    if (list && print_json(list, err))
        return -1;
    if (bad)
        return err_set_class(err, ERR_STEP, "%d of %d are not valid", bad, n);
    if (!n && !list)
        printf("no checkpoints in %s\n", r->run_dir);
    return 0;
fail:
    json_decref(list);
    return -1;
}

/* ---- digest ------------------------------------------------------------ */

static int run_digest(const struct request *r, struct err *err)
{
    char name[64], digest[33];
    if (find_name(r, name, err) ||
        catalog_digest(r->run_dir, name, digest, err))
        return -1;
    if (r->as_json)
        return print_json(json_pack("{s:s,s:s}", "name", name, "digest",
                                    digest), err);
    printf("%s  %s\n", digest, name);
    return 0;
}

/* ---- export ------------------------------------------------------------ */

#define HF_FILE_BYTES ((int64_t)5000000000)

/* The run's plan, wherever its nodes and data are: as at submit, what is not
 * seen is no refusal. */
static int read_plan(const struct request *r, struct plan *ret,
                     struct err *err)
{
    char path[PATH_MAX];
    int rc = -1;
    struct conf *conf = NULL;
    struct site *site = calloc(1, sizeof *site);
    struct plan_notes *notes = calloc(1, sizeof *notes);
    if (!site || !notes)
        err_set(err, "out of memory");
    else if (!file_join(path, sizeof path, r->run_dir, KB_RUN_YAML, err) &&
             (conf = plan_conf_open(path, err))) {
        site_init(site);
        site->submit = true;
        rc = plan_make(conf, site, ret, notes, err);
    }
    conf_destroy(conf);
    free(site);
    free(notes);
    return rc;
}

/* A tokenizer that is a file goes with the model. */
static int copy_tokenizer(const struct plan *plan, const char *dir,
                          struct err *err)
{
    char path[PATH_MAX];
    size_t bytes;
    const char *name = strrchr(plan->tokenizer, '/');
    size_t n = strlen(plan->tokenizer);
    if (!name || n < 5 || strcmp(plan->tokenizer + n - 5, ".json"))
        return 0;
    char *text = file_read(plan->tokenizer, (size_t)256 << 20, &bytes, err);
    int rc = text ? file_join(path, sizeof path, dir, "tokenizer.json", err)
                  : -1;
    if (!rc)
        rc = file_replace(path, text, bytes, 0666, err);
    free(text);
    return rc;
}

static const char *dtype_text(const struct request *r, const struct plan *plan)
{
    return r->bf16                           ? "bfloat16"
           : r->f16                          ? "float16"
           : plan->precision == PLAN_FP64 ? "float64"
                                             : "float32";
}

/* What was imported and never trained has no run.yaml yet, but the
 * configuration that it came with; NULL: it has none. */
static json_t *imported_config(const struct request *r, const char *name,
                               struct err *err)
{
    char path[PATH_MAX];
    if (file_join(path, sizeof path, r->run_dir, KB_RUN_YAML, NULL) ||
        file_exists(path))
        return NULL;
    json_t *v = catalog_describe(r->run_dir, name, err);
    json_t *config = json_deep_copy(json_object_get(
        json_object_get(json_object_get(v, "state"), "import"), "config"));
    json_decref(v);
    if (config) {
        const char *key = json_object_get(config, "dtype") ? "dtype"
                                                           : "torch_dtype";
        json_object_set_new(config, key,
                            json_string(r->bf16  ? "bfloat16"
                                        : r->f16 ? "float16"
                                                 : "float32"));
    }
    return config;
}

static json_t *planned_config(const struct request *r, struct plan *plan,
                              struct err *err)
{
    if (read_plan(r, plan, err))
        return NULL;
    return model_hf_config(&plan->shape, dtype_text(r, plan), err);
}

static int run_export(const struct request *r, struct err *err)
{
    char name[64];
    int rc = -1;
    json_t *config = NULL;
    struct plan *plan = calloc(1, sizeof *plan);
    if (!r->hf_dir)
        err_set_class(err, ERR_REQUEST, "where to? add --hf DIR");
    else if (!plan)
        err_set(err, "out of memory");
    else if (!find_name(r, name, err) &&
             ((config = imported_config(r, name, NULL)) ||
              (config = planned_config(r, plan, err))))
        rc = catalog_export(r->run_dir, name, r->hf_dir, config,
                            r->bf16  ? DT_BF16
                            : r->f16 ? DT_F16
                                     : -1, HF_FILE_BYTES, err);
    if (!rc)
        rc = copy_tokenizer(plan, r->hf_dir, err);
    if (!rc)
        printf("%s exported to %s\n", name, r->hf_dir);
    json_decref(config);
    free(plan);
    return rc;
}

static int run_import(const struct request *r, struct err *err)
{
    if (!r->hf_dir || r->name)
        return err_set_class(err, ERR_REQUEST, "what from? give --hf DIR and "
                             "--run-dir DIR alone");
    struct sbuf notes = SBUF_INIT;
    int rc = ckpt_import(r->run_dir, r->hf_dir, &notes, err);
    fputs(notes.data, stderr);
    sbuf_release(&notes);
    return rc;
}

/* ---- The verb ---------------------------------------------------------- */

static const struct part {
    const char *name;
    int (*run)(const struct request *r, struct err *err);
} parts[] = {
    {"list", run_list},
    {"show", run_show},
    {"verify", run_verify},
    {"digest", run_digest},
    {"export", run_export},
    {"import", run_import},
};

static const struct part *find_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, name))
            return &parts[i];
    return NULL;
}

int verb_ckpt(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"run-dir", required_argument, NULL, 'r'},
        {"hf", required_argument, NULL, 'f'},
        {"bf16", no_argument, NULL, 'b'},
        {"f16", no_argument, NULL, '6'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct err err = ERR_INIT;
    struct request request = {.run_dir = getenv(KB_ENV_RUN_DIR)};
    int id;
    if (!request.run_dir || !*request.run_dir)
        request.run_dir = ".";
    optind = 0;
    while ((id = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (id == 'j')
            request.as_json = true;
        else if (id == 'r')
            request.run_dir = optarg;
        else if (id == 'f')
            request.hf_dir = optarg;
        else if (id == 'b')
            request.bf16 = true;
        else if (id == '6')
            request.f16 = true;
        else {
            fputs(usage, id == 'h' ? stdout : stderr);
            return id == 'h' ? KB_EXIT_DONE : KB_EXIT_REQUEST;
        }
    }
    const struct part *part = optind < argc ? find_part(argv[optind]) : NULL;
    if (!part || argc - optind > 2) {
        if (optind < argc)
            fprintf(stderr, "koboshi ckpt: '%s': not list, show, verify, "
                            "digest, export or import, or too many "
                            "names\n",
                    argv[optind]);
        fputs(usage, stderr);
        return KB_EXIT_REQUEST;
    }
    request.name = argc - optind == 2 ? argv[optind + 1] : NULL;
    if (part->run != run_import && !file_exists(request.run_dir))
        err_set_class(&err, ERR_REQUEST, "no such run directory: '%s'; give "
                      "--run-dir", request.run_dir);
    else if (!part->run(&request, &err))
        return KB_EXIT_DONE;
    fflush(stdout);
    fprintf(stderr, "koboshi ckpt %s: %s\n", part->name, err.msg);
    return contract_exit_code(&err);
}
