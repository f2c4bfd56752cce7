/* cuda_embed - rows of the embedding tables, and their gradients without
 * atomics: tokens are sorted (stable), so that one row's gradients lie side by
 * side in token order. CHUNK sorted places are one block's; a run of one token
 * that crosses chunks leaves partial sums, which the block of its first chunk
 * adds in a second pass. Keys are sorted by as many bits as the table needs.
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

/* Row numbers to sort by, counted from the first here, and where they came
 * from. What does not lie here sorts behind all rows and is dropped. */
__global__ void embed_keys_kernel(int32_t *keys, int32_t *order, const int32_t *index,
                                  struct rows rows, int64_t N)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    int64_t row = (int64_t)index[i] - rows.row0;
    keys[i] = row >= 0 && row < rows.n ? (int32_t)row : rows.n;
    order[i] = (int32_t)i;
}

template <class T, int V> __device__ static void load_some(float *v, const T *p)
{
    if constexpr (V == 8)
        load8(v, p);
    else
        v[0] = to_float(*p);
}

/* grad += s */
template <class G, int V> __device__ static void add_row(G *grad, const float *s)
{
    float old[V];
    load_some<G, V>(old, grad);
    for (int k = 0; k < V; k++)
        old[k] += s[k];
    if constexpr (V == 8)
        store8(grad, old);
    else
        *grad = from_float<G>(old[0]);
}

template <int V> __device__ static void put_part(float *part, float *s)
{
    if constexpr (V == 8)
        store8(part, s);
    else
        *part = s[0];
}

/* V columns a thread; rows of AHEAD places are on their way at once. part
 * [chunks][2][C]: 0 what continues a run from before, 1 what goes on. */
#define AHEAD 4
template <class T, class G, int V>
__global__ void embed_runs_kernel(G *grad, float *part, const T *dx, const int32_t *keys,
                                  const int32_t *order, int rows, int64_t N, int C)
{
    __shared__ int32_t key[CHUNK + 2], from_row[CHUNK];
    int64_t from = blockIdx.x * (int64_t)CHUNK;
    int n = from + CHUNK < N ? CHUNK : (int)(N - from);
    int c = (blockIdx.y * blockDim.x + threadIdx.x) * V;

    for (int i = threadIdx.x; i < n + 2; i += blockDim.x) {
        int64_t at = from + i - 1; /* key[0]: of the place before */
        key[i] = at >= 0 && at < N ? keys[at] : -1;
        if (i < n)
            from_row[i] = order[from + i];
    }
    __syncthreads();
    if (c >= C)
        return;
    float s[V] = {}, x[AHEAD][V];
    bool continues = key[0] == key[1];
    for (int i0 = 0; i0 < n; i0 += AHEAD) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i0 + a < n)
                load_some<T, V>(x[a], dx + (int64_t)from_row[i0 + a] * C + c);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            int i = i0 + a;
            if (i >= n)
                continue;
            for (int k = 0; k < V; k++)
                s[k] += x[a][k];
            bool last = i + 1 == n, goes_on = key[i + 2] == key[i + 1];
            if (goes_on && !last)
                continue;
            if (continues)
                put_part<V>(part + (int64_t)blockIdx.x * 2 * C + c, s);
            else if (goes_on)
                put_part<V>(part + ((int64_t)blockIdx.x * 2 + 1) * C + c, s);
            else if (key[i + 1] < rows)
                add_row<G, V>(grad + (int64_t)key[i + 1] * C + c, s);
            continues = false;
            for (int k = 0; k < V; k++)
                s[k] = 0;
        }
    }
}

