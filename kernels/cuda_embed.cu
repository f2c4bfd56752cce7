/* cuda_embed - rows of the embedding tables, and their gradients without
 * atomics: tokens are sorted (stable), so that one row's gradients lie side by
 * side in token order. CHUNK sorted places are one block's; a run of one token
 * that crosses chunks leaves partial sums, which the block of its first chunk
 * adds in a second pass.
 */
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda_device.cuh"

#define CHUNK CUDA_EMBED_CHUNK

/* What of a table lies here: first row, rows, rows of all ranks. */
struct rows { int row0, n, all; };

static struct rows rows_of(const struct weight *w)
{
    struct rows r = {w->row0, w->out, w->rows_all ? w->rows_all : w->out};
    return r;
}

/* A token that the table does not hold gives not-a-numbers, not a crash; one
 * that another rank has gives zero. */
template <class T, int V>
__global__ void embed_fwd_kernel(T *x, const int32_t *tokens, const int32_t *positions,
                                 const T *wte, const T *wpe, struct rows rows, int T_max,
                                 int64_t N, int C)
{
    int parts = C / V;

    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < N * parts;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t n = i / parts, t = tokens[n], p = wpe ? positions[n] : 0;
        int c = (int)(i % parts) * V;
        bool good = t >= 0 && t < rows.all && p >= 0 && p < T_max;
        bool here = t >= rows.row0 && t < rows.row0 + rows.n;
        float a[V], b[V];
        for (int k = 0; k < V; k++)
            a[k] = good ? 0 : nanf("");
        if (good && here) {
            if constexpr (V == 8)
                load8(a, wte + (t - rows.row0) * C + c);
            else
                a[0] = to_float(wte[(t - rows.row0) * C + c]);
        }
        if (good && wpe) {
            if constexpr (V == 8)
                load8(b, wpe + p * C + c);
            else
                b[0] = to_float(wpe[p * C + c]);
            for (int k = 0; k < V; k++)
                a[k] += b[k];
        }
        if constexpr (V == 8)
            store8(x + n * C + c, a);
        else
            x[n * C + c] = from_float<T>(a[0]);
    }
}

enum kstatus cuda_embed_fwd(struct exec *ex, void *x, const int32_t *tokens,
                            const int32_t *positions, const struct weight *wte,
                            const struct weight *wpe, int64_t N, int C)
{
    const void *wp = wpe ? wpe->data : NULL;
    bool vec = C % 8 == 0 && aligned16(x, wte->data, wp);
    unsigned grid = (unsigned)ceil_div(N * C, vec ? 2048 : 256);

    if (wpe && !positions)
        return K_INVALID;
    if (N == 0)
        return K_OK;
    if (vec) {
        WITH_TYPE(ex->act, T,
                  embed_fwd_kernel<T, 8><<<grid, 256, 0, stream_of(ex)>>>(
                      (T *)x, tokens, positions, (const T *)wte->data, (const T *)wp,
                      rows_of(wte), wpe ? wpe->out : 1, N, C));
    } else {
        WITH_TYPE(ex->act, T,
                  embed_fwd_kernel<T, 1><<<grid, 256, 0, stream_of(ex)>>>(
                      (T *)x, tokens, positions, (const T *)wte->data, (const T *)wp,
                      rows_of(wte), wpe ? wpe->out : 1, N, C));
    }
    return cuda_launched(ex, "embed_fwd");
}

__global__ void iota_kernel(int32_t *x, int64_t N)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < N)
        x[i] = (int32_t)i;
}

/* part [chunks][2][C]: 0 what continues a run from before, 1 what goes on. */
template <class T, class G>
__global__ void embed_runs_kernel(G *grad, float *part, const T *dx, const int32_t *keys,
                                  const int32_t *order, struct rows rows, int64_t N, int C)
{
    int64_t from = blockIdx.x * (int64_t)CHUNK, to = from + CHUNK < N ? from + CHUNK : N;
    int c = blockIdx.y * blockDim.x + threadIdx.x;

    if (c >= C)
        return;
    for (int64_t i = from; i < to;) {
        int32_t key = keys[i];
        bool continues = i == from && from > 0 && keys[from - 1] == key;
        float s = 0;
        for (; i < to && keys[i] == key; i++)
            s += to_float(dx[(int64_t)order[i] * C + c]);
        bool goes_on = i == to && to < N && keys[to] == key;
        if (continues)
            part[(int64_t)blockIdx.x * 2 * C + c] = s;
        else if (goes_on)
            part[((int64_t)blockIdx.x * 2 + 1) * C + c] = s;
        else if (key >= rows.row0 && key < rows.row0 + rows.n) {
            int64_t at = (int64_t)(key - rows.row0) * C + c;
            grad[at] = from_float<G>(to_float(grad[at]) + s);
        }
    }
}

