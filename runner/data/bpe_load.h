/* bpe_load - a byte-level BPE tokenizer out of its files: vocab.json with
 * merges.txt, Hugging Face's tokenizer.json, or a file of tiktoken. What of a
 * tokenizer.json would change the tokens and is not known here is refused by
 * name. */
#ifndef KB_DATA_BPE_LOAD_H
#define KB_DATA_BPE_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/bpe.h"
#include "runner/data/bpe_chars.h"
#include "runner/data/pretok.h"

/* A token that is looked for in the text itself. */
struct added {
    char *text; /* owned */
    size_t n;
    int32_t id;
};

struct bpe_model {
    struct bpe *bpe;
    enum pretok pretok;
    struct bpe_chars chars; /* if on, instead of bytes */
    bool nfc;            /* text is brought into normalisation form C */
    bool whole_first;    /* a piece that is a token is that token */
    struct added *added; /* [added_n], longest first */
    size_t added_n;
    bool added_first[256]; /* first bytes of them, added_firsts different */
    int added_firsts;
    int32_t vocab, eod;
    atomic_int holders;
};

/* Which file lies at path: a folder or a file of either kind. */
bool bpe_model_knows(const char *path);
/* The character that a byte-level vocabulary writes for each byte. */
void bpe_alphabet(uint32_t code[256]);
/* With one holder; released by the last. */
struct bpe_model *bpe_model_load(const char *path, struct err *err);
/* ---- bpe_tiktoken.c ------------------------------------------------------ */
bool bpe_tiktoken_knows(const char *path);
/* Into a model with an empty bpe; eod and vocab too. */
int bpe_tiktoken_load(struct bpe_model *model, const char *path,
                      struct err *err);

void bpe_model_release(struct bpe_model *model);

#endif
