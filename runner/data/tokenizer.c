/* tokenizer - the table of kinds and what is the same for all. */
#include "runner/data/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"

static const struct tokenizer_kind *const kinds[] = {
    &tok_byte,
    &tok_sentencepiece, /* before: tokenizer.model may be tiktoken's */
    &tok_bpe,
};

struct tokenizer *tokenizer_open(const char *name, struct err *err)
{
    const struct tokenizer_kind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !kind; i++)
        if (kinds[i]->knows(name))
            kind = kinds[i];
    if (!kind) {
        err_set_class(err, ERR_REQUEST,
                      "data: no such tokenizer: '%s'; give byte, a folder or "
                      "file of a tokenizer (tokenizer.json, vocab.json with "
                      "merges.txt, cl100k_base.tiktoken, SentencePiece's "
                      ".model)", name);
        return NULL;
    }
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    *t = (struct tokenizer){.kind = kind, .eod = -1};
    t->self = kind->open(name, t, err);
    if (!t->self) {
        free(t);
        return NULL;
    }
    return t;
}

struct tokenizer *tokenizer_share(struct tokenizer *t, struct err *err)
{
    struct tokenizer *other = malloc(sizeof *other);
    if (!other) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    *other = *t;
    other->self = t->kind->share(t->self, err);
    if (!other->self) {
        free(other);
        return NULL;
    }
    return other;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    t->kind->close(t->self);
    free(t);
}

int32_t tokenizer_vocab(const struct tokenizer *t)
{
    return t->vocab;
}

int32_t tokenizer_eod(const struct tokenizer *t)
{
    return t->eod;
}

int tokenizer_encode(struct tokenizer *t, const char *text, size_t text_bytes,
                     struct ids *ids, struct err *err)
{
    return t->kind->encode(t->self, text, text_bytes, ids, err);
}

int tokenizer_decode(struct tokenizer *t, const int32_t *ids, size_t n,
                     struct sbuf *out, struct err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= t->vocab)
            return err_set(err, "data: token %d is outside the vocabulary of "
                                "%d", ids[i], t->vocab);
    if (t->kind->decode(t->self, ids, n, out, err))
        return -1;
    return out->failed ? err_set(err, "data: out of memory") : 0;
}

int tokenizer_look(struct conf *conf, struct site_tokenizer *ret,
                   struct err *err)
{
    struct err why = ERR_INIT;
    const char *name = conf_text(conf, "data.tokenizer");
    *ret = (struct site_tokenizer){0};
    if (!strcmp(name, "byte") || (conf_is_set(conf, "model.vocab_size") &&
                                  conf_is_set(conf, "data.eod_token")))
        return 0;
    if (!file_exists(name)) {
        snprintf(ret->problem, sizeof ret->problem, "no such file or folder");
        return 0;
    }
    ret->known = true;
    struct tokenizer *t = tokenizer_open(name, &why);
    if (!t) {
        snprintf(ret->problem, sizeof ret->problem, "%.250s", why.msg);
        return 0;
    }
    ret->vocab = t->vocab;
    int rc = plan_conf_tokenizer(conf, t->vocab, t->eod, err);
    tokenizer_close(t);
    return rc;
}

int ids_reserve(struct ids *ids, size_t more, struct err *err)
{
    if (ids->cap - ids->n >= more)
        return 0;
    size_t cap = ids->cap ? ids->cap : 1024;
    while (cap - ids->n < more)
        cap *= 2;
    int32_t *data = realloc(ids->data, cap * sizeof *data);
    if (!data)
        return err_set(err, "data: out of memory for %zu tokens", cap);
    ids->data = data;
    ids->cap = cap;
    return 0;
}

void ids_release(struct ids *ids)
{
    free(ids->data);
    *ids = IDS_INIT;
}
