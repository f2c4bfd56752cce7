/* tokenizer - text to token numbers and back.
 *
 * Each kind of tokenizer is a file with one struct tokenizer_kind; the table
 * of kinds is in tokenizer.c. A handle is for one thread; tokenizer_share
 * gives another handle on the same tables.
 */
#ifndef KB_DATA_TOKENIZER_H
#define KB_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/base/str.h"
#include "runner/plan/plan.h"

struct tokenizer;

/* A growing list of token numbers; IDS_INIT, ids_release. */
struct ids {
    int32_t *data; /* owned */
    size_t n, cap;
};
#define IDS_INIT ((struct ids){0})
/* Room for `more` numbers behind n; -1 when memory ran out. */
int ids_reserve(struct ids *ids, size_t more, struct err *err);
void ids_release(struct ids *ids);

/* name: "byte", or a file or folder that a kind knows. NULL on error. */
struct tokenizer *tokenizer_open(const char *name, struct err *err);
struct tokenizer *tokenizer_share(struct tokenizer *t, struct err *err);
void tokenizer_close(struct tokenizer *t);

int32_t tokenizer_vocab(const struct tokenizer *t);
int32_t tokenizer_eod(const struct tokenizer *t); /* -1: it has none */
/* Append the numbers of text. Any bytes are text. */
int tokenizer_encode(struct tokenizer *t, const char *text, size_t text_bytes,
                     struct ids *ids, struct err *err);
/* Append the bytes of n numbers, each in [0, vocab). */
int tokenizer_decode(struct tokenizer *t, const int32_t *ids, size_t n,
                     struct sbuf *out, struct err *err);

/* A tokenizer that is a file fills the keys of conf that it tells (vocabulary,
 * end of document) where they are unset; a file that cannot be used is no error
 * here: ret says it and plan_make decides. -1: out of memory. */
int tokenizer_look(struct conf *conf, struct site_tokenizer *ret,
                   struct err *err);

/* ---- For the kinds ------------------------------------------------------ */

struct tokenizer_kind {
    const char *name;
    bool (*knows)(const char *name);
    /* self of a handle, vocab and eod of *base set; NULL on error. */
    void *(*open)(const char *name, struct tokenizer *base, struct err *err);
    void *(*share)(void *self, struct err *err);
    void (*close)(void *self);
    int (*encode)(void *self, const char *text, size_t text_bytes,
                  struct ids *ids, struct err *err);
    int (*decode)(void *self, const int32_t *ids, size_t n, struct sbuf *out,
                  struct err *err);
};

struct tokenizer {
    const struct tokenizer_kind *kind;
    void *self;
    int32_t vocab, eod;
};

extern const struct tokenizer_kind tok_byte;
extern const struct tokenizer_kind tok_bpe;
extern const struct tokenizer_kind tok_sentencepiece;

#endif
