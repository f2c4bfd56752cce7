/* verb_data_look - inspect, verify and decode of `koboshi data`: what is in a
 * token file. */
#include "runner/cli/verb_data.h"

#include <inttypes.h>
#include <stdio.h>

#include "runner/base/str.h"
#include "runner/data/corpus.h"
#include "runner/data/tokenizer.h"

struct tokens *open_prefix(struct args *a, struct err *err)
{
    if (a->rest_n != 1) {
        err_set_class(err, ERR_REQUEST,
                      "one PREFIX is needed (PREFIX.bin and PREFIX.idx)");
        return NULL;
    }
    return tokens_open(a->rest[0], err);
}

void put_on_one_line(struct sbuf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if ((unsigned char)text->data[i] < 0x20)
            text->data[i] = ' ';
}

/* ---- inspect ------------------------------------------------------------ */

static void print_facts(const struct tokens *t)
{
    struct corpus_facts f;
    corpus_measure(t, &f);
    printf("%s\n  documents  %" PRId64 " (%" PRId64 " empty)\n"
           "  sequences  %" PRId64 "\n  tokens     %" PRId64 " of %d bytes\n"
           "  length     %" PRId64 " shortest, %.1f mean, %" PRId64
           " longest\n",
           tokens_prefix(t), tokens_documents(t), f.empty,
           tokens_sequences(t), tokens_total(t), tokens_item_bytes(t),
           f.shortest, f.mean, f.longest);
    for (int i = 0; i < CORPUS_BINS_N; i++)
        if (f.bin[i])
            printf("  %10" PRId64 " .. %-10" PRId64 " %" PRId64
                   " documents\n",
                   (int64_t)1 << i, ((int64_t)2 << i) - 1, f.bin[i]);
}

/* The first tokens of a document, as text on one line. */
static int print_start(const struct tokens *t, struct tokenizer *tok,
                       int64_t document, struct err *err)
{
    enum { SHOWN = 64 };
    struct ids ids = IDS_INIT;
    struct sbuf text = SBUF_INIT;
    int rc = corpus_document(t, document, 0, SHOWN, tokenizer_vocab(tok), &ids,
                             err) ||
             tokenizer_decode(tok, ids.data, ids.n, &text, err);
    if (!rc) {
        put_on_one_line(&text);
        printf("  document %" PRId64 ": %s\n", document, text.data);
    }
    ids_release(&ids);
    sbuf_release(&text);
    return rc ? -1 : 0;
}

int run_inspect(struct args *a, struct err *err)
{
    int rc = -1;
    struct tokenizer *tok = NULL;
    struct tokens *t = open_prefix(a, err);
    if (!t)
        return -1;
    print_facts(t);
    if (a->tokenizer && !(tok = tokenizer_open(a->tokenizer, err)))
        goto out;
    int64_t n = tokens_documents(t);
    for (int64_t d = 0; tok && d < n; d = d == 2 && n > 6 ? n - 3 : d + 1)
        if (print_start(t, tok, d, err))
            goto out;
    rc = 0;
out:
    tokenizer_close(tok);
    tokens_close(t);
    return rc;
}

/* ---- verify ------------------------------------------------------------- */

int run_verify(struct args *a, struct err *err)
{
    int64_t vocab = a->vocab >= 0 ? a->vocab : INT32_MAX, most;
    if (a->tokenizer) {
        struct tokenizer *tok = tokenizer_open(a->tokenizer, err);
        if (!tok)
            return -1;
        vocab = tokenizer_vocab(tok);
        tokenizer_close(tok);
    }
    struct tokens *t = open_prefix(a, err);
    if (!t)
        return -1;
    int rc = corpus_verify(t, vocab, &most, err);
    if (!rc)
        printf("%s: good: %" PRId64 " documents, %" PRId64
               " tokens, the largest is %" PRId64 "\n",
               tokens_prefix(t), tokens_documents(t), tokens_total(t), most);
    tokens_close(t);
    return rc;
}

/* ---- decode ------------------------------------------------------------- */

static int print_document(const struct tokens *t, struct tokenizer *tok,
                          int64_t document, struct err *err)
{
    struct ids ids = IDS_INIT;
    struct sbuf text = SBUF_INIT;
    int rc = corpus_document(t, document, 0, INT64_MAX, tokenizer_vocab(tok),
                             &ids, err) ||
             tokenizer_decode(tok, ids.data, ids.n, &text, err);
    if (!rc)
        fwrite(text.data, 1, text.len, stdout);
    ids_release(&ids);
    sbuf_release(&text);
    return rc ? -1 : 0;
}

int run_decode(struct args *a, struct err *err)
{
    if (!a->tokenizer)
        return err_set_class(err, ERR_REQUEST, "decode needs --tokenizer");
    struct tokens *t = open_prefix(a, err);
    struct tokenizer *tok = t ? tokenizer_open(a->tokenizer, err) : NULL;
    int rc = tok ? 0 : -1;
    if (!rc && a->document >= 0)
        rc = print_document(t, tok, a->document, err);
    else
        for (int64_t d = 0; !rc && d < tokens_documents(t); d++)
            rc = print_document(t, tok, d, err);
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = err_set_errno(err, "cannot write the text");
    tokenizer_close(tok);
    tokens_close(t);
    return rc;
}
