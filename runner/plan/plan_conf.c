/* plan_conf - a run's configuration from its file and the environment, with
 * paths made absolute and what a preset says filled in. */
#include "runner/plan/plan_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/str.h"

/* Options of sbatch that have a key; a value's origin is what was typed. */
#define SET_OPTION "--llm-set"
static const struct {
    const char *name, *key, *option;
} env_keys[] = {
    {KB_ENV_SPARES, "recovery.spares", "--llm-spares"},
    {KB_ENV_HEALTH, "health.mode", "--llm-health"},
    {KB_ENV_RESUME, "checkpoint.resume", "--llm-resume"},
    {KB_ENV_MAX_RESTARTS, "recovery.max_restarts", "--llm-max-restarts"},
};

struct conf *plan_conf_create(struct err *err)
{
    return conf_create(plan_rows, plan_rows_n, err);
}

/* The lines of KB_ENV_SET; goes on after a mistake. */
static int set_lines(struct conf *conf, const char *lines, struct err *err)
{
    int rc = 0;
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        char *line = strndup(lines, n);
        if (!line)
            return err_set(err, "plan: out of memory");
        if (n && conf_set(conf, line, SET_OPTION, err))
            rc = -1;
        free(line);
        lines += n + (lines[n] == '\n');
    }
    return rc;
}

int plan_conf_read(struct conf *conf, const char *path, struct err *err)
{
    int rc = conf_read_file(conf, path, err);
    if (set_lines(conf, getenv(KB_ENV_SET), err))
        rc = -1;
    for (size_t i = 0; i < sizeof env_keys / sizeof *env_keys; i++) {
        const char *text = getenv(env_keys[i].name);
        if (text && *text &&
            conf_put(conf, env_keys[i].key, text, env_keys[i].option, err))
            rc = -1;
    }
    return rc;
}

/* ---- Paths -------------------------------------------------------------- */

int plan_data_item(const char *item, size_t item_n, struct plan_data *ret)
{
    struct plan_data data = {.weight = 1};
    char word[64];
    size_t n = strcspn(item, " \t");
    if (n < item_n && n < sizeof word) {
        snprintf(word, sizeof word, "%.*s", (int)n, item);
        double weight;
        if (!str_to_double(word, &weight)) {
            if (!(weight > 0) || weight > 1e18)
                return -1;
            data.weight = weight;
            while (n < item_n && (item[n] == ' ' || item[n] == '\t'))
                n++;
            item += n;
            item_n -= n;
        }
    }
    if (item_n > 4 && (!memcmp(item + item_n - 4, ".bin", 4) ||
                       !memcmp(item + item_n - 4, ".idx", 4)))
        item_n -= 4;
    if (!item_n || item_n >= sizeof data.prefix)
        return -1;
    memcpy(data.prefix, item, item_n);
    *ret = data;
    return 0;
}

static int add_absolute(struct sbuf *out, const char *dir, const char *path,
                        size_t path_n)
{
    if (path_n && path[0] == '/')
        sbuf_add(out, path, path_n);
    else
        sbuf_printf(out, "%s/%.*s", strcmp(dir, "/") ? dir : "", (int)path_n,
                    path);
    return out->failed ? -1 : 0;
}

/* %a in run.dir is the task's number in a job array: known in the job, not at
 * submit. */
static int name_task(struct conf *conf, struct err *err)
{
    char name[PATH_MAX];
    const char *text = conf_text(conf, "run.dir"), *a = strstr(text, "%a");
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    if (!a || !task || !*task || task[strspn(task, "0123456789")])
        return 0;
    char *origin = strdup(conf_origin(conf, "run.dir"));
    int rc = -1;
    if (!origin)
        err_set(err, "plan: out of memory");
    else if (snprintf(name, sizeof name, "%.*s%s%s", (int)(a - text), text,
                      task, a + 2) >= (int)sizeof name)
        err_set_class(err, ERR_REQUEST, "plan: path too long: '%.300s'", text);
    else
        rc = conf_put(conf, "run.dir", name, origin, err);
    free(origin);
    return rc;
}

