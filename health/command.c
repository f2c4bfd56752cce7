/* command - the command line that koboshi-health and `koboshi health` share;
 * see health.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health/capture.h"
#include "health/compare.h"
#include "health/health.h"
#include "health/site.h"

struct flag {
    const char *name;
    const char *arginfo; /* NULL: none */
    const char *help;
};
enum {
    FLAG_JSON,
    FLAG_LEVEL,
    FLAG_USER,
    FLAG_RUN_DIR,
    FLAG_ROOT,
    FLAG_REPLAY,
    FLAG_CAPTURE,
    FLAG_COMPARE,
    FLAG_PROMETHEUS,
    FLAG_EXPECT,
    FLAG_NVML,
    FLAG_ACTIVE,
    FLAG_GPUS,
    FLAG_TRIAL,
    FLAG_CORRUPT,
    FLAG_PAIRS,
    FLAG_PAIRS_SELF,
    FLAG_PAIRS_PORT,
    FLAG_VERDICT,
    FLAG_KLOG_AFTER,
    FLAG_SLOW,
    FLAG_HISTORY,
    FLAG_JOB,
    FLAG_SUSPECT,
    FLAG_LENT,
    FLAG_WATCH,
    FLAG_HELP,
    FLAG_N
};
static const struct flag flags[FLAG_N] = {
    [FLAG_JSON] = {"--json", NULL, "report as JSON"},
    [FLAG_LEVEL] = {"--level", "gate|full", "how closely to look (gate)"},
    [FLAG_USER] = {"--user", NULL,
                   "as the job's user: what the job will need"},
    [FLAG_RUN_DIR] = {"--run-dir", "DIR",
                      "with --user: the folder that the job writes to"},
    [FLAG_ROOT] = {"--root", "DIR",
                   "read proc, sys and dev under DIR: a recorded host"},
    [FLAG_REPLAY] = {"--replay", "DIR", "the same as --root"},
    [FLAG_CAPTURE] = {"--capture", "DIR",
                      "record this host into the new folder DIR and exit"},
    [FLAG_COMPARE] = {"--compare", NULL,
                      "last: lay reports of many nodes, files or folders, "
                      "beside each other"},
    [FLAG_PROMETHEUS] = {"--prometheus", NULL,
                         "report as a text file for Prometheus"},
    [FLAG_EXPECT] = {"--expect", "FILE",
                     "what this node should have (" SITE_FILE ")"},
    [FLAG_NVML] = {"--nvml", "FILE",
                   "library of the GPU driver (libnvidia-ml.so.1)"},
    [FLAG_ACTIVE] = {"--active", NULL,
                     "also try the idle GPUs: half a minute of load"},
    [FLAG_GPUS] = {"--gpus", "LIST",
                   "with --active: only these, as 0,2-3: N of "
                   "/dev/nvidiaN"},
    [FLAG_TRIAL] = {"--trial", "FILE",
                    "the program that tries them (koboshi-health-gpu)"},
    [FLAG_CORRUPT] = {"--trial-corrupt", "WHAT", NULL}, /* for tests */
    [FLAG_PAIRS] = {"--pairs", "NODES",
                    "sum with two of these nodes, a,b,c, by NCCL"},
    [FLAG_PAIRS_SELF] = {"--pairs-self", "NAME",
                         "this node's name among them (SLURMD_NODENAME)"},
    [FLAG_PAIRS_PORT] = {"--pairs-port", "PORT",
                         "where pairs meet, and the next one (29371)"},
    [FLAG_VERDICT] = {"--verdict", NULL,
                      "one line on standard error: VERDICT CODE SUBJECT"},
    [FLAG_KLOG_AFTER] = {"--klog-after", "SECONDS",
                         "leave out kernel log lines up to this uptime"},
    [FLAG_SLOW] = {"--patience", "FACTOR",
                   "multiply the probes' deadlines (1)"},
    [FLAG_HISTORY] = {"--history", "FILE",
                      "remember counters in FILE, and say what grew"},
    [FLAG_JOB] = {"--job", "NUMBER",
                  "with --history: how this job went here"},
    [FLAG_SUSPECT] = {"--suspect", "CODE,...",
                      "with --job: what the job itself suspected"},
    [FLAG_LENT] = {"--lent", "N", "GPUs that Slurm lends to the job here"},
    [FLAG_WATCH] = {"--watch", "SECONDS",
                    "look until TERM comes; each finding once, as JSON"},
    [FLAG_HELP] = {"--help", NULL, "this text"},
};

