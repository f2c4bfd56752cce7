/* corpus - see corpus.h. */
#include "runner/data/corpus.h"

#include <inttypes.h>

static int64_t document_tokens(const struct tokens *t, int64_t document)
{
    int64_t n = 0;
    for (int64_t s = tokens_document_start(t, document);
         s < tokens_document_start(t, document + 1); s++)
        n += tokens_length(t, s);
    return n;
}

void corpus_measure(const struct tokens *t, struct corpus_facts *ret)
{
    struct corpus_facts f = {0};
    int64_t full = 0;
    for (int64_t d = 0; d < tokens_documents(t); d++) {
        int64_t n = document_tokens(t, d);
        if (!n) {
            f.empty++;
            continue;
        }
        if (!full++ || n < f.shortest)
            f.shortest = n;
        if (n > f.longest)
            f.longest = n;
        int bin = 63 - __builtin_clzll((unsigned long long)n);
        f.bin[bin < CORPUS_BINS_N ? bin : CORPUS_BINS_N - 1]++;
    }
    f.mean = full ? (double)tokens_total(t) / (double)full : 0;
    *ret = f;
}

int corpus_document(const struct tokens *t, int64_t document, int64_t first,
                    int64_t n, int64_t vocab, struct ids *ids,
                    struct err *err)
{
    if (document < 0 || document >= tokens_documents(t))
        return err_set_class(err, ERR_REQUEST,
                             "data: no document %" PRId64 " in '%s', it has "
                             "%" PRId64, document, tokens_prefix(t),
                             tokens_documents(t));
    for (int64_t s = tokens_document_start(t, document);
         n > 0 && s < tokens_document_start(t, document + 1); s++) {
        int64_t some = tokens_length(t, s) - first;
        if (some <= 0) {
            first = -some;
            continue;
        }
        if (some > n)
            some = n;
        if (ids_reserve(ids, (size_t)some, err) ||
            tokens_read(t, s, first, some, vocab, ids->data + ids->n, err))
            return -1;
        ids->n += (size_t)some;
        n -= some;
        first = 0;
    }
    return 0;
}

int corpus_verify(const struct tokens *t, int64_t vocab, int64_t *ret_max,
                  struct err *err)
{
    enum { SOME = 1 << 14 };
    int32_t ids[SOME];
    int64_t most = -1;
    for (int64_t s = 0; s < tokens_sequences(t); s++) {
        int64_t length = tokens_length(t, s);
        for (int64_t at = 0; at < length; at += SOME) {
            int64_t n = length - at < SOME ? length - at : SOME;
            if (tokens_read(t, s, at, n, vocab, ids, err))
                return -1;
            for (int64_t i = 0; i < n; i++)
                if (ids[i] > most)
                    most = ids[i];
        }
    }
    *ret_max = most;
    return 0;
}

static int copy_sequence(const struct tokens *t, int64_t sequence,
                         struct ids *ids, struct tokens_writer *w,
                         struct err *err)
{
    int64_t n = tokens_length(t, sequence);
    ids->n = 0;
    return ids_reserve(ids, (size_t)n, err) ||
                   tokens_read(t, sequence, 0, n, INT32_MAX, ids->data, err) ||
                   tokens_add(w, ids->data, n, err)
               ? -1
               : 0;
}

int corpus_copy(const struct tokens *t, int64_t first, int64_t end,
                struct tokens_writer *w, struct err *err)
{
    struct ids ids = IDS_INIT;
    int rc = 0;
    for (int64_t d = first; d < end && !rc; d++) {
        for (int64_t s = tokens_document_start(t, d);
             s < tokens_document_start(t, d + 1) && !rc; s++)
            rc = copy_sequence(t, s, &ids, w, err);
        if (!rc)
            rc = tokens_end_document(w, err);
    }
    ids_release(&ids);
    return rc;
}
