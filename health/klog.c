/* klog - lines of the kernel's log; see klog.h. */
#include "health/klog.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"

#define FILE_LOOK_S 0.1

enum { RECORD_BYTES = 8192, RECORDS_MAX = 1 << 20, FILE_MAX_BYTES = 32 << 20 };

static void copy_text(char *dst, const char *from, size_t n)
{
    if (n >= KLOG_LINE_BYTES)
        n = KLOG_LINE_BYTES - 1;
    for (size_t i = 0; i < n; i++)
        dst[i] = iscntrl((unsigned char)from[i]) ? ' ' : from[i];
    dst[n] = 0;
}

/* A number of decimal digits at *at, which moves behind it. */
static int digits(const char **at, const char *end, int64_t *ret)
{
    const char *p = *at;
    int64_t v = 0;
    for (; p < end && isdigit((unsigned char)*p); p++) {
        if (v > (INT64_MAX - 9) / 10)
            return -1;
        v = v * 10 + (*p - '0');
    }
    if (p == *at)
        return -1;
    *at = p;
    *ret = v;
    return 0;
}

/* PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,...];TEXT */
static int parse_record(const char *line, const char *end,
                        struct klog_line *ret)
{
    const char *p = line;
    int64_t priority, seq, us;
    if (digits(&p, end, &priority) || p >= end || *p++ != ',' ||
        digits(&p, end, &seq) || p >= end || *p++ != ',' ||
        digits(&p, end, &us) || p >= end || (*p != ',' && *p != ';'))
        return -1;
    const char *text = memchr(p, ';', (size_t)(end - p));
    if (!text)
        return -1;
    ret->up_s = (double)us / 1e6;
    ret->seq = seq;
    copy_text(ret->text, text + 1, (size_t)(end - text - 1));
    return 0;
}

/* [SECONDS.MICROSECONDS] TEXT */
static int parse_dmesg(const char *line, const char *end,
                       struct klog_line *ret)
{
    const char *p = line + 1;
    int64_t whole, part;
    while (p < end && *p == ' ')
        p++;
    if (digits(&p, end, &whole) || p >= end || *p++ != '.' ||
        digits(&p, end, &part) || p >= end || *p++ != ']')
        return -1;
    if (p < end && *p == ' ')
        p++;
    ret->up_s = (double)whole + (double)(part % 1000000) / 1e6;
    ret->seq = -1;
    copy_text(ret->text, p, (size_t)(end - p));
    return 0;
}

int klog_parse(const char *line, size_t bytes, struct klog_line *ret)
{
    if (!bytes || *line == ' ')
        return -1;
    return *line == '[' ? parse_dmesg(line, line + bytes, ret)
                        : parse_record(line, line + bytes, ret);
}

static int see_text(const char *text, size_t bytes, struct klog_line *line,
                     void (*see)(const struct klog_line *, void *), void *arg)
{
    const char *end = text + bytes;
    int seen = 0;
    while (text < end) {
        const char *eol = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((eol ? eol : end) - text);
        if (!klog_parse(text, n, line)) {
            see(line, arg);
            seen++;
        }
        text += n + 1;
    }
    return seen;
}

/* Each read gives one record; EPIPE says that some were overwritten. How many
 * lines were seen, or -1. */
static int see_device(int fd, struct klog_line *line,
                      void (*see)(const struct klog_line *, void *), void *arg)
{
    char record[RECORD_BYTES];
    int seen = 0;
    for (int i = 0; i < RECORDS_MAX; i++) {
        ssize_t n = read(fd, record, sizeof record);
        if (n < 0 && (errno == EPIPE || errno == EINTR || errno == EINVAL))
            continue;
        if (n < 0 && errno == EAGAIN)
            return seen;
        if (n < 0)
            return -1;
        if (n == 0)
            return seen;
        seen += see_text(record, (size_t)n, line, see, arg);
    }
    return seen;
}

int klog_read(const struct source *source,
              void (*see)(const struct klog_line *line, void *arg), void *arg)
{
    static struct klog_line line;
    char path[PATH_MAX];
    size_t bytes;
    if (source_path(source, path, sizeof path, "/dev/kmsg"))
        return -1;
    if (!source_is_live(source)) {
        struct err err = ERR_INIT;
        char *text = file_read(path, FILE_MAX_BYTES, &bytes, &err);
        if (!text) {
            errno = err.sys_errno ? err.sys_errno : EFBIG;
            return -1;
        }
        see_text(text, bytes, &line, see, arg);
        free(text);
        return 0;
    }
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = see_device(fd, &line, see, arg), why = errno;
    close(fd);
    errno = why;
    return rc < 0 ? -1 : 0;
}

/* ---- As they come --------------------------------------------------- */

int klog_follow_open(const struct source *source, struct klog_follow *ret)
{
    char path[PATH_MAX];
    *ret = (struct klog_follow){.is_file = !source_is_live(source)};
    if (source_path(source, path, sizeof path, "/dev/kmsg"))
        return -1;
    ret->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (ret->fd < 0)
        return -1;
    return lseek(ret->fd, 0, SEEK_END) < 0 ? -1 : 0;
}

/* Whole lines of what a file grew by; the rest waits in part. */
static int see_growth(struct klog_follow *follow, struct klog_line *line,
                      void (*see)(const struct klog_line *, void *), void *arg)
{
    int seen = 0;
    for (;;) {
        ssize_t n = read(follow->fd, follow->part + follow->part_n,
                         sizeof follow->part - follow->part_n);
        if (n <= 0)
            return n < 0 && errno != EINTR ? -1 : seen;
        follow->part_n += (size_t)n;
        char *last = memrchr(follow->part, '\n', follow->part_n);
        size_t whole = last ? (size_t)(last - follow->part) + 1 : 0;
        if (!whole && follow->part_n == sizeof follow->part)
            whole = follow->part_n; /* a line too long to wait for its end */
        seen += see_text(follow->part, whole, line, see, arg);
        memmove(follow->part, follow->part + whole, follow->part_n - whole);
        follow->part_n -= whole;
    }
}

int klog_follow_wait(struct klog_follow *follow, double timeout_s,
                     void (*see)(const struct klog_line *line, void *arg),
                     void *arg)
{
    static struct klog_line line;
    double until = clock_mono_s() + timeout_s;
    for (;;) {
        int n = follow->is_file ? see_growth(follow, &line, see, arg)
                                : see_device(follow->fd, &line, see, arg);
        double left_s = until - clock_mono_s();
        if (n || left_s <= 0)
            return n;
        if (follow->is_file) {
            clock_sleep_s(left_s < FILE_LOOK_S ? left_s : FILE_LOOK_S);
        } else {
            struct pollfd p = {follow->fd, POLLIN, 0};
            poll(&p, 1, (int)(left_s * 1000) + 1);
        }
    }
}
