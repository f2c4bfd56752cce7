/* err - fixed-size error messages; see err.h for the rules. */
#include "runner/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void fill(struct err *err, enum err_class class, int sys_errno,
                 const char *fmt, va_list ap)
{
    if (!err || err->class != ERR_NONE)
        return;
    err->class = class;
    err->sys_errno = sys_errno;
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    if (n < 0)
        snprintf(err->msg, sizeof err->msg, "unprintable error '%s'", fmt);
    size_t len = strlen(err->msg);
    if (sys_errno)
        n = (int)len + snprintf(err->msg + len, sizeof err->msg - len, ": %s",
                                strerror(sys_errno));
    if (n >= (int)sizeof err->msg)
        err->msg[sizeof err->msg - 2] = '+';
}

int err_set(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fill(err, ERR_RANK, 0, fmt, ap);
    va_end(ap);
    errno = saved;
    return -1;
}

int err_set_class(struct err *err, enum err_class class, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fill(err, class, 0, fmt, ap);
    va_end(ap);
    errno = saved;
    return -1;
}

/* No room is the same on every node, and only a person can make some. */
static enum err_class class_of_errno(int sys_errno)
{
    return sys_errno == ENOSPC || sys_errno == EDQUOT ? ERR_REQUEST : ERR_RANK;
}

int err_set_errno(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fill(err, class_of_errno(saved), saved, fmt, ap);
    va_end(ap);
    errno = saved;
    return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    char old[sizeof err->msg];
    if (!err)
        return -1;
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && n < (int)sizeof err->msg)
        n += snprintf(err->msg + n, sizeof err->msg - n, ": %s", old);
    if (n >= (int)sizeof err->msg)
        err->msg[sizeof err->msg - 2] = '+';
    errno = saved;
    return -1;
}

const char *err_class_name(enum err_class class)
{
    static const char *const names[] = {"none", "request", "step", "rank",
                                        "gpu",  "node",    "job"};
    if ((unsigned)class >= sizeof names / sizeof *names)
        return "unknown";
    return names[class];
}
