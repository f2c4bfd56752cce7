/* probe_memory - is the memory there, free, and without errors? */
#include "health/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"

#define EDAC "/sys/devices/system/edac/mc"
#define SIZE_SHARE 0.97 /* the kernel and firmware keep some */
enum { CONTROLLERS_MAX = 64 };

/* A line of /proc/meminfo in bytes, or -1. */
static int64_t meminfo(const char *text, const char *name)
{
    size_t name_n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        long long kib;
        line += *line == '\n';
        if (!strncmp(line, name, name_n) &&
            sscanf(line + name_n, ": %lld kB", &kib) == 1)
            return kib * 1024;
    }
    return -1;
}

static void check_swap(const struct look *look, struct findings *findings,
                       int64_t total, int64_t unused)
{
    int64_t expected = conf_int(look->site, "expect.swap");
    double percent = conf_real(look->site, "memory.swap_used_percent");
    double gib = 1 << 30;
    if (total < 0 || unused < 0)
        return;
    if ((double)total < SIZE_SHARE * (double)expected)
        findings_add(findings, F_SWAP_SIZE_LOW, "node",
                     "%.1f GiB, %.1f expected", (double)total / gib,
                     (double)expected / gib);
    if ((double)(total - unused) > percent / 100 * (double)total)
        findings_add(findings, F_SWAP_USED, "node", "%.1f of %.1f GiB",
                     (double)(total - unused) / gib, (double)total / gib);
}

void probe_memory(const struct look *look, struct findings *findings)
{
    double gib = 1 << 30;
    char *text = source_text(&look->source, "/proc/meminfo");
    if (!text) {
        findings_skip(findings, "no /proc/meminfo");
        return;
    }
    int64_t total = meminfo(text, "MemTotal");
    int64_t available = meminfo(text, "MemAvailable");
    int64_t expected = conf_int(look->site, "expect.memory");
    double percent = conf_real(look->site, "memory.free_percent");
    check_swap(look, findings, meminfo(text, "SwapTotal"),
               meminfo(text, "SwapFree"));
    free(text);
    if (expected && total >= 0 && (double)total < SIZE_SHARE * (double)expected)
        findings_add(findings, F_MEM_SIZE_LOW, "node",
                     "%.1f GiB, %.1f expected", (double)total / gib,
                     (double)expected / gib);
    if (total > 0 && available >= 0 &&
        (double)available < percent / 100 * (double)total)
        findings_add(findings, F_MEM_FREE_LOW, "node",
                     "%.1f of %.1f GiB available", (double)available / gib,
                     (double)total / gib);
}

static void check_controller(const struct look *look,
                             struct findings *findings, const char *name)
{
    int64_t corrected = 0, uncorrected = 0;
    if (!source_number(&look->source, &uncorrected, EDAC "/%s/ue_count",
                       name) &&
        uncorrected > 0)
        findings_add(findings, F_MEM_ECC_UNCORRECTED, name, "ue_count %lld",
                     (long long)uncorrected);
    if (!source_number(&look->source, &corrected, EDAC "/%s/ce_count",
                       name) &&
        corrected > conf_int(look->site, "memory.corrected_errors"))
        findings_add(findings, F_MEM_ECC_CORRECTED, name, "ce_count %lld",
                     (long long)corrected);
}

void probe_edac(const struct look *look, struct findings *findings)
{
    char names[CONTROLLERS_MAX][SOURCE_NAME_BYTES];
    int found = 0;
    int n = source_list(&look->source, names, CONTROLLERS_MAX, EDAC);
    for (int i = 0; i < n; i++) {
        if (!str_starts(names[i], "mc") || names[i][2] < '0' ||
            names[i][2] > '9')
            continue;
        check_controller(look, findings, names[i]);
        found++;
    }
    if (!found)
        findings_skip(findings, "no memory controller that counts errors");
}
