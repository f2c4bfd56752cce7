/* host - how fast a GPU takes from the host's pinned memory and gives back,
 * and that the bytes come as they went. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "health/active/gpu.h"

#define BYTES ((size_t)256 << 20)
enum { ROUNDS = 6 };

/* to: into the GPU. The best of some rounds. */
static int measure(struct gpu_active *gpu, void *host, bool to,
                   double *ret_gb_per_s)
{
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        device_event_record(gpu->device, gpu->from, gpu->stream);
        enum kstatus rc =
            to ? device_copy_in(gpu->device, gpu->arena, host, BYTES,
                                gpu->stream)
               : device_copy_out(gpu->device, host, gpu->arena, BYTES,
                                 gpu->stream);
        device_event_record(gpu->device, gpu->to, gpu->stream);
        if (rc != K_OK || device_sync(gpu->device, gpu->stream) != K_OK)
            return gpu_fault(gpu, (int)cudaGetLastError(),
                             to ? "copying in" : "copying out");
        double gb_per_s = (double)BYTES / 1e6 /
                          device_event_ms(gpu->device, gpu->from, gpu->to);
        best = gb_per_s > best ? gb_per_s : best;
    }
    *ret_gb_per_s = best;
    return 0;
}

int host_run(struct gpu_active *gpu)
{
    struct checks_wrong wrong;
    double in, out;
    int64_t words = (int64_t)BYTES / 8;
    void *host = device_alloc_host(gpu->device, BYTES);
    if (!host)
        return gpu_skip(gpu, "host", "no pinned memory");
    /* What the GPU makes goes out and comes back into cleared memory. */
    int rc = checks_write(gpu->arena, words, CHECKS_RANDOM, gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "writing a pattern");
    if (measure(gpu, host, false, &out))
        return -1;
    if (gpu_corrupts(gpu, "host"))
        ((unsigned char *)host)[1000000] ^= 4;
    rc = (int)cudaMemsetAsync(gpu->arena, 0, BYTES, gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "clearing");
    if (measure(gpu, host, true, &in))
        return -1;
    rc = checks_clear(gpu->wrong, gpu->stream);
    if (!rc)
        rc = checks_read(gpu->arena, words, CHECKS_RANDOM, gpu->wrong,
                         gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "reading a pattern");
    if (gpu_wrong(gpu, &wrong))
        return -1;
    json_t *said = json_pack("{s:f s:f}", "in_gb_per_s", in, "out_gb_per_s",
                             out);
    gpu_add_wrong(said, &wrong);
    gpu_say(gpu, "host", said);
    return 0;
}
