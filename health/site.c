/* site - the table of a site's keys; see site.h. */
#include "health/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"

/* "" is: nothing expected. */
#define ROW(k, t, f, low, high, u, d)                                          \
    {                                                                          \
        .key = k, .type = t, .fallback = f, .min = low, .max = high,           \
        .unit = u, .doc = d                                                    \
    }

static const struct conf_row rows[] = {
    ROW("expect.cpus", CONF_INT, "0", 0, 65536, "processors",
        "processors that are online; 0: not checked"),
    ROW("expect.cpu_mhz", CONF_INT, "0", 0, 20000, "MHz",
        "clock that the fastest processor shows at least; 0: not checked"),
    ROW("expect.cpu_governor", CONF_TEXT, "", 0, 0, "",
        "frequency governor of every processor, as performance"),
    ROW("expect.memory", CONF_SIZE, "0", 0, 1e15, "bytes",
        "memory, as 512G; 3 percent less are allowed; 0: not checked"),
    ROW("expect.swap", CONF_SIZE, "0", 0, 1e15, "bytes",
        "swap space; 3 percent less are allowed; 0: not checked"),
    ROW("expect.daemons", CONF_LIST, "", 0, 0, "",
        "daemons that must run, by their process names, as slurmd; 64 at "
        "most"),
    ROW("expect.interfaces", CONF_LIST, "", 0, 0, "",
        "network interfaces that must be up"),
    ROW("expect.interface_speed", CONF_INT, "0", 0, 1e7, "Mb/s",
        "speed of these interfaces; 0: not checked"),
    ROW("expect.ib_ports", CONF_INT, "0", 0, 256, "ports",
        "InfiniBand ports, active or not; 0: not checked"),
    ROW("expect.ib_rate", CONF_REAL, "0", 0, 1e5, "Gb/s",
        "rate of each at least; 0: as the fastest of the node"),
    ROW("expect.mounts", CONF_LIST, "", 0, 0, "",
        "folders where something must be mounted"),
    ROW("expect.nvmes", CONF_INT, "0", 0, 1024, "disks",
        "NVMe disks; 0: not checked"),
    ROW("expect.gpus", CONF_INT, "-1", -1, 64, "GPUs",
        "GPUs; -1: as many as the driver shows"),
    ROW("expect.gpu_nvlinks", CONF_INT, "-1", -1, 64, "links",
        "active NVLinks of each GPU; -1: as many as the model has"),
    ROW("memory.free_percent", CONF_REAL, "5", 0, 100, "%",
        "memory free at least"),
    ROW("memory.swap_used_percent", CONF_REAL, "75", 0, 100, "%",
        "swap space in use at most"),
    ROW("memory.corrected_errors", CONF_INT, "1000", 0, 1e15, "errors",
        "corrected memory errors since boot at most"),
    ROW("load.per_cpu", CONF_REAL, "2", 0, 1000, "",
        "load average of one minute at most, for each processor"),
    ROW("load.stuck", CONF_INT, "4", 0, 1e6, "processes",
        "processes in uninterruptible sleep at most"),
    ROW("load.zombies", CONF_INT, "200", 0, 1e6, "processes",
        "zombie processes at most"),
    ROW("disk.free_percent", CONF_REAL, "3", 0, 100, "%",
        "space and inodes free at least, on each disk below"),
    ROW("disk.paths", CONF_LIST, "/\n/tmp\n/var\n/run", 0, 0, "",
        "folders whose disks are looked at"),
    ROW("time.max_error", CONF_REAL, "1", 0, 3600, "s",
        "the clock's estimated error at most"),
    ROW("klog.window", CONF_DURATION, "24h", 60, 1e9, "s",
        "older lines of the kernel log are not looked at"),
    ROW("user.write_mb_per_s", CONF_REAL, "20", 0, 1e6, "MB/s",
        "speed of writing to the run directory at least"),
    ROW("gpu.temperature_margin", CONF_INT, "5", 0, 100, "degrees",
        "distance from the slowdown temperature at least"),
    ROW("gpu.ecc_corrected_dram", CONF_INT, "20000000", 0, 1e15, "errors",
        "corrected errors of the GPU's memory at most"),
    ROW("gpu.ecc_corrected_sram", CONF_INT, "10000", 0, 1e15, "errors",
        "corrected errors of the GPU's caches at most"),
    ROW("gpu.pages_retired", CONF_INT, "60", 0, 64, "pages",
        "retired memory pages at most"),
    ROW("gpu.rows_remapped", CONF_INT, "512", 0, 1e6, "rows",
        "memory rows remapped after uncorrected errors at most"),
    ROW("gpu.memory_used", CONF_SIZE, "1G", 0, 1e12, "bytes",
        "memory in use on an idle GPU at most"),
    ROW("gpu.pcie_replays", CONF_INT, "1000", 0, 1e9, "",
        "repeated PCI transfers since the driver was loaded at most, where "
        "no look before tells how many are new"),
    ROW("gpu.nvlink_crc_per_s", CONF_REAL, "100", 0, 1e9, "errors/s",
        "repaired errors on a GPU's NVLinks less than this"),
    ROW("gpu.slowed_percent", CONF_REAL, "1", 0, 100, "%",
        "time with clocks held down by heat or the board less than this"),
    ROW("ib.flaps_per_day", CONF_INT, "5", 0, 1e6, "",
        "times that a port's link goes down within a day at most"),
    ROW("ib.symbol_errors_per_hour", CONF_REAL, "120", 0, 1e9, "errors/h",
        "symbol errors of a port at most"),
    ROW("active.seconds", CONF_REAL, "24", 1, 26, "s",
        "time to try the GPUs with --active"),
    ROW("active.share_percent", CONF_REAL, "90", 0, 100, "%",
        "of the median of the node's GPUs that each reaches at least"),
    ROW("active.bf16_tflops", CONF_REAL, "0", 0, 1e6, "TFLOP/s",
        "bf16 products at least; 0: as the model has it"),
    ROW("active.fp8_tflops", CONF_REAL, "0", 0, 1e6, "TFLOP/s",
        "fp8 products at least; 0: as the model has it"),
    ROW("active.fp32_tflops", CONF_REAL, "0", 0, 1e6, "TFLOP/s",
        "fp32 products at least; 0: as the model has it"),
    ROW("active.memory_gb_per_s", CONF_REAL, "0", 0, 1e6, "GB/s",
        "the GPU's memory at least; 0: as the model has it"),
    ROW("active.host_in_gb_per_s", CONF_REAL, "0", 0, 1e6, "GB/s",
        "from host to GPU at least; 0: as the model has it"),
    ROW("active.host_out_gb_per_s", CONF_REAL, "0", 0, 1e6, "GB/s",
        "from GPU to host at least; 0: as the model has it"),
    ROW("active.peer_gb_per_s", CONF_REAL, "0", 0, 1e6, "GB/s",
        "from GPU to GPU at least; 0: as the model has it"),
    ROW("active.reduce_gb_per_s", CONF_REAL, "0", 0, 1e6, "GB/s",
        "bus bandwidth of the all-reduce at least; 0: as the model has it"),
};

