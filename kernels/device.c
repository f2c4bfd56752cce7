/* device - the arena's book-keeping, and the way to a backend. */
#include "kernels/device_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_ALIGN 256

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DT_N] = {
    [DT_F32] = {"F32", 4}, [DT_F64] = {"F64", 8}, [DT_BF16] = {"BF16", 2},
    [DT_F16] = {"F16", 2}, [DT_I32] = {"I32", 4}, [DT_I64] = {"I64", 8},
    [DT_U8] = {"U8", 1},
};

struct host_block {
    struct host_block *next;
    char *data;
    size_t bytes;
    void *whole;            /* reserved ones: what was mapped */
    size_t whole_bytes;
    size_t ripe, pinned;    /* from the beginning: touched; pinned */
};
struct event_node {
    struct event_node *next;
    event_t event;
};

size_t dtype_bytes(enum dtype dtype)
{
    return (unsigned)dtype < DT_N ? dtypes[dtype].bytes : 0;
}

const char *dtype_name(enum dtype dtype)
{
    return (unsigned)dtype < DT_N ? dtypes[dtype].name : "?";
}

int device_look(enum device_kind kind, int index, char *name,
                size_t name_bytes, int64_t *ret_bytes, int *ret_version)
{
    const struct device_backend *backend =
        kind == DEVICE_CPU ? &device_backend_cpu : &device_backend_cuda;

    if (!backend || !backend->look)
        return -1;
    return backend->look(index, name, name_bytes, ret_bytes, ret_version);
}

struct device *device_create(enum device_kind kind, int index, char *why,
                             size_t why_bytes)
{
    const struct device_backend *backend =
        kind == DEVICE_CPU ? &device_backend_cpu : &device_backend_cuda;
    struct device *device = NULL;

    if (!backend) {
        if (why)
            snprintf(why, why_bytes, "this program is built without CUDA");
        return NULL;
    }
    device = calloc(1, sizeof *device);
    if (!device) {
        if (why)
            snprintf(why, why_bytes, "out of memory");
        return NULL;
    }
    device->backend = backend;
    device->kind = kind;
    device->index = index;
    if (backend->open(device)) {
        if (why)
            snprintf(why, why_bytes, "%s", device->error);
        free(device);
        return NULL;
    }
    return device;
}

static void unreserve(struct device *device, struct host_block *b)
{
    for (size_t at = 0; at < b->pinned; at += DEVICE_PIECE)
        device->backend->unpin(device, b->data + at);
    munmap(b->whole, b->whole_bytes);
}

void device_destroy(struct device *device)
{
    if (!device)
        return;
    for (struct event_node *e = device->events, *next; e; e = next) {
        next = e->next;
        device->backend->event_destroy(device, e->event);
        free(e);
    }
    for (struct host_block *b = device->host_blocks, *next; b; b = next) {
        next = b->next;
        if (b->whole)
            unreserve(device, b);
        else
            device->backend->give_host(device, b->data, b->bytes);
        free(b);
    }
    if (device->arena)
        device->backend->give(device, device->arena, device->arena_bytes);
    device->backend->close(device);
    free(device);
}

enum device_kind device_kind(const struct device *device)
{
    return device->kind;
}

void device_info(const struct device *device, char *name, size_t name_bytes,
                 int64_t *total_bytes, int64_t *free_bytes)
{
    device->backend->info(device, name, name_bytes, total_bytes, free_bytes);
}

const char *device_error(const struct device *device)
{
    return device->error;
}

enum kstatus device_arena(struct device *device, size_t bytes)
{
    if (device->arena || !bytes)
        return K_INVALID;
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    device->arena = device->backend->take(device, bytes);
    if (!device->arena)
        return K_NOMEM;
    device->arena_bytes = bytes;
    return K_OK;
}

void *device_alloc(struct device *device, size_t bytes)
{
    size_t from = device->used, dirty;

    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (!bytes)
        bytes = ARENA_ALIGN;
    if (!device->arena || bytes > device->arena_bytes - from) {
        snprintf(device->error, sizeof device->error,
                 "arena full: %zu bytes wanted, %zu of %zu used", bytes, from,
                 device->arena_bytes);
        return NULL;
    }
    device->used += bytes;
    dirty = device->high > from ? device->high - from : 0;
    if (dirty > bytes)
        dirty = bytes;
    if (dirty && (device->backend->zero(device, device->arena + from, dirty,
                                        device->streams[0]) ||
                  device->backend->sync(device, device->streams[0])))
        return NULL;
    if (device->used > device->high)
        device->high = device->used;
    return device->arena + from;
}

