/* tokens - token files in Megatron's format: PREFIX.bin and PREFIX.idx.
 *
 * .bin: the tokens of all sequences, one after the other. .idx, little-endian:
 * "MMIDIDX\0\0", u64 version 1, u8 code of the number type, u64 S sequences,
 * u64 D document marks, int32 length[S] in tokens, int64 pointer[S] in bytes,
 * int64 mark[D] (mark[d] .. mark[d + 1] are the sequences of document d; the
 * first is 0, the last S), and for multimodal files int8 mode[S].
 *
 * Opening checks the header, the sizes and every entry, so that later reads
 * cannot leave the files. The index is mapped; tokens are read by pread, so
 * that a file that is cut while we run is an error and not a signal.
 * Writing streams: memory does not grow with the corpus, and a reader sees the
 * old pair, no pair, or the new one.
 */
#ifndef KB_DATA_TOKENS_H
#define KB_DATA_TOKENS_H

#include <stdint.h>

#include "runner/base/err.h"

struct tokens;

/* prefix: the path without .bin and .idx. NULL on error; the message names
 * the file and what is wrong with it. */
struct tokens *tokens_open(const char *prefix, struct err *err);
void tokens_close(struct tokens *t);

const char *tokens_prefix(const struct tokens *t);
int64_t tokens_sequences(const struct tokens *t);
int64_t tokens_documents(const struct tokens *t);
int64_t tokens_total(const struct tokens *t);
int tokens_item_bytes(const struct tokens *t); /* of one stored token */
int32_t tokens_length(const struct tokens *t, int64_t sequence);
/* The document that holds a sequence (empty documents hold none), and the
 * first sequence of a document; document == tokens_documents gives S. */
int64_t tokens_document_of(const struct tokens *t, int64_t sequence);
int64_t tokens_document_start(const struct tokens *t, int64_t document);
/* Of the lengths and a sample of the tokens: tells a changed corpus. */
int tokens_fingerprint(const struct tokens *t, uint64_t *ret, struct err *err);

/* Tokens first .. first + n of a sequence into dst. Every token must lie in
 * [0, vocab), else an error naming file, document and place. */
int tokens_read(const struct tokens *t, int64_t sequence, int64_t first,
                int64_t n, int64_t vocab, int32_t *dst, struct err *err);

struct tokens_writer;

/* Two bytes a token if vocab < 65500, else four, as Megatron chooses. */
struct tokens_writer *tokens_create(const char *prefix, int64_t vocab,
                                    struct err *err);
/* How far a writer is, between two documents. */
struct tokens_mark {
    int64_t bin_bytes, sequences_n, marks_n;
};
/* A writer whose temporaries, PREFIX.bin.part and so on, outlive a kill: from
 * the start, or with mark from there on; only one at a time has them. 1 and
 * no writer: what lies there does not reach to the mark. */
int tokens_create_lasting(const char *prefix, int64_t vocab,
                          const struct tokens_mark *mark,
                          struct tokens_writer **ret, struct err *err);
/* What was written so far, on disk. */
int tokens_keep(struct tokens_writer *w, struct tokens_mark *ret,
                struct err *err);
/* Gone, but a lasting writer's temporaries stay. */
void tokens_leave(struct tokens_writer *w);
/* One sequence of n tokens, each in [0, vocab). */
int tokens_add(struct tokens_writer *w, const int32_t *ids, int64_t n,
               struct err *err);
/* The sequences since the last call are one document; none: an empty one. */
int tokens_end_document(struct tokens_writer *w, struct err *err);
int64_t tokens_written(const struct tokens_writer *w);
/* Everything on disk and in place, then the writer is gone; on failure the
 * temporaries are removed (a lasting writer's stay) and what stood there
 * before may be gone too. */
int tokens_finish(struct tokens_writer *w, struct err *err);
/* Remove the temporaries. NULL is allowed. */
void tokens_abandon(struct tokens_writer *w);

#endif
