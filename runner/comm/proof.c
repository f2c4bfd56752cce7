/* proof - SipHash-2-4 and the proof made of it; see proof.h. */
#include "runner/comm/proof.h"

#include <string.h>

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int n)
{
    while (n--) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static uint64_t little(const unsigned char *p, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

uint64_t proof_siphash(const unsigned char key[16], const void *data,
                       size_t bytes)
{
    const unsigned char *p = data;
    uint64_t k0 = little(key, 8), k1 = little(key + 8, 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du,
                     k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    size_t whole = bytes / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t m = little(p + i, 8);
        v[3] ^= m;
        rounds(v, 2);
        v[0] ^= m;
    }
    uint64_t last = little(p + whole, bytes - whole) | (uint64_t)bytes << 56;
    v[3] ^= last;
    rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t proof_make(const unsigned char secret[CONTROL_SECRET_BYTES],
                    const unsigned char nonce[PROOF_NONCE_BYTES], int rank,
                    int size)
{
    unsigned char said[PROOF_NONCE_BYTES + 8 + CONTROL_SECRET_BYTES - 16];
    int32_t claims[2] = {rank, size};
    memcpy(said, nonce, PROOF_NONCE_BYTES);
    memcpy(said + PROOF_NONCE_BYTES, claims, sizeof claims);
    memcpy(said + PROOF_NONCE_BYTES + sizeof claims, secret + 16,
           CONTROL_SECRET_BYTES - 16);
    return proof_siphash(secret, said, sizeof said);
}
