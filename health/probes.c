/* probes - the one table of what is looked at; a new probe is a file and a
 * row. Deadlines are generous: they catch hangs, not slowness. */
#include "health/active.h"
#include "health/probe.h"

const struct probe probes[] = {
    {"cpu", probe_cpu, 2, PROBE_ALWAYS, false, false},
    {"memory", probe_memory, 2, PROBE_ALWAYS, false, false},
    {"edac", probe_edac, 2, PROBE_ALWAYS, false, true},
    {"load", probe_load, 5, PROBE_ALWAYS, false, false},
    {"disk", probe_disk, 3, PROBE_ALWAYS, false, true},
    {"write", probe_write, 5, PROBE_ROOT, false, false},
    {"shm", probe_shm, 2, PROBE_ALWAYS, false, false},
    {"time", probe_time, 2, PROBE_ALWAYS, false, false},
    {"net", probe_net, 3, PROBE_ALWAYS, false, true},
    {"infiniband", probe_infiniband, 3, PROBE_ALWAYS, false, true},
    {"gpu", probe_gpu, 8, PROBE_ALWAYS, false, false},
    {"klog", probe_klog, 3, PROBE_ALWAYS, false, false},
    {"limits", probe_limits, 2, PROBE_ALWAYS, false, false},
    {"uptime", probe_uptime, 2, PROBE_ALWAYS, false, false},
    {"user-dirs", probe_user_dirs, 15, PROBE_USER, false, false},
    {"active", probe_active, ACTIVE_LIMIT_S, PROBE_ACTIVE, false, false},
    {"pairs", probe_pairs, 60, PROBE_PAIRS, false, false},
};
const int probes_n = sizeof probes / sizeof *probes;
