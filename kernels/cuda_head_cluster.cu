/* cuda_head_cluster - the rows of head and cross-entropy for 16-bit logits on
 * cards with thread-block clusters (sm_90 and later): a row lies in the
 * registers of one cluster's threads, is read once and written once. The
 * blocks tell each other maximum and sum through their shared memory. What
 * does not fit takes the plain kernel of cuda_head.cu.
 *
 * Padding and what a thread has too much counts as minus infinity, so that the
 * loops need no bounds.
 */
#include <cooperative_groups.h>

#include "kernels/cuda_device.cuh"

namespace cg = cooperative_groups;

#define THREADS 256
#define LOG2E 1.4426950408889634f
#define LEAST (-1e37f) /* below any logit; its multiples stay finite */

struct rows_args {
    void *logits;
    double *row;
    const int32_t *labels;
    const uint8_t *mask;
    double scale, z;
    int V, Vp;
    bool grad;
};

struct partial {
    float m, s; /* maximum, sum of exp(x - m) */
};

/* Two numbers in a word: as floats, their greater ones, minus infinity. */
template <class T> struct word;
template <> struct word<__nv_bfloat16> {
    static constexpr unsigned least = 0xff80u;
    __device__ static float2 floats(unsigned w)
    {
        return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u));
    }
    __device__ static unsigned greater(unsigned a, unsigned b)
    {
        __nv_bfloat162 x, y;
        memcpy(&x, &a, 4);
        memcpy(&y, &b, 4);
        x = __hmax2(x, y);
        memcpy(&a, &x, 4);
        return a;
    }
};
template <> struct word<__half> {
    static constexpr unsigned least = 0xfc00u;
    __device__ static float2 floats(unsigned w)
    {
        __half2 x;
        memcpy(&x, &w, 4);
        return __half22float2(x);
    }
    __device__ static unsigned greater(unsigned a, unsigned b)
    {
        __half2 x, y;
        memcpy(&x, &a, 4);
        memcpy(&y, &b, 4);
        x = __hmax2(x, y);
        memcpy(&a, &x, 4);
        return a;
    }
};

/* 2^x; the result is rounded to 16 bits anyway. */
__device__ static float exp2_quick(float x)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

__device__ static struct partial join(struct partial a, struct partial b)
{
    struct partial r;
    r.m = fmaxf(a.m, b.m);
    r.s = a.s * exp2_quick((a.m - r.m) * LOG2E) + b.s * exp2_quick((b.m - r.m) * LOG2E);
    return r;
}

