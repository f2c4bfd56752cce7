/* half - see half.h. By bits: no compiler's or processor's half matters. */
#include "runner/ckpt/half.h"

#include <math.h>
#include <string.h>

static uint16_t to_bf16(uint32_t v)
{
    if ((v & 0x7fffffff) > 0x7f800000) /* not a number: keep it one */
        return (uint16_t)(v >> 16 | 0x40);
    return (uint16_t)((v + 0x7fff + (v >> 16 & 1)) >> 16);
}

/* v >> shift, to nearest, ties to even. */
static uint32_t shift_even(uint32_t v, int shift)
{
    if (shift > 31)
        return 0;
    uint32_t half = 1u << (shift - 1), low = v & ((half << 1) - 1);
    uint32_t out = v >> shift;
    return out + (low > half || (low == half && (out & 1)));
}

static uint16_t to_f16(uint32_t v)
{
    uint32_t sign = v >> 16 & 0x8000, mantissa = v & 0x7fffff;
    int exponent = (int)(v >> 23 & 0xff) - 127;
    if (exponent == 128)
        return (uint16_t)(sign | 0x7c00 | (mantissa ? 0x200 : 0));
    if (exponent > 15)
        return (uint16_t)(sign | 0x7c00);
    if (exponent >= -14) /* a carry goes on into the exponent, and is right */
        return (uint16_t)(sign | (((uint32_t)(exponent + 15) << 10) +
                                  shift_even(mantissa, 13)));
    if (exponent == -127)
        return (uint16_t)sign; /* far below the smallest */
    return (uint16_t)(sign | shift_even(mantissa | 0x800000, -1 - exponent));
}

void half_from_f32(void *p, int64_t n, enum dtype to)
{
    unsigned char *bytes = p;
    for (int64_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, bytes + 4 * i, sizeof v);
        uint16_t out = to == DT_F16 ? to_f16(v) : to_bf16(v);
        memcpy(bytes + 2 * i, &out, sizeof out);
    }
}

static float from_f16(uint16_t h)
{
    int exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    double v = exponent == 31  ? (mantissa ? NAN : INFINITY)
               : exponent == 0 ? ldexp(mantissa, -24)
                               : ldexp(mantissa + 1024, exponent - 25);
    return (float)(h & 0x8000 ? -v : v);
}

void half_to_f32(float *dst, const void *src, int64_t n, enum dtype from)
{
    const unsigned char *bytes = src;
    if (from == DT_F32) {
        memcpy(dst, src, (size_t)n * sizeof *dst);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, bytes + 2 * i, sizeof h);
        uint32_t wide = (uint32_t)h << 16;
        if (from == DT_F16)
            dst[i] = from_f16(h);
        else
            memcpy(&dst[i], &wide, sizeof wide);
    }
}
