/* attempt - a run's folder when nobody supervises it: rank 0 makes the next
 * attempt (mkdir is the fence), start.json and, once, run.yaml. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/ckpt/catalog.h"
#include "runner/train/train.h"

#define ATTEMPTS_MAX 9999

int attempt_path(const struct train *t, const char *name, char *dst,
                 size_t dst_bytes, struct err *err)
{
    int n = snprintf(dst, dst_bytes, "%s/" KB_ATTEMPT_FMT "%s%s",
                     t->plan.run_dir, t->options.attempt, *name ? "/" : "",
                     name);
    return n > 0 && n < (int)dst_bytes
               ? 0
               : err_set_class(err, ERR_REQUEST,
                               "train: the run directory's path is too long");
}

/* Claims the first number that is free. */
static int make_folder(struct train *t, struct err *err)
{
    char path[PATH_MAX];
    if (file_join(path, sizeof path, t->plan.run_dir, KB_ATTEMPTS_DIR, err) ||
        file_make_dirs(path, 0700, err) != 0)
        return -1;
    for (int i = 1; i <= ATTEMPTS_MAX; i++) {
        t->options.attempt = i;
        if (attempt_path(t, "", path, sizeof path, err) != 0)
            return -1;
        if (mkdir(path, 0700) == 0)
            return 0;
        if (errno != EEXIST)
            return err_set_errno(err, "train: making '%s' failed", path);
    }
    return err_set_class(err, ERR_REQUEST,
                         "train: more than %d attempts; use a new run.dir",
                         ATTEMPTS_MAX);
}

static int write_start(struct train *t, struct err *err)
{
    char path[PATH_MAX], host[256] = "";
    struct catalog catalog;
    int rc = -1;
    if (catalog_load(t->plan.run_dir, t->options.attempt, &catalog, err) != 0)
        return -1;
    if (catalog_check_resume(&catalog, t->plan.resume, err) != 0) {
        catalog_release(&catalog);
        return -1;
    }
    gethostname(host, sizeof host - 1);
    json_t *accepted = json_array();
    for (int i = 0; i < catalog.n; i++)
        if (catalog_takes(&catalog.entries[i], t->plan.resume))
            json_array_append_new(accepted,
                                  json_string(catalog.entries[i].name));
    catalog_release(&catalog);
    json_t *start = json_pack(
        "{s:i, s:I, s:i, s:s, s:[s], s:[], s:o, s:f, s:b}", "attempt",
        t->options.attempt, "job", (json_int_t)t->options.job, "restart_count",
        0, "resume", t->plan.resume, "nodes", host, "spares", "checkpoints",
        accepted, "time", clock_wall_s(), "unsupervised", 1);
    if (start && attempt_path(t, KB_START_JSON, path, sizeof path, err) == 0)
        rc = json_save_path(start, path, 0600, err);
    json_decref(start);
    return rc;
}

static int write_run_yaml(struct train *t, const struct conf *conf,
                          struct err *err)
{
    char path[PATH_MAX];
    struct sbuf text = SBUF_INIT;
    int rc = 0;
    if (file_join(path, sizeof path, t->plan.run_dir, KB_RUN_YAML, err) != 0)
        return -1;
    if (file_exists(path))
        return 0;
    conf_dump(conf, &text);
    if (text.failed)
        rc = err_set(err, "train: no memory for run.yaml");
    else
        rc = file_replace(path, text.data, text.len, 0600, err);
    sbuf_release(&text);
    return rc;
}

int attempt_make(struct train *t, const struct conf *conf, struct err *err)
{
    struct err mine = ERR_INIT;
    int64_t number = 0;
    if (t->place.rank == 0 &&
        (make_folder(t, &mine) != 0 || write_start(t, &mine) != 0 ||
         write_run_yaml(t, conf, &mine) != 0))
        number = -1; /* the others must hear of it */
    else if (t->place.rank == 0)
        number = t->options.attempt;
    int64_t both[2] = {number, -number}; /* most and least in one go */
    if (comm_agree(t->comm, both, 2, COMM_MAX, t->plan.load_limit_s, err) != 0)
        return -1;
    if (mine.class != ERR_NONE) {
        *err = mine;
        return -1;
    }
    if (both[1] > 0)
        return err_set(err, "train: rank 0 could not begin an attempt");
    t->options.attempt = (int)both[0];
    return 0;
}
