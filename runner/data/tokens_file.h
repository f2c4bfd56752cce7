/* tokens_file - what reader and writer of token files both know. */
#ifndef KB_DATA_TOKENS_FILE_H
#define KB_DATA_TOKENS_FILE_H

#include <stddef.h>

#define TOKENS_MAGIC "MMIDIDX\0" /* 9 bytes with the terminator */
#define TOKENS_MAGIC_BYTES 9
#define TOKENS_VERSION 1
enum {
    TOKENS_OFF_VERSION = 9,
    TOKENS_OFF_DTYPE = 17,
    TOKENS_OFF_SEQUENCES = 18,
    TOKENS_OFF_MARKS = 26,
    TOKENS_HEADER_BYTES = 34,
};

/* Number types by code; bytes 0: not for tokens. */
enum tokens_dtype { TOKENS_U8 = 1, TOKENS_I8, TOKENS_I16, TOKENS_I32,
                    TOKENS_I64, TOKENS_F64, TOKENS_F32, TOKENS_U16 };

#endif
