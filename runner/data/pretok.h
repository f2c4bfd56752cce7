/* pretok - text to the pieces inside which byte-level BPE merges: what the
 * tokenizers' regular expressions match, by a scanner of our own.
 *
 *   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
 *           |\s+(?!\S)|\s+
 *   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
 *           | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *   qwen2   as llama3 with \p{N}
 *   cl100k  as llama3, but white space that ends the text is one piece
 *   o200k   as llama3, but words end where lower case is followed by upper
 *           case, have their contraction behind them, and / goes with
 *           newlines
 *
 * Letters, numbers and white space are those of Unicode 15.0. Bytes that are
 * not UTF-8 count as neither.
 */
#ifndef KB_DATA_PRETOK_H
#define KB_DATA_PRETOK_H

#include <stddef.h>

enum pretok { PRETOK_GPT2, PRETOK_LLAMA3, PRETOK_QWEN2, PRETOK_CL100K,
              PRETOK_O200K, PRETOK_N };

/* Bytes of the piece that begins at p (p < end), at least 1. */
size_t pretok_next(enum pretok pretok, const char *p, const char *end);
/* The same, a character at a time: what pretok_next is held against. */
size_t pretok_scan(enum pretok pretok, const char *p, const char *end);
/* The expression as tokenizer.json has it, to its kind; PRETOK_N: unknown. */
enum pretok pretok_of_regex(const char *regex);
/* And back; NULL: tokenizer.json has none for it. */
const char *pretok_regex(enum pretok pretok);

#endif
