/* device_cuda - a GPU as a device, by the CUDA runtime. */
#include "kernels/device_backend.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

static int note(struct device *device, const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return 0;
    snprintf(device->error, sizeof device->error, "%s: %s: %s", what,
             cudaGetErrorName(error), cudaGetErrorString(error));
    return -1;
}

static enum kstatus status(struct device *device, const char *what,
                           cudaError_t error)
{
    return note(device, what, error) ? K_DEVICE : K_OK;
}

static int gpu_look(int index, char *name, size_t name_bytes,
                    int64_t *ret_bytes, int *ret_version)
{
    struct cudaDeviceProp prop;

    if (cudaGetDeviceProperties(&prop, index) != cudaSuccess ||
        cudaRuntimeGetVersion(ret_version) != cudaSuccess)
        return -1;
    snprintf(name, name_bytes, "%s", prop.name);
    *ret_bytes = (int64_t)prop.totalGlobalMem;
    return 0;
}

/* Streams do not wait for the default stream. The compute stream goes before
 * the others where the card has to choose. */
static int gpu_open(struct device *device)
{
    int low = 0, high = 0;

    if (note(device, "cudaSetDevice", cudaSetDevice(device->index)) ||
        note(device, "cudaFree", cudaFree(NULL)) ||
        note(device, "cudaDeviceGetStreamPriorityRange",
             cudaDeviceGetStreamPriorityRange(&low, &high)))
        return -1;
    for (int i = 0; i < DEVICE_STREAMS; i++)
        if (note(device, "cudaStreamCreate",
                 cudaStreamCreateWithPriority(
                     (cudaStream_t *)&device->streams[i],
                     cudaStreamNonBlocking, i ? low : high)))
            return -1;
    return 0;
}

static void gpu_close(struct device *device)
{
    for (int i = 0; i < DEVICE_STREAMS; i++)
        if (device->streams[i])
            cudaStreamDestroy(device->streams[i]);
}

static void gpu_info(const struct device *device, char *name,
                     size_t name_bytes, int64_t *total_bytes,
                     int64_t *free_bytes)
{
    struct cudaDeviceProp prop;
    size_t total = 0, free_now = 0;

    cudaMemGetInfo(&free_now, &total);
    if (name && cudaGetDeviceProperties(&prop, device->index) == cudaSuccess)
        snprintf(name, name_bytes, "%s", prop.name);
    if (total_bytes)
        *total_bytes = (int64_t)total;
    if (free_bytes)
        *free_bytes = (int64_t)free_now;
}

static void *gpu_take(struct device *device, size_t bytes)
{
    void *p = NULL;

    if (note(device, "cudaMalloc", cudaMalloc(&p, bytes)))
        return NULL;
    if (note(device, "cudaMemset", cudaMemset(p, 0, bytes)) ||
        note(device, "cudaMemset", cudaDeviceSynchronize())) {
        cudaFree(p);
        return NULL;
    }
    return p;
}

static void gpu_give(struct device *device, void *block, size_t bytes)
{
    (void)bytes;
    note(device, "cudaFree", cudaFree(block));
}

static void *gpu_take_host(struct device *device, size_t bytes)
{
    void *p = NULL;

    return note(device, "cudaMallocHost", cudaMallocHost(&p, bytes)) ? NULL
                                                                     : p;
}

static void gpu_give_host(struct device *device, void *block, size_t bytes)
{
    (void)bytes;
    note(device, "cudaFreeHost", cudaFreeHost(block));
}

static bool gpu_pin(struct device *device, void *from, size_t bytes)
{
    if (cudaSetDevice(device->index) == cudaSuccess &&
        cudaHostRegister(from, bytes, cudaHostRegisterPortable) ==
            cudaSuccess)
        return true;
    cudaGetLastError(); /* this thread's: no news for the others */
    return false;
}

static void gpu_unpin(struct device *device, void *from)
{
    note(device, "cudaHostUnregister", cudaHostUnregister(from));
}

static enum kstatus gpu_sync(struct device *device, stream_t stream)
{
    return status(device, "cudaStreamSynchronize",
                  cudaStreamSynchronize(stream));
}

static event_t gpu_event_create(struct device *device)
{
    cudaEvent_t e = NULL;

    return note(device, "cudaEventCreate", cudaEventCreate(&e)) ? NULL : e;
}

static void gpu_event_destroy(struct device *device, event_t e)
{
    note(device, "cudaEventDestroy", cudaEventDestroy(e));
}

static enum kstatus gpu_event_record(struct device *d, event_t e, stream_t s)
{
    return status(d, "cudaEventRecord", cudaEventRecord(e, s));
}

static enum kstatus gpu_event_wait(struct device *d, event_t e, stream_t s)
{
    return status(d, "cudaStreamWaitEvent", cudaStreamWaitEvent(s, e, 0));
}

static bool gpu_event_done(struct device *device, event_t e)
{
    cudaError_t error = cudaEventQuery(e);

    if (error != cudaErrorNotReady)
        note(device, "cudaEventQuery", error);
    return error != cudaErrorNotReady;
}

static double gpu_event_ms(struct device *device, event_t from, event_t to)
{
    float ms = 0;

    note(device, "cudaEventElapsedTime", cudaEventElapsedTime(&ms, from, to));
    return ms;
}

static enum kstatus gpu_copy(struct device *device, void *dst, const void *src,
                             size_t bytes, int direction, stream_t stream)
{
    enum cudaMemcpyKind kind = direction == 1   ? cudaMemcpyHostToDevice
                               : direction == 2 ? cudaMemcpyDeviceToHost
                                                : cudaMemcpyDeviceToDevice;

    while (direction == 2 && bytes) { /* see device_reserve_host */
        size_t n = DEVICE_PIECE - (uintptr_t)dst % DEVICE_PIECE;
        cudaError_t e;
        n = n < bytes ? n : bytes;
        e = cudaMemcpyAsync(dst, src, n, kind, stream);
        if (e != cudaSuccess)
            return status(device, "cudaMemcpyAsync", e);
        dst = (char *)dst + n;
        src = (const char *)src + n;
        bytes -= n;
    }
    return status(device, "cudaMemcpyAsync",
                  bytes ? cudaMemcpyAsync(dst, src, bytes, kind, stream)
                        : cudaSuccess);
}

static enum kstatus gpu_zero(struct device *device, void *dst, size_t bytes,
                             stream_t stream)
{
    return status(device, "cudaMemsetAsync",
                  cudaMemsetAsync(dst, 0, bytes, stream));
}

const struct device_backend device_backend_cuda = {
    .look = gpu_look,
    .open = gpu_open,
    .close = gpu_close,
    .info = gpu_info,
    .take = gpu_take,
    .give = gpu_give,
    .take_host = gpu_take_host,
    .give_host = gpu_give_host,
    .pin = gpu_pin,
    .unpin = gpu_unpin,
    .sync = gpu_sync,
    .event_create = gpu_event_create,
    .event_destroy = gpu_event_destroy,
    .event_record = gpu_event_record,
    .event_wait = gpu_event_wait,
    .event_done = gpu_event_done,
    .event_ms = gpu_event_ms,
    .copy = gpu_copy,
    .zero = gpu_zero,
};