/* A whole number into *ret. */
static int set_number(const char *name, const char *value, int64_t max,
                      int64_t *ret, struct err *err)
{
    if (!str_to_i64(value, ret) && *ret >= 0 && *ret <= max)
        return 0;
    return err_set_class(err, ERR_REQUEST, "%s: not a number up to %lld: '%s'",
                         name, (long long)max, value);
}

static int set_flag(struct health_options *o, int flag, const char *value,
                    struct err *err)
{
    int64_t number;
    switch (flag) {
    case FLAG_JSON:
        o->json = true;
        break;
    case FLAG_COMPARE: /* the words behind it: health_parse */
        break;
    case FLAG_PROMETHEUS:
        o->prometheus = true;
        break;
    case FLAG_LEVEL:
        o->request.full = !strcmp(value, "full");
        if (!o->request.full && strcmp(value, "gate"))
            return err_set_class(err, ERR_REQUEST,
                                 "--level: not gate or full: '%s'", value);
        break;
    case FLAG_USER:
        o->request.user = true;
        break;
    case FLAG_RUN_DIR:
        o->request.run_dir = value;
        break;
    case FLAG_ROOT:
    case FLAG_REPLAY:
        o->request.root = value;
        break;
    case FLAG_CAPTURE:
        o->capture = value;
        break;
    case FLAG_EXPECT:
        o->request.expect = value;
        break;
    case FLAG_NVML:
        o->request.nvml = value;
        break;
    case FLAG_ACTIVE:
        o->request.active = true;
        break;
    case FLAG_GPUS:
        o->request.gpus = value;
        break;
    case FLAG_TRIAL:
        o->request.trial = value;
        break;
    case FLAG_CORRUPT:
        o->request.corrupt = value;
        break;
    case FLAG_PAIRS:
        o->request.pairs = value;
        break;
    case FLAG_PAIRS_SELF:
        o->request.self = value;
        break;
    case FLAG_PAIRS_PORT:
        if (set_number("--pairs-port", value, 65534, &number, err))
            return -1;
        o->request.port = (int)number;
        break;
    case FLAG_VERDICT:
        o->verdict = true;
        break;
    case FLAG_KLOG_AFTER:
        if (str_to_double(value, &o->request.klog_after_s) ||
            !(o->request.klog_after_s >= 0))
            return err_set_class(err, ERR_REQUEST,
                                 "--klog-after: not a time in seconds: '%s'",
                                 value);
        break;
    case FLAG_SLOW:
        if (str_to_double(value, &o->request.slow_s) ||
            !(o->request.slow_s > 0) || o->request.slow_s > 1000)
            return err_set_class(err, ERR_REQUEST,
                                 "--patience: not a number up to 1000: '%s'",
                                 value);
        break;
    case FLAG_HISTORY:
        o->request.history = value;
        break;
    case FLAG_JOB:
        if (set_number("--job", value, UINT32_MAX, &number, err))
            return -1;
        o->request.job = (long)number;
        break;
    case FLAG_SUSPECT:
        o->request.suspicions = value;
        break;
    case FLAG_LENT:
        if (set_number("--lent", value, 1024, &number, err))
            return -1;
        o->request.lent = (int)number;
        break;
    case FLAG_WATCH:
        if (str_to_double(value, &o->request.watch_s) ||
            !(o->request.watch_s >= 0.1) || o->request.watch_s > 86400)
            return err_set_class(err, ERR_REQUEST,
                                 "--watch: not a time of 0.1 to 86400 "
                                 "seconds: '%s'", value);
        o->watch = true;
        break;
    case FLAG_HELP:
        o->help = true;
    }
    return 0;
}

