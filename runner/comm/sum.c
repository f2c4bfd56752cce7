/* sum - the additions of the CPU's collectives: always in rank order, so that
 * neither sharding nor chunks nor who adds changes a bit. */
#include <string.h>

#include "runner/comm/tables.h"

#define BLOCK 512 /* elements added in the cache before they are stored */

#define SUM(type, name)                                                        \
    static void name(type *dst, const type *const *srcs, int srcs_n,           \
                     int64_t n)                                                \
    {                                                                          \
        type sum[BLOCK];                                                       \
        for (int64_t at = 0; at < n; at += BLOCK) {                            \
            int len = n - at < BLOCK ? (int)(n - at) : BLOCK;                  \
            memcpy(sum, srcs[0] + at, (size_t)len * sizeof *sum);              \
            for (int r = 1; r < srcs_n; r++) {                                 \
                const type *src = srcs[r] + at;                                \
                for (int i = 0; i < len; i++)                                  \
                    sum[i] += src[i];                                          \
            }                                                                  \
            memcpy(dst + at, sum, (size_t)len * sizeof *sum);                  \
        }                                                                      \
    }

SUM(float, sum_f32)
SUM(double, sum_f64)
SUM(uint32_t, sum_u32)
SUM(uint64_t, sum_u64)

int sum_ordered(void *dst, const void *const *srcs, int srcs_n, int64_t n,
                enum dtype dtype)
{
    switch (dtype) {
    case DT_F32:
        sum_f32(dst, (const float *const *)srcs, srcs_n, n);
        return 0;
    case DT_F64:
        sum_f64(dst, (const double *const *)srcs, srcs_n, n);
        return 0;
    case DT_I32:
        sum_u32(dst, (const uint32_t *const *)srcs, srcs_n, n);
        return 0;
    case DT_I64:
        sum_u64(dst, (const uint64_t *const *)srcs, srcs_n, n);
        return 0;
    default:
        return -1;
    }
}
