/* data - what the fuzz targets of runner/data share: a folder to put files in,
 * and text for a tokenizer that was opened. */
#ifndef KB_TESTS_FUZZ_DATA_H
#define KB_TESTS_FUZZ_DATA_H

#include <limits.h>
#include <stdlib.h>

#include "runner/data/tokenizer.h"
#include "tests/data/scratch.h"
#include "tests/fuzz/driver.h"

/* Every token in range, and decoding takes each number. */
static inline void fuzz_text(struct tokenizer *t)
{
    static const char *const texts[] = {
        "", "low <s>lo\xff </s>", "The 'LL caf\xc3\xa9 e\xcc\x81 \n\n  12345/x",
        "\xe3\x81\x82\xe3\x82\xab\xf0\x9f\x98\x80",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct err err = ERR_INIT;
        struct ids ids = IDS_INIT;
        struct sbuf back = SBUF_INIT;
        if (!tokenizer_encode(t, texts[i], strlen(texts[i]), &ids, &err)) {
            for (size_t k = 0; k < ids.n; k++)
                if (ids.data[k] < 0 || ids.data[k] >= tokenizer_vocab(t))
                    abort();
            tokenizer_decode(t, ids.data, ids.n, &back, &err);
        }
        sbuf_release(&back);
        ids_release(&ids);
    }
}

#endif
