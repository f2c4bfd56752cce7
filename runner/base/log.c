/* log - one line for people; see log.h. One write() a line, so that lines of
 * several ranks do not mix. */
#include "runner/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char prefix[96] = "koboshi: ";

void log_init(const char *program, int rank)
{
    if (rank >= 0)
        snprintf(prefix, sizeof prefix, "%s: [rank %d] ", program, rank);
    else
        snprintf(prefix, sizeof prefix, "%s: ", program);
}

static void line(const char *level, const char *fmt, va_list ap)
{
    char buf[4096];
    int n = snprintf(buf, sizeof buf - 1, "%s%s", prefix, level);
    int more = vsnprintf(buf + n, sizeof buf - 1 - (size_t)n, fmt, ap);
    if (more > 0)
        n += more;
    if (n > (int)sizeof buf - 2)
        n = (int)sizeof buf - 2;
    buf[n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, buf, (size_t)n);
    (void)ignored;
}

#define LOG_FUNCTION(name, level)                                              \
    void name(const char *fmt, ...)                                            \
    {                                                                          \
        va_list ap;                                                            \
        va_start(ap, fmt);                                                     \
        line(level, fmt, ap);                                                  \
        va_end(ap);                                                            \
    }

LOG_FUNCTION(log_info, "")
LOG_FUNCTION(log_warn, "warning: ")
LOG_FUNCTION(log_error, "error: ")

void log_debug(const char *fmt, ...)
{
    static int on = -1;
    if (on < 0)
        on = getenv("KOBOSHI_DEBUG") != NULL;
    if (!on)
        return;
    va_list ap;
    va_start(ap, fmt);
    line("debug: ", fmt, ap);
    va_end(ap);
}
