/* build - text files to a token file.
 *
 * The output is the same for any number of workers.
 * JSONL gives a document a line (the string under `key`), plain text a
 * document a file. What cannot be used (JSON error, no such key, text that is
 * not UTF-8, too long) is told with file and line, counted, and left out;
 * more than bad_max of them end the build without touching the output.
 * A document is its tokens and, if asked, the end-of-document token; an empty
 * document stays a document without tokens, as Megatron's tool stores it.
 *
 * A build that is killed leaves what it wrote beside the output, with a note
 * of how far it came (build_state.h); the same build, started again, goes on
 * there, and its output is the same. Standard input cannot be read twice: a
 * build with it starts anew.
 */
#ifndef KB_DATA_BUILD_H
#define KB_DATA_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

enum build_format {
    BUILD_AUTO, /* .json and .jsonl are JSONL, the rest plain text */
    BUILD_JSONL,
    BUILD_TEXT,
};

struct build_counts {
    int64_t documents, empty, bad, tokens;
    int64_t text_bytes;             /* of the documents */
    int64_t taken_bytes;            /* of the files */
    int64_t total_bytes;            /* of all files, -1 unknown */
    int64_t resumed_bytes;          /* of taken_bytes, by the killed build */
    double wall_s;
};

struct build {
    const char *tokenizer;          /* as tokenizer_open takes it */
    const char *output;             /* prefix; NULL: count only */
    const char *key;                /* of JSONL */
    const char *const *files;       /* "-": standard input */
    int files_n;
    enum build_format format;
    int workers;                    /* threads that encode; 0: one */
    bool append_eod;
    bool replace_invalid;           /* U+FFFD instead of a bad document */
    int64_t bad_max;
    size_t document_max_bytes;
    double keep_each_s;             /* how often it notes how far it is */
    double progress_each_s;         /* 0: four times a second */
    /* May be NULL. line 0: the whole file. */
    void (*on_bad)(void *ctx, const char *file, int64_t line,
                   const char *why);
    void (*on_note)(void *ctx, const char *what);
    void (*on_progress)(void *ctx, const struct build_counts *counts);
    void *ctx;
};

/* ret is filled also on failure, as far as it went. */
int build_run(const struct build *build, struct build_counts *ret,
              struct err *err);

#endif