enum { ROWS_N = sizeof rows / sizeof *rows };

/* The rows above and `severity.CODE` for each finding. */
static struct conf_row all[ROWS_N + F_CODE_N];
static char severity_keys[F_CODE_N][64];

static void make_rows(void)
{
    if (all[0].key)
        return;
    memcpy(all, rows, sizeof rows);
    for (int i = 0; i < F_CODE_N; i++) {
        snprintf(severity_keys[i], sizeof severity_keys[i], "severity.%s",
                 catalog[i].code);
        all[ROWS_N + i] = (struct conf_row){
            .key = severity_keys[i],
            .type = CONF_CHOICE,
            .fallback = finding_severity_names[catalog[i].severity],
            .unit = "",
            .choices = "info|warn|unknown|drain|fail",
            .doc = catalog[i].message,
        };
    }
}

struct conf *site_open(const char *path, struct err *err)
{
    make_rows();
    struct conf *site = conf_create(all, ROWS_N + F_CODE_N, err);
    if (!site)
        return NULL;
    if (!path && file_exists(SITE_FILE))
        path = SITE_FILE;
    if ((path && conf_read_file(site, path, err)) || conf_check(site, err)) {
        conf_destroy(site);
        return NULL;
    }
    return site;
}

enum finding_severity site_severity(const struct conf *site,
                                    enum finding_code code)
{
    const char *name = conf_text(site, severity_keys[code]);
    for (int i = 0; i < FINDING_SEVERITY_N; i++)
        if (!strcmp(finding_severity_names[i], name))
            return (enum finding_severity)i;
    return catalog[code].severity;
}

void site_help(struct sbuf *out)
{
    conf_help(rows, ROWS_N, out);
}
