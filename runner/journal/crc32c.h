/* crc32c - the Castagnoli check sum, as TensorBoard's files carry it. */
#ifndef KB_JOURNAL_CRC32C_H
#define KB_JOURNAL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *bytes, size_t n);
/* Rotated and offset, so that sums of data that holds sums stay good. */
uint32_t crc32c_masked(const void *bytes, size_t n);

#endif
