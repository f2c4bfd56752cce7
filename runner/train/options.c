/* options - koboshi-train's flags and environment. Flags win. */
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"
#include "runner/train/train.h"

static const struct {
    const char *flag, *env, *value, *doc;
} rows[] = {
    {"--config", KB_ENV_CONFIG, "FILE", "run.yaml to train by"},
    {"--run-dir", KB_ENV_RUN_DIR, "DIR", "run directory, instead of run.dir"},
    {"--attempt", KB_ENV_ATTEMPT, "N",
     "number of the attempt that a supervisor began; without it the trainer "
     "runs unsupervised"},
    {"--print-blas-core", NULL, NULL, "print OpenBLAS's core type, and leave"},
    {"--help", NULL, NULL, "this"},
};
#define ROWS_N (sizeof rows / sizeof *rows)

void options_help(struct sbuf *out)
{
    sbuf_puts(out, "usage: koboshi-train [--config FILE] [--run-dir DIR] "
                   "[--attempt N]\n"
                   "One rank of a training run; see koboshi-train(1).\n\n");
    for (size_t i = 0; i < ROWS_N; i++)
        sbuf_printf(out, "  %s%s%s\n      %s%s%s%s\n", rows[i].flag,
                    rows[i].value ? " " : "",
                    rows[i].value ? rows[i].value : "", rows[i].doc,
                    rows[i].env ? " (environment: " : "",
                    rows[i].env ? rows[i].env : "", rows[i].env ? ")" : "");
}

/* One value into its place, by the index of its row. */
static int take(struct options *o, size_t row, const char *value,
                struct err *err)
{
    int64_t n;
    switch (row) {
    case 0:
    case 1:
        if (!str_copy(row == 0 ? o->config : o->run_dir, PATH_MAX, value))
            return err_set_class(err, ERR_REQUEST,
                                 "train: %s: the path is too long",
                                 rows[row].flag);
        return 0;
    case 2:
        if (str_to_i64(value, &n) != 0 || n < 1 || n > 1000000)
            return err_set_class(err, ERR_REQUEST,
                                 "train: %s: '%s' is not an attempt's number",
                                 rows[row].flag, value);
        o->attempt = (int)n;
        return 0;
    case 3:
        o->print_blas_core = true;
        return 0;
    default:
        o->help = true;
        return 0;
    }
}

static int take_flag(struct options *o, int argc, char **argv, int *at,
                     struct err *err)
{
    const char *arg = argv[*at];
    for (size_t i = 0; i < ROWS_N; i++) {
        size_t n = strlen(rows[i].flag);
        if (strncmp(arg, rows[i].flag, n) != 0)
            continue;
        if (!rows[i].value && arg[n] == 0)
            return take(o, i, "", err);
        if (rows[i].value && arg[n] == '=')
            return take(o, i, arg + n + 1, err);
        if (rows[i].value && arg[n] == 0 && *at + 1 < argc)
            return take(o, i, argv[++*at], err);
        if (rows[i].value && arg[n] == 0)
            return err_set_class(err, ERR_REQUEST, "train: %s needs %s", arg,
                                 rows[i].value);
    }
    return err_set_class(err, ERR_REQUEST,
                         "train: unknown argument '%s'; see --help", arg);
}

int options_read(int argc, char **argv,
                 const char *(*lookup)(const char *name), struct options *ret,
                 struct err *err)
{
    struct options o = {0};
    for (size_t i = 0; i < ROWS_N; i++) {
        const char *value = rows[i].env ? lookup(rows[i].env) : NULL;
        if (value && *value && take(&o, i, value, err) != 0)
            return err_prefix(err, "%s", rows[i].env);
    }
    const char *job = lookup("SLURM_JOB_ID");
    int64_t n;
    if (job && str_to_i64(job, &n) == 0)
        o.job = (long)n;
    for (int i = 1; i < argc; i++)
        if (take_flag(&o, argc, argv, &i, err) != 0)
            return -1;
    *ret = o;
    return 0;
}
