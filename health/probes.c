/* probes - the one table of what is looked at; a new probe is a file and a
 * row. Deadlines are generous: they catch hangs, not slowness. */
#include "health/active.h"
#include "health/probe.h"

const struct probe probes[] = {
    {"cpu", probe_cpu, 2, PROBE_ALWAYS, false},
    {"memory", probe_memory, 2, PROBE_ALWAYS, false},
    {"edac", probe_edac, 2, PROBE_ALWAYS, false},
    {"load", probe_load, 5, PROBE_ALWAYS, false},
    {"disk", probe_disk, 3, PROBE_ALWAYS, false},
    {"write", probe_write, 5, PROBE_ROOT, false},
    {"shm", probe_shm, 2, PROBE_ALWAYS, false},
    {"time", probe_time, 2, PROBE_ALWAYS, false},
    {"net", probe_net, 3, PROBE_ALWAYS, false},
    {"infiniband", probe_infiniband, 3, PROBE_ALWAYS, false},
    {"gpu", probe_gpu, 8, PROBE_ALWAYS, false},
    {"klog", probe_klog, 3, PROBE_ALWAYS, false},
    {"limits", probe_limits, 2, PROBE_ALWAYS, false},
    {"uptime", probe_uptime, 2, PROBE_ALWAYS, false},
    {"user-dirs", probe_user_dirs, 15, PROBE_USER, false},
    {"active", probe_active, ACTIVE_LIMIT_S, PROBE_ACTIVE, false},
};
const int probes_n = sizeof probes / sizeof *probes;
