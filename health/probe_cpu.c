/* probe_cpu - are all processors there, and does nothing hold them back? */
#include "health/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU "/sys/devices/system/cpu"
#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0"
#define CAPPED_SHARE 0.8 /* of the highest clock; less counts as capped */
enum { CPUS_MAX = 4096 };

/* Processors in a list as 0-3,8; -1 when it is none. */
static int count_list(const char *text)
{
    int n = 0;
    while (*text) {
        char *end;
        long from = strtol(text, &end, 10), to = from;
        if (end == text)
            return -1;
        if (*end == '-') {
            text = end + 1;
            to = strtol(text, &end, 10);
            if (end == text || to < from)
                return -1;
        }
        n += (int)(to - from + 1);
        text = end + (*end == ',');
        if (*end && *end != ',')
            return -1;
    }
    return n;
}

static int count_file(const struct source *source, const char *path)
{
    char text[4096];
    return source_read(source, text, sizeof text, "%s", path) ? -1
                                                        : count_list(text);
}

/* With simultaneous threads switched off, half of them are offline by will. */
static bool smt_is_off(const struct source *source)
{
    char text[32];
    return !source_read(source, text, sizeof text, CPU "/smt/control") &&
           (!strcmp(text, "off") || !strcmp(text, "forceoff"));
}

static void check_count(const struct look *look, struct findings *findings)
{
    int online = count_file(&look->source, CPU "/online");
    int present = count_file(&look->source, CPU "/present");
    int expected = (int)conf_int(look->site, "expect.cpus");
    if (online < 0) {
        findings_skip(findings, "no list of processors");
        return;
    }
    if (expected && online < expected)
        findings_add(findings, F_CPU_COUNT_LOW, "node",
                     "%d online, %d expected", online, expected);
    else if (!expected && online < present && !smt_is_off(&look->source))
        findings_add(findings, F_CPU_OFFLINE, "node", "%d of %d online",
                     online, present);
}

/* The fastest of /proc/cpuinfo: idle ones run slow by will. */
static void check_clock(const struct look *look, struct findings *findings)
{
    int expected = (int)conf_int(look->site, "expect.cpu_mhz");
    double fastest = 0, mhz;
    if (!expected)
        return;
    char *text = source_text(&look->source, "/proc/cpuinfo");
    for (char *line = text; line && *line;) {
        char *next = strchr(line, '\n');
        if (sscanf(line, "cpu MHz : %lf", &mhz) == 1 && mhz > fastest)
            fastest = mhz;
        line = next ? next + 1 : NULL;
    }
    if (fastest > 0 && fastest < expected)
        findings_add(findings, F_CPU_CLOCK_LOW, "node",
                     "fastest %.0f MHz, %d expected", fastest, expected);
    free(text);
}

static void check_cap(const struct look *look, struct findings *findings)
{
    int64_t cap, most;
    if (source_number(&look->source, &cap,
                      CPU "/cpu0/cpufreq/scaling_max_freq") ||
        source_number(&look->source, &most,
                      CPU "/cpu0/cpufreq/cpuinfo_max_freq"))
        return;
    if ((double)cap < CAPPED_SHARE * (double)most)
        findings_add(findings, F_CPU_CLOCK_CAPPED, "node",
                     "capped at %lld of %lld kHz", (long long)cap,
                     (long long)most);
}

/* Processors without a governor (a virtual machine's) have none to be wrong. */
static void check_governor(const struct look *look, struct findings *findings)
{
    static char names[CPUS_MAX][SOURCE_NAME_BYTES];
    const char *expected = conf_text(look->site, "expect.cpu_governor");
    char now[64], other[64] = "";
    int others = 0;
    int n = *expected ? source_list(&look->source, names, CPUS_MAX, CPU) : 0;
    for (int i = 0; i < n; i++) {
        if (source_read(&look->source, now, sizeof now,
                        CPU "/%s/cpufreq/scaling_governor", names[i]) ||
            !strcmp(now, expected))
            continue;
        memcpy(other, now, sizeof other);
        others++;
    }
    if (others)
        findings_add(findings, F_CPU_GOVERNOR, "node",
                     "%s on %d processors, %s expected", other, others,
                     expected);
}

static void check_clocksource(const struct look *look,
                              struct findings *findings)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "pit", "jiffies",
                                       "refined-jiffies"};
    char now[64];
    if (source_read(&look->source, now, sizeof now,
                    CLOCKSOURCE "/current_clocksource"))
        return;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (!strcmp(now, slow[i]))
            findings_add(findings, F_CLOCKSOURCE_SLOW, "node", "%s", now);
}

void probe_cpu(const struct look *look, struct findings *findings)
{
    check_count(look, findings);
    check_clock(look, findings);
    check_cap(look, findings);
    check_governor(look, findings);
    check_clocksource(look, findings);
}
