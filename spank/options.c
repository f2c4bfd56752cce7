/* options - the table of the --llm- options; see options.h. */
#include "spank/options.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/base/str.h"

enum { VALUE_MAX_BYTES = 16384, NODES_MAX = 65536, RESTARTS_MAX = 100000 };

static int check_number(const char *value, int64_t max, const char *unit,
                        struct err *err)
{
    int64_t n;
    if (str_to_i64(value, &n) || n < 0 || n > max)
        return err_set_class(err, ERR_REQUEST,
                             "not a number of %s from 0 to %lld: '%s'", unit,
                             (long long)max, value);
    return 0;
}

static int check_path(const char *value, struct err *err)
{
    if (!*value)
        return err_set_class(err, ERR_REQUEST,
                             "no file named; give the path of a run.yaml");
    return 0;
}

static int check_set(const char *value, struct err *err)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return err_set_class(err, ERR_REQUEST,
                             "not KEY=VALUE: '%s'; as in optim.lr=3e-4",
                             value);
    return 0;
}

static int check_spares(const char *value, struct err *err)
{
    return check_number(value, NODES_MAX, "nodes", err);
}

static int check_restarts(const char *value, struct err *err)
{
    return check_number(value, RESTARTS_MAX, "restarts", err);
}

static int check_health(const char *value, struct err *err)
{
    if (!strcmp(value, "off") || !strcmp(value, "gate") ||
        !strcmp(value, "full"))
        return 0;
    return err_set_class(err, ERR_REQUEST, "not off, gate or full: '%s'",
                         value);
}

static int check_resume(const char *value, struct err *err)
{
    int64_t step;
    if (!strcmp(value, "auto") || !strcmp(value, "fresh") ||
        (!str_to_i64(value, &step) && step >= 0))
        return 0;
    return err_set_class(err, ERR_REQUEST,
                         "not auto, fresh or a step's number: '%s'", value);
}

const struct option_row option_rows[OPTION_N] = {
    [OPTION_TRAIN] = {"llm-train", "FILE",
                      "train the language model that FILE (run.yaml) "
                      "describes; see koboshi(7)",
                      KB_ENV_CONFIG, check_path},
    [OPTION_SET] = {"llm-set", "KEY=VALUE",
                    "set one key over what the file says (several times)",
                    KB_ENV_SET, check_set},
    [OPTION_SPARES] = {"llm-spares", "N",
                       "keep N nodes of the job back to replace bad ones",
                       KB_ENV_SPARES, check_spares},
    [OPTION_HEALTH] = {"llm-health", "off|gate|full",
                       "how closely nodes are looked at before a start",
                       KB_ENV_HEALTH, check_health},
    [OPTION_RESUME] = {"llm-resume", "auto|fresh|STEP",
                       "from which checkpoint to go on", KB_ENV_RESUME,
                       check_resume},
    [OPTION_MAX_RESTARTS] = {"llm-max-restarts", "N",
                             "failures after which the run stops",
                             KB_ENV_MAX_RESTARTS, check_restarts},
    [OPTION_DRY_RUN] = {"llm-dry-run", NULL,
                        "print the plan and submit nothing", NULL, NULL},
};

/* Nothing that would break a line of the environment or a message. */
static int check_text(const char *value, struct err *err)
{
    if (strlen(value) > VALUE_MAX_BYTES)
        return err_set_class(err, ERR_REQUEST, "longer than %d bytes",
                             VALUE_MAX_BYTES);
    for (const char *p = value; *p; p++)
        if (iscntrl((unsigned char)*p) && *p != '\t')
            return err_set_class(err, ERR_REQUEST,
                                 "has a control character or line end");
    return 0;
}

static char *absolute(const char *path, struct err *err)
{
    char cwd[PATH_MAX];
    char *full = NULL;
    if (*path == '/')
        full = strdup(path);
    else if (!getcwd(cwd, sizeof cwd))
        err_set_errno(err, "cannot tell the current folder");
    else if (asprintf(&full, "%s/%s", strcmp(cwd, "/") ? cwd : "", path) < 0)
        full = NULL;
    if (!full)
        err_set(err, "out of memory");
    return full;
}

/* Pairs of --llm-set, a line each. One that is there already moves to the end:
 * the last one of a key counts, and Slurm may call twice. */
static char *joined(const char *lines, const char *line)
{
    size_t line_n = strlen(line);
    char *all = malloc((lines ? strlen(lines) : 0) + line_n + 2);
    char *at = all;
    if (!all)
        return NULL;
    for (const char *p = lines; p && *p;) {
        size_t n = strcspn(p, "\n");
        if (n != line_n || memcmp(p, line, n)) {
            memcpy(at, p, n);
            at += n;
            *at++ = '\n';
        }
        p += n + (p[n] == '\n');
    }
    memcpy(at, line, line_n + 1);
    return all;
}

int options_take(struct options *options, int key, const char *value,
                 struct err *err)
{
    const struct option_row *row = &option_rows[key];
    struct err why = ERR_INIT;
    char *kept = NULL;
    if (!row->arginfo)
        kept = strdup("1");
    else if (!value || check_text(value, &why) || row->check(value, &why))
        kept = NULL;
    else if (key == OPTION_TRAIN)
        kept = absolute(value, &why);
    else if (key == OPTION_SET)
        kept = joined(options->value[OPTION_SET], value);
    else
        kept = strdup(value);
    if (!kept)
        return err_set_class(err, ERR_REQUEST, "--%s: %s", row->name,
                             why.class ? why.msg : "out of memory");
    free(options->value[key]);
    options->value[key] = kept;
    return 0;
}

void options_release(struct options *options)
{
    for (int i = 0; i < OPTION_N; i++)
        free(options->value[i]);
    *options = (struct options){0};
}
