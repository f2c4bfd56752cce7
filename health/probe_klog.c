/* probe_klog - what the kernel complained of: at once, and as it comes. Lines
 * older than the window, or settled by somebody (klog_after_s), are left out.
 */
#include "health/probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "health/klog_judge.h"

#define ROUND_S 60.0 /* of a watch: a sign of life */

static double uptime_s(const struct source *source)
{
    char text[64];
    double up_s;
    if (source_read(source, text, sizeof text, "/proc/uptime") ||
        sscanf(text, "%lf", &up_s) != 1)
        return 0;
    return up_s;
}

void probe_klog(const struct look *look, struct findings *findings)
{
    static struct klog_judge judge;
    judge.from_s = uptime_s(&look->source) - conf_real(look->site,
                                                       "klog.window");
    if (judge.from_s < look->klog_after_s)
        judge.from_s = look->klog_after_s;
    if (klog_read(&look->source, klog_judge_line, &judge)) {
        if (errno == ENOENT && !source_is_live(&look->source))
            findings_skip(findings, "not recorded");
        else
            findings_add(findings, F_KLOG_UNREADABLE, "node", "%s",
                         strerror(errno));
        return;
    }
    klog_judge_tell(&judge, findings);
}

/* Only what comes from now on: what was before, the prolog has seen. */
void watch_klog(const struct look *look, struct findings *findings)
{
    static struct klog_judge judge;
    struct klog_follow follow;
    if (klog_follow_open(&look->source, &follow)) {
        if (errno != ENOENT || source_is_live(&look->source))
            findings_add(findings, F_KLOG_UNREADABLE, "node", "%s",
                         strerror(errno));
        return;
    }
    for (;;) {
        findings_round(findings, "%g", ROUND_S);
        int n = klog_follow_wait(&follow, ROUND_S, klog_judge_line, &judge);
        if (n < 0)
            return;
        if (n > 0)
            klog_judge_tell(&judge, findings);
    }
}
