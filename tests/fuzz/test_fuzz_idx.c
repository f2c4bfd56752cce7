/* Fuzz target: the .idx of a token file whose .bin has 64 bytes. */
#include "runner/data/corpus.h"
#include "tests/fuzz/data.h"

static void use(const struct tokens *t)
{
    struct err err = ERR_INIT;
    struct corpus_facts facts;
    struct ids ids = IDS_INIT;
    int64_t most;
    uint64_t print;
    corpus_measure(t, &facts);
    corpus_verify(t, 1 << 16, &most, &err);
    if (tokens_fingerprint(t, &print, &err))
        abort();
    for (int64_t s = 0; s < tokens_sequences(t); s++)
        if (tokens_document_of(t, s) >= tokens_documents(t))
            abort();
    for (int64_t d = 0; d < tokens_documents(t); d++)
        corpus_document(t, d, 0, 100, 1 << 16, &ids, &err);
    ids_release(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char prefix[PATH_MAX], idx[PATH_MAX];
    static const char bin[64];
    struct err err = ERR_INIT;
    if (!prefix[0]) {
        strcpy(prefix, scratch("input"));
        strcpy(idx, scratch("input.idx"));
        scratch_write(scratch("input.bin"), bin, sizeof bin);
    }
    scratch_write(idx, data, bytes);
    struct tokens *t = tokens_open(prefix, &err);
    if (t)
        use(t);
    else if (!err.msg[0])
        abort();
    tokens_close(t);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 600);
    return tap_done();
}
#endif
