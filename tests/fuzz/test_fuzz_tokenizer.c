/* Fuzz target: tokenizer.json. */
#include "tests/fuzz/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char path[PATH_MAX];
    struct err err = ERR_INIT;
    if (!path[0])
        strcpy(path, scratch("tokenizer.json"));
    scratch_write(path, data, bytes);
    struct tokenizer *t = tokenizer_open(path, &err);
    if (t)
        fuzz_text(t);
    else if (!err.msg[0])
        abort();
    tokenizer_close(t);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 150);
    return tap_done();
}
#endif
