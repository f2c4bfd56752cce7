/* memory - every free word of a GPU's memory, written with patterns and read
 * back; and how fast it copies. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "health/active/gpu.h"
#include "runner/base/clock.h"

#define COPY_BYTES ((int64_t)8 << 30)
enum { COPIES = 5 };

static const char *const names[CHECKS_PATTERN_N] = {
    [CHECKS_ADDRESS] = "address",   [CHECKS_ADDRESS_NOT] = "address inverted",
    [CHECKS_ZEROS] = "zeros",       [CHECKS_ONES] = "ones",
    [CHECKS_CHECKER] = "0xaa",      [CHECKS_CHECKER_NOT] = "0x55",
    [CHECKS_WALKING] = "walking",   [CHECKS_RANDOM] = "random",
};

/* Device to device, half of it to the other half: reads and writes count. */
static int measure_copy(struct gpu_active *gpu, double *ret_gb_per_s)
{
    int64_t bytes = gpu->arena_bytes / 2 & ~(int64_t)255;
    if (bytes > COPY_BYTES)
        bytes = COPY_BYTES;
    char *from = gpu->arena, *to = from + bytes;
    double best = 0;
    for (int i = 0; i < COPIES; i++) {
        device_event_record(gpu->device, gpu->from, gpu->stream);
        int rc = (int)cudaMemcpyAsync(to, from, (size_t)bytes,
                                      cudaMemcpyDeviceToDevice, gpu->stream);
        device_event_record(gpu->device, gpu->to, gpu->stream);
        if (!rc)
            rc = (int)cudaStreamSynchronize(gpu->stream);
        if (rc)
            return gpu_fault(gpu, rc, "copying its memory");
        double ms = device_event_ms(gpu->device, gpu->from, gpu->to);
        double gb_per_s = 2 * (double)bytes / 1e6 / ms;
        best = gb_per_s > best ? gb_per_s : best;
    }
    *ret_gb_per_s = best;
    return 0;
}

static int pass(struct gpu_active *gpu, enum checks_pattern pattern,
                bool is_first, struct checks_wrong *ret)
{
    int64_t words = gpu->arena_bytes / 16 * 2;
    int rc = checks_write(gpu->arena, words, pattern, gpu->stream);
    if (!rc && is_first && gpu_corrupts(gpu, "memory"))
        rc = checks_flip(gpu->arena, words / 3, 1ull << 37, gpu->stream);
    if (!rc)
        rc = checks_read(gpu->arena, words, pattern, gpu->wrong, gpu->stream);
    return rc ? gpu_fault(gpu, rc, "walking its memory")
              : gpu_wrong(gpu, ret);
}

int memory_run(struct gpu_active *gpu, double time_s)
{
    double until = clock_mono_s() + time_s, gb_per_s = 0;
    struct checks_wrong wrong = {0};
    const char *pattern = NULL;
    int passes = 0;
    if (measure_copy(gpu, &gb_per_s))
        return -1;
    int rc = checks_clear(gpu->wrong, gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "walking its memory");
    /* Each pattern once, and again while there is time. */
    while (!wrong.n && (passes < CHECKS_PATTERN_N || clock_mono_s() < until)) {
        enum checks_pattern now = (enum checks_pattern)(passes %
                                                        CHECKS_PATTERN_N);
        if (pass(gpu, now, !passes, &wrong))
            return -1;
        passes++;
        if (wrong.n)
            pattern = names[now];
    }
    json_t *said = json_pack("{s:I s:i s:f}", "bytes",
                             (json_int_t)gpu->arena_bytes, "passes", passes,
                             "gb_per_s", gb_per_s);
    gpu_add_wrong(said, &wrong);
    if (pattern)
        json_object_set_new(said, "pattern", json_string(pattern));
    gpu_say(gpu, "memory", said);
    return 0;
}
