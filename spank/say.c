/* say - messages through Slurm's log; see say.h. */
#include "spank/say.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <slurm/spank.h>

#include "runner/base/str.h"

enum { LINE_BYTES = 1200, LINES_MAX = 100 };

#define FORMAT(line, fmt)                                                      \
    char line[LINE_BYTES];                                                     \
    va_list ap;                                                                \
    va_start(ap, fmt);                                                         \
    vsnprintf(line, sizeof line, fmt, ap);                                     \
    va_end(ap)

void say_error(const char *fmt, ...)
{
    FORMAT(line, fmt);
    slurm_error("koboshi: %s", line);
}

void say_warn(const char *fmt, ...)
{
    FORMAT(line, fmt);
    slurm_spank_log("koboshi: %s", line);
}

void say_log(const char *fmt, ...)
{
    FORMAT(line, fmt);
    slurm_info("koboshi: %s", line);
}

/* Control characters of a child do not reach a terminal. */
static void clean(char *line)
{
    for (unsigned char *p = (unsigned char *)line; *p; p++)
        if ((*p < 32 && *p != '\t') || *p == 127)
            *p = '?';
}

void say_lines(const char *text, void (*say)(const char *fmt, ...))
{
    for (int n = 0; *text && n < LINES_MAX; n++) {
        size_t len = strcspn(text, "\n");
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s",
                 (int)(len < sizeof line ? len : sizeof line - 1), text);
        clean(line);
        const char *shown = line;
        if (str_starts(shown, "koboshi: "))
            shown += strlen("koboshi: ");
        if (*shown)
            say("%s", shown);
        text += len + (text[len] == '\n');
    }
}
