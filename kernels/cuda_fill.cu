/* cuda_fill - filling, casting and adding plain arrays. Compiled with
 * -fmad=false: fill_normal must give the CPU's bits (see exact.h). */
#include "kernels/cuda_device.cuh"
#include "kernels/exact.h"

#define THREADS 256
#define SOURCES 64

template <class T> __device__ static void put_double(T *p, double x)
{
    *p = from_float<T>((float)x);
}
template <> __device__ void put_double<double>(double *p, double x) { *p = x; }
template <class T> __device__ static double get_double(T x) { return to_float(x); }
template <> __device__ double get_double<double>(double x) { return x; }

#define WITH_REAL(dtype, T, ...)                                                                   \
    if ((dtype) == DT_F64) {                                                                       \
        using T = double;                                                                          \
        __VA_ARGS__;                                                                               \
    } else                                                                                         \
        WITH_TYPE(dtype, T, __VA_ARGS__)

#define EACH(i, n)                                                                                 \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

static unsigned grid_of(const struct exec *ex, int64_t n)
{
    int64_t blocks = ceil_div(n, THREADS), most = cuda_state(ex)->sms * 32;
    return (unsigned)(blocks < most ? blocks : most);
}

template <class D, class S> __global__ void cast_kernel(D *dst, const S *src, int64_t n)
{
    EACH(i, n) put_double(dst + i, get_double(src[i]));
}

enum kstatus cuda_cast(struct exec *ex, void *dst, enum dtype dst_dtype, const void *src,
                       enum dtype src_dtype, int64_t n)
{
    if (n == 0)
        return K_OK;
    if (dst_dtype == src_dtype)
        return device_copy(ex->device, dst, src, n * dtype_bytes(dst_dtype), ex->stream);
    WITH_REAL(dst_dtype, D, {
        WITH_REAL(src_dtype, S, {
            cast_kernel<D, S><<<grid_of(ex, n), THREADS, 0, stream_of(ex)>>>((D *)dst,
                                                                             (const S *)src, n);
        })
    })
    return cuda_launched(ex, "cast");
}

struct sources {
    const void *p[SOURCES];
};

/* 16-bit types are added in F32 and rounded once, as on the CPU. */
template <class T>
__global__ void sum_kernel(T *dst, const __grid_constant__ struct sources srcs, int srcs_n,
                           int64_t n)
{
    EACH(i, n)
    {
        float s = to_float(((const T *)srcs.p[0])[i]);
        for (int k = 1; k < srcs_n; k++)
            s += to_float(((const T *)srcs.p[k])[i]);
        dst[i] = from_float<T>(s);
    }
}

__global__ void sum_f64_kernel(double *dst, const __grid_constant__ struct sources srcs,
                               int srcs_n, int64_t n)
{
    EACH(i, n)
    {
        double s = ((const double *)srcs.p[0])[i];
        for (int k = 1; k < srcs_n; k++)
            s += ((const double *)srcs.p[k])[i];
        dst[i] = s;
    }
}

enum kstatus cuda_sum_in_order(struct exec *ex, void *dst, void *const *srcs, int srcs_n,
                               int64_t n, enum dtype dtype)
{
    struct sources s;

    if (srcs_n < 1 || srcs_n > SOURCES)
        return K_INVALID;
    for (int i = 0; i < srcs_n; i++) {
        if (i && srcs[i] == dst)
            return K_INVALID;
        s.p[i] = srcs[i];
    }
    if (n == 0)
        return K_OK;
    if (dtype == DT_F64) {
        sum_f64_kernel<<<grid_of(ex, n), THREADS, 0, stream_of(ex)>>>((double *)dst, s, srcs_n, n);
        return cuda_launched(ex, "sum_in_order");
    }
    WITH_TYPE(dtype, T,
              sum_kernel<T><<<grid_of(ex, n), THREADS, 0, stream_of(ex)>>>((T *)dst, s, srcs_n,
                                                                           n));
    return cuda_launched(ex, "sum_in_order");
}

/* A thread makes the four numbers of a block of the generator. */
template <class T>
__global__ void normal_kernel(T *dst, uint64_t key, uint64_t first, int64_t n, double std)
{
    uint64_t block0 = first / 4, blocks = (first + n + 3) / 4 - block0;

    EACH(b, (int64_t)blocks)
    {
        double four[4];
        exact_normal4(key, block0 + b, four);
        for (int k = 0; k < 4; k++) {
            int64_t i = (int64_t)((block0 + b) * 4 + k - first);
            if (i >= 0 && i < n)
                put_double(dst + i, four[k] * std);
        }
    }
}

enum kstatus cuda_fill_normal(struct exec *ex, void *dst, enum dtype dtype, uint64_t key,
                              uint64_t first, int64_t n, double std)
{
    if (n == 0)
        return K_OK;
    WITH_REAL(dtype, T, {
        normal_kernel<T><<<grid_of(ex, n / 4 + 2), THREADS, 0, stream_of(ex)>>>((T *)dst, key,
                                                                                first, n, std);
    })
    return cuda_launched(ex, "fill_normal");
}

template <class T> __global__ void value_kernel(T *dst, int64_t n, double value)
{
    EACH(i, n) put_double(dst + i, value);
}

enum kstatus cuda_fill_value(struct exec *ex, void *dst, enum dtype dtype, int64_t n, double value)
{
    if (n == 0)
        return K_OK;
    WITH_REAL(dtype, T, {
        value_kernel<T><<<grid_of(ex, n), THREADS, 0, stream_of(ex)>>>((T *)dst, n, value);
    })
    return cuda_launched(ex, "fill_value");
}
