/* exact - logarithm, sine and cosine, and the normal generator, by the same
 * double operations in the same order on every backend and machine.
 *
 * libm's last bit differs between machines (and CUDA's from both). Files that
 * include this are compiled without contraction to fused multiply-add
 * (-ffp-contract=off, nvcc -fmad=false), so that bits agree everywhere.
 *
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
 * as 1, 2, 3", SC11. Element e of key is number e % 4 of block e / 4; numbers
 * (0, 1) and (2, 3) of a block are the two of one Box-Muller transform.
 */
#ifndef KB_KERNELS_EXACT_H
#define KB_KERNELS_EXACT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define EXACT static __host__ __device__ inline
#else
#define EXACT static inline
#endif

/* x normal and positive. Relative error below 2e-16 or so. */
EXACT double exact_log(double x)
{
    uint64_t bits;
    double m, s, z, p;
    int e;

    memcpy(&bits, &x, 8);
    e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL;
    memcpy(&m, &bits, 8);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    /* log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172 */
    s = (m - 1.0) / (m + 1.0);
    z = s * s;
    p = 1.0 / 23;
    p = p * z + 1.0 / 21;
    p = p * z + 1.0 / 19;
    p = p * z + 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z;
    return e * 0.6931471805599453 + (2.0 * s + 2.0 * s * p);
}

/* sin and cos of 2 pi u / 2^32. */
EXACT void exact_sincos(uint32_t u, double *ret_sin, double *ret_cos)
{
    uint32_t quarter = (u + 0x20000000u) >> 30; /* nearest multiple of pi/2 */
    int32_t rest = (int32_t)(u - (quarter << 30));
    double x = rest * 1.4629180792671596e-09; /* 2 pi / 2^32 */
    double z = x * x, s, c;

    s = -7.6471637318198165e-13;
    s = s * z + 1.6059043836821613e-10;
    s = s * z - 2.5052108385441720e-08;
    s = s * z + 2.7557319223985893e-06;
    s = s * z - 1.9841269841269841e-04;
    s = s * z + 8.3333333333333332e-03;
    s = s * z - 1.6666666666666666e-01;
    s = x + x * (s * z);
    c = 4.7794773323873853e-14;
    c = c * z - 1.1470745597729725e-11;
    c = c * z + 2.0876756987868099e-09;
    c = c * z - 2.7557319223985888e-07;
    c = c * z + 2.4801587301587302e-05;
    c = c * z - 1.3888888888888889e-03;
    c = c * z + 4.1666666666666664e-02;
    c = c * z - 0.5;
    c = 1.0 + c * z;
    switch (quarter & 3) {
    case 0:
        *ret_sin = s;
        *ret_cos = c;
        break;
    case 1:
        *ret_sin = c;
        *ret_cos = -s;
        break;
    case 2:
        *ret_sin = -s;
        *ret_cos = -c;
        break;
    default:
        *ret_sin = -c;
        *ret_cos = s;
    }
}

EXACT void philox(uint64_t key, uint64_t block, uint32_t ret[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ret[0] = c0;
    ret[1] = c1;
    ret[2] = c2;
    ret[3] = c3;
}

/* The four normal numbers of a block. */
EXACT void exact_normal4(uint64_t key, uint64_t block, double ret[4])
{
    uint32_t u[4];

    philox(key, block, u);
    for (int i = 0; i < 4; i += 2) {
        double s, c;
        double r = sqrt(-2.0 * exact_log((u[i] + 1.0) * (1.0 / 4294967296.0)));
        exact_sincos(u[i + 1], &s, &c);
        ret[i] = r * c;
        ret[i + 1] = r * s;
    }
}

#endif
