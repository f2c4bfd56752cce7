/* Tests of runner/data/tokenizer.c and tok_byte.c. */
#include "runner/data/tokenizer.h"

#include <stdlib.h>

#include "tests/data/scratch.h"
#include "tests/tap.h"

static void test_byte(void)
{
    struct err err = ERR_INIT;
    struct tokenizer *t = tokenizer_open("byte", &err);
    if (!ok(t != NULL, "byte"))
        return;
    is_int(tokenizer_vocab(t), 257, "its vocabulary");
    is_int(tokenizer_eod(t), 256, "its end of document");
    struct ids ids = IDS_INIT;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    ok(!tokenizer_encode(t, all, 256, &ids, &err) && ids.n == 256 &&
           ids.data[0] == 0 && ids.data[255] == 255, "every byte is a token");
    struct sbuf out = SBUF_INIT;
    ok(!tokenizer_decode(t, ids.data, ids.n, &out, &err) && out.len == 256 &&
           !memcmp(out.data, all, 256), "and comes back");
    struct tokenizer *other = tokenizer_share(t, &err);
    ok(other && !tokenizer_encode(other, "x", 1, &ids, &err) && ids.n == 257,
       "numbers are appended");
    ids.data[0] = 257;
    ok(tokenizer_decode(t, ids.data, 1, &out, &err) == -1,
       "no token past the vocabulary");
    ids_release(&ids);
    sbuf_release(&out);
    tokenizer_close(t);
    tokenizer_close(other);
}

int main(void)
{
    struct err err = ERR_INIT;
    test_byte();
    ok(!tokenizer_open("bite", &err) && err.class == ERR_REQUEST,
       "an unknown tokenizer is refused");
    static const char bad[] = "\n\x05""bad";
    scratch_write(scratch("bad.model"), bad, sizeof bad - 1);
    err = ERR_INIT;
    ok(!tokenizer_open(scratch("bad.model"), &err) &&
           err.class == ERR_REQUEST && strstr(err.msg, "bad.model"),
       "a .model that is cut is refused");
    return tap_done();
}
