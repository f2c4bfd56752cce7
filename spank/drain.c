/* drain - the only code that drains a node; policy in drain.h. */
#include "spank/drain.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/proc.h"
#include "runner/base/str.h"

#define HOUR_S 3600.0
#define SETTLE_S 1.0 /* before looking again at what others did meanwhile */
enum { SINFO_BYTES = 16 << 20, NAME_BYTES = 256, REASON_BYTES = 256 };

/* ---- Policy --------------------------------------------------------- */

struct line {
    char name[NAME_BYTES];
    char state[64];
    char reason[REASON_BYTES];
    double time_s; /* of the reason; 0: not known */
};

/* Slurm's local time, 2026-01-31T12:00:00. */
static double parse_time(const char *text)
{
    struct tm tm = {.tm_isdst = -1};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    return end && !*end ? (double)mktime(&tm) : 0;
}

/* NAME|STATE|TIME|REASON; the reason may hold anything. */
static int parse_line(const char *text, size_t n, struct line *ret)
{
    char copy[NAME_BYTES + REASON_BYTES + 128], *field[4];
    snprintf(copy, sizeof copy, "%.*s",
             (int)(n < sizeof copy ? n : sizeof copy - 1), text);
    field[0] = copy;
    for (int i = 1; i < 4; i++) {
        field[i] = strchr(field[i - 1], '|');
        if (!field[i])
            return -1;
        *field[i]++ = 0;
    }
    str_copy(ret->name, sizeof ret->name, field[0]);
    str_copy(ret->state, sizeof ret->state, field[1]);
    ret->time_s = parse_time(field[2]);
    str_copy(ret->reason, sizeof ret->reason, field[3]);
    return 0;
}

static bool has_reason(const struct line *line)
{
    return *line->reason && strcmp(line->reason, "none") &&
           strcmp(line->reason, "(null)");
}

static bool is_out(const struct line *line)
{
    return strstr(line->state, "drain") || str_starts(line->state, "down") ||
           str_starts(line->state, "fail");
}

static bool is_our_drain(const struct line *line)
{
    return strstr(line->state, "drain") &&
           str_starts(line->reason, DRAIN_PREFIX);
}

/* Who drained first, by the controller's time, then by name. */
static bool before(const struct line *a, const struct line *b)
{
    return a->time_s != b->time_s ? a->time_s < b->time_s
                                  : strcmp(a->name, b->name) < 0;
}

struct view {
    struct line mine;
    bool found;
    int nodes_n; /* of the cluster */
    int out_n;   /* for our reasons, this node not counted */
    int hour_n;  /* of these, within the hour */
};

/* A node that is in several partitions comes several times, one after the
 * other. With `mine`, only those count that were before this node. */
static void make_view(const char *sinfo, const char *node, double now_s,
                      bool mine, struct view *ret)
{
    *ret = (struct view){0};
    for (int pass = 0; pass < 2; pass++) {
        char last[NAME_BYTES] = "";
        struct line line;
        for (const char *p = sinfo; *p;) {
            size_t n = strcspn(p, "\n");
            int rc = parse_line(p, n, &line);
            p += n + (p[n] == '\n');
            if (rc || !strcmp(line.name, last))
                continue;
            str_copy(last, sizeof last, line.name);
            if (pass == 0) {
                ret->nodes_n++;
                if (!strcmp(line.name, node)) {
                    ret->mine = line;
                    ret->found = true;
                }
            } else if (strcmp(line.name, node) && is_our_drain(&line) &&
                       (!mine || before(&line, &ret->mine))) {
                ret->out_n++;
                ret->hour_n += line.time_s > now_s - HOUR_S;
            }
        }
    }
}

enum drain_verdict drain_judge(const char *sinfo, const char *node,
                               double now_s, const struct args *args,
                               bool mine)
{
    struct view view;
    make_view(sinfo, node, now_s, mine, &view);
    int most = (int)(view.nodes_n * args->drains_percent / 100);
    if (!view.found)
        return DRAIN_NO_NODE;
    if (!mine && has_reason(&view.mine))
        return DRAIN_HAS_REASON;
    if (!mine && is_out(&view.mine))
        return DRAIN_IS_OUT;
    /* Somebody took it over meanwhile: it is not ours to give back. */
    if (mine && !is_our_drain(&view.mine))
        return DRAIN_GO;
    if (view.out_n >= (most < 1 ? 1 : most))
        return DRAIN_TOO_MANY;
    if (view.hour_n >= args->drains_per_hour)
        return DRAIN_TOO_FAST;
    return DRAIN_GO;
}