/* The flag of a word, its value in *ret_value: after '=' or the next word. */
static int find_flag(int argc, char **argv, int *at, const char **ret_value,
                     struct err *err)
{
    const char *word = argv[*at];
    for (int f = 0; f < FLAG_N; f++) {
        size_t n = strlen(flags[f].name);
        if (strncmp(word, flags[f].name, n) || (word[n] && word[n] != '='))
            continue;
        if (!flags[f].arginfo && !word[n])
            return f;
        if (flags[f].arginfo && word[n])
            *ret_value = word + n + 1;
        else if (flags[f].arginfo && *at + 1 < argc)
            *ret_value = argv[++*at];
        else
            return err_set_class(err, ERR_REQUEST, "%s: %s", flags[f].name,
                                 flags[f].arginfo ? "needs a value"
                                                  : "takes no value");
        return f;
    }
    return err_set_class(err, ERR_REQUEST,
                         "unknown option: '%s'; see --help", word);
}

int health_parse(int argc, char **argv, struct health_options *ret,
                 struct err *err)
{
    struct health_options o = {.request.lent = -1};
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        int flag = find_flag(argc, argv, &i, &value, err);
        if (flag < 0 || set_flag(&o, flag, value, err))
            return -1;
        if (flag == FLAG_COMPARE) {
            o.compare = (const char *const *)argv + i + 1;
            o.compare_n = argc - i - 1;
            break;
        }
    }
    if (o.request.run_dir && !o.request.user)
        return err_set_class(err, ERR_REQUEST,
                             "--run-dir: only with --user; root never "
                             "touches a run directory");
    if (o.request.root && o.request.user)
        return err_set_class(err, ERR_REQUEST,
                             "--user: not for a recorded host");
    if (o.request.job && !o.request.history)
        return err_set_class(err, ERR_REQUEST, "--job: only with --history");
    if (o.request.suspicions && !o.request.job)
        return err_set_class(err, ERR_REQUEST, "--suspect: only with --job");
    if (o.request.gpus && !o.request.active)
        return err_set_class(err, ERR_REQUEST, "--gpus: only with --active");
    if (o.json && o.prometheus)
        return err_set_class(err, ERR_REQUEST,
                             "--prometheus: not with --json");
    *ret = o;
    return 0;
}

void health_help(const char *name, struct sbuf *out)
{
    sbuf_printf(out, "usage: %s [OPTION]...\n"
                     "Look at this node and report what is wrong with it.\n\n",
                name);
    for (int f = 0; f < FLAG_N; f++) {
        char left[64];
        if (!flags[f].help)
            continue;
        snprintf(left, sizeof left, "%s%s%s", flags[f].name,
                 flags[f].arginfo ? "=" : "",
                 flags[f].arginfo ? flags[f].arginfo : "");
        sbuf_printf(out, "  %-22s %s\n", left, flags[f].help);
    }
    sbuf_puts(out, "\nExit: 0 fit for jobs, 4 drain, 5 fail, 2 usage, 1 it "
                   "could not look.\n\nKeys of the --expect file:\n");
    site_help(out);
}

static void verdict_line(const struct health_report *report, struct sbuf *out)
{
    const struct finding *worst =
        report->finding_n ? &report->finding[0] : NULL;
    sbuf_printf(out, "%s %s %s\n", health_verdict(report),
                worst ? worst->code : "-", worst ? worst->subject : "-");
}

int health_run(const struct health_options *options, struct sbuf *out,
               struct sbuf *verdict, int *ret_code, struct err *err)
{
    int rc = -1;
    if (options->capture) {
        *ret_code = HEALTH_EXIT_FIT;
        return capture_host(options->capture, options->request.nvml, err);
    }
    if (options->compare) {
        *ret_code = HEALTH_EXIT_FIT;
        return compare_reports(options->compare, options->compare_n, out, err);
    }
    if (options->watch) {
        *ret_code = HEALTH_EXIT_FIT;
        return health_watch(&options->request, STDOUT_FILENO, err);
    }
    struct health_report *report = malloc(sizeof *report);
    if (!report)
        return err_set(err, "health: out of memory");
    if (health_look(&options->request, report, err))
        goto out;
    if (options->json) {
        json_t *value = health_json(report);
        char *text = value ? json_dumps(value, JSON_INDENT(1)) : NULL;
        json_decref(value);
        if (!text) {
            err_set(err, "health: out of memory");
            goto out;
        }
        sbuf_printf(out, "%s\n", text);
        free(text);
    } else if (options->prometheus) {
        health_prometheus(report, out);
    } else {
        health_text(report, out);
    }
    verdict_line(report, verdict);
    *ret_code = health_exit_code(report);
    rc = out->failed ? err_set(err, "health: out of memory") : 0;
out:
    free(report);
    return rc;
}
