/* blas - OpenBLAS sums in another order on another core type, so that the type
 * of the first attempt is recorded in run.yaml and pinned from then on. The
 * library chooses when it is loaded: pinning means starting once more. (A
 * supervisor sets the environment before it starts ranks.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "runner/train/train.h"

#define CORE_KEY "system.blas_core"
#define CORE_BYTES 64

/* The key's value of the run's first attempt, "": there was none. */
static int recorded_core(const char *run_dir, char *ret, struct err *err)
{
    char path[PATH_MAX];
    *ret = 0;
    if (file_join(path, sizeof path, run_dir, KB_RUN_YAML, err) != 0)
        return -1;
    if (!file_exists(path))
        return 0;
    struct conf *conf = conf_create(plan_rows, plan_rows_n, err);
    int rc = conf ? conf_read_file(conf, path, err) : -1;
    if (rc == 0)
        snprintf(ret, CORE_BYTES, "%s", conf_text(conf, CORE_KEY));
    conf_destroy(conf);
    return rc;
}

int blas_pin(const struct conf *conf, char **argv, struct err *err)
{
    char core[CORE_BYTES];
    snprintf(core, sizeof core, "%s", conf_text(conf, CORE_KEY));
    if ((!*core || strcmp(core, "auto") == 0) &&
        recorded_core(conf_text(conf, "run.dir"), core, err) != 0)
        return -1;
    if (!*core || strcmp(core, "auto") == 0)
        snprintf(core, sizeof core, "%s", ops_cpu_core_best());
    if (strcmp(core, ops_cpu_core()) == 0)
        return 0;
    char self[PATH_MAX]; /* by its name, which ps and logs show */
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    setenv(BLAS_CORE_ENV, core, 1);
    execv(self, argv);
    return err_set_errno(err, "train: starting again to pin the BLAS core "
                         "type failed");
}

int blas_agree(const struct train *t, struct conf *conf, struct err *err)
{
    char mine[CORE_BYTES] = "";
    if (t->plan.device != PLAN_CPU)
        return 0;
    snprintf(mine, sizeof mine, "%s", ops_cpu_core());
    char *all = calloc((size_t)t->place.size, CORE_BYTES);
    if (!all)
        return err_set(err, "train: no memory for the core types");
    int rc = comm_gather(t->comm, mine, CORE_BYTES, all, t->plan.load_limit_s,
                         err);
    for (int i = 1; rc == 0 && i < t->place.size; i++)
        if (strcmp(all, all + (size_t)i * CORE_BYTES) != 0)
            rc = err_set_class(err, ERR_REQUEST,
                               "train: rank 0's processor is '%s', rank %d's "
                               "'%s': sums would differ; set " CORE_KEY
                               " to the older one", all, i,
                               all + (size_t)i * CORE_BYTES);
    if (rc == 0)
        rc = conf_put(conf, CORE_KEY, all, "found", err);
    free(all);
    return rc;
}
