/* device_backend - what a kind of device gives device.c. Private to kernels.
 *
 * device.c owns the arena's book-keeping (marks, high water, what is dirty);
 * a backend owns the memory itself, streams, events and copies.
 */
#ifndef KB_KERNELS_DEVICE_BACKEND_H
#define KB_KERNELS_DEVICE_BACKEND_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVICE_STREAMS 6
#define DEVICE_ERROR_BYTES 256

struct device_backend;
struct device {
    const struct device_backend *backend;
    enum device_kind kind;
    int index;
    char *arena;            /* device memory */
    size_t arena_bytes, used, high; /* high: everything below is dirty */
    char error[DEVICE_ERROR_BYTES];
    stream_t streams[DEVICE_STREAMS];
    void *host_blocks;      /* list of device_alloc_host's blocks */
    void *events;           /* list of device_event_create's events */
};

struct device_backend {
    /* NULL: nothing to see. 0, or -1. */
    int (*look)(int index, char *name, size_t name_bytes, int64_t *ret_bytes,
                int *ret_version);
    /* 0, or -1 with a text in device->error. */
    int (*open)(struct device *device);
    void (*close)(struct device *device);
    void (*info)(const struct device *device, char *name, size_t name_bytes,
                 int64_t *total_bytes, int64_t *free_bytes);
    void *(*take)(struct device *device, size_t bytes); /* zeroed */
    void (*give)(struct device *device, void *block, size_t bytes);
    void *(*take_host)(struct device *device, size_t bytes);
    void (*give_host)(struct device *device, void *block, size_t bytes);
    /* NULL: no matter. Of any thread; false: it is not pinned. */
    bool (*pin)(struct device *device, void *from, size_t bytes);
    void (*unpin)(struct device *device, void *from);
    enum kstatus (*sync)(struct device *device, stream_t stream);
    event_t (*event_create)(struct device *device);
    void (*event_destroy)(struct device *device, event_t e);
    enum kstatus (*event_record)(struct device *d, event_t e, stream_t s);
    enum kstatus (*event_wait)(struct device *d, event_t e, stream_t s);
    bool (*event_done)(struct device *device, event_t e);
    double (*event_ms)(struct device *device, event_t from, event_t to);
    /* in 1, out 2, device to device 3 */
    enum kstatus (*copy)(struct device *device, void *dst, const void *src,
                         size_t bytes, int direction, stream_t stream);
    enum kstatus (*zero)(struct device *device, void *dst, size_t bytes,
                         stream_t stream);
};

extern const struct device_backend device_backend_cpu;
/* Only in programs that link libkb_cuda.a: absent, its address is NULL. */
extern const struct device_backend device_backend_cuda __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
