/* probe_time - is the clock right, as far as the node can tell by itself? And
 * how long is it up? */
#include "health/probe.h"

#include <stdio.h>

#define WRITTEN_S 1735689600.0 /* 2025: this program is younger */
#define FUTURE_S 120.0         /* files that much ahead: the clock went back */
#define SHORT_S 600.0
#define LONG_S (400 * 86400.0)

void probe_time(const struct look *look, struct findings *findings)
{
    static const char *const written[] = {"/var/log/wtmp", "/var/log/syslog",
                                          "/var/log/kern.log", "/run/utmp"};
    struct source_time time;
    double now, mtime;
    if (source_now(&look->source, &now)) {
        findings_skip(findings, "no time recorded");
        return;
    }
    if (now < WRITTEN_S)
        findings_add(findings, F_CLOCK_WRONG, "node", "%.0f s since 1970",
                     now);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (!source_mtime(&look->source, written[i], &mtime) &&
            mtime > now + FUTURE_S) {
            findings_add(findings, F_CLOCK_BEHIND, "node",
                         "%s was written %.0f s from now", written[i],
                         mtime - now);
            break;
        }
    if (source_time(&look->source, &time))
        return;
    if (!time.synced)
        findings_add(findings, F_TIME_UNSYNCED, "node", "adjtimex says so");
    else if (time.max_error_s > conf_real(look->site, "time.max_error"))
        findings_add(findings, F_TIME_OFFSET, "node",
                     "estimated error up to %.3g s", time.max_error_s);
}

void probe_uptime(const struct look *look, struct findings *findings)
{
    char text[64];
    double up_s;
    if (source_read(&look->source, text, sizeof text, "/proc/uptime") ||
        sscanf(text, "%lf", &up_s) != 1) {
        findings_skip(findings, "no /proc/uptime");
        return;
    }
    if (up_s < SHORT_S)
        findings_add(findings, F_UPTIME_SHORT, "node", "%.0f s", up_s);
    if (up_s > LONG_S)
        findings_add(findings, F_UPTIME_LONG, "node", "%.0f days",
                     up_s / 86400);
}
