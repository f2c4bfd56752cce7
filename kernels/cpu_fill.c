/* cpu_fill - filling, casting and adding plain arrays of any real dtype. The
 * one CPU file that is compiled once. */
#include "kernels/cpu.h"

#define CHUNK 65536

/* Round to nearest even; NaN stays NaN. */
static uint16_t bf16_from(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float bf16_to(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static uint16_t f16_from(float f)
{
    uint32_t u, sign, a;

    memcpy(&u, &f, 4);
    sign = u >> 16 & 0x8000;
    a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) { /* below 2^-14: in units of 2^-24 */
        float m;
        memcpy(&m, &a, 4);
        m = m * 16777216.0f + 8388608.0f; /* rounds to an integer */
        memcpy(&a, &m, 4);
        return (uint16_t)(sign | (a & 0x7fff));
    }
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | ((a - 0x38000000) >> 13));
}

static float f16_to(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, u;
    float f;

    if (e == 0) {
        f = (h & 0x3ff) * (1.0f / 16777216.0f);
        return sign ? -f : f;
    }
    u = e == 31 ? 0x7f800000u : (e + 112) << 23;
    u |= sign | (uint32_t)(h & 0x3ff) << 13;
    memcpy(&f, &u, 4);
    return f;
}

static double get(const void *src, enum dtype dtype, int64_t i)
{
    switch (dtype) {
    case DT_F32:
        return ((const float *)src)[i];
    case DT_F64:
        return ((const double *)src)[i];
    case DT_BF16:
        return bf16_to(((const uint16_t *)src)[i]);
    default:
        return f16_to(((const uint16_t *)src)[i]);
    }
}

static void put(void *dst, enum dtype dtype, int64_t i, double x)
{
    switch (dtype) {
    case DT_F32:
        ((float *)dst)[i] = (float)x;
        break;
    case DT_F64:
        ((double *)dst)[i] = x;
        break;
    case DT_BF16:
        ((uint16_t *)dst)[i] = bf16_from((float)x);
        break;
    default:
        ((uint16_t *)dst)[i] = f16_from((float)x);
    }
}

static bool is_real(enum dtype dtype)
{
    return dtype == DT_F32 || dtype == DT_F64 || dtype == DT_BF16 ||
           dtype == DT_F16;
}

struct fill {
    void *dst;
    const void *src;
    void *const *srcs;
    enum dtype dtype, src_dtype;
    uint64_t key, first;
    double value;
    int64_t n;
    int srcs_n;
};

static int64_t chunk_end(const struct fill *p, int64_t task)
{
    return (task + 1) * CHUNK < p->n ? (task + 1) * CHUNK : p->n;
}

static int64_t chunks(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static void cast_task(void *ctx, int64_t task, int worker)
{
    const struct fill *p = ctx;
    int64_t end = chunk_end(p, task);

    (void)worker;
    for (int64_t i = task * CHUNK; i < end; i++)
        put(p->dst, p->dtype, i, get(p->src, p->src_dtype, i));
}

enum kstatus cpu_cast(struct exec *ex, void *dst, enum dtype dst_dtype,
                      const void *src, enum dtype src_dtype, int64_t n)
{
    struct fill p = {.dst = dst, .src = src, .dtype = dst_dtype,
                     .src_dtype = src_dtype, .n = n};

    (void)ex;
    if (!is_real(dst_dtype) || !is_real(src_dtype))
        return K_UNSUPPORTED;
    if (dst_dtype == src_dtype) {
        memmove(dst, src, n * dtype_bytes(dst_dtype));
        return K_OK;
    }
    pool_run(cast_task, &p, chunks(n));
    return K_OK;
}

CLONES static void sum_f32(float *dst, void *const *srcs, int srcs_n,
                           int64_t from, int64_t to)
{
    for (int s = 0; s < srcs_n; s++) {
        const float *src = srcs[s];
        if (s == 0)
            memmove(dst + from, src + from, (to - from) * sizeof *dst);
        else
            for (int64_t i = from; i < to; i++)
                dst[i] += src[i];
    }
}

CLONES static void sum_f64(double *dst, void *const *srcs, int srcs_n,
                           int64_t from, int64_t to)
{
    for (int s = 0; s < srcs_n; s++) {
        const double *src = srcs[s];
        if (s == 0)
            memmove(dst + from, src + from, (to - from) * sizeof *dst);
        else
            for (int64_t i = from; i < to; i++)
                dst[i] += src[i];
    }
}

/* 16-bit types are added in F32 and rounded once. */
static void sum_16(const struct fill *p, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        float s = (float)get(p->srcs[0], p->dtype, i);
        for (int k = 1; k < p->srcs_n; k++)
            s += (float)get(p->srcs[k], p->dtype, i);
        put(p->dst, p->dtype, i, s);
    }
}

static void sum_task(void *ctx, int64_t task, int worker)
{
    const struct fill *p = ctx;
    int64_t from = task * CHUNK, to = chunk_end(p, task);

    (void)worker;
    if (p->dtype == DT_F32)
        sum_f32(p->dst, p->srcs, p->srcs_n, from, to);
    else if (p->dtype == DT_F64)
        sum_f64(p->dst, p->srcs, p->srcs_n, from, to);
    else
        sum_16(p, from, to);
}

enum kstatus cpu_sum_in_order(struct exec *ex, void *dst, void *const *srcs,
                              int srcs_n, int64_t n, enum dtype dtype)
{
    struct fill p = {.dst = dst, .srcs = srcs, .srcs_n = srcs_n, .n = n,
                     .dtype = dtype};

    (void)ex;
    if (!is_real(dtype))
        return K_UNSUPPORTED;
    if (srcs_n < 1)
        return K_INVALID;
    for (int s = 1; s < srcs_n; s++)
        if (srcs[s] == dst)
            return K_INVALID;
    pool_run(sum_task, &p, chunks(n));
    return K_OK;
}

static void normal_task(void *ctx, int64_t task, int worker)
{
    const struct fill *p = ctx;
    int64_t end = chunk_end(p, task);
    uint64_t have = UINT64_MAX;
    double four[4];

    (void)worker;
    for (int64_t i = task * CHUNK; i < end; i++) {
        uint64_t e = p->first + (uint64_t)i;
        if (e / 4 != have) {
            have = e / 4;
            exact_normal4(p->key, have, four);
        }
        double x = four[e % 4] * p->value;
        put(p->dst, p->dtype, i, p->dtype == DT_F64 ? x : (float)x);
    }
}

enum kstatus cpu_fill_normal(struct exec *ex, void *dst, enum dtype dtype,
                             uint64_t key, uint64_t first, int64_t n,
                             double std)
{
    struct fill p = {.dst = dst, .dtype = dtype, .key = key, .first = first,
                     .value = std, .n = n};

    (void)ex;
    if (!is_real(dtype))
        return K_UNSUPPORTED;
    pool_run(normal_task, &p, chunks(n));
    return K_OK;
}

static void value_task(void *ctx, int64_t task, int worker)
{
    const struct fill *p = ctx;
    int64_t end = chunk_end(p, task);

    (void)worker;
    for (int64_t i = task * CHUNK; i < end; i++)
        put(p->dst, p->dtype, i, p->value);
}

enum kstatus cpu_fill_value(struct exec *ex, void *dst, enum dtype dtype,
                            int64_t n, double value)
{
    struct fill p = {.dst = dst, .dtype = dtype, .n = n, .value = value};

    (void)ex;
    if (!is_real(dtype))
        return K_UNSUPPORTED;
    pool_run(value_task, &p, chunks(n));
    return K_OK;
}
