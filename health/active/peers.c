/* peers - each GPU of the node copies to each other: whether it reaches it,
 * how fast, and that the bytes come as they went.
 *
 * One process has them all. In a round each GPU has one partner, so that no
 * two copies share a link; first one way, then the other.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "health/active/gpu.h"
#include "health/pairs.h"

#define BYTES ((size_t)256 << 20)
enum { COPIES = 8, GPUS_MAX = 32 };

struct peer {
    struct gpu_active gpu;
    char *from, *to; /* BYTES each */
    bool usable;
};

static int open_peer(struct peer *peer, int index, const char *pci,
                     const char *corrupt, int out)
{
    struct gpu_active *gpu = &peer->gpu;
    char why[256];
    *gpu = (struct gpu_active){
        .index = index, .out = out, .at = "peers", .corrupt = corrupt};
    if (cudaDeviceGetByPCIBusId(&gpu->ordinal, pci))
        return 0;
    gpu->device = device_create(DEVICE_CUDA, gpu->ordinal, why, sizeof why);
    if (!gpu->device)
        return gpu_fault(gpu, (int)cudaGetLastError(), "opening it");
    gpu->stream = device_stream(gpu->device, 0);
    gpu->from = device_event_create(gpu->device);
    gpu->to = device_event_create(gpu->device);
    if (device_arena(gpu->device, 2 * BYTES + 4096) != K_OK ||
        !(peer->from = device_alloc(gpu->device, BYTES)) ||
        !(peer->to = device_alloc(gpu->device, BYTES)) ||
        !(gpu->wrong = device_alloc(gpu->device, sizeof *gpu->wrong)))
        return gpu_fault(gpu, (int)cudaGetLastError(), "taking memory");
    int rc = checks_write(peer->from, (int64_t)BYTES / 8, CHECKS_RANDOM,
                          gpu->stream);
    if (!rc)
        rc = (int)cudaStreamSynchronize(gpu->stream);
    peer->usable = !rc;
    return rc ? gpu_fault(gpu, rc, "writing a pattern") : 0;
}

static bool can_access(const struct peer *a, const struct peer *b)
{
    int can = 0;
    return cudaDeviceCanAccessPeer(&can, a->gpu.ordinal, b->gpu.ordinal) ==
               cudaSuccess &&
           can;
}

/* Both ways; what is there already is no failure. */
static void join_peers(struct peer *peers, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (i != j && peers[i].usable && peers[j].usable &&
                can_access(&peers[i], &peers[j]) &&
                !cudaSetDevice(peers[i].gpu.ordinal))
                cudaDeviceEnablePeerAccess(peers[j].gpu.ordinal, 0);
    cudaGetLastError();
}

/* Queued in the giver's stream. */
static int start_copy(struct peer *a, struct peer *b)
{
    struct gpu_active *gpu = &a->gpu;
    int rc = (int)cudaSetDevice(gpu->ordinal);
    device_event_record(gpu->device, gpu->from, gpu->stream);
    for (int i = 0; i < COPIES && !rc; i++)
        rc = (int)cudaMemcpyPeerAsync(b->to, b->gpu.ordinal, a->from,
                                      gpu->ordinal, BYTES, gpu->stream);
    device_event_record(gpu->device, gpu->to, gpu->stream);
    return rc ? gpu_fault(gpu, rc, "copying to a peer") : 0;
}

static int end_copy(struct peer *a, struct peer *b)
{
    struct checks_wrong wrong;
    int rc = (int)cudaStreamSynchronize(a->gpu.stream);
    if (rc)
        return gpu_fault(&a->gpu, rc, "copying to a peer");
    double ms = device_event_ms(a->gpu.device, a->gpu.from, a->gpu.to);
    rc = (int)cudaSetDevice(b->gpu.ordinal);
    if (!rc)
        rc = checks_clear(b->gpu.wrong, b->gpu.stream);
    if (!rc && a->gpu.index == 0 && gpu_corrupts(&a->gpu, "peer"))
        rc = checks_flip(b->to, 4242, 1, b->gpu.stream);
    if (!rc)
        rc = checks_read(b->to, (int64_t)BYTES / 8, CHECKS_RANDOM,
                         b->gpu.wrong, b->gpu.stream);
    if (!rc)
        rc = (int)cudaMemsetAsync(b->to, 0, BYTES, b->gpu.stream);
    if (rc)
        return gpu_fault(&b->gpu, rc, "reading what a peer sent");
    if (gpu_wrong(&b->gpu, &wrong))
        return -1;
    json_t *said = json_pack("{s:i s:b s:f}", "to", b->gpu.index, "access",
                             can_access(a, b), "gb_per_s",
                             COPIES * (double)BYTES / 1e6 / ms);
    gpu_add_wrong(said, &wrong);
    gpu_say(&a->gpu, "peer", said);
    return 0;
}

/* All copies of a round one way: from the lower of each pair, or to it. */
static int run_round(struct peer *peers, int n, int round, bool back)
{
    for (int ending = 0; ending < 2; ending++)
        for (int i = 0; i < n; i++) {
            int j = pairs_meet(n, round, i);
            if (j < i || !peers[i].usable || !peers[j].usable)
                continue;
            struct peer *a = &peers[back ? j : i], *b = &peers[back ? i : j];
            if (ending ? end_copy(a, b) : start_copy(a, b))
                return -1;
        }
    return 0;
}

int peers_run(const char *const *pci, int n, const char *corrupt, int out)
{
    int rc = 0;
    if (n > GPUS_MAX)
        n = GPUS_MAX;
    struct peer *peers = calloc((size_t)n + 1, sizeof *peers);
    if (!peers)
        return -1;
    for (int i = 0; i < n && !rc; i++)
        rc = *pci[i] ? open_peer(&peers[i], i, pci[i], corrupt, out) : 0;
    if (!rc)
        join_peers(peers, n);
    for (int round = 0; round < pairs_rounds(n) && !rc; round++) {
        rc = run_round(peers, n, round, false);
        if (!rc)
            rc = run_round(peers, n, round, true);
    }
    free(peers); /* the process ends: its GPUs' memory with it */
    return rc;
}
