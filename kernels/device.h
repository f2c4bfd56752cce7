/* device - memory, streams, events and copies, on CPU and CUDA.
 *
 * One struct device a process. Memory comes from one arena, sized by the plan
 * and allocated once; device_alloc only carves it and never frees singly.
 * Nothing else in the tree calls an allocator of the device. On the CPU a
 * stream is the calling thread and events are already done.
 * No Slurm, files, environment, logging here. enum kstatus is the only error;
 * device_error says more.
 */
#ifndef KB_KERNELS_DEVICE_H
#define KB_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kstatus {
    K_OK = 0,
    K_NOMEM,       /* the arena is full: the plan was wrong */
    K_INVALID,     /* arguments that the operation does not take */
    K_UNSUPPORTED, /* not on this device or build */
    K_DEVICE,      /* the device failed: class ERR_GPU */
};

enum dtype { DT_F32, DT_F64, DT_BF16, DT_F16, DT_I32, DT_I64, DT_U8, DT_N };
size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* safetensors': "F32", "BF16" */

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

struct device;
typedef void *stream_t; /* cudaStream_t, or NULL on the CPU */
typedef void *event_t;

/* Model name of a GPU, bytes of its memory that programs can have, version of
 * the libraries as 13000. -1: there is none, or a CPU. Takes nothing of it. */
int device_look(enum device_kind kind, int index, char *name,
                size_t name_bytes, int64_t *ret_bytes, int *ret_version);
/* index: CUDA ordinal (ignored on the CPU). NULL when there is none; why, if
 * not NULL, gets a text of at most why_bytes. */
struct device *device_create(enum device_kind kind, int index, char *why,
                             size_t why_bytes);
void device_destroy(struct device *device);
enum device_kind device_kind(const struct device *device);
/* Model name, and total and free bytes of its memory. */
void device_info(const struct device *device, char *name, size_t name_bytes,
                 int64_t *total_bytes, int64_t *free_bytes);
const char *device_error(const struct device *device); /* last failure */

/* Arena: once. Blocks are 256-byte aligned and zeroed. */
enum kstatus device_arena(struct device *device, size_t bytes);
void *device_alloc(struct device *device, size_t bytes); /* NULL: full */
size_t device_arena_used(const struct device *device);   /* high-water mark */
/* Everything carved after mark is free again. */
size_t device_mark(const struct device *device);
void device_reset(struct device *device, size_t mark);
/* Pinned host memory on CUDA, plain on the CPU; freed with the device. */
void *device_alloc_host(struct device *device, size_t bytes);
/* The same for much of it: zeroed, the address now, its pages touched and
 * pinned later, DEVICE_PIECE bytes a call of device_ripen_host, which may run
 * on another thread. false: all is done. What could not be pinned works too,
 * only slower. */
#define DEVICE_PIECE ((size_t)256 << 20)
void *device_reserve_host(struct device *device, size_t bytes);
bool device_ripen_host(struct device *device, void *reserved);

stream_t device_stream(struct device *device, int index); /* 0 compute, 1.. */
enum kstatus device_sync(struct device *device, stream_t stream);
event_t device_event_create(struct device *device);
enum kstatus device_event_record(struct device *device, event_t e, stream_t s);
enum kstatus device_event_wait(struct device *device, event_t e, stream_t s);
bool device_event_done(struct device *device, event_t e);
double device_event_ms(struct device *device, event_t from, event_t to);

/* Asynchronous on stream; host memory from device_alloc_host for overlap. */
enum kstatus device_copy_in(struct device *device, void *dst, const void *host,
                            size_t bytes, stream_t stream);
enum kstatus device_copy_out(struct device *device, void *host,
                             const void *src, size_t bytes, stream_t stream);
enum kstatus device_copy(struct device *device, void *dst, const void *src,
                         size_t bytes, stream_t stream);
enum kstatus device_zero(struct device *device, void *dst, size_t bytes,
                         stream_t stream);

#ifdef __cplusplus
}
#endif
#endif
