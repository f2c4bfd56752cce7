/* look - run every probe in a child of its own, at once; see health.h.
 *
 * A child writes records of one size into its pipe and ends with _exit. What it
 * wrote before it hung or crashed counts; half a record does not. A child that
 * SIGKILL does not end at once (it sleeps in a driver) is left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health/health.h"
#include "health/probe.h"
#include "health/site.h"
#include "runner/base/clock.h"
#include "runner/base/file.h"

#define REAP_S 0.3 /* how long a killed child is waited for, all together */

enum record_kind {
    RECORD_FINDING,
    RECORD_SKIP,
    RECORD_NOTE,
    RECORD_FIGURE,
    RECORD_AT
};

/* Through the pipe; smaller than PIPE_BUF, so written whole. */
struct record {
    int kind;
    int code; /* enum finding_code */
    double value;
    char unit[16];
    char name[96];
    char text[256];
};

struct findings {
    int fd;
};

/* ---- In the child --------------------------------------------------- */

static void send_record(struct findings *findings, struct record *record,
                        const char *name, const char *fmt, va_list ap)
{
    str_copy(record->name, sizeof record->name, name);
    vsnprintf(record->text, sizeof record->text, fmt, ap);
    file_write_all(findings->fd, record, sizeof *record);
}

void findings_add(struct findings *findings, enum finding_code code,
                  const char *subject, const char *evidence_fmt, ...)
{
    struct record record = {.kind = RECORD_FINDING, .code = (int)code};
    va_list ap;
    va_start(ap, evidence_fmt);
    send_record(findings, &record, subject, evidence_fmt, ap);
    va_end(ap);
}

void findings_skip(struct findings *findings, const char *why_fmt, ...)
{
    struct record record = {.kind = RECORD_SKIP};
    va_list ap;
    va_start(ap, why_fmt);
    send_record(findings, &record, "", why_fmt, ap);
    va_end(ap);
}

void findings_note(struct findings *findings, const char *name,
                   const char *value_fmt, ...)
{
    struct record record = {.kind = RECORD_NOTE};
    va_list ap;
    va_start(ap, value_fmt);
    send_record(findings, &record, name, value_fmt, ap);
    va_end(ap);
}

void findings_figure(struct findings *findings, const char *name,
                     const char *subject, const char *unit, double value)
{
    struct record record = {.kind = RECORD_FIGURE, .value = value};
    str_copy(record.name, sizeof record.name, name);
    str_copy(record.text, sizeof record.text, subject);
    str_copy(record.unit, sizeof record.unit, unit);
    file_write_all(findings->fd, &record, sizeof record);
}

void findings_at(struct findings *findings, const char *what_fmt, ...)
{
    struct record record = {.kind = RECORD_AT};
    va_list ap;
    va_start(ap, what_fmt);
    send_record(findings, &record, "", what_fmt, ap);
    va_end(ap);
}

/* ---- In the parent -------------------------------------------------- */

struct child {
    const struct probe *probe;
    pid_t pid; /* 0: ended and reaped */
    int fd;    /* -1: at its end */
    double begin_s, limit_s;
    struct health_probe *told;
    char at[96]; /* what it said it tries */
    char part[sizeof(struct record)]; /* of the record that is coming */
    size_t part_n;
};

static bool is_wanted(const struct probe *probe, const struct look *look,
                      bool active)
{
    if ((probe->full_only && !look->full) ||
        (probe->when == PROBE_ACTIVE) != active)
        return false;
    if (active)
        return look->active;
    return probe->when == PROBE_ALWAYS ||
           (probe->when == PROBE_USER) == look->user;
}

static int start(struct child *child, const struct look *look, double slow_s,
                 struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return err_set_errno(err, "health: cannot make a pipe");
    child->begin_s = clock_mono_s();
    child->limit_s = child->begin_s + child->probe->deadline_s * slow_s;
    pid_t parent = getpid();
    child->pid = fork();
    if (child->pid < 0) {
        child->pid = 0;
        close(ends[0]);
        close(ends[1]);
        return err_set_errno(err, "health: cannot start a probe");
    }
    if (child->pid == 0) {
        struct findings findings = {.fd = ends[1]};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        signal(SIGPIPE, SIG_IGN);
        child->probe->run(look, &findings);
        _exit(0);
    }
    close(ends[1]);
    child->fd = ends[0];
    fcntl(child->fd, F_SETFL, O_NONBLOCK);
    return 0;
}

