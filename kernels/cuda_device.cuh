/* cuda_device - what kernels share: numbers of a dtype as float, eight at a
 * time, and sums over a group of threads in a fixed tree. Private to kernels.
 */
#ifndef KB_KERNELS_CUDA_DEVICE_CUH
#define KB_KERNELS_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda.h"

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }
template <class T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x) { return x; }
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline __half from_float<__half>(float x) { return __float2half_rn(x); }

/* The quick exponential where the result is rounded to 16 bits anyway. */
template <class T> __device__ inline float exp_for(float x) { return __expf(x); }
template <> __device__ inline float exp_for<float>(float x) { return expf(x); }

/* Eight neighbours: one access of 16 bytes (two for float). Aligned. */
template <class T> __device__ inline void load8(float *v, const T *p)
{
    uint4 u = *reinterpret_cast<const uint4 *>(p);
    const T *t = reinterpret_cast<const T *>(&u);
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = to_float(t[i]);
}
template <> __device__ inline void load8<float>(float *v, const float *p)
{
    float4 a = reinterpret_cast<const float4 *>(p)[0];
    float4 b = reinterpret_cast<const float4 *>(p)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
template <class T> __device__ inline void store8(T *p, const float *v)
{
    uint4 u;
    T *t = reinterpret_cast<T *>(&u);
#pragma unroll
    for (int i = 0; i < 8; i++)
        t[i] = from_float<T>(v[i]);
    *reinterpret_cast<uint4 *>(p) = u;
}
template <> __device__ inline void store8<float>(float *p, const float *v)
{
    reinterpret_cast<float4 *>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4 *>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

/* Eight neighbours as they lie in memory: asked for early, unpacked late. */
template <class T> struct raw8 {
    uint4 u[sizeof(T) / 2];
};
template <class T> __device__ inline struct raw8<T> fetch8(const T *p)
{
    return *reinterpret_cast<const struct raw8<T> *>(p);
}
template <class T> __device__ inline void unpack8(float *v, const struct raw8<T> &r)
{
    const T *t = reinterpret_cast<const T *>(r.u);
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = to_float(t[i]);
}

/* Four: one access of 16 bytes for float. Where floats are written this beats
 * eight a thread, whose two halves fill each 32-byte sector in two writes. */
template <class T> __device__ inline void load4(float *v, const T *p)
{
    uint2 u = *reinterpret_cast<const uint2 *>(p);
    const T *t = reinterpret_cast<const T *>(&u);
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = to_float(t[i]);
}
template <> __device__ inline void load4<float>(float *v, const float *p)
{
    float4 a = *reinterpret_cast<const float4 *>(p);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
}
template <class T> __device__ inline void store4(T *p, const float *v)
{
    uint2 u;
    T *t = reinterpret_cast<T *>(&u);
#pragma unroll
    for (int i = 0; i < 4; i++)
        t[i] = from_float<T>(v[i]);
    *reinterpret_cast<uint2 *>(p) = u;
}
template <> __device__ inline void store4<float>(float *p, const float *v)
{
    *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
}

__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int w = 16; w; w /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, w);
    return x;
}
__device__ inline double warp_sum_f64(double x)
{
#pragma unroll
    for (int w = 16; w; w /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, w);
    return x;
}
__device__ inline float warp_max(float x)
{
#pragma unroll
    for (int w = 16; w; w /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, w));
    return x;
}

/* Sum over a block of G threads (G = 32: over the warp). All get it. */
template <int G> __device__ inline float group_sum(float x)
{
    if (G == 32)
        return warp_sum(x);
    __shared__ float part[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    float s = 0;
#pragma unroll
    for (int i = 0; i < G / 32; i++)
        s += part[i];
    return s;
}
/* Two at once: half the barriers. */
template <int G> __device__ inline float2 group_sum2(float2 x)
{
    x.x = warp_sum(x.x);
    x.y = warp_sum(x.y);
    if (G == 32)
        return x;
    __shared__ float2 part[32];
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    float2 s = make_float2(0, 0);
#pragma unroll
    for (int i = 0; i < G / 32; i++) {
        s.x += part[i].x;
        s.y += part[i].y;
    }
    return s;
}

/* Run code with T the type of a dtype. */
#define WITH_TYPE(dtype, T, ...)                                                                   \
    switch (dtype) {                                                                               \
    case DT_BF16: {                                                                                \
        using T = __nv_bfloat16;                                                                   \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    case DT_F16: {                                                                                 \
        using T = __half;                                                                          \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    case DT_F32: {                                                                                 \
        using T = float;                                                                           \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    default:                                                                                       \
        return K_UNSUPPORTED;                                                                      \
    }

/* Gradients are F32 or BF16. */
#define WITH_GRAD(dtype, G, ...)                                                                   \
    switch (dtype) {                                                                               \
    case DT_BF16: {                                                                                \
        using G = __nv_bfloat16;                                                                   \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    case DT_F32: {                                                                                 \
        using G = float;                                                                           \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    default:                                                                                       \
        return K_UNSUPPORTED;                                                                      \
    }

static inline cudaStream_t stream_of(const struct exec *ex)
{
    return (cudaStream_t)ex->stream;
}
static inline bool aligned16(const void *a, const void *b = 0, const void *c = 0,
                             const void *d = 0)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) & 15) == 0;
}
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
