/* cuda_head - the rows of head and cross-entropy: a block a row, logits become
 * their gradient in place. See cuda_head_loss.c for the chunks around it, and
 * cuda_head_cluster.cu for what newer cards do with 16 bits.
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

/* ---- Rows shared by ranks ------------------------------------------------ */
template <class T>
__global__ __launch_bounds__(THREADS) void head_share_kernel(const T *logits, double *share,
                                                             const int32_t *labels,
                                                             const uint8_t *mask, int Vocab,
                                                             int Vp, int row0)
{
    const T *x = logits + blockIdx.x * (int64_t)Vp;
    int label = labels[blockIdx.x] - row0;
    double *s = share + blockIdx.x * HEAD_SHARE;
    struct best b = {-INFINITY, 0, 0x7fffffff};

    for (int c = threadIdx.x; c < Vocab && !(mask && !mask[blockIdx.x]); c += THREADS) {
        float v = to_float(x[c]);
        if (v > b.m) {
            b.s *= exp_for<T>(b.m - v);
            b.m = v;
            b.at = c;
        }
        b.s += exp_for<T>(v - b.m);
    }
    b = join_block(b);
    if (threadIdx.x)
        return;
    bool any = b.m > -INFINITY;
    s[0] = b.m;
    s[1] = any ? b.s : 0;
    s[2] = any && label >= 0 && label < Vocab ? (double)to_float(x[label]) : 0;
    s[3] = any ? row0 + b.at : -1;
}

/* All ranks' numbers of a token in their order, then this rank's gradient. */
template <class T>
__global__ __launch_bounds__(THREADS) void head_join_kernel(
    T *logits, double *row, const double *shares, int size, int rows, int all,
    const int32_t *labels, const uint8_t *mask, double scale, double z, int Vocab, int Vp, int row0,
    bool grad)
{
    T *x = logits + blockIdx.x * (int64_t)Vp;
    int label = labels[blockIdx.x];
    bool masked = mask && !mask[blockIdx.x];
    double m = -INFINITY, sum = 0, label_logit = 0, best = -1;

    for (int k = 0; k < size; k++) {
        const double *s = shares + ((int64_t)k * rows + blockIdx.x) * HEAD_SHARE;
        if (s[0] > m) {
            m = s[0];
            best = s[3];
        }
    }
    for (int k = 0; k < size; k++) {
        const double *s = shares + ((int64_t)k * rows + blockIdx.x) * HEAD_SHARE;
        sum += s[1] > 0 ? s[1] * exp(s[0] - m) : 0;
        label_logit += s[2];
    }
    double lse = m + log(sum);
    if (threadIdx.x == 0) {
        double *r = row + blockIdx.x * 4;
        bool known = label >= 0 && label < all;
        r[0] = masked ? 0 : known ? lse - label_logit + z * lse * lse : nan("");
        r[1] = masked ? 0 : 1;
        r[2] = masked ? 0 : z * lse * lse;
        r[3] = !masked && best == (double)label;
    }
    if (!grad)
        return;
    float f = masked ? 0 : (float)(scale * (1 + 2 * z * lse) / sum);
    float top = (float)m;
    for (int c = threadIdx.x; c < Vp; c += THREADS) {
        float p = c < Vocab && !masked ? exp_for<T>(to_float(x[c]) - top) * f : 0;
        x[c] = from_float<T>(c == label - row0 && c < Vocab && !masked ? p - (float)scale : p);
    }
}

/* One block: rows shared by 256 threads, then a fixed tree. */
__global__ void head_sums_kernel(double *sums, const double *row, int rows)
{
    __shared__ double all[64][4];
    int k = threadIdx.x % 4, lane = threadIdx.x / 4;
    double s = 0;

#pragma unroll 8
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
    enum kstatus s = cuda_head_rows_cluster(ex, logits, row, labels, mask, scale, z, rows, V, Vp,
                                            grad);
    if (s != K_UNSUPPORTED)
        return s;
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

enum kstatus cuda_head_share(struct exec *ex, const void *logits, double *share,
                             const int32_t *labels, const uint8_t *mask, int rows, int V, int Vp,
                             int row0)
{
    WITH_TYPE(ex->act, T,
              head_share_kernel<T><<<(unsigned)rows, THREADS, 0, stream_of(ex)>>>(
                  (const T *)logits, share, labels, mask, V, Vp, row0));
    return cuda_launched(ex, "head_share");
}

enum kstatus cuda_head_join(struct exec *ex, void *logits, double *row, const double *shares,
                            const struct head_peers *peers, const int32_t *labels,
                            const uint8_t *mask, double scale, double z, int rows, int V, int Vp,
                            int row0, bool grad)
{
    WITH_TYPE(ex->act, T,
              head_join_kernel<T><<<(unsigned)rows, THREADS, 0, stream_of(ex)>>>(
                  (T *)logits, row, shares, peers->size, rows, peers->V, labels, mask,
                  scale, z, V, Vp, row0, grad));
    return cuda_launched(ex, "head_join");
}
