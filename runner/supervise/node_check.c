/* node_check - is this node fit to train? Runs inside a child with a deadline.
 *
 * Preflight: the root gate's verdict, the run directory, koboshi-health as the
 * user, and the plan made again here. A
 * check that cannot be made is said, and is no failure of the node.
 */
#include "runner/supervise/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/proc.h"
#include "runner/supervise/program.h"

#define HEALTH_S 20.0
#define PLAN_S 20.0
#define REPORT_BYTES (256u << 10)
#define REPORT_SENT_BYTES (64u << 10)

/* Severities that keep a node out, in the report's words. */
static bool is_bad(const char *severity)
{
    return !strcmp(severity, "drain") || !strcmp(severity, "fail");
}

static void refuse(json_t *answer, const char *class, const char *message)
{
    if (!json_is_true(json_object_get(answer, "ok")))
        return; /* the first reason is the reason */
    json_object_set_new(answer, "ok", json_false());
    json_object_set_new(answer, "class", json_string(class));
    json_object_set_new(answer, "message", json_string(message));
}

/* Findings of a report into the answer; a bad one refuses the node. */
static void take_findings(json_t *answer, const json_t *report,
                          const char *who)
{
    size_t i;
    json_t *finding;
    json_t *list = json_object_get(answer, "findings");
    json_array_foreach(json_object_get(report, "findings"), i, finding) {
        const char *severity = json_string_or(finding, "severity", "");
        if (!strcmp(severity, "info") || i >= 64)
            continue;
        json_array_append(list, finding);
        if (!is_bad(severity))
            continue;
        char text[640];
        snprintf(text, sizeof text, "%s: %s (%s): %s", who,
                 json_string_or(finding, "code", "?"),
                 json_string_or(finding, "subject", "?"),
                 json_string_or(finding, "message", ""));
        refuse(answer, "node", text);
    }
}

/* Only root's own file counts: nobody else can judge a node for root. */
static void check_gate(json_t *answer, long job)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, KB_GATE_FMT, (unsigned)job);
    if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != 0 ||
        (st.st_mode & 022))
        return;
    json_t *report = json_load_path(path, REPORT_BYTES, NULL);
    take_findings(answer, report, "health gate");
    json_decref(report);
}

/* Whose fault a folder is that cannot be written: no room and no right are the
 * user's business on any node; all else is the node's, which may lack the
 * file system, unless no other node can write either. */
static const char *class_of(int why)
{
    static const int users[] = {EACCES, EPERM, ENOSPC, EDQUOT};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (users[i] == why)
            return "request";
    return "shared";
}

/* 0 or the errno: a file server may tell of a full disk at any of these. */
static int try_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    if (fd < 0)
        return errno;
    int why = file_write_all(fd, "koboshi\n", 8) || fsync(fd) ? errno : 0;
    if (close(fd) && !why)
        why = errno;
    unlink(path);
    return why;
}

static void check_run_dir(json_t *answer, const struct node *node)
{
    char path[PATH_MAX + WIRE_NAME_BYTES + 64], text[PATH_MAX + 256];
    double start = clock_mono_s();
    snprintf(path, sizeof path, "%s/.probe.%s.%d", node->run_dir, node->name,
             (int)getpid());
    int why = try_write(path);
    if (why) {
        snprintf(text, sizeof text,
                 "run directory cannot be written: '%s': %s", node->run_dir,
                 strerror(why));
        refuse(answer, class_of(why), text);
    }
    json_object_set_new(answer, "run_dir_s",
                        json_real(clock_mono_s() - start));
}

/* The report itself too, to be laid beside the other nodes', if it is of a
 * size that can be sent. */
static void keep_report(json_t *answer, json_t *report)
{
    char *text = json_dumps(report, JSON_COMPACT);
    if (text && strlen(text) < REPORT_SENT_BYTES)
        json_object_set(answer, "report", report);
    free(text);
}

static void check_health(json_t *answer, const struct node *node)
{
    char path[PATH_MAX], run_dir[PATH_MAX + 16], lent[32];
    if (program_find("koboshi-health", path, sizeof path, NULL))
        return;
    snprintf(run_dir, sizeof run_dir, "--run-dir=%s", node->run_dir);
    snprintf(lent, sizeof lent, "--lent=%d", node->limits.gpus_per_node);
    const char *argv[] = {path, "--json", "--user", run_dir, lent, NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = HEALTH_S,
                             .term_grace_s = 1,
                             .out_max_bytes = REPORT_BYTES};
    struct proc_result result;
    if (proc_run(&spec, &result, NULL))
        return;
    json_t *report = result.timed_out
                         ? NULL
                         : json_parse(result.out.data, "health report", NULL);
    if (report) {
        take_findings(answer, report, "koboshi-health");
        keep_report(answer, report);
    } else
        json_object_set_new(answer, "health", json_string("unknown"));
    json_decref(report);
    proc_result_release(&result);
}

/* The refusals among the plan's lines, one after the other. */
static void take_refusals(const char *out, char *dst, size_t dst_bytes)
{
    size_t used = 0;
    dst[0] = 0;
    for (const char *p = out; *p && used + 1 < dst_bytes;) {
        size_t n = strcspn(p, "\n");
        const char *mark = memmem(p, n, "warning: ", 9);
        if (n && !mark) {
            int more = snprintf(dst + used, dst_bytes - used, "%s%.*s",
                                used ? "; " : "", (int)n, p);
            used += more > 0 ? (size_t)more : 0;
        }
        p += n + (p[n] == '\n');
    }
}

static void check_plan(json_t *answer, const struct node *node)
{
    char path[PATH_MAX], text[1024], nodes[16], ranks[16], gpus[16];
    snprintf(nodes, sizeof nodes, "%d", node->limits.nodes_n);
    snprintf(ranks, sizeof ranks, "%d", node->limits.ranks_per_node);
    snprintf(gpus, sizeof gpus, "%d", node->limits.gpus_per_node);
    if (!node->config[0] || program_find("koboshi", path, sizeof path, NULL))
        return;
    const char *argv[] = {path, "plan", "--nodes", nodes,
                          "--ranks-per-node", ranks, "--gpus-per-node", gpus,
                          node->config, NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = PLAN_S,
                             .term_grace_s = 1, .merge_stderr = true,
                             .out_max_bytes = 64u << 10};
    struct proc_result result;
    if (proc_run(&spec, &result, NULL))
        return;
    if (result.exit_code == KB_EXIT_REQUEST) {
        take_refusals(result.out.data, text, sizeof text);
        refuse(answer, "request", text);
    }
    proc_result_release(&result);
}

json_t *node_check_run(void *ctx)
{
    const struct node *node = ctx;
    json_t *answer = json_pack("{s:b, s:s, s:s, s:[]}", "ok", 1, "message", "",
                               "class", "none", "findings");
    check_gate(answer, node->job);
    check_run_dir(answer, node);
    check_plan(answer, node);
    check_health(answer, node);
    return answer;
}