static void add_finding(struct health_report *report, const struct conf *site,
                        int code, const char *subject, const char *evidence)
{
    if (report->finding_n == HEALTH_FINDINGS_MAX) {
        report->dropped_n++;
        return;
    }
    struct finding *finding = &report->finding[report->finding_n++];
    catalog_fill(finding, (enum finding_code)code, subject, evidence);
    finding->severity = site_severity(site, (enum finding_code)code);
}

/* A record is the probe's word: nothing in it is trusted to be in range. */
static void take_record(struct health_report *report, const struct conf *site,
                        struct child *child, struct record *record)
{
    record->name[sizeof record->name - 1] = 0;
    record->text[sizeof record->text - 1] = 0;
    record->unit[sizeof record->unit - 1] = 0;
    if (record->kind == RECORD_FINDING && record->code >= 0 &&
        record->code < F_CODE_N) {
        add_finding(report, site, record->code, record->name, record->text);
        child->told->status = HEALTH_FOUND;
    } else if (record->kind == RECORD_SKIP) {
        child->told->status = HEALTH_SKIPPED;
        str_copy(child->told->why, sizeof child->told->why, record->text);
    } else if (record->kind == RECORD_AT) {
        snprintf(child->at, sizeof child->at, ", at %.80s", record->text);
    } else if (record->kind == RECORD_FIGURE && isfinite(record->value) &&
               report->figure_n < HEALTH_FIGURES_MAX) {
        struct health_figure *figure = &report->figure[report->figure_n++];
        str_copy(figure->name, sizeof figure->name, record->name);
        str_copy(figure->subject, sizeof figure->subject, record->text);
        str_copy(figure->unit, sizeof figure->unit, record->unit);
        figure->value = record->value;
    } else if (record->kind == RECORD_NOTE &&
               report->note_n < HEALTH_NOTES_MAX) {
        struct health_note *note = &report->note[report->note_n++];
        str_copy(note->name, sizeof note->name, record->name);
        str_copy(note->value, sizeof note->value, record->text);
    }
}

static void read_child(struct health_report *report, const struct conf *site,
                       struct child *child)
{
    for (;;) {
        ssize_t n = read(child->fd, child->part + child->part_n,
                         sizeof child->part - child->part_n);
        if (n < 0 && (errno == EINTR))
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        child->part_n += (size_t)n;
        if (child->part_n == sizeof child->part) {
            struct record record;
            memcpy(&record, child->part, sizeof record);
            child->part_n = 0;
            take_record(report, site, child, &record);
        }
    }
    close(child->fd);
    child->fd = -1;
}

/* A crash counts as one; a clean end leaves the status as it is. */
static void judge_end(struct health_report *report, const struct conf *site,
                      struct child *child, int status)
{
    child->told->seconds = clock_mono_s() - child->begin_s;
    if (child->told->status == HEALTH_HUNG ||
        (WIFEXITED(status) && !WEXITSTATUS(status)))
        return;
    child->told->status = HEALTH_CRASHED;
    if (WIFSIGNALED(status))
        snprintf(child->told->why, sizeof child->told->why, "signal %d%s",
                 WTERMSIG(status), child->at);
    else
        snprintf(child->told->why, sizeof child->told->why, "exit code %d%s",
                 WEXITSTATUS(status), child->at);
    add_finding(report, site, F_PROBE_CRASHED, child->probe->name,
                child->told->why);
}

static void reap(struct health_report *report, const struct conf *site,
                 struct child *child)
{
    int status;
    pid_t got = waitpid(child->pid, &status, WNOHANG);
    if (got == 0)
        return;
    if (got == child->pid)
        judge_end(report, site, child, status);
    child->pid = 0;
}

static void stop_hung(struct health_report *report, const struct conf *site,
                      struct child *child)
{
    char evidence[160];
    kill(child->pid, SIGKILL);
    child->told->status = HEALTH_HUNG;
    child->told->seconds = clock_mono_s() - child->begin_s;
    snprintf(evidence, sizeof evidence, "longer than %.3g s%s",
             child->limit_s - child->begin_s, child->at);
    add_finding(report, site, F_PROBE_HUNG, child->probe->name, evidence);
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
}

