/* learn - text to a byte-level BPE tokenizer, written as a tokenizer.json.
 *
 * The merges are those of Hugging Face's BpeTrainer with all bytes as alphabet
 * and a least frequency of 2: the most frequent pair first, of equal ones that
 * of the lower numbers. Memory grows with the different pieces of the text.
 */
#ifndef KB_DATA_LEARN_H
#define KB_DATA_LEARN_H

#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

struct learn {
    const char *const *files; /* .json and .jsonl, packed or not, are JSONL */
    int files_n;
    const char *key;          /* of JSONL */
    const char *pattern;      /* gpt2, llama3, qwen2 */
    int32_t vocab;            /* with the end-of-document token, the last */
    const char *output;       /* the file */
    size_t document_max_bytes;
};
struct learn_counts {
    int64_t text_bytes, pieces; /* different ones */
    int32_t vocab;              /* fewer where text has no more pairs */
};
int learn_run(const struct learn *learn, struct learn_counts *ret,
              struct err *err);

/* ---- learn_bpe.c -------------------------------------------------------- */

/* A piece of text as numbers of its bytes; symbol is changed. */
struct learn_word {
    int32_t *symbol;
    int32_t n;
    int64_t times;
};
struct learn_merge {
    int32_t left, right, made;
};
/* Numbers 0 .. bytes_n - 1 are there; merges until vocab numbers are made.
 * Token texts: text[i], all by malloc, of which the first bytes_n are given
 * and stay the caller's, as the others become. */
int learn_bpe(struct learn_word *word, int64_t words_n, int32_t bytes_n,
              int32_t vocab, char **text, struct learn_merge **ret_merges,
              int32_t *ret_merges_n, int32_t *ret_vocab, struct err *err);

#endif
