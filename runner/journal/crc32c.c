/* crc32c - see crc32c.h. A table of 16 entries, half a byte at a time: event
 * records are a few dozen bytes. */
#include "runner/journal/crc32c.h"

uint32_t crc32c(const void *bytes, size_t n)
{
    static const uint32_t half[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const unsigned char *p = bytes;
    uint32_t crc = 0xffffffffu;
    for (; n; n--, p++) {
        crc ^= *p;
        crc = crc >> 4 ^ half[crc & 15];
        crc = crc >> 4 ^ half[crc & 15];
    }
    return ~crc;
}

uint32_t crc32c_masked(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
