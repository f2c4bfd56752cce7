/* jsonl - one text out of one line of JSON.
 *
 * A scanner of our own: it builds no tree, and takes what Python's json
 * module takes, so that a corpus has the documents that Megatron's tool would
 * give: duplicate keys (the last one counts), NaN and Infinity, "\u0000".
 */
#ifndef KB_DATA_JSONL_H
#define KB_DATA_JSONL_H

#include <stdbool.h>
#include <stddef.h>

#include "runner/data/text.h"

#define JSONL_WHY_BYTES 160

/* The string under the top-level key of the object in line, into text
 * (replaced). replace_surrogates: half a surrogate pair becomes U+FFFD, else
 * the line is bad. 0, or -1 with the reason and column in why. */
int jsonl_text(const char *line, size_t line_bytes, const char *key,
               bool replace_surrogates, struct text *text,
               char why[JSONL_WHY_BYTES]);

#endif
