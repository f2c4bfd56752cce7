/* sentencepiece - what tok_sentencepiece.c needs of the C++ library. A handle
 * is for any number of threads at once. */
#ifndef KB_DATA_SENTENCEPIECE_H
#define KB_DATA_SENTENCEPIECE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spiece;

/* NULL: why says what is wrong with the file. */
struct spiece *spiece_open(const char *path, char *why, size_t why_bytes);
void spiece_close(struct spiece *s);
int32_t spiece_vocab(const struct spiece *s);
int32_t spiece_eod(const struct spiece *s); /* </s>; -1: none */
/* *ret: by malloc, the caller's. Its length, or -1. */
int64_t spiece_encode(const struct spiece *s, const char *text, size_t n,
                      int32_t **ret);
int64_t spiece_decode(const struct spiece *s, const int32_t *ids, size_t n,
                      char **ret);

#ifdef __cplusplus
}
#endif

#endif
