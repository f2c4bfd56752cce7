/* tok_byte - a token a byte, and token 256 for the end of a document. Every
 * text has its tokens, nothing is read from a file. */
#include "runner/data/tokenizer.h"

#include <string.h>

enum { BYTE_EOD = 256, BYTE_VOCAB = 257 };

static char no_state;

static bool byte_knows(const char *name)
{
    return !strcmp(name, "byte");
}

static void *byte_open(const char *name, struct tokenizer *base,
                       struct err *err)
{
    base->vocab = BYTE_VOCAB;
    base->eod = BYTE_EOD;
    return &no_state;
}

static void *byte_share(void *self, struct err *err)
{
    return self;
}

static void byte_close(void *self)
{
}

static int byte_encode(void *self, const char *text, size_t text_bytes,
                       struct ids *ids, struct err *err)
{
    if (ids_reserve(ids, text_bytes, err))
        return -1;
    for (size_t i = 0; i < text_bytes; i++)
        ids->data[ids->n++] = (unsigned char)text[i];
    return 0;
}

static int byte_decode(void *self, const int32_t *ids, size_t n,
                       struct sbuf *out, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == BYTE_EOD) {
            sbuf_puts(out, "<|endoftext|>");
            continue;
        }
        char c = (char)ids[i];
        sbuf_add(out, &c, 1);
    }
    return 0;
}

const struct tokenizer_kind tok_byte = {
    .name = "byte", .knows = byte_knows, .open = byte_open,
    .share = byte_share, .close = byte_close, .encode = byte_encode,
    .decode = byte_decode,
};
