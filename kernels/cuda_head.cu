/* cuda_head - the rows of head and cross-entropy: a block a row, logits become
 * their gradient in place. See cuda_head_loss.c for the chunks around it.
 *
 * A row is read once and kept in shared memory for the second pass; one that
 * does not fit is read again, out of L2 as long as few blocks are under way,
 * so it asks for shared memory all the same. */
#include "kernels/cuda_device.cuh"

#define THREADS 512

struct best {
    float m, s; /* maximum, sum of exp(x - m) */
    int at;     /* first place of the maximum */
};

__device__ static struct best join(struct best a, struct best b)
{
    float m = fmaxf(a.m, b.m);
    struct best r;
    r.m = m;
    /* -inf beside -inf: nothing seen yet */
    r.s = (a.m == m ? a.s : a.s * expf(a.m - m)) + (b.m == m ? b.s : b.s * expf(b.m - m));
    r.at = a.m > b.m ? a.at : b.m > a.m ? b.at : min(a.at, b.at);
    return r;
}

__device__ static struct best join_block(struct best b)
{
    __shared__ struct best part[THREADS / 32];
    for (int w = 16; w; w /= 2) {
        struct best o;
        o.m = __shfl_xor_sync(0xffffffffu, b.m, w);
        o.s = __shfl_xor_sync(0xffffffffu, b.s, w);
        o.at = __shfl_xor_sync(0xffffffffu, b.at, w);
        /* the same order in both partners */
        b = threadIdx.x & w ? join(o, b) : join(b, o);
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = b;
    __syncthreads();
    b = part[0];
    for (int i = 1; i < THREADS / 32; i++)
        b = join(b, part[i]);
    return b;
}

template <class T, int V, bool KEEP>
__global__ __launch_bounds__(THREADS) void head_rows_kernel(T *logits, double *row,
                                                            const int32_t *labels,
                                                            const uint8_t *mask, double scale,
                                                            double z, int Vocab, int Vp, bool grad)
{
    extern __shared__ uint4 shared[];
    T *x = logits + blockIdx.x * (int64_t)Vp, *kept = (T *)shared;
    int label = labels[blockIdx.x];
    float v[V];

    if (mask && !mask[blockIdx.x]) {
        if (threadIdx.x < 4)
            row[blockIdx.x * 4 + threadIdx.x] = 0;
        for (int i = 0; i < V; i++)
            v[i] = 0;
        for (int c = threadIdx.x * V; grad && c < Vp; c += THREADS * V) {
            if constexpr (V == 8)
                store8(x + c, v);
            else
                x[c] = from_float<T>(0);
        }
        return;
    }
    struct best b = {-INFINITY, 0, 0x7fffffff};
    for (int c = threadIdx.x * V; c < Vocab; c += THREADS * V) {
        if constexpr (V == 8)
            load8(v, x + c);
        else
            v[0] = to_float(x[c]);
        if constexpr (KEEP)
            store8(kept + c, v);
        float m = b.m;
        for (int i = 0; i < V; i++)
            if (c + i < Vocab && v[i] > m) {
                m = v[i];
                b.at = c + i;
            }
        if (m > b.m) {
            b.s *= exp_for<T>(b.m - m);
            b.m = m;
        }
        for (int i = 0; i < V; i++)
            b.s += c + i < Vocab ? exp_for<T>(v[i] - b.m) : 0;
    }
    b = join_block(b);
    double lse = b.m + log((double)b.s);
    bool known = label >= 0 && label < Vocab;
    if (threadIdx.x == 0) {
        double *r = row + blockIdx.x * 4;
        r[0] = known ? lse - (double)to_float(x[label]) + z * lse * lse : nan("");
        r[1] = 1;
        r[2] = z * lse * lse;
        r[3] = b.at == label;
    }
    if (!grad)
        return;
    __syncthreads(); /* x[label] is read above, written below */
    float f = (float)(scale * (1 + 2 * z * lse) / b.s);
    for (int c = threadIdx.x * V; c < Vp; c += THREADS * V) {
        if constexpr (KEEP) {
            if (c < Vocab)
                load8(v, kept + c); /* this thread's own */
        } else if constexpr (V == 8) {
            load8(v, x + c);
        } else {
            v[0] = to_float(x[c]);
        }
        for (int i = 0; i < V; i++) {
            float p = c + i < Vocab ? exp_for<T>(v[i] - b.m) * f : 0;
            v[i] = c + i == label ? p - (float)scale : p;
        }
        if constexpr (V == 8)
            store8(x + c, v);
        else
            x[c] = from_float<T>(v[0]);
    }
}

/* One block: rows shared by 256 threads, then a fixed tree. */
__global__ void head_sums_kernel(double *sums, const double *row, int rows)
{
    __shared__ double all[64][4];
    int k = threadIdx.x % 4, lane = threadIdx.x / 4;
    double s = 0;

    for (int r = lane; r < rows; r += 64)
        s += row[r * 4 + k];
    all[lane][k] = s;
    __syncthreads();
    if (lane)
        return;
    s = 0;
    for (int r = 0; r < 64; r++)
        s += all[r][k];
    sums[k] += s;
}

/* Two blocks a multiprocessor. */
#define KEEP_BYTES (110 * 1024)

template <class T, int V, bool KEEP>
static void head_launch(struct exec *ex, T *logits, double *row, const int32_t *labels,
                        const uint8_t *mask, double scale, double z, int rows, int Vocab, int Vp,
                        bool grad)
{
    size_t bytes = V == 8 ? KEEP_BYTES : 0;
    if (bytes)
        cudaFuncSetAttribute(head_rows_kernel<T, V, KEEP>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    head_rows_kernel<T, V, KEEP><<<(unsigned)rows, THREADS, bytes, stream_of(ex)>>>(
        logits, row, labels, mask, scale, z, Vocab, Vp, grad);
}

enum kstatus cuda_head_rows(struct exec *ex, void *logits, double *row, const int32_t *labels,
                            const uint8_t *mask, double scale, double z, int rows, int V, int Vp,
                            bool grad)
{
    bool vec = Vp % 8 == 0 && aligned16(logits);
    bool keep = (size_t)Vp * dtype_bytes(ex->act) <= KEEP_BYTES;
    WITH_TYPE(ex->act, T, {
        if (vec && keep)
            head_launch<T, 8, true>(ex, (T *)logits, row, labels, mask, scale, z, rows, V, Vp,
                                    grad);
        else if (vec)
            head_launch<T, 8, false>(ex, (T *)logits, row, labels, mask, scale, z, rows, V, Vp,
                                     grad);
        else
            head_launch<T, 1, false>(ex, (T *)logits, row, labels, mask, scale, z, rows, V, Vp,
                                     grad);
    });
    return cuda_launched(ex, "head_rows");
}

enum kstatus cuda_head_sums(struct exec *ex, double *sums, const double *row, int rows)
{
    head_sums_kernel<<<1, 256, 0, stream_of(ex)>>>(sums, row, rows);
    return cuda_launched(ex, "head_sums");
}
