/* capture - record this host; see capture.h. */
#include "health/capture.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "health/gpu.h"
#include "health/klog.h"
#include "health/source.h"
#include "runner/base/file.h"
#include "runner/base/str.h"

/* Everything that a probe reads, as glob(3) patterns. */
static const char *const patterns[] = {
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/stat",
    "/proc/uptime",
    "/sys/class/nvme/nvme*/state",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/edac/mc/mc*/[cu]e_count",
    "/sys/class/net/*/operstate",
    "/sys/class/net/*/carrier",
    "/sys/class/net/*/flags",
    "/sys/class/net/*/speed",
    "/sys/bus/pci/devices/*/vendor",
    "/sys/bus/pci/devices/*/class",
    "/sys/class/infiniband/*/ports/*/link_layer",
    "/sys/class/infiniband/*/ports/*/state",
    "/sys/class/infiniband/*/ports/*/rate",
    "/sys/class/infiniband/*/ports/*/counters/*",
    "/sys/class/infiniband/*/ports/*/hw_counters/*",
};

static const struct source live = {.root = "/"};

static int parent_of(const char *dir, const char *path, char *full,
                     struct err *err)
{
    if (snprintf(full, PATH_MAX, "%s%s", dir, path) >= PATH_MAX)
        return err_set(err, "health: path too long: '%s%s'", dir, path);
    char *slash = strrchr(full, '/');
    *slash = 0;
    int rc = file_make_dirs(full, 0755, err);
    *slash = '/';
    return rc;
}

static int copy_file(const char *dir, const char *path, struct err *err)
{
    char full[PATH_MAX];
    char *text = source_text(&live, path);
    if (!text)
        return 0;
    int rc = parent_of(dir, path, full, err);
    if (!rc)
        rc = file_replace(full, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

static int copy_all(const char *dir, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !rc; i++) {
        glob_t found = {0};
        if (!glob(patterns[i], 0, NULL, &found))
            for (size_t j = 0; j < found.gl_pathc && !rc; j++)
                rc = copy_file(dir, found.gl_pathv[j], err);
        globfree(&found);
    }
    return rc;
}

/* A card is told from a virtual interface by a link that a copy cannot have:
 * an empty file stands for it. */
static int mark_devices(const char *dir, struct err *err)
{
    char full[PATH_MAX];
    glob_t found = {0};
    int rc = 0;
    if (!glob("/sys/class/net/*/device", 0, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc && !rc; i++) {
            rc = parent_of(dir, found.gl_pathv[i], full, err);
            if (!rc)
                rc = file_replace(full, "", 0, 0644, err);
        }
    globfree(&found);
    return rc;
}

static void add_line(const struct klog_line *line, void *arg)
{
    sbuf_printf(arg, "[%12.6f] %s\n", line->up_s, line->text);
}

static int copy_klog(const char *dir, struct err *err)
{
    char full[PATH_MAX];
    struct sbuf text = SBUF_INIT;
    int rc = 0;
    if (!klog_read(&live, add_line, &text) && !text.failed) {
        rc = parent_of(dir, "/dev/kmsg", full, err);
        if (!rc)
            rc = file_replace(full, text.data, text.len, 0644, err);
    }
    sbuf_release(&text);
    return rc;
}

/* GPUs, as far as the driver answers here; it may hang: the person who records
 * can stop it. */
static int write_gpus(const char *dir, const char *nvml, struct err *err)
{
    static struct gpus gpus;
    char full[PATH_MAX];
    struct sbuf out = SBUF_INIT;
    int code;
    struct nvml *driver = nvml_open(nvml, NULL, &code, NULL);
    if (!driver)
        return 0;
    nvml_read(driver, true, -1, &gpus);
    nvml_close(driver);
    gpus_write(&gpus, &out);
    int rc = out.failed ? err_set(err, "health: out of memory")
                        : file_join(full, sizeof full, dir, "gpus", err);
    if (!rc)
        rc = file_replace(full, out.data, out.len, 0644, err);
    sbuf_release(&out);
    return rc;
}

static int write_facts(const char *dir, struct err *err)
{
    static const char *const disks[] = {"/", "/tmp", "/var", "/run",
                                        "/dev/shm"};
    static const char *const limits[] = {"memlock", "nofile"};
    struct sbuf out = SBUF_INIT;
    struct source_disk d;
    struct source_time time;
    char full[PATH_MAX];
    double now;
    int64_t limit;
    sbuf_puts(&out, "host recorded\n");
    if (!source_now(&live, &now))
        sbuf_printf(&out, "now %.0f\n", now);
    if (!source_time(&live, &time))
        sbuf_printf(&out, "time %d %.6f\n", time.synced, time.max_error_s);
    for (size_t i = 0; i < sizeof disks / sizeof *disks; i++)
        if (!source_disk(&live, disks[i], &d))
            sbuf_printf(&out, "disk:%s %lld %lld %lld %lld %d %d\n", disks[i],
                        (long long)d.bytes, (long long)d.free_bytes,
                        (long long)d.files, (long long)d.free_files,
                        d.read_only, d.is_tmpfs);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!source_limit(&live, limits[i], &limit))
            sbuf_printf(&out, "limit:%s %lld\n", limits[i], (long long)limit);
    int rc = out.failed ? err_set(err, "health: out of memory")
                        : file_join(full, sizeof full, dir, "facts", err);
    if (!rc)
        rc = file_replace(full, out.data, out.len, 0644, err);
    sbuf_release(&out);
    return rc;
}

int capture_host(const char *dir, const char *nvml, struct err *err)
{
    if (mkdir(dir, 0755)) {
        err_set_errno(err, "health: cannot make folder '%s'", dir);
        if (err)
            err->class = ERR_REQUEST;
        return -1;
    }
    return copy_all(dir, err) || mark_devices(dir, err) ||
                   copy_klog(dir, err) || write_gpus(dir, nvml, err) ||
                   write_facts(dir, err)
               ? -1
               : 0;
}
