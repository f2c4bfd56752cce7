/* child - a probe in a process of its own; see child.h. */
#include "health/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/str.h"

/* What a probe tells with. */
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

#define SEND(record_kind, finding_code, name, fmt)                             \
    struct record record = {.kind = record_kind, .code = (int)(finding_code)}; \
    va_list ap;                                                                \
    va_start(ap, fmt);                                                         \
    send_record(findings, &record, name, fmt, ap);                             \
    va_end(ap)

void findings_add(struct findings *findings, enum finding_code code,
                  const char *subject, const char *evidence_fmt, ...)
{
    SEND(RECORD_FINDING, code, subject, evidence_fmt);
}

void findings_skip(struct findings *findings, const char *why_fmt, ...)
{
    SEND(RECORD_SKIP, 0, "", why_fmt);
}

void findings_note(struct findings *findings, const char *name,
                   const char *value_fmt, ...)
{
    SEND(RECORD_NOTE, 0, name, value_fmt);
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
    SEND(RECORD_AT, 0, "", what_fmt);
}

void findings_gpu(struct findings *findings, const char *fmt, ...)
{
    SEND(RECORD_GPU, 0, "", fmt);
}

void findings_count(struct findings *findings, const char *subject,
                    const char *fmt, ...)
{
    SEND(RECORD_COUNT, 0, subject, fmt);
}

void findings_event(struct findings *findings, const char *subject,
                    const char *fmt, ...)
{
    SEND(RECORD_EVENT, 0, subject, fmt);
}

void findings_round(struct findings *findings, const char *fmt, ...)
{
    SEND(RECORD_ROUND, 0, "", fmt);
}

/* ---- In the parent -------------------------------------------------- */

int child_start(struct child *child,
                void (*run)(const struct look *look, struct findings *),
                const struct look *look, double limit_s, struct err *err)
{
    int ends[2];
    *child = (struct child){.fd = -1};
    if (pipe2(ends, O_CLOEXEC))
        return err_set_errno(err, "health: cannot make a pipe");
    child->begin_s = clock_mono_s();
    child->limit_s = child->begin_s + limit_s;
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
        signal(SIGPIPE, SIG_DFL); /* nobody listens: no use to go on */
        run(look, &findings);
        _exit(0);
    }
    close(ends[1]);
    child->fd = ends[0];
    fcntl(child->fd, F_SETFL, O_NONBLOCK);
    return 0;
}

static void take_whole(struct child *child,
                       void (*take)(void *ctx, const struct record *record),
                       void *ctx)
{
    struct record record;
    memcpy(&record, child->part, sizeof record);
    child->part_n = 0;
    record.name[sizeof record.name - 1] = 0;
    record.text[sizeof record.text - 1] = 0;
    record.unit[sizeof record.unit - 1] = 0;
    if (record.kind == RECORD_AT)
        snprintf(child->at, sizeof child->at, ", at %.80s", record.text);
    else if (record.kind != RECORD_FINDING ||
             (record.code >= 0 && record.code < F_CODE_N))
        take(ctx, &record);
}

void child_read(struct child *child,
                void (*take)(void *ctx, const struct record *record),
                void *ctx)
{
    while (child->fd >= 0) {
        ssize_t n = read(child->fd, child->part + child->part_n,
                         sizeof child->part - child->part_n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(child->fd);
            child->fd = -1;
            return;
        }
        child->part_n += (size_t)n;
        if (child->part_n == sizeof child->part)
            take_whole(child, take, ctx);
    }
}

void child_kill(struct child *child)
{
    if (child->pid)
        kill(child->pid, SIGKILL);
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
}

bool child_reap(struct child *child, int *ret_status)
{
    int status = -1;
    if (!child->pid)
        return true;
    pid_t got = waitpid(child->pid, &status, WNOHANG);
    if (got == 0)
        return false;
    *ret_status = got == child->pid ? status : -1;
    child->pid = 0;
    return true;
}

void child_end_text(const struct child *child, int status, char *dst,
                    size_t dst_bytes)
{
    *dst = 0;
    if (status == -1 || (WIFEXITED(status) && !WEXITSTATUS(status)))
        return;
    if (WIFSIGNALED(status))
        snprintf(dst, dst_bytes, "signal %d%s", WTERMSIG(status), child->at);
    else
        snprintf(dst, dst_bytes, "exit code %d%s", WEXITSTATUS(status),
                 child->at);
}
