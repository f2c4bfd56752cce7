/* gpu - see gpu.h. */
#include "health/active/gpu.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"

/* Left free: contexts of other processes, NCCL's buffers, copies. */
#define RESERVE_BYTES ((int64_t)4 << 30)
#define LEAST_BYTES ((int64_t)2 << 30) /* less is no room for a product */

void gpu_say(const struct gpu_active *gpu, const char *kind, json_t *value)
{
    json_object_set_new(value, "kind", json_string(kind));
    json_object_set_new(value, "gpu", json_integer(gpu->index));
    char *line = json_line(value);
    json_decref(value);
    if (!line)
        return;
    size_t n = strlen(line);
    line[n] = '\n'; /* whole lines only: one write */
    file_write_all(gpu->out, line, n + 1);
    free(line);
}

int gpu_fault(const struct gpu_active *gpu, int code, const char *what)
{
    gpu_say(gpu, "fault",
            json_pack("{s:s s:s s:i s:s}", "at", gpu->at ? gpu->at : "start",
                      "call", what, "code", code, "text",
                      cudaGetErrorName((cudaError_t)code)));
    return -1;
}

int gpu_skip(const struct gpu_active *gpu, const char *what, const char *why)
{
    gpu_say(gpu, "skip", json_pack("{s:s s:s}", "what", what, "why", why));
    return 0;
}

bool gpu_corrupts(const struct gpu_active *gpu, const char *what)
{
    return gpu->corrupt && !strcmp(gpu->corrupt, what);
}

/* The device says its errors in words: the code is CUDA's last. */
static int device_fault(const struct gpu_active *gpu, const char *what)
{
    return gpu_fault(gpu, (int)cudaGetLastError(), what);
}

int gpu_wrong(struct gpu_active *gpu, struct checks_wrong *ret)
{
    int rc = (int)cudaMemcpyAsync(ret, gpu->wrong, sizeof *ret,
                                  cudaMemcpyDeviceToHost, gpu->stream);
    if (!rc)
        rc = (int)cudaStreamSynchronize(gpu->stream);
    return rc ? gpu_fault(gpu, rc, "reading what is wrong") : 0;
}

void gpu_add_wrong(json_t *value, const struct checks_wrong *wrong)
{
    char text[24];
    json_object_set_new(value, "wrong", json_integer((json_int_t)wrong->n));
    if (!wrong->n)
        return;
    json_object_set_new(value, "first",
                        json_integer((json_int_t)wrong->first));
    snprintf(text, sizeof text, "0x%llx", wrong->want);
    json_object_set_new(value, "want", json_string(text));
    snprintf(text, sizeof text, "0x%llx", wrong->got);
    json_object_set_new(value, "got", json_string(text));
}

static int take_memory(struct gpu_active *gpu, int64_t want_bytes)
{
    int64_t total = 0, free_bytes = 0;
    char name[96] = "", text[96];
    device_info(gpu->device, name, sizeof name, &total, &free_bytes);
    int64_t bytes = (free_bytes - RESERVE_BYTES) & ~(int64_t)0xfffff;
    int64_t least = want_bytes ? want_bytes : LEAST_BYTES;
    if (want_bytes && bytes > want_bytes)
        bytes = want_bytes;
    gpu_say(gpu, "gpu",
            json_pack("{s:s s:s s:i s:I s:I s:I}", "pci", gpu->pci, "name",
                      name, "ordinal", gpu->ordinal, "total_bytes",
                      (json_int_t)total, "free_bytes", (json_int_t)free_bytes,
                      "tested_bytes", (json_int_t)(bytes > 0 ? bytes : 0)));
    if (bytes < least) {
        snprintf(text, sizeof text, "only %.1f GiB of its memory are free",
                 (double)free_bytes / (1 << 30));
        gpu_skip(gpu, "all", text);
        return 1;
    }
    if (device_arena(gpu->device, (size_t)bytes) != K_OK ||
        !(gpu->wrong = device_alloc(gpu->device, sizeof *gpu->wrong)))
        return device_fault(gpu, "taking its memory");
    gpu->arena_bytes = bytes - (int64_t)(1 << 20);
    gpu->arena = device_alloc(gpu->device, (size_t)gpu->arena_bytes);
    return gpu->arena ? 0 : device_fault(gpu, "dividing its memory");
}

int gpu_open(struct gpu_active *gpu, const char *pci, int64_t want_bytes)
{
    char why[256] = "";
    int major = 0, minor = 0;
    gpu->at = "start";
    str_copy(gpu->pci, sizeof gpu->pci, pci);
    cudaError_t rc = cudaDeviceGetByPCIBusId(&gpu->ordinal, pci);
    if (rc == cudaErrorInvalidDevice || rc == cudaErrorInvalidValue) {
        gpu_skip(gpu, "all", "CUDA does not show it");
        return 1;
    }
    if (rc)
        return gpu_fault(gpu, rc, "cudaDeviceGetByPCIBusId");
    gpu->device = device_create(DEVICE_CUDA, gpu->ordinal, why, sizeof why);
    if (!gpu->device) {
        rc = cudaGetLastError();
        if (rc != cudaErrorDevicesUnavailable)
            return gpu_fault(gpu, rc, "opening it");
        gpu_skip(gpu, "all", "another program has it alone");
        return 1;
    }
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                           gpu->ordinal);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                           gpu->ordinal);
    gpu->capability = major * 10 + minor;
    gpu->stream = device_stream(gpu->device, 0);
    gpu->from = device_event_create(gpu->device);
    gpu->to = device_event_create(gpu->device);
    if (!gpu->from || !gpu->to)
        return device_fault(gpu, "making events");
    return take_memory(gpu, want_bytes);
}

void gpu_close(struct gpu_active *gpu)
{
    device_destroy(gpu->device);
    gpu->device = NULL;
}
