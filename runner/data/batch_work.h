/* batch_work - a build's documents in batches, worked on by threads.
 *
 * A batch is filled with raw lines or texts by the reader, turned into tokens
 * by a worker, and taken off in the order it was filled, so that the output
 * is the same for any number of workers.
 */
#ifndef KB_DATA_BATCH_WORK_H
#define KB_DATA_BATCH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/build.h"
#include "runner/data/build_state.h"
#include "runner/data/text.h"
#include "runner/data/tokenizer.h"

#define DOC_WHY_BYTES 192

/* One document: where its raw text lies, then what became of it. */
struct doc {
    size_t at, n;       /* in batch->raw */
    int file;           /* of the build's list */
    int64_t line;       /* 0: the whole file */
    bool jsonl;
    const char *why;    /* bad, or NULL; owned */
    size_t ids_n;       /* behind those of the document before */
    size_t text_bytes;
};

struct batch_docs {
    struct text raw;
    struct doc *doc;    /* [docs_n] */
    size_t docs_n, docs_cap;
    struct ids ids;
    struct err err;     /* not the documents' fault */
    struct build_place end; /* of the input, behind the last document */
};

struct pool;

/* workers threads, each with its own handle on tokenizer. */
struct pool *pool_create(const struct build *build,
                         struct tokenizer *tokenizer, int workers,
                         struct err *err);
void pool_destroy(struct pool *pool);
/* An empty batch to fill, or NULL: take one off first. */
struct batch_docs *pool_begin(struct pool *pool);
/* The batch begun last is full. */
void pool_submit(struct pool *pool);
/* The oldest batch when it is done; wait: until it is. NULL: none is, or none
 * was submitted. It stays valid until pool_give_back. */
struct batch_docs *pool_take(struct pool *pool, bool wait);
void pool_give_back(struct pool *pool);

/* A document more, its raw text being raw[at ..]. */
int batch_add(struct batch_docs *batch, struct doc doc, struct err *err);
/* A bad document of which only the reason is known. why is copied. */
int batch_add_bad(struct batch_docs *batch, struct doc doc, const char *why,
                  struct err *err);

#endif
