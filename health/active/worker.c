/* worker - a process with one GPU: does what lines on its standard input say
 * and answers in lines of JSON, the last of each answer {"kind": "done"}.
 *
 *   product TYPE SECONDS | memory SECONDS | host
 *   reduce RANK SIZE LOCAL_RANK LOCAL_SIZE ADDRESS PORT WHAT WAIT
 * The end of the input is its end. When CUDA fails it says so and ends: the
 * error stays with the process.
 */
#include "health/active/worker.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/active/gpu.h"
#include "runner/base/file.h"
#include "runner/base/str.h"

enum { LINE_BYTES = 512 };

/* To the processors next to the GPU, or the figures of the host's copies are
 * of the way between two sockets. */
static void bind_near(const char *pci)
{
    char path[128], lower[32];
    unsigned from, to;
    cpu_set_t set;
    CPU_ZERO(&set);
    str_copy(lower, sizeof lower, pci);
    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist",
             lower);
    char *list = file_read(path, 1 << 16, NULL, NULL);
    for (char *p = list; p && *p && *p != '\n';) {
        int used = 0, n = sscanf(p, "%u-%u%n", &from, &to, &used);
        if (n < 2) {
            n = sscanf(p, "%u%n", &from, &used);
            to = from;
        }
        if (n < 1 || to >= CPU_SETSIZE)
            break;
        for (unsigned cpu = from; cpu <= to; cpu++)
            CPU_SET(cpu, &set);
        p += used;
        p += *p == ',';
    }
    free(list);
    if (CPU_COUNT(&set))
        sched_setaffinity(0, sizeof set, &set);
}

static int run_product(struct gpu_active *gpu, const char *line)
{
    static const char *const names[CHECKS_CELL_N] = {
        [CHECKS_BF16] = "bf16", [CHECKS_FP8] = "fp8", [CHECKS_FP32] = "fp32"};
    char name[16];
    double time_s;
    if (sscanf(line, "product %15s %lf", name, &time_s) != 2)
        return gpu_skip(gpu, "product", "not understood");
    for (int i = 0; i < CHECKS_CELL_N; i++)
        if (!strcmp(names[i], name))
            return product_run(gpu, (enum checks_cell)i, time_s);
    return gpu_skip(gpu, name, "no such type");
}

static int run_reduce(struct gpu_active *gpu, const char *line)
{
    char address[256], what[16];
    struct reduce_place place = {.address = address, .what = what};
    if (sscanf(line, "reduce %d %d %d %d %255s %d %15s %lf", &place.rank,
               &place.size, &place.local_rank, &place.local_size, address,
               &place.port, what, &place.wireup_s) != 8)
        return gpu_skip(gpu, "reduce", "not understood");
    return reduce_run(gpu, &place);
}

static int run_line(struct gpu_active *gpu, const char *line)
{
    double time_s;
    gpu->at = line;
    if (str_starts(line, "product "))
        return run_product(gpu, line);
    if (sscanf(line, "memory %lf", &time_s) == 1)
        return memory_run(gpu, time_s);
    if (!strcmp(line, "host"))
        return host_run(gpu);
    if (str_starts(line, "reduce "))
        return run_reduce(gpu, line);
    return gpu_skip(gpu, line, "not understood");
}

int worker_main(int index, const char *pci, int64_t want_bytes,
                const char *corrupt, int out)
{
    struct gpu_active gpu = {.index = index, .out = out, .corrupt = corrupt};
    char line[LINE_BYTES];
    bind_near(pci);
    int rc = gpu_open(&gpu, pci, want_bytes);
    if (rc)
        return rc > 0 ? 0 : 1;
    gpu_say(&gpu, "done", json_object());
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (run_line(&gpu, line))
            return 1;
        gpu_say(&gpu, "done", json_object());
    }
    gpu_close(&gpu);
    return 0;
}
