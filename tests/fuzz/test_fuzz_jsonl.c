/* Fuzz target: a line of JSONL to the text of a document. */
#include "runner/data/jsonl.h"
#include "runner/data/text.h"
#include "tests/fuzz/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const keys[] = {"text", "", "a\nb"};
    struct text text = TEXT_INIT;
    for (int i = 0; i < 6; i++) {
        char why[JSONL_WHY_BYTES] = "";
        int rc = jsonl_text((const char *)data, bytes, keys[i / 2], i % 2,
                            &text, why);
        if (rc && !why[0])
            abort(); /* refused, and nobody knows why */
        if (!rc && (utf8_repair(&text, NULL) ||
                    utf8_valid(text.data, text.n) != text.n))
            abort();
    }
    text_release(&text);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 3000);
    return tap_done();
}
#endif
