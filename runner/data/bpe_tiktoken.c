/* bpe_tiktoken - files of tiktoken: a line a token, its bytes in base64 and
 * its number, which is its rank too. The expression and the end-of-document
 * token are not in the file: its name tells. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/data/bpe_load.h"

enum { FILE_BYTES_MAX = 64 << 20, TOKEN_BYTES_MAX = 1024 };

static const struct known {
    const char *name; /* the file's, without .tiktoken */
    enum pretok pretok;
    int32_t eod, vocab;
    const char *eod_text;
} known[] = {
    {"gpt2", PRETOK_GPT2, 50256, 50257, "<|endoftext|>"},
    {"r50k_base", PRETOK_GPT2, 50256, 50257, "<|endoftext|>"},
    {"p50k_base", PRETOK_GPT2, 50256, 50281, "<|endoftext|>"},
    {"cl100k_base", PRETOK_CL100K, 100257, 100277, "<|endoftext|>"},
    {"o200k_base", PRETOK_O200K, 199999, 200019, "<|endoftext|>"},
    {"o200k_harmony", PRETOK_O200K, 199999, 201088, "<|endoftext|>"},
    /* Llama 3's, 256 special tokens behind the 128000. */
    {"tokenizer.model", PRETOK_LLAMA3, 128001, 128256, "<|end_of_text|>"},
};

static const struct known *find_known(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    size_t n = strlen(name), end = strlen(".tiktoken");
    if (n > end && !strcmp(name + n - end, ".tiktoken"))
        n -= end;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == n && !memcmp(known[i].name, name, n))
            return &known[i];
    return NULL;
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Bytes of base64 up to a blank; their number, or -1. *p is left there. */
static int take_base64(const char **p, char dst[TOKEN_BYTES_MAX])
{
    uint32_t bits = 0;
    int have = 0, n = 0, digit;
    for (; (digit = digit_of(**p)) >= 0; ++*p) {
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        if (n == TOKEN_BYTES_MAX)
            return -1;
        dst[n++] = (char)(bits >> have);
    }
    while (**p == '=')
        ++*p;
    return **p == ' ' ? n : -1;
}

bool bpe_tiktoken_knows(const char *path)
{
    char head[TOKEN_BYTES_MAX * 2] = "", bytes[TOKEN_BYTES_MAX];
    const char *p = head;
    FILE *f = find_known(path) ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    bool good = fgets(head, sizeof head, f) && take_base64(&p, bytes) > 0;
    fclose(f);
    return good;
}

static int take_lines(struct bpe_model *m, const char *path, const char *text,
                      int32_t *ret_vocab, struct err *err)
{
    char bytes[TOKEN_BYTES_MAX], *end;
    int line = 1;
    for (const char *p = text; *p; line++) {
        int n = take_base64(&p, bytes);
        long id = n > 0 ? strtol(p, &end, 10) : -1;
        if (id < 0 || id > INT_MAX || end == p || (*end && *end != '\n'))
            return err_set_class(err, ERR_REQUEST,
                                 "data: bad tokenizer: '%s:%d': not a token "
                                 "in base64 and its number", path, line);
        if (bpe_add_token(m->bpe, (int32_t)id, bytes, (size_t)n, err))
            return err_prefix(err, "data: '%s:%d'", path, line);
        p = end + (*end == '\n');
    }
    *ret_vocab = bpe_vocab(m->bpe);
    return 0;
}

int bpe_tiktoken_load(struct bpe_model *m, const char *path, struct err *err)
{
    const struct known *k = find_known(path);
    char *text = file_read(path, FILE_BYTES_MAX, NULL, err);
    int32_t vocab = 0;
    int rc = text ? take_lines(m, path, text, &vocab, err) : -1;
    free(text);
    for (int32_t id = 0; id < vocab && !rc; id++) {
        size_t n;
        if (bpe_bytes(m->bpe, id, &n) && n > 1)
            rc = bpe_add_merges_to(m->bpe, id, err);
    }
    if (rc)
        return -1;
    m->pretok = k->pretok;
    m->whole_first = true;
    m->vocab = vocab > k->vocab ? vocab : k->vocab;
    size_t n;
    if (bpe_bytes(m->bpe, k->eod, &n))
        return 0; /* another vocabulary under this name: no end is known */
    m->eod = k->eod;
    return bpe_add_token(m->bpe, k->eod, k->eod_text, strlen(k->eod_text),
                         err);
}
