/* Fuzz target: merges.txt beside a vocab.json of bytes and a few tokens, and
 * the same bytes as a file of tiktoken. */
#include "tests/fuzz/data.h"

static void write_vocab(const char *path)
{
    static const char *const more[] = {"lo", "low", "ow", "aa", "aaaa", "er",
                                       "lower", "\\u0120l", "\\u0120lo"};
    FILE *f = fopen(path, "w");
    int next = 256, id = 256;
    if (!f)
        abort();
    fputc('{', f);
    for (int b = 0; b < 256; b++) {
        int as_is = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
                    b >= 0xae;
        fprintf(f, "\"\\u%04x\":%d,", as_is ? b : next++, b);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        fprintf(f, "\"%s\":%d,", more[i], id++);
    fprintf(f, "\"<|endoftext|>\":%d}", id);
    fclose(f);
}

static void look(const char *path)
{
    struct err err = ERR_INIT;
    struct tokenizer *t = tokenizer_open(path, &err);
    if (t)
        fuzz_text(t);
    else if (!err.msg[0])
        abort();
    tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char merges[PATH_MAX], tiktoken[PATH_MAX];
    if (!merges[0]) {
        write_vocab(scratch("vocab.json"));
        strcpy(merges, scratch("merges.txt"));
        strcpy(tiktoken, scratch("cl100k_base.tiktoken"));
    }
    scratch_write(merges, data, bytes);
    look(merges);
    scratch_write(tiktoken, data, bytes);
    look(tiktoken);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 120);
    return tap_done();
}
#endif