size_t device_arena_used(const struct device *device)
{
    return device->high;
}

size_t device_mark(const struct device *device)
{
    return device->used;
}

void device_reset(struct device *device, size_t mark)
{
    if (mark <= device->used)
        device->used = mark;
}

void *device_alloc_host(struct device *device, size_t bytes)
{
    struct host_block *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->data = device->backend->take_host(device, bytes);
    if (!b->data) {
        free(b);
        return NULL;
    }
    b->bytes = bytes;
    b->next = device->host_blocks;
    device->host_blocks = b;
    return b->data;
}

/* Pieces begin at multiples of DEVICE_PIECE, where copies are cut (a copy must
 * not go across two pinned ranges). */
void *device_reserve_host(struct device *device, size_t bytes)
{
    struct host_block *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->bytes = bytes;
    b->whole_bytes = bytes + DEVICE_PIECE;
    b->whole = mmap(NULL, b->whole_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->whole == MAP_FAILED) {
        free(b);
        return NULL;
    }
    madvise(b->whole, b->whole_bytes, MADV_HUGEPAGE);
    b->data = (char *)(((uintptr_t)b->whole + DEVICE_PIECE - 1) /
                       DEVICE_PIECE * DEVICE_PIECE);
    b->next = device->host_blocks;
    device->host_blocks = b;
    return b->data;
}

bool device_ripen_host(struct device *device, void *reserved)
{
    struct host_block *b = device->host_blocks;

    while (b && b->data != reserved)
        b = b->next;
    if (!b || b->ripe >= b->bytes)
        return false;
    char *from = b->data + b->ripe;
    size_t n = b->bytes - b->ripe < DEVICE_PIECE ? b->bytes - b->ripe
                                                 : DEVICE_PIECE;
    for (size_t i = 0; i < n; i += 4096)
        ((volatile char *)from)[i] = from[i];
    if (device->backend->pin && b->pinned == b->ripe &&
        device->backend->pin(device, from, n))
        b->pinned += n;
    b->ripe += n;
    return b->ripe < b->bytes;
}

stream_t device_stream(struct device *device, int index)
{
    return index >= 0 && index < DEVICE_STREAMS ? device->streams[index] : NULL;
}

enum kstatus device_sync(struct device *device, stream_t stream)
{
    return device->backend->sync(device, stream);
}

event_t device_event_create(struct device *device)
{
    struct event_node *node = malloc(sizeof *node);

    if (!node)
        return NULL;
    node->event = device->backend->event_create(device);
    if (!node->event) {
        free(node);
        return NULL;
    }
    node->next = device->events;
    device->events = node;
    return node->event;
}

enum kstatus device_event_record(struct device *device, event_t e, stream_t s)
{
    return device->backend->event_record(device, e, s);
}

enum kstatus device_event_wait(struct device *device, event_t e, stream_t s)
{
    return device->backend->event_wait(device, e, s);
}

bool device_event_done(struct device *device, event_t e)
{
    return device->backend->event_done(device, e);
}

double device_event_ms(struct device *device, event_t from, event_t to)
{
    return device->backend->event_ms(device, from, to);
}

enum kstatus device_copy_in(struct device *device, void *dst, const void *host,
                            size_t bytes, stream_t stream)
{
    return device->backend->copy(device, dst, host, bytes, 1, stream);
}

enum kstatus device_copy_out(struct device *device, void *host,
                             const void *src, size_t bytes, stream_t stream)
{
    return device->backend->copy(device, host, src, bytes, 2, stream);
}

enum kstatus device_copy(struct device *device, void *dst, const void *src,
                         size_t bytes, stream_t stream)
{
    return device->backend->copy(device, dst, src, bytes, 3, stream);
}

enum kstatus device_zero(struct device *device, void *dst, size_t bytes,
                         stream_t stream)
{
    return device->backend->zero(device, dst, bytes, stream);
}
