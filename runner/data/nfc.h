/* nfc - Unicode normalisation form C, as some tokenizers ask for: characters
 * that were written as letter and marks become one where Unicode has it. */
#ifndef KB_DATA_NFC_H
#define KB_DATA_NFC_H

#include <stdbool.h>
#include <stddef.h>

#include "runner/base/err.h"
#include "runner/data/text.h"

/* True when text is surely in form C as it is (most text is). Bytes that are
 * not UTF-8 stay as they are. */
bool nfc_is_plain(const char *bytes, size_t n);
/* Appends form C of the text to out. */
int nfc_add(struct text *out, const char *bytes, size_t n, struct err *err);

#endif
