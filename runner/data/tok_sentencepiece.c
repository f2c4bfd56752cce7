/* tok_sentencepiece - SentencePiece's .model files, by its own library, where
 * configure found it. Llama 3's tokenizer.model is a file of tiktoken: a
 * .model is ours when it begins as a protocol buffer with pieces does. */
#include <config.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/file.h"
#include "runner/data/sentencepiece.h"
#include "runner/data/tokenizer.h"

/* The file that name stands for: itself, or in a folder without a
 * tokenizer.json its tokenizer.model. */
static bool find_model(const char *name, char path[PATH_MAX])
{
    struct stat st;
    char other[PATH_MAX];
    size_t n = strlen(name);
    if (stat(name, &st))
        return false;
    if (!S_ISDIR(st.st_mode))
        return n > 6 && !strcmp(name + n - 6, ".model") &&
               str_copy(path, PATH_MAX, name);
    return snprintf(other, PATH_MAX, "%s/tokenizer.json", name) < PATH_MAX &&
           !file_exists(other) &&
           snprintf(path, PATH_MAX, "%s/tokenizer.model", name) < PATH_MAX;
}

static bool sentencepiece_knows(const char *name)
{
    char path[PATH_MAX];
    FILE *f = find_model(name, path) ? fopen(path, "re") : NULL;
    bool ours = f && getc(f) == '\n'; /* field 1, a piece */
    if (f)
        fclose(f);
    return ours;
}

#ifndef HAVE_SENTENCEPIECE

static void *sentencepiece_open(const char *name, struct tokenizer *base,
                                struct err *err)
{
    err_set_class(err, ERR_REQUEST, "data: '%s': SentencePiece's library was "
                  "not there when koboshi was built; install "
                  "libsentencepiece-dev and build again, or give a "
                  "tokenizer.json", name);
    return NULL;
}

const struct tokenizer_kind tok_sentencepiece = {
    .name = "sentencepiece", .knows = sentencepiece_knows,
    .open = sentencepiece_open,
};

#else

#include <stdatomic.h>

struct tok_sentencepiece {
    struct spiece *library;
    atomic_int holders;
};

static void *sentencepiece_open(const char *name, struct tokenizer *base,
                                struct err *err)
{
    char path[PATH_MAX] = "", why[256] = "";
    struct tok_sentencepiece *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    find_model(name, path);
    t->library = spiece_open(path, why, sizeof why);
    if (!t->library) {
        err_set_class(err, ERR_REQUEST, "data: bad tokenizer: '%s': %s", path,
                      why);
        free(t);
        return NULL;
    }
    atomic_init(&t->holders, 1);
    base->vocab = spiece_vocab(t->library);
    base->eod = spiece_eod(t->library);
    return t;
}

static void *sentencepiece_share(void *self, struct err *err)
{
    struct tok_sentencepiece *t = self;
    atomic_fetch_add(&t->holders, 1);
    return t;
}

static void sentencepiece_close(void *self)
{
    struct tok_sentencepiece *t = self;
    if (atomic_fetch_sub(&t->holders, 1) > 1)
        return;
    spiece_close(t->library);
    free(t);
}

static int sentencepiece_encode(void *self, const char *text,
                                size_t text_bytes, struct ids *ids,
                                struct err *err)
{
    const struct tok_sentencepiece *t = self;
    int32_t *got = NULL;
    int64_t n = spiece_encode(t->library, text, text_bytes, &got);
    if (n < 0)
        return err_set(err, "data: SentencePiece cannot encode %zu bytes",
                       text_bytes);
    int rc = ids_reserve(ids, (size_t)n, err);
    if (!rc) {
        memcpy(ids->data + ids->n, got, (size_t)n * sizeof *got);
        ids->n += (size_t)n;
    }
    free(got);
    return rc;
}

static int sentencepiece_decode(void *self, const int32_t *ids, size_t n,
                                struct sbuf *out, struct err *err)
{
    const struct tok_sentencepiece *t = self;
    char *got = NULL;
    int64_t got_n = spiece_decode(t->library, ids, n, &got);
    if (got_n < 0)
        return err_set(err, "data: SentencePiece cannot decode %zu tokens", n);
    sbuf_add(out, got, (size_t)got_n);
    free(got);
    return 0;
}

const struct tokenizer_kind tok_sentencepiece = {
    .name = "sentencepiece", .knows = sentencepiece_knows,
    .open = sentencepiece_open, .share = sentencepiece_share,
    .close = sentencepiece_close, .encode = sentencepiece_encode,
    .decode = sentencepiece_decode,
};

#endif