/* First place behind `from` whose key is another. */
__device__ static int64_t run_end(const int32_t *keys, int64_t from, int64_t N)
{
    int64_t lo = from, hi = N; /* keys[lo] == keys[from], sorted */

    while (hi - lo > 1) {
        int64_t mid = (lo + hi) / 2;
        if (keys[mid] == keys[from])
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* A block for each chunk whose last run goes on: that run's parts, in order.
 * Chunks of a long run are shared by JOINS rows of threads. */
#define JOINS 8
template <class G, int V>
__global__ void embed_join_kernel(G *grad, const float *part, const int32_t *keys, int rows,
                                  int64_t N, int C)
{
    __shared__ float all[JOINS][32][V];
    __shared__ int64_t end;
    int64_t from = blockIdx.x * (int64_t)CHUNK, to = from + CHUNK;
    int c = (blockIdx.y * 32 + threadIdx.x) * V;

    if (to >= N)
        return;
    int32_t key = keys[to - 1];
    bool begins = keys[to] == key && !(keys[from] == key && from > 0 && keys[from - 1] == key);
    if (!begins || key >= rows)
        return;
    if (threadIdx.x == 0 && threadIdx.y == 0)
        end = run_end(keys, to, N);
    __syncthreads();
    int64_t chunks = (end + CHUNK - 1) / CHUNK - blockIdx.x; /* with the first */
    int64_t each = (chunks + JOINS - 1) / JOINS, b0 = threadIdx.y * each;
    int64_t b1 = b0 + each < chunks ? b0 + each : chunks;
    float s[V] = {}, x[V];
    if (c < C)
#pragma unroll 4
        for (int64_t b = b0; b < b1; b++) {
            load_some<float, V>(x, part + ((blockIdx.x + b) * 2 + (b == 0)) * C + c);
            for (int k = 0; k < V; k++)
                s[k] += x[k];
        }
    for (int k = 0; k < V; k++)
        all[threadIdx.y][threadIdx.x][k] = s[k];
    __syncthreads();
    if (threadIdx.y || c >= C)
        return;
    for (int k = 0; k < V; k++) {
        s[k] = 0;
        for (int r = 0; r < JOINS; r++)
            s[k] += all[r][threadIdx.x][k];
    }
    add_row<G, V>(grad + (int64_t)key * C + c, s);
}

static size_t round256(size_t n) { return (n + 255) / 256 * 256; }

/* Sorted keys and their order in scratch; the sums' part behind them. */
struct embed_sorted {
    const int32_t *keys, *order;
    float *part;
};

static enum kstatus embed_sort(struct exec *ex, const int32_t *index, struct rows rows, int64_t N,
                               int C, struct embed_sorted *ret)
{
    size_t each = round256(4 * N), temp_bytes = cuda_embed_sort_bytes(N) - each, need = 0;
    char *scratch = (char *)cuda_scratch(ex, cuda_embed_ws(N, C));
    int bits = 1;

    if (!scratch)
        return K_NOMEM;
    while (bits < 31 && (int64_t)1 << bits <= rows.n)
        bits++;
    int32_t *at[4];
    for (int i = 0; i < 4; i++)
        at[i] = (int32_t *)(scratch + i * each);
    cub::DoubleBuffer<int32_t> keys(at[0], at[1]), order(at[2], at[3]);
    embed_keys_kernel<<<(unsigned)ceil_div(N, 256), 256, 0, stream_of(ex)>>>(at[0], at[2], index,
                                                                             rows, N);
    cudaError_t e = cub::DeviceRadixSort::SortPairs(NULL, need, keys, order, (int)N, 0, bits,
                                                    stream_of(ex));
    if (!e && need > temp_bytes)
        return cuda_failed(ex, K_NOMEM, "embed_bwd", "sort needs more scratch");
    if (!e)
        e = cub::DeviceRadixSort::SortPairs(scratch + 4 * each, temp_bytes, keys, order, (int)N, 0,
                                            bits, stream_of(ex));
    ret->keys = keys.Current();
    ret->order = order.Current();
    ret->part = (float *)(scratch + 4 * each + temp_bytes);
    return cuda_status(ex, "embed_bwd sort", e);
}

template <class T, class G, int V>
static void embed_sums(struct exec *ex, const void *dx, const struct embed_sorted *s,
                       const struct weight *w, int64_t N, int C)
{
    int threads = C / V < 256 ? (C / V + 31) / 32 * 32 : 256;
    unsigned chunks = (unsigned)ceil_div(N, CHUNK);
    dim3 grid(chunks, (unsigned)ceil_div(C, threads * V));
    dim3 joins(chunks, (unsigned)ceil_div(C, 32 * V));

    embed_runs_kernel<T, G, V><<<grid, threads, 0, stream_of(ex)>>>(
        (G *)w->grad, s->part, (const T *)dx, s->keys, s->order, w->out, N, C);
    embed_join_kernel<G, V><<<joins, dim3(32, JOINS), 0, stream_of(ex)>>>(
        (G *)w->grad, s->part, s->keys, w->out, N, C);
}

static enum kstatus embed_table_bwd(struct exec *ex, const void *dx, const int32_t *index,
                                    const struct weight *w, int64_t N, int C)
{
    struct embed_sorted sorted = {};
    enum kstatus s = embed_sort(ex, index, rows_of(w), N, C, &sorted);
    bool vec = C % 8 == 0 && aligned16(dx, w->grad);

    if (s)
        return s;
    WITH_TYPE(ex->act, T, WITH_GRAD(ex->grad, G, {
                  if (vec)
                      embed_sums<T, G, 8>(ex, dx, &sorted, w, N, C);
                  else
                      embed_sums<T, G, 1>(ex, dx, &sorted, w, N, C);
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