/* Lanes in a fixed tree, then the block's warps in order. */
__device__ static struct partial join_block(struct partial p)
{
    __shared__ struct partial part[THREADS / 32];
#pragma unroll
    for (int w = 16; w; w /= 2) {
        struct partial o;
        o.m = __shfl_xor_sync(0xffffffffu, p.m, w);
        o.s = __shfl_xor_sync(0xffffffffu, p.s, w);
        p = threadIdx.x & w ? join(o, p) : join(p, o);
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = p;
    __syncthreads();
    p = part[0];
    for (int i = 1; i < THREADS / 32; i++)
        p = join(p, part[i]);
    return p;
}

/* Eight neighbours, those from V on minus infinity. */
template <class T> __device__ static uint4 load_vector(const T *x, int c, int V)
{
    const unsigned short *bits = (const unsigned short *)x + c;
    unsigned w[4];

    if (c + 8 <= V)
        return __ldcg((const uint4 *)bits);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned low = c + 2 * i < V ? bits[2 * i] : word<T>::least;
        unsigned high = c + 2 * i + 1 < V ? bits[2 * i + 1] : word<T>::least;
        w[i] = low | high << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

template <class T> __device__ static void unpack(float *v, uint4 u)
{
    float2 a = word<T>::floats(u.x), b = word<T>::floats(u.y);
    float2 c = word<T>::floats(u.z), d = word<T>::floats(u.w);
    v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y;
    v[4] = c.x, v[5] = c.y, v[6] = d.x, v[7] = d.y;
}

/* Unpacked numbers are not kept from pass to pass: registers hold the words. */
__device__ static void forget(uint4 &u)
{
    asm volatile("" : "+r"(u.x), "+r"(u.y), "+r"(u.z), "+r"(u.w));
}

template <class T, int NV> __device__ static struct partial sum_vectors(uint4 *u)
{
    unsigned most = u[0].x;
    struct partial p = {LEAST, 0};
    float v[8];

#pragma unroll
    for (int k = 0; k < NV; k++) {
        most = word<T>::greater(most, word<T>::greater(u[k].x, u[k].y));
        most = word<T>::greater(most, word<T>::greater(u[k].z, u[k].w));
    }
    float2 two = word<T>::floats(most);
    p.m = fmaxf(p.m, fmaxf(two.x, two.y));
    float base = p.m * LOG2E;
#pragma unroll
    for (int k = 0; k < NV; k++) {
        forget(u[k]);
        unpack<T>(v, u[k]);
#pragma unroll
        for (int i = 0; i < 8; i++)
            p.s += exp2_quick(v[i] * LOG2E - base);
        forget(u[k]);
    }
    return p;
}

/* All threads of the row. One block needs no more than its own barrier. */
template <int CS> __device__ static void arrive(cg::cluster_group &cluster)
{
    if constexpr (CS > 1)
        cluster.barrier_arrive();
}
template <int CS> __device__ static void wait_all(cg::cluster_group &cluster)
{
    if constexpr (CS > 1)
        cluster.barrier_wait();
    else
        __syncthreads();
}

/* NV vectors of 8 a thread, CS blocks a row; vector k of a thread is number
 * (k CS + rank) THREADS + thread of the row. */
template <class T, int NV, int CS>
__global__ __launch_bounds__(THREADS, NV > 8 ? 2 : 4) void head_cluster_kernel(struct rows_args a)
{
#if __CUDA_ARCH__ >= 900
    __shared__ struct partial mine;
    __shared__ int first_at; /* of the row's maximum; the first block's counts */
    cg::cluster_group cluster = cg::this_cluster();
    int rank = (int)cluster.block_rank();
    int64_t n = blockIdx.x / CS;
    T *x = (T *)a.logits + n * a.Vp;
    int label = a.labels[n];
    double *row = a.row + n * 4;
    bool out = a.mask && !a.mask[n], known = label >= 0 && label < a.V;
    uint4 u[NV];

    if (out) {
        if (rank == 0 && threadIdx.x < 4)
            row[threadIdx.x] = 0;
#pragma unroll
        for (int k = 0; k < NV; k++) {
            int c = ((k * CS + rank) * THREADS + threadIdx.x) * 8;
            if (a.grad && c < a.Vp)
                *(uint4 *)(x + c) = make_uint4(0, 0, 0, 0);
        }
        return; /* the whole cluster */
    }
#pragma unroll
    for (int k = 0; k < NV; k++)
        u[k] = load_vector(x, ((k * CS + rank) * THREADS + threadIdx.x) * 8, a.V);
    /* before any block writes its gradient */
    double at_label = rank == 0 && threadIdx.x == 0 && known ? to_float(x[label]) : 0;
    struct partial own = sum_vectors<T, NV>(u), all = join_block(own);
    if (threadIdx.x == 0) {
        mine = all;
        first_at = 0x7fffffff;
    }
    arrive<CS>(cluster);
    wait_all<CS>(cluster);
    if (CS > 1) {
        all = *cluster.map_shared_rank(&mine, 0);
        for (int r = 1; r < CS; r++)
            all = join(all, *cluster.map_shared_rank(&mine, r));
    }
    if (own.m == all.m) { /* few warps */
        int at = 0x7fffffff;
#pragma unroll
        for (int k = NV - 1; k >= 0; k--) {
            float v[8];
            forget(u[k]);
            unpack<T>(v, u[k]);
#pragma unroll
            for (int i = 7; i >= 0; i--)
                if (v[i] == all.m)
                    at = ((k * CS + rank) * THREADS + threadIdx.x) * 8 + i;
        }
        atomicMin(CS > 1 ? cluster.map_shared_rank(&first_at, 0) : &first_at, at);
    }
    /* Other blocks' shared memory is read and written no more. */
    arrive<CS>(cluster);
    bool leader = rank == 0 && threadIdx.x == 0;
    double lse = leader || a.z != 0 ? all.m + log((double)all.s) : 0;
    float f = (float)(a.scale * (1 + 2 * a.z * lse) / all.s), base = all.m * LOG2E;
#pragma unroll
    for (int k = 0; k < NV; k++) {
        int c = ((k * CS + rank) * THREADS + threadIdx.x) * 8;
        float v[8];
        if (!a.grad || c >= a.Vp)
            continue;
        forget(u[k]);
        unpack<T>(v, u[k]);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = exp2_quick(v[i] * LOG2E - base) * f;
        if (label / 8 == c / 8 && known)
            for (int i = 0; i < 8; i++)
                v[i] -= c + i == label ? (float)a.scale : 0;
        store8(x + c, v);
    }
    /* No block's shared memory goes before all have read it. */
    wait_all<CS>(cluster);
    if (leader) {
        row[0] = known ? lse - at_label + a.z * lse * lse : nan("");
        row[1] = 1;
        row[2] = a.z * lse * lse;
        row[3] = first_at == label;
    }
#endif
}

template <class T, int NV, int CS>
static cudaError_t rows_launch(struct exec *ex, const struct rows_args *a, int rows)
{
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t config = {};

    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CS;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.gridDim = dim3((unsigned)rows * CS);
    config.blockDim = dim3(THREADS);
    config.stream = stream_of(ex);
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, head_cluster_kernel<T, NV, CS>, *a);
}

template <class T>
static enum kstatus rows_fitting(struct exec *ex, const struct rows_args *a, int rows)
{
    int vectors = a->Vp / 8;
    cudaError_t e;

    if (vectors <= THREADS * 8)
        e = rows_launch<T, 8, 1>(ex, a, rows);
    else if (vectors <= THREADS * 8 * 2)
        e = rows_launch<T, 8, 2>(ex, a, rows);
    else if (vectors <= THREADS * 7 * 4)
        e = rows_launch<T, 7, 4>(ex, a, rows);
    else if (vectors <= THREADS * 8 * 4)
        e = rows_launch<T, 8, 4>(ex, a, rows);
    else if (vectors <= THREADS * 8 * 8)
        e = rows_launch<T, 8, 8>(ex, a, rows);
    else if (vectors <= THREADS * 16 * 8)
        e = rows_launch<T, 16, 8>(ex, a, rows);
    else
        return K_UNSUPPORTED;
    return cuda_status(ex, "head_rows", e);
}

enum kstatus cuda_head_rows_cluster(struct exec *ex, void *logits, double *row,
                                    const int32_t *labels, const uint8_t *mask, double scale,
                                    double z, int rows, int V, int Vp, bool grad)
{
    struct rows_args a = {logits, row, labels, mask, scale, z, V, Vp, grad};

    if (cuda_state(ex)->major < 9 || Vp % 8 || !aligned16(logits))
        return K_UNSUPPORTED;
    switch (ex->act) {
    case DT_BF16:
        return rows_fitting<__nv_bfloat16>(ex, &a, rows);
    case DT_F16:
        return rows_fitting<__half>(ex, &a, rows);
    default:
        return K_UNSUPPORTED;
    }
}
