/* verb_data_files - merge, split, dedup-report and train-tokenizer of
 * `koboshi data`. */
#include "runner/cli/verb_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"
#include "runner/data/corpus.h"
#include "runner/data/learn.h"
#include "runner/data/tokenizer.h"

/* Megatron's width of a token file as a vocabulary that gives it. */
static int64_t vocab_of(int item_bytes)
{
    return item_bytes == 2 ? 65499 : INT32_MAX;
}

static int put_documents(const struct tokens *t, int64_t first, int64_t end,
                         const char *prefix, struct err *err)
{
    struct tokens_writer *w = tokens_create(prefix,
                                            vocab_of(tokens_item_bytes(t)),
                                            err);
    if (!w)
        return -1;
    if (corpus_copy(t, first, end, w, err)) {
        tokens_abandon(w);
        return -1;
    }
    int64_t n = tokens_written(w);
    if (tokens_finish(w, err))
        return -1;
    printf("%s: %" PRId64 " documents, %" PRId64 " tokens\n", prefix,
           end - first, n);
    return 0;
}

/* ---- merge -------------------------------------------------------------- */

static int copy_all(struct args *a, struct tokens **in, int64_t *ret_documents,
                    int64_t *ret_tokens, struct err *err)
{
    int widest = 2;
    for (int i = 0; i < a->rest_n; i++) {
        if (!(in[i] = tokens_open(a->rest[i], err)))
            return -1;
        if (tokens_item_bytes(in[i]) != 2)
            widest = 4;
    }
    struct tokens_writer *w = tokens_create(a->build.output, vocab_of(widest),
                                            err);
    int rc = w ? 0 : -1;
    for (int i = 0; i < a->rest_n && !rc; i++) {
        int64_t n = tokens_documents(in[i]);
        rc = corpus_copy(in[i], 0, n, w, err);
        *ret_documents += n;
    }
    if (rc) {
        tokens_abandon(w);
        return -1;
    }
    *ret_tokens = tokens_written(w);
    return tokens_finish(w, err);
}

int run_merge(struct args *a, struct err *err)
{
    int64_t documents = 0, tokens = 0;
    if (!a->build.output || !a->rest_n)
        return err_set_class(err, ERR_REQUEST,
                             "merge needs --output and PREFIX...");
    struct tokens **in = calloc((size_t)a->rest_n, sizeof(*in));
    int rc = in ? copy_all(a, in, &documents, &tokens, err)
                : err_set(err, "out of memory");
    for (int i = 0; in && i < a->rest_n; i++)
        tokens_close(in[i]);
    free(in);
    if (!rc)
        printf("%s: %" PRId64 " documents, %" PRId64 " tokens\n",
               a->build.output, documents, tokens);
    return rc;
}

/* ---- split -------------------------------------------------------------- */

enum { SHARES_MAX = 64 };

/* "98,1,1"; their number, or -1. */
static int take_shares(const char *text, double share[SHARES_MAX],
                       double *ret_sum, struct err *err)
{
    int n = 0;
    char *end = "";
    *ret_sum = 0;
    for (const char *p = text; n < SHARES_MAX; p = end + 1) {
        double v = strtod(p, &end);
        if (end == p || !(v > 0 && v < 1e12) || (*end && *end != ','))
            break;
        share[n++] = v;
        *ret_sum += v;
        if (!*end)
            return n;
    }
    return err_set_class(err, ERR_REQUEST, "--shares: not numbers above 0 "
                         "with commas between: '%s'", text);
}

int run_split(struct args *a, struct err *err)
{
    double share[SHARES_MAX], sum, till = 0;
    char prefix[PATH_MAX];
    if (!a->build.output || !a->shares)
        return err_set_class(err, ERR_REQUEST,
                             "split needs --output, --shares and a PREFIX");
    int n = take_shares(a->shares, share, &sum, err), rc = 0;
    struct tokens *t = n < 0 ? NULL : open_prefix(a, err);
    if (!t)
        return -1;
    int64_t first = 0, all = tokens_documents(t);
    for (int i = 0; i < n && !rc; i++) {
        till += share[i];
        int64_t end = i == n - 1 ? all
                                 : (int64_t)((double)all * till / sum + 0.5);
        if (snprintf(prefix, sizeof prefix, "%s-%d", a->build.output, i) >=
            (int)sizeof prefix)
            rc = err_set_class(err, ERR_REQUEST, "path too long: '%.200s'",
                               a->build.output);
        else
            rc = put_documents(t, first, end, prefix, err);
        first = end;
    }
    tokens_close(t);
    return rc;
}

/* ---- dedup-report ------------------------------------------------------- */

static int print_repeat(const struct tokens *t, struct tokenizer *tok,
                        const struct repeat *r, int64_t n, struct err *err)
{
    struct ids ids = IDS_INIT;
    struct sbuf text = SBUF_INIT;
    printf("  %" PRId64 " times, first in document %" PRId64 " at %" PRId64,
           r->times, r->document, r->at);
    int rc = !tok ? 0
                  : corpus_document(t, r->document, r->at, n,
                                    tokenizer_vocab(tok), &ids, err) ||
                        tokenizer_decode(tok, ids.data, ids.n, &text, err);
    put_on_one_line(&text);
    printf(rc || !tok ? "\n" : ": %.200s\n", text.len ? text.data : "");
    ids_release(&ids);
    sbuf_release(&text);
    return rc ? -1 : 0;
}

int run_dedup_report(struct args *a, struct err *err)
{
    struct repeats r;
    if (a->run < 1 || a->run > 1 << 16)
        return err_set_class(err, ERR_REQUEST, "--ngram: must be 1 to 65536");
    struct tokens *t = open_prefix(a, err);
    struct tokenizer *tok = NULL;
    int rc = t && (!a->tokenizer || (tok = tokenizer_open(a->tokenizer, err)))
                 ? corpus_repeats(t, a->run, &r, err)
                 : -1;
    if (!rc) {
        printf("%s: %.2f %% of the runs of %" PRId64 " tokens were there "
               "before", tokens_prefix(t),
               r.runs ? 100.0 * (double)r.repeated / (double)r.runs : 0,
               a->run);
        if (r.one_in > 1)
            printf(" (by one in %" PRId64 " different runs)", r.one_in);
        putchar('\n');
    }
    for (int i = 0; !rc && i < r.top_n; i++)
        rc = print_repeat(t, tok, &r.top[i], a->run, err);
    tokenizer_close(tok);
    tokens_close(t);
    return rc;
}

/* ---- train-tokenizer ---------------------------------------------------- */

int run_train_tokenizer(struct args *a, struct err *err)
{
    struct learn_counts counts;
    if (!a->build.output || !a->rest_n || a->vocab < 0 ||
        a->vocab > INT32_MAX)
        return err_set_class(err, ERR_REQUEST, "train-tokenizer needs "
                             "--output, --vocab and files");
    if (take_files(a, err))
        return -1;
    struct learn learn = {
        .files = (const char *const *)a->file, .files_n = a->files_n,
        .key = a->build.key, .pattern = a->pattern,
        .vocab = (int32_t)a->vocab, .output = a->build.output,
        .document_max_bytes = a->build.document_max_bytes,
    };
    if (learn_run(&learn, &counts, err))
        return -1;
    printf("%s: %d tokens, of %" PRId64 " bytes of text with %" PRId64
           " different pieces\n", learn.output, counts.vocab,
           counts.text_bytes, counts.pieces);
    return 0;
}
