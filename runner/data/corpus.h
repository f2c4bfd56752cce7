/* corpus - looking into a token file: counts, checks, text. */
#ifndef KB_DATA_CORPUS_H
#define KB_DATA_CORPUS_H

#include <stdint.h>

#include "runner/base/err.h"
#include "runner/base/str.h"
#include "runner/data/tokenizer.h"
#include "runner/data/tokens.h"

enum { CORPUS_BINS_N = 32 };

struct corpus_facts {
    int64_t empty;                   /* documents without tokens */
    int64_t shortest, longest;       /* document, in tokens; empty left out */
    double mean;
    int64_t bin[CORPUS_BINS_N];      /* documents of 2^i .. 2^(i+1) - 1 */
};
void corpus_measure(const struct tokens *t, struct corpus_facts *ret);

/* Tokens first .. first + n of a document, fewer at its end. */
int corpus_document(const struct tokens *t, int64_t document, int64_t first,
                    int64_t n, int64_t vocab, struct ids *ids,
                    struct err *err);
/* Reads every token; each must be in [0, vocab). *ret_max: the largest. */
int corpus_verify(const struct tokens *t, int64_t vocab, int64_t *ret_max,
                  struct err *err);

/* Documents first .. end into w, sequence by sequence. */
int corpus_copy(const struct tokens *t, int64_t first, int64_t end,
                struct tokens_writer *w, struct err *err);

/* ---- repeats.c -----------------------------------------------------------
 * Runs of n tokens inside documents that come more than once. The memory is
 * bounded: of a corpus with too many different runs a sample is kept, by their
 * hash, so that a run is counted wherever it comes or nowhere. */
enum { REPEATS_TOP_N = 10 };
struct repeats {
    int64_t n;
    int64_t runs, repeated; /* looked at; of these, seen before */
    int64_t one_in;         /* of the different runs is in the sample */
    int top_n;
    struct repeat {         /* of the most often seen, those apart */
        int64_t times, document, at; /* first place, in tokens */
    } top[REPEATS_TOP_N];
};
int corpus_repeats(const struct tokens *t, int64_t n, struct repeats *ret,
                   struct err *err);

#endif
