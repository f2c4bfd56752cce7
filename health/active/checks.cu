/* checks - see checks.h. */
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "health/active/checks.h"

#define THREADS 256
#define BLOCKS 4096 /* at most; each thread strides */

typedef unsigned long long u64;

/* A number of 64 bits from another: splitmix64's last steps. */
__device__ static u64 mixed(u64 x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ static void tell(struct checks_wrong *wrong, u64 at, u64 want, u64 got)
{
    atomicAdd(&wrong->n, 1ull);
    if (atomicMin(&wrong->first, at) > at) {
        wrong->want = want;
        wrong->got = got;
    }
}

/* ---- Cells as integers ------------------------------------------------- */

__device__ static void put(__nv_bfloat16 *cell, int v) { *cell = __float2bfloat16((float)v); }
__device__ static void put(__nv_fp8_e4m3 *cell, int v) { *cell = __nv_fp8_e4m3((float)v); }
__device__ static void put(float *cell, int v) { *cell = (float)v; }

/* What is no integer of a possible size counts as its bits: it is wrong. */
__device__ static u64 whole(float v)
{
    if (fabsf(v) < 16777217.f && v == rintf(v))
        return (u64)(long long)v;
    return 0x5bd1e99500000000ull ^ __float_as_uint(v);
}
__device__ static u64 whole(__nv_bfloat16 v) { return whole(__bfloat162float(v)); }
__device__ static u64 whole(__nv_fp8_e4m3 v) { return whole((float)v); }

__device__ static int64_t first_of(void) { return blockIdx.x * (int64_t)blockDim.x + threadIdx.x; }
__device__ static int64_t stride_of(void) { return gridDim.x * (int64_t)blockDim.x; }

template <class T> __global__ void fill(T *dst, int64_t n, u64 seed, int most)
{
    for (int64_t i = first_of(); i < n; i += stride_of())
        put(&dst[i], (int)(mixed(seed + (u64)i) % (2 * most + 1)) - most);
}

/* ---- The product's check ------------------------------------------------ */

/* Neighbouring threads read neighbouring columns. */
template <class T> __global__ void sums_of(const T *a, int64_t m, int64_t k, u64 *sums)
{
    int64_t column = first_of();
    u64 sum = 0;
    if (column >= k)
        return;
    for (int64_t row = blockIdx.y; row < m; row += gridDim.y)
        sum += whole(a[row * k + column]) * mixed((u64)row);
    atomicAdd(&sums[column], sum);
}

__device__ static u64 block_sum(u64 v)
{
    __shared__ u64 part[THREADS];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int n = THREADS / 2; n; n /= 2) {
        if (threadIdx.x < n)
            part[threadIdx.x] += part[threadIdx.x + n];
        __syncthreads();
    }
    return part[0];
}

template <class T>
__global__ void rows_of(const T *b, const float *d, const u64 *sums, int64_t m, int64_t k,
                        struct checks_wrong *wrong)
{
    int64_t row = blockIdx.x;
    u64 difference = 0;
    for (int64_t i = threadIdx.x; i < m; i += THREADS)
        difference += whole(d[row * m + i]) * mixed((u64)i);
    for (int64_t i = threadIdx.x; i < k; i += THREADS)
        difference -= whole(b[row * k + i]) * sums[i];
    difference = block_sum(difference);
    if (threadIdx.x == 0 && difference)
        tell(wrong, (u64)row, 0, difference);
}

template <class T>
__global__ void row_of(const T *a, const T *b, const float *d, int64_t row, int64_t m, int64_t k,
                       struct checks_wrong *wrong)
{
    int64_t column = blockIdx.x;
    u64 sum = 0;
    for (int64_t i = threadIdx.x; i < k; i += THREADS)
        sum += whole(b[row * k + i]) * whole(a[column * k + i]);
    sum = block_sum(sum);
    float want = (float)(long long)sum, got = d[row * m + column];
    if (threadIdx.x == 0 && __float_as_uint(want + 0.f) != __float_as_uint(got + 0.f))
        tell(wrong, (u64)column, __float_as_uint(want), __float_as_uint(got));
}

__global__ void bits_of(const u64 *data, int64_t words, u64 *sum)
{
    u64 mine = 0;
    for (int64_t i = first_of(); i < words; i += stride_of())
        mine += mixed(data[i] ^ mixed((u64)i));
    mine = block_sum(mine);
    if (threadIdx.x == 0)
        atomicAdd(sum, mine);
}

/* ---- Memory ------------------------------------------------------------- */

__device__ static u64 word_of(int64_t i, enum checks_pattern pattern)
{
    switch (pattern) {
    case CHECKS_ADDRESS:
        return (u64)i;
    case CHECKS_ADDRESS_NOT:
        return ~(u64)i;
    case CHECKS_ZEROS:
        return 0;
    case CHECKS_ONES:
        return ~0ull;
    case CHECKS_CHECKER:
        return 0xaaaaaaaaaaaaaaaaull;
    case CHECKS_CHECKER_NOT:
        return 0x5555555555555555ull;
    case CHECKS_WALKING:
        return 1ull << (i % 64);
    default:
        return mixed((u64)i);
    }
}

__global__ void write_words(ulonglong2 *data, int64_t pairs, enum checks_pattern pattern)
{
    for (int64_t i = first_of(); i < pairs; i += stride_of())
        data[i] = make_ulonglong2(word_of(2 * i, pattern), word_of(2 * i + 1, pattern));
}

__global__ void read_words(const ulonglong2 *data, int64_t pairs, enum checks_pattern pattern,
                           struct checks_wrong *wrong)
{
    for (int64_t i = first_of(); i < pairs; i += stride_of()) {
        ulonglong2 got = data[i];
        u64 x = word_of(2 * i, pattern), y = word_of(2 * i + 1, pattern);
        if (got.x != x)
            tell(wrong, (u64)(2 * i), x, got.x);
        if (got.y != y)
            tell(wrong, (u64)(2 * i + 1), y, got.y);
    }
}