const char *drain_verdict_text(enum drain_verdict verdict)
{
    static const char *const texts[] = {
        [DRAIN_GO] = "it may be drained",
        [DRAIN_NO_NODE] = "Slurm does not know this node",
        [DRAIN_HAS_REASON] = "it has a reason already",
        [DRAIN_IS_OUT] = "it is out of service already",
        [DRAIN_TOO_MANY] = "too many nodes are drained by koboshi",
        [DRAIN_TOO_FAST] = "too many nodes were drained in the last hour",
    };
    return texts[verdict];
}

/* ---- Slurm's commands ------------------------------------------------ */

/* Where sinfo and scontrol are: as told, beside this very program (slurmd, or
 * slurmstepd that it started), or at the usual places. */
static int find_command(const struct args *args, const char *name, char *dst,
                        size_t dst_bytes)
{
    char self[PATH_MAX] = "", near[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0)
        snprintf(near, sizeof near, "%.*s/../bin",
                 (int)sizeof near - 8, dirname(self));
    const char *const folders[] = {args->slurm_bindir, near, "/usr/bin",
                                   "/usr/local/bin", "/opt/slurm/bin"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (*folders[i] &&
            !file_join(dst, dst_bytes, folders[i], name, NULL) &&
            !access(dst, X_OK))
            return 0;
    return -1;
}

static int run_command(const struct args *args, const char *const *argv,
                       struct proc_result *ret, struct err *err)
{
    char conf[PATH_MAX + 16], path[PATH_MAX], how[64];
    const char *const *words = argv;
    const char *slurm_conf = getenv("SLURM_CONF");
    snprintf(conf, sizeof conf, "SLURM_CONF=%s", slurm_conf ? slurm_conf : "");
    const char *envp[] = {"PATH=/usr/bin:/bin", "LC_ALL=C",
                          slurm_conf ? conf : NULL, NULL};
    const char *full[8] = {path};
    for (int i = 1; i < 7 && words[i]; i++)
        full[i] = words[i];
    if (find_command(args, words[0], path, sizeof path))
        return err_set(err, "drain: no '%s' found; set slurm_bindir= in "
                            "plugstack.conf", words[0]);
    struct proc_spec spec = {
        .argv = full,
        .envp = envp,
        .deadline_s = args->slurm_timeout_s,
        .term_grace_s = 0.2,
        .out_max_bytes = SINFO_BYTES,
    };
    if (proc_run(&spec, ret, err))
        return -1;
    if (ret->exit_code == 0)
        return 0;
    ret->err.data[strcspn(ret->err.data, "\n")] = 0;
    err_set(err, "drain: '%s' %s: %s", words[0],
            proc_result_text(ret, how, sizeof how), ret->err.data);
    return -1;
}

static int judge_now(const struct args *args, const char *node, bool mine,
                     enum drain_verdict *ret, struct err *err)
{
    const char *const argv[] = {"sinfo", "-h", "-a", "-N", "-o",
                                "%N|%T|%H|%E", NULL};
    struct proc_result result = {0};
    int rc = run_command(args, argv, &result, err);
    if (!rc)
        *ret = drain_judge(result.out.data, node, clock_wall_s(), args, mine);
    proc_result_release(&result);
    return rc;
}

static int update(const struct args *args, const char *node,
                  const char *state, const char *reason, struct err *err)
{
    char name_word[NAME_BYTES + 16], state_word[32];
    char reason_word[REASON_BYTES + 16];
    struct proc_result result = {0};
    snprintf(name_word, sizeof name_word, "NodeName=%.255s", node);
    snprintf(state_word, sizeof state_word, "State=%s", state);
    snprintf(reason_word, sizeof reason_word, "Reason=%.255s",
             reason ? reason : "");
    const char *const argv[] = {"scontrol", "update", name_word, state_word,
                                reason ? reason_word : NULL, NULL};
    int rc = run_command(args, argv, &result, err);
    proc_result_release(&result);
    return rc;
}

int drain_node(const struct args *args, const char *node, const char *code,
               const char *subject, enum drain_verdict *ret_why,
               struct err *err)
{
    char reason[REASON_BYTES];
    snprintf(reason, sizeof reason, DRAIN_PREFIX "%.60s %.100s", code,
             subject);
    if (judge_now(args, node, false, ret_why, err))
        return -1;
    if (*ret_why != DRAIN_GO)
        return 0;
    if (update(args, node, "DRAIN", reason, err))
        return -1;
    /* Others may have judged in the same second. When it cannot be seen, the
     * drain stands. */
    clock_sleep_s(SETTLE_S);
    if (judge_now(args, node, true, ret_why, NULL) || *ret_why == DRAIN_GO)
        return 1;
    return update(args, node, "UNDRAIN", NULL, err) ? -1 : 0;
}
