/* cuda_sizes - see cuda_sizes.h. runner/plan/memory.c counts the same. */
#include "kernels/cuda_sizes.h"

static size_t round256(size_t n)
{
    return (n + 255) / 256 * 256;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

int64_t cuda_head_rows_n(enum dtype act, int64_t N, int Vp)
{
    int64_t most = CUDA_HEAD_BYTES / ((int64_t)Vp * (int64_t)dtype_bytes(act));
    int64_t chunks;

    if (N <= 0)
        return 0;
    most = most < 128 ? 128 : most / 128 * 128;
    chunks = (N + most - 1) / most;
    return ((N + chunks - 1) / chunks + 127) / 128 * 128;
}

size_t cuda_head_rows_bytes(int64_t rows)
{
    return round256((size_t)rows * 4 * sizeof(double));
}

size_t cuda_head_ws(enum dtype act, int64_t N, int Vp)
{
    int64_t rows = cuda_head_rows_n(act, N, Vp);

    return cuda_head_rows_bytes(rows) +
           round256((size_t)rows * (size_t)Vp * dtype_bytes(act));
}

/* CUB's own need is asked when it runs; this bounds it. */
size_t cuda_embed_sort_bytes(int64_t N)
{
    return round256(16 * (size_t)N + (1 << 20));
}

size_t cuda_embed_ws(int64_t N, int C)
{
    return 3 * round256(4 * (size_t)N) + cuda_embed_sort_bytes(N) +
           sizeof(float) * 2 * (size_t)C * (size_t)(N / CUDA_EMBED_CHUNK + 1);
}

/* cuDNN 9.19's backward, as measured: row sums and dQ in F32, and with grouped
 * heads dK and dV of every query head; deterministic, dP of whole tiles. */
static int64_t sdpa_bytes(int64_t B, int64_t T, int64_t H, int64_t K,
                          int64_t D, bool deterministic)
{
    int64_t tiles = (T + 63) / 64 * 64, rows = B * H * tiles;
    int64_t bytes = rows * 8 + rows * D * 4;

    if (K != H)
        bytes += rows * D * 8;
    if (deterministic)
        bytes += rows * tiles * 2;
    return bytes + (1 << 20);
}

int cuda_attn_slice(int B, int T, int H, int D, bool deterministic)
{
    int slice = B;

    while (deterministic && slice > 1 &&
           (B % slice || sdpa_bytes(slice, T, H, H, D, true) > CUDA_ATTN_BYTES))
        slice--;
    return slice;
}

/* The plain kernels need delta, F32 [B, H, T]: always less. */
size_t cuda_attn_ws(int B, int T, int H, int K, int D, bool deterministic)
{
    return (size_t)sdpa_bytes(cuda_attn_slice(B, T, H, D, deterministic), T,
                              H, K, D, deterministic);
}

/* Partial sums of norms, biases and updates are far below the rest: 32 MiB
 * bound them for any card of up to 256 multiprocessors and C up to 8192. */
size_t cuda_workspace_bytes(enum dtype act, int64_t N, int C, int F, int H,
                            int K, int D, int Vp, int B, int T,
                            bool deterministic)
{
    size_t s = (size_t)32 << 20;
    int64_t widest = 2 * F > 4 * C ? 2 * F : 4 * C;

    s = max(s, cuda_head_ws(act, N, Vp));
    s = max(s, cuda_embed_ws(N, C));
    s = max(s, cuda_attn_ws(B, T, H, K, D, deterministic));
    /* room to time a product that adds to the largest gradient of a layer */
    s = max(s, sizeof(float) * (size_t)C * (size_t)widest);
    return CUDA_LT_BYTES + round256(s);
}