/* Until every child has closed its pipe or was stopped. */
static void watch(struct health_report *report, const struct conf *site,
                  struct child *children, int n)
{
    struct pollfd polled[HEALTH_PROBES_MAX];
    int which[HEALTH_PROBES_MAX];
    for (;;) {
        int polled_n = 0;
        double now = clock_mono_s(), next = now + 60;
        for (int i = 0; i < n; i++) {
            struct child *child = &children[i];
            if (child->fd >= 0 && now >= child->limit_s)
                stop_hung(report, site, child);
            if (child->fd < 0)
                continue;
            if (child->limit_s < next)
                next = child->limit_s;
            which[polled_n] = i;
            polled[polled_n++] = (struct pollfd){child->fd, POLLIN, 0};
        }
        if (!polled_n)
            return;
        if (poll(polled, (nfds_t)polled_n, (int)((next - now) * 1000) + 1) <= 0)
            continue;
        for (int i = 0; i < polled_n; i++)
            if (polled[i].revents)
                read_child(report, site, &children[which[i]]);
    }
}

static void reap_all(struct health_report *report, const struct conf *site,
                     struct child *children, int n)
{
    double until = clock_mono_s() + REAP_S;
    for (;;) {
        int left = 0;
        for (int i = 0; i < n; i++) {
            if (children[i].pid)
                reap(report, site, &children[i]);
            left += children[i].pid != 0;
        }
        if (!left || clock_mono_s() >= until)
            return;
        clock_sleep_s(0.002);
    }
}

static int worse_first(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    if (x->severity != y->severity)
        return x->severity < y->severity ? 1 : -1;
    int by_code = strcmp(x->code, y->code);
    return by_code ? by_code : strcmp(x->subject, y->subject);
}

static int note_by_name(const void *a, const void *b)
{
    return strcmp(((const struct health_note *)a)->name,
                  ((const struct health_note *)b)->name);
}

static void finish(struct health_report *report)
{
    qsort(report->finding, (size_t)report->finding_n, sizeof *report->finding,
          worse_first);
    qsort(report->note, (size_t)report->note_n, sizeof *report->note,
          note_by_name);
    report->verdict =
        report->finding_n ? report->finding[0].severity : FINDING_INFO;
}

/* Those that only look, or the ones that load the node. */
static int run_probes(const struct look *look, bool active, double slow_s,
                      struct health_report *report, struct err *err)
{
    struct child children[HEALTH_PROBES_MAX] = {0};
    int n = 0, rc = 0;
    fflush(NULL); /* a crashing child must not print it again */
    for (int i = 0; i < probes_n && n < HEALTH_PROBES_MAX && !rc; i++) {
        if (!is_wanted(&probes[i], look, active))
            continue;
        struct child *child = &children[n];
        child->probe = &probes[i];
        child->fd = -1;
        child->told = &report->probe[report->probe_n];
        child->told->name = probes[i].name;
        rc = start(child, look, slow_s, err);
        n += !rc;
        report->probe_n += !rc;
    }
    watch(report, look->site, children, n);
    reap_all(report, look->site, children, n);
    return rc;
}

int health_look(const struct health_request *request,
                struct health_report *ret, struct err *err)
{
    struct look look = {.full = request->full,
                        .user = request->user,
                        .run_dir = request->run_dir,
                        .nvml = request->nvml,
                        .active = request->active,
                        .gpus = request->gpus,
                        .trial = request->trial,
                        .corrupt = request->corrupt,
                        .klog_after_s = request->klog_after_s};
    double begin_s = clock_mono_s();
    int rc = -1;
    *ret = (struct health_report){.full = request->full,
                                  .user = request->user};
    struct conf *site = site_open(request->expect, err);
    if (!site)
        return -1;
    look.site = site;
    if (source_open(&look.source, request->root ? request->root : "/", err))
        goto out;
    if (source_host(&look.source, ret->host, sizeof ret->host))
        str_copy(ret->host, sizeof ret->host, "unknown");
    source_now(&look.source, &ret->time_s);
    double slow_s = request->slow_s > 0 ? request->slow_s : 1;
    rc = run_probes(&look, false, slow_s, ret, err);
    if (!rc)
        rc = run_probes(&look, true, slow_s, ret, err);
    finish(ret);
    ret->seconds = clock_mono_s() - begin_s;
out:
    source_close(&look.source);
    conf_destroy(site);
    return rc;
}