/* One key's paths against dir; its origin stays. */
static int make_absolute(struct conf *conf, const struct conf_row *row,
                         const char *dir, struct err *err)
{
    struct sbuf out = SBUF_INIT;
    int rc = -1;
    const char *text = conf_text(conf, row->key);
    char *origin = strdup(conf_origin(conf, row->key));
    bool list = row->type == CONF_LIST;
    while (*text) {
        size_t n = list ? strcspn(text, "\n") : strlen(text);
        struct plan_data data;
        if (out.len)
            sbuf_puts(&out, "\n");
        if (!list) {
            add_absolute(&out, dir, text, n);
        } else if (plan_data_item(text, n, &data)) {
            sbuf_add(&out, text, n); /* plan_make tells */
        } else {
            if (data.weight != 1)
                sbuf_printf(&out, "%.17g ", data.weight);
            add_absolute(&out, dir, data.prefix, strlen(data.prefix));
        }
        text += n + (text[n] == '\n');
    }
    if (out.failed || !origin)
        err_set(err, "plan: out of memory");
    else
        rc = conf_put(conf, row->key, out.data, origin, err);
    free(origin);
    sbuf_release(&out);
    return rc;
}

int plan_conf_finish(struct conf *conf, const char *dir, struct err *err)
{
    char cwd[PATH_MAX], full[PATH_MAX];
    if (dir[0] != '/') {
        if (!getcwd(cwd, sizeof cwd))
            return err_set_errno(err, "plan: cannot tell the current folder");
        bool here = !strcmp(dir, ".") || !*dir;
        if (snprintf(full, sizeof full, "%s%s%s", cwd, here ? "" : "/",
                     here ? "" : dir) >= (int)sizeof full)
            return err_set_class(err, ERR_REQUEST, "plan: path too long: '%s'",
                                 dir);
        dir = full;
    }
    for (int i = 0; i < plan_rows_n; i++) {
        const struct conf_row *row = &plan_rows[i];
        /* a tokenizer that is no file is the default: byte */
        bool path = row->type == CONF_PATH || row->type == CONF_LIST ||
                    !strcmp(row->key, "data.tokenizer");
        if (path && conf_is_set(conf, row->key) &&
            make_absolute(conf, row, dir, err))
            return -1;
    }
    return name_task(conf, err) || preset_fill(conf, err) ? -1 : 0;
}

static void folder_of(const char *path, char dir[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        strcpy(dir, ".");
    else
        snprintf(dir, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path),
                 path);
}

struct conf *plan_conf_open(const char *path, struct err *err)
{
    char dir[PATH_MAX];
    struct conf *conf = plan_conf_create(err);
    if (!conf)
        return NULL;
    folder_of(path, dir);
    if (plan_conf_read(conf, path, err) || plan_conf_finish(conf, dir, err)) {
        conf_destroy(conf);
        return NULL;
    }
    return conf;
}

/* ---- What a run keeps to ------------------------------------------------- */

static bool is_open(const struct conf *conf, const char *key)
{
    return !conf_is_set(conf, key) || !strcmp(conf_text(conf, key), "auto");
}

int plan_conf_recall(struct conf *conf, struct err *err)
{
    static const char *const keys[] = {"system.blas_core",
                                       "system.blas_threads"};
    char path[PATH_MAX];
    if (!conf_is_set(conf, "run.dir"))
        return 0; /* plan_make tells */
    if (file_join(path, sizeof path, conf_text(conf, "run.dir"), KB_RUN_YAML,
                  err))
        return -1;
    if (!file_exists(path))
        return 0;
    struct conf *kept = plan_conf_create(err);
    struct err other = ERR_INIT; /* keys of another release are none of ours */
    int rc = kept ? 0 : -1;
    if (kept)
        conf_read_file(kept, path, &other);
    for (size_t i = 0; !rc && i < sizeof keys / sizeof *keys; i++)
        if (is_open(conf, keys[i]) && !is_open(kept, keys[i]))
            rc = conf_put(conf, keys[i], conf_text(kept, keys[i]),
                          "the first attempt", err);
    conf_destroy(kept);
    return rc;
}