__global__ void flip(u64 *data, int64_t word, u64 bits)
{
    data[word] ^= bits;
}

__global__ void clear(struct checks_wrong *wrong)
{
    wrong->n = wrong->want = wrong->got = 0;
    wrong->first = ~0ull;
}

/* ---- All-reduce --------------------------------------------------------- */

__device__ static int share_of(int64_t i, int rank)
{
    return (int)((i * 7 + rank * 13) % 17);
}

__global__ void reduce_fill(float *data, int64_t n, int rank)
{
    for (int64_t i = first_of(); i < n; i += stride_of())
        data[i] = (float)share_of(i, rank);
}

__global__ void reduce_read(const float *data, int64_t n, int ranks, struct checks_wrong *wrong)
{
    for (int64_t i = first_of(); i < n; i += stride_of()) {
        int sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += share_of(i, r);
        if (data[i] != (float)sum)
            tell(wrong, (u64)i, __float_as_uint((float)sum), __float_as_uint(data[i]));
    }
}

/* ---- Launches ----------------------------------------------------------- */

static unsigned blocks_for(int64_t n)
{
    int64_t blocks = (n + THREADS - 1) / THREADS;
    return blocks > BLOCKS ? BLOCKS : blocks < 1 ? 1 : (unsigned)blocks;
}

/* CALL with T as the cell's type. */
#define WITH_TYPE(cell, CALL)                                                                      \
    if ((cell) == CHECKS_BF16) {                                                                   \
        typedef __nv_bfloat16 T;                                                                   \
        CALL;                                                                                      \
    } else if ((cell) == CHECKS_FP8) {                                                             \
        typedef __nv_fp8_e4m3 T;                                                                   \
        CALL;                                                                                      \
    } else {                                                                                       \
        typedef float T;                                                                           \
        CALL;                                                                                      \
    }                                                                                              \
    return (int)cudaGetLastError()

int checks_clear(struct checks_wrong *wrong, void *stream)
{
    clear<<<1, 1, 0, (cudaStream_t)stream>>>(wrong);
    return (int)cudaGetLastError();
}

int checks_fill(enum checks_cell cell, void *dst, int64_t n, uint64_t seed, int most, void *stream)
{
    WITH_TYPE(cell, (fill<T><<<blocks_for(n), THREADS, 0, (cudaStream_t)stream>>>((T *)dst, n, seed,
                                                                                 most)));
}

int checks_sums(enum checks_cell cell, const void *a, int64_t m, int64_t k,
                unsigned long long *sums, void *stream)
{
    dim3 blocks((unsigned)((k + THREADS - 1) / THREADS), 64);
    int rc = (int)cudaMemsetAsync(sums, 0, (size_t)k * sizeof *sums, (cudaStream_t)stream);
    if (rc)
        return rc;
    WITH_TYPE(cell, (sums_of<T><<<blocks, THREADS, 0, (cudaStream_t)stream>>>((const T *)a, m, k,
                                                                              sums)));
}

int checks_rows(enum checks_cell cell, const void *b, const float *d,
                const unsigned long long *sums, int64_t m, int64_t n, int64_t k,
                struct checks_wrong *wrong, void *stream)
{
    WITH_TYPE(cell, (rows_of<T><<<(unsigned)n, THREADS, 0, (cudaStream_t)stream>>>(
                        (const T *)b, d, sums, m, k, wrong)));
}

int checks_row(enum checks_cell cell, const void *a, const void *b, const float *d, int64_t row,
               int64_t m, int64_t k, struct checks_wrong *wrong, void *stream)
{
    WITH_TYPE(cell, (row_of<T><<<(unsigned)m, THREADS, 0, (cudaStream_t)stream>>>(
                        (const T *)a, (const T *)b, d, row, m, k, wrong)));
}

int checks_bits(const void *data, int64_t bytes, unsigned long long *sum, void *stream)
{
    bits_of<<<blocks_for(bytes / 8), THREADS, 0, (cudaStream_t)stream>>>((const u64 *)data,
                                                                         bytes / 8, sum);
    return (int)cudaGetLastError();
}

int checks_write(void *data, int64_t words, enum checks_pattern pattern, void *stream)
{
    write_words<<<blocks_for(words / 2), THREADS, 0, (cudaStream_t)stream>>>((ulonglong2 *)data,
                                                                             words / 2, pattern);
    return (int)cudaGetLastError();
}

int checks_read(const void *data, int64_t words, enum checks_pattern pattern,
                struct checks_wrong *wrong, void *stream)
{
    read_words<<<blocks_for(words / 2), THREADS, 0, (cudaStream_t)stream>>>(
        (const ulonglong2 *)data, words / 2, pattern, wrong);
    return (int)cudaGetLastError();
}

int checks_flip(void *data, int64_t word, uint64_t bits, void *stream)
{
    flip<<<1, 1, 0, (cudaStream_t)stream>>>((u64 *)data, word, bits);
    return (int)cudaGetLastError();
}

int checks_reduce_fill(float *data, int64_t n, int rank, void *stream)
{
    reduce_fill<<<blocks_for(n), THREADS, 0, (cudaStream_t)stream>>>(data, n, rank);
    return (int)cudaGetLastError();
}

int checks_reduce_read(const float *data, int64_t n, int ranks, struct checks_wrong *wrong,
                       void *stream)
{
    reduce_read<<<blocks_for(n), THREADS, 0, (cudaStream_t)stream>>>(data, n, ranks, wrong);
    return (int)cudaGetLastError();
}
