/* blas - OpenBLAS sums in another order on another core type, and may with
 * other numbers of threads, so that what the first attempt had is recorded in
 * run.yaml and kept to from then on (plan_conf_recall). The library chooses
 * its core type when it is loaded: pinning means starting once more. (A
 * supervisor sets the environment before it starts ranks.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/train/train.h"

#define CORE_KEY "system.blas_core"
#define THREADS_KEY "system.blas_threads"
#define CORE_BYTES 64

int blas_pin(const struct conf *conf, char **argv, struct err *err)
{
    char core[CORE_BYTES];
    snprintf(core, sizeof core, "%s", conf_text(conf, CORE_KEY));
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

/* As many as the smallest of the ranks' hosts has cores for. */
static int agree_threads(struct train *t, struct conf *conf, struct err *err)
{
    char text[16];
    int64_t least = -t->plan.blas_threads;
    if (comm_agree(t->comm, &least, 1, COMM_MAX, t->plan.load_limit_s, err))
        return -1;
    t->plan.blas_threads = (int)-least;
    ops_cpu_threads(t->plan.blas_threads);
    snprintf(text, sizeof text, "%d", t->plan.blas_threads);
    return conf_put(conf, THREADS_KEY, text, "found", err);
}

int blas_agree(struct train *t, struct conf *conf, struct err *err)
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
    return rc == 0 ? agree_threads(t, conf, err) : rc;
}
