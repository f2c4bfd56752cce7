/* bpe_chars - BPE over characters, as Llama 2's and Mistral's tokenizer.json
 * have it: spaces are written U+2581, one may stand before the text, and a
 * character that is no token is its bytes' tokens <0x00> .. <0xFF>, or the
 * unknown token.
 */
#ifndef KB_DATA_BPE_CHARS_H
#define KB_DATA_BPE_CHARS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/base/str.h"
#include "runner/data/bpe.h"
#include "runner/data/text.h"

/* Where text is cut before it is merged. */
enum chars_cut {
    CHARS_CUT_NONE,
    CHARS_CUT_WORDS, /* before a space behind something else */
    CHARS_CUT_EACH,  /* before each space */
};
/* Which part of the text gets a space in front. */
enum chars_front { CHARS_FRONT_NONE, CHARS_FRONT_FIRST, CHARS_FRONT_ALWAYS };

struct bpe_chars {
    bool on;
    bool normalizes;         /* by a normalizer: its own space comes first */
    bool prepends;           /* always one in front */
    bool spaces;             /* become U+2581 */
    enum chars_front front;  /* unless there is one */
    enum chars_cut cut;
    bool fallback, fuse_unknown;
    bool back_spaces, strip; /* decoding: U+2581 to spaces, less the first */
    char unknown_text[64];   /* "": characters that are no token are lost */
    int32_t unknown;         /* -1: none */
    int32_t byte[256];       /* -1: none */
};

/* Is a tokenizer.json of this sort? Then take what it says, before its
 * vocabulary, and finish behind its merges. */
bool bpe_chars_fit(const json_t *root);
int bpe_chars_take(struct bpe_chars *chars, const json_t *root,
                   const char *path, struct err *err);
int bpe_chars_finish(struct bpe_chars *chars, struct bpe *bpe,
                     struct err *err);

/* A part of the text between added tokens, as the vocabulary writes it. */
int bpe_chars_normalize(const struct bpe_chars *chars, const char *p, size_t n,
                        bool first, struct text *out, struct err *err);
/* Bytes of the piece at p (p < end). */
size_t bpe_chars_next(const struct bpe_chars *chars, const char *p,
                      const char *end);
/* As bpe_encode. */
int64_t bpe_chars_encode(const struct bpe_chars *chars, const struct bpe *bpe,
                         struct bpe_work *work, const char *p, size_t n,
                         int32_t *out);
void bpe_chars_decode(const struct bpe_chars *chars, const struct bpe *bpe,
                      const int32_t *ids, size_t n, struct sbuf *out);

#endif
