/* probe_limits - limits of this process, which the job's will inherit. */
#include "health/probe.h"

#define NOFILE_LEAST 4096

void probe_limits(const struct look *look, struct findings *findings)
{
    int64_t limit;
    if (!source_limit(&look->source, "memlock", &limit) && limit >= 0 &&
        source_exists(&look->source, "/sys/class/infiniband"))
        findings_add(findings, F_LIMIT_MEMLOCK, "node", "%lld bytes",
                     (long long)limit);
    if (!source_limit(&look->source, "nofile", &limit) && limit >= 0 &&
        limit < NOFILE_LEAST)
        findings_add(findings, F_LIMIT_NOFILE, "node", "%lld",
                     (long long)limit);
}
