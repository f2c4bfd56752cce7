/* device_cpu - the host as a device: a stream is the calling thread, so all
 * work is done when its call returns. */
#include "kernels/device_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

struct cpu_event {
    double ms;
};

static int cpu_open(struct device *device)
{
    (void)device;
    return 0;
}

static void cpu_close(struct device *device)
{
    (void)device;
}

static void cpu_brand(char *name, size_t name_bytes)
{
    unsigned regs[13] = {0};

    snprintf(name, name_bytes, "CPU");
#ifdef __x86_64__
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &regs[4 * i], &regs[4 * i + 1],
                         &regs[4 * i + 2], &regs[4 * i + 3]))
            return;
    if (*(const char *)regs)
        snprintf(name, name_bytes, "%s", (const char *)regs);
#else
    (void)regs;
#endif
}

static void cpu_info(const struct device *device, char *name,
                     size_t name_bytes, int64_t *total_bytes,
                     int64_t *free_bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE);

    (void)device;
    if (name)
        cpu_brand(name, name_bytes);
    if (total_bytes)
        *total_bytes = page * sysconf(_SC_PHYS_PAGES);
    if (free_bytes)
        *free_bytes = page * sysconf(_SC_AVPHYS_PAGES);
}

/* mmap gives zeroed pages that cost nothing until they are touched. */
static void *cpu_take(struct device *device, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) {
        snprintf(device->error, sizeof device->error,
                 "mmap of %zu bytes failed", bytes);
        return NULL;
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void cpu_give(struct device *device, void *block, size_t bytes)
{
    (void)device;
    munmap(block, bytes);
}

static enum kstatus cpu_sync(struct device *device, stream_t stream)
{
    (void)device;
    (void)stream;
    return K_OK;
}

static event_t cpu_event_create(struct device *device)
{
    (void)device;
    return calloc(1, sizeof(struct cpu_event));
}

static void cpu_event_destroy(struct device *device, event_t e)
{
    (void)device;
    free(e);
}

static enum kstatus cpu_event_record(struct device *d, event_t e, stream_t s)
{
    struct timespec t;

    (void)d;
    (void)s;
    clock_gettime(CLOCK_MONOTONIC, &t);
    ((struct cpu_event *)e)->ms = t.tv_sec * 1e3 + t.tv_nsec / 1e6;
    return K_OK;
}

static enum kstatus cpu_event_wait(struct device *d, event_t e, stream_t s)
{
    (void)d;
    (void)e;
    (void)s;
    return K_OK;
}

static bool cpu_event_done(struct device *device, event_t e)
{
    (void)device;
    (void)e;
    return true;
}

static double cpu_event_ms(struct device *device, event_t from, event_t to)
{
    (void)device;
    return ((struct cpu_event *)to)->ms - ((struct cpu_event *)from)->ms;
}

static enum kstatus cpu_copy(struct device *device, void *dst, const void *src,
                             size_t bytes, int direction, stream_t stream)
{
    (void)device;
    (void)direction;
    (void)stream;
    memmove(dst, src, bytes);
    return K_OK;
}

static enum kstatus cpu_zero(struct device *device, void *dst, size_t bytes,
                             stream_t stream)
{
    (void)device;
    (void)stream;
    memset(dst, 0, bytes);
    return K_OK;
}

const struct device_backend device_backend_cpu = {
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .take = cpu_take,
    .give = cpu_give,
    .take_host = cpu_take,
    .give_host = cpu_give,
    .sync = cpu_sync,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_done = cpu_event_done,
    .event_ms = cpu_event_ms,
    .copy = cpu_copy,
    .zero = cpu_zero,
};
