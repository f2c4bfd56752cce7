/* proof - that a peer knows the attempt's secret, without sending it: a keyed
 * hash (SipHash-2-4) of the server's nonce and the peer's claims. */
#ifndef KB_COMM_PROOF_H
#define KB_COMM_PROOF_H

#include <stddef.h>
#include <stdint.h>

#include "runner/comm/tables.h"

#define PROOF_NONCE_BYTES 16

uint64_t proof_siphash(const unsigned char key[16], const void *data,
                       size_t bytes);
uint64_t proof_make(const unsigned char secret[CONTROL_SECRET_BYTES],
                    const unsigned char nonce[PROOF_NONCE_BYTES], int rank,
                    int size);

#endif