template <class G>
__global__ void embed_join_kernel(G *grad, const float *part, const int32_t *keys,
                                  struct rows rows, int64_t N, int C)
{
    int64_t from = blockIdx.x * (int64_t)CHUNK, to = from + CHUNK;
    int c = blockIdx.y * blockDim.x + threadIdx.x;

    if (c >= C || to >= N)
        return;
    int32_t key = keys[to - 1];
    bool begins = keys[to] == key && !(keys[from] == key && from > 0 && keys[from - 1] == key);
    if (!begins || key < rows.row0 || key >= rows.row0 + rows.n)
        return;
    float s = part[((int64_t)blockIdx.x * 2 + 1) * C + c];
    for (int64_t b = blockIdx.x + 1; b * CHUNK < N && keys[b * CHUNK] == key; b++)
        s += part[b * 2 * C + c];
    int64_t at = (int64_t)(key - rows.row0) * C + c;
    grad[at] = from_float<G>(to_float(grad[at]) + s);
}

static size_t round256(size_t n) { return (n + 255) / 256 * 256; }

static size_t sort_bytes(int64_t N)
{
    size_t bytes = 0;
    cub::DeviceRadixSort::SortPairs(NULL, bytes, (const int32_t *)NULL, (int32_t *)NULL,
                                    (const int32_t *)NULL, (int32_t *)NULL, (int)N);
    return bytes;
}

static enum kstatus embed_table_bwd(struct exec *ex, const void *dx, const int32_t *index,
                                    const struct weight *w, int64_t N, int C)
{
    char *scratch = (char *)cuda_scratch(ex, cuda_embed_ws(N, C));
    if (!scratch)
        return K_NOMEM;
    int32_t *keys = (int32_t *)scratch, *order = keys + round256(4 * N) / 4;
    int32_t *iota = order + round256(4 * N) / 4;
    char *temp = (char *)iota + round256(4 * N);
    size_t temp_bytes = cuda_embed_sort_bytes(N);
    float *part = (float *)(temp + temp_bytes);
    if (sort_bytes(N) > temp_bytes)
        return cuda_failed(ex, K_NOMEM, "embed_bwd", "sort needs more scratch");
    iota_kernel<<<(unsigned)ceil_div(N, 256), 256, 0, stream_of(ex)>>>(iota, N);
    cudaError_t e = cub::DeviceRadixSort::SortPairs(temp, temp_bytes, index, keys, iota, order,
                                                    (int)N, 0, 32, stream_of(ex));
    if (e)
        return cuda_status(ex, "embed_bwd sort", e);
    dim3 grid((unsigned)ceil_div(N, CHUNK), (unsigned)ceil_div(C, 256));
    WITH_TYPE(ex->act, T, WITH_GRAD(ex->grad, G, {
                  embed_runs_kernel<T, G><<<grid, 256, 0, stream_of(ex)>>>(
                      (G *)w->grad, part, (const T *)dx, keys, order, rows_of(w), N, C);
                  embed_join_kernel<G><<<grid, 256, 0, stream_of(ex)>>>((G *)w->grad, part, keys,
                                                                        rows_of(w), N, C);
              }));
    return cuda_launched(ex, "embed_bwd");
}

enum kstatus cuda_embed_bwd(struct exec *ex, const void *dx, const int32_t *tokens,
                            const int32_t *positions, const struct weight *wte,
                            const struct weight *wpe, int64_t N, int C)
{
    enum kstatus s = K_OK;

    if (N == 0)
        return K_OK;
    if (wte->grad)
        s = embed_table_bwd(ex, dx, tokens, wte, N, C);
    if (!s && wpe && wpe->grad)
        s = embed_table_bwd(ex, dx, positions, wpe, N, C);
    return s;
}
