/* clock - monotonic and wall time; see clock.h. */
#include "runner/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define FAR_S 2e11 /* the year 8307: still four digits */

/* What a file says may be any number: one that is no time is the end of it. */
static double bounded_s(double s)
{
    return s > -FAR_S && s < FAR_S ? s : s > 0 ? FAR_S : -FAR_S;
}

/* Rounded down, without the mathematics library: the plugin links only libc. */
static time_t whole_s(double s)
{
    time_t whole = (time_t)s;
    return (double)whole > s ? whole - 1 : whole;
}

static double read_s(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_mono_s(void)
{
    return read_s(CLOCK_MONOTONIC);
}

double clock_wall_s(void)
{
    return read_s(CLOCK_REALTIME);
}

void clock_sleep_s(double s)
{
    if (!(s > 0))
        return;
    s = bounded_s(s);
    struct timespec t = {.tv_sec = whole_s(s),
                         .tv_nsec = (long)((s - (double)whole_s(s)) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

char *clock_iso(double wall_s, char *buf, size_t buf_bytes)
{
    wall_s = bounded_s(wall_s);
    time_t whole = whole_s(wall_s);
    int ms = (int)((wall_s - (double)whole) * 1000);
    struct tm tm;
    char head[24] = "?";
    if (gmtime_r(&whole, &tm))
        strftime(head, sizeof head, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf, buf_bytes, "%s.%03dZ", head, ms);
    return buf;
}

char *clock_human(double duration_s, char *buf, size_t buf_bytes)
{
    if (!(duration_s >= 0) || duration_s > 1e10)
        snprintf(buf, buf_bytes, "unknown");
    else if (duration_s < 60)
        snprintf(buf, buf_bytes, "%.1fs", duration_s);
    else if (duration_s < 3600)
        snprintf(buf, buf_bytes, "%dm%02ds", (int)duration_s / 60,
                 (int)duration_s % 60);
    else if (duration_s < 48 * 3600.0)
        snprintf(buf, buf_bytes, "%dh%02dm", (int)duration_s / 3600,
                 (int)duration_s / 60 % 60);
    else
        snprintf(buf, buf_bytes, "%dd%02dh", (int)(duration_s / 86400),
                 (int)(duration_s / 3600) % 24);
    return buf;
}
