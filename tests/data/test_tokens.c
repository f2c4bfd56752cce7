/* Tests of runner/data/tokens.c and tokens_write.c. */
#include "runner/data/tokens.h"

#include <errno.h>
#include <sys/stat.h>

#include "tests/data/scratch.h"
#include "tests/tap.h"

/* What Megatron's builder writes for the documents [1, 2, 50256] and
 * [4, 50256] with two bytes a token. */
static const unsigned char golden_bin[] = {0x01, 0x00, 0x02, 0x00, 0x50,
                                           0xc4, 0x04, 0x00, 0x50, 0xc4};
static const char golden_idx[] =
    "4d4d4944494458000001000000000000000802000000000000000300000000000000"
    "030000000200000000000000000000000600000000000000000000000000000001"
    "000000000000000200000000000000";

static size_t from_hex(const char *hex, unsigned char *dst)
{
    size_t n = 0;
    unsigned byte;
    for (; sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        dst[n] = (unsigned char)byte;
    return n;
}

static int same_file(const char *path, const void *bytes, size_t n)
{
    struct err err = ERR_INIT;
    size_t have;
    char *data = file_read(path, 1 << 20, &have, &err);
    int same = data && have == n && !memcmp(data, bytes, n);
    free(data);
    return same;
}

static void test_golden(void)
{
    struct err err = ERR_INIT;
    unsigned char idx[128];
    size_t idx_n = from_hex(golden_idx, idx);
    const int32_t one[] = {1, 2, 50256}, two[] = {4, 50256};
    struct tokens_writer *w = tokens_create(scratch("golden"), 50257, &err);
    ok(w && !tokens_add(w, one, 3, &err) && !tokens_end_document(w, &err) &&
           !tokens_add(w, two, 2, &err) && !tokens_end_document(w, &err) &&
           !tokens_finish(w, &err), "two documents are written");
    ok(same_file(scratch("golden.bin"), golden_bin, sizeof golden_bin),
       ".bin is Megatron's byte for byte");
    is_int(idx_n, 82, "the golden index has 82 bytes");
    ok(same_file(scratch("golden.idx"), idx, idx_n),
       ".idx is Megatron's byte for byte");
    char command[128];
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep tmp)\"",
             scratch_dir);
    is_int(system(command), 0, "no temporaries stay");

    struct tokens *t = tokens_open(scratch("golden"), &err);
    if (!ok(t != NULL, "and read again"))
        return;
    int32_t ids[3];
    is_int(tokens_sequences(t), 2, "sequences");
    is_int(tokens_documents(t), 2, "documents");
    is_int(tokens_total(t), 5, "tokens");
    is_int(tokens_item_bytes(t), 2, "bytes a token");
    ok(!tokens_read(t, 1, 0, 2, 50257, ids, &err) && ids[0] == 4 &&
           ids[1] == 50256, "the second sequence");
    ok(tokens_read(t, 1, 1, 1, 50256, ids, &err) == -1 &&
           strstr(err.msg, "golden.bin': document 1, sequence 1, token 1"),
       "a token past the vocabulary names file and document");
    err = ERR_INIT;
    ok(tokens_read(t, 1, 1, 2, 50257, ids, &err) == -1,
       "no reading past a sequence");
    err = ERR_INIT;
    ok(tokens_read(t, 2, 0, 1, 50257, ids, &err) == -1,
       "no reading past the last sequence");
    tokens_close(t);
}

static void test_wide_and_empty(void)
{
    struct err err = ERR_INIT;
    const int32_t ids[] = {70000, 3};
    int32_t back[2];
    struct tokens_writer *w = tokens_create(scratch("wide"), 100000, &err);
    ok(w && !tokens_end_document(w, &err) && !tokens_add(w, ids, 2, &err) &&
           !tokens_end_document(w, &err) && !tokens_end_document(w, &err) &&
           !tokens_finish(w, &err), "empty documents around a full one");
    struct tokens *t = tokens_open(scratch("wide"), &err);
    if (!ok(t != NULL, "are read again"))
        return;
    is_int(tokens_item_bytes(t), 4, "four bytes a token for 100000");
    is_int(tokens_documents(t), 3, "three documents");
    is_int(tokens_sequences(t), 1, "one sequence");
    is_int(tokens_document_of(t, 0), 1, "it is in the second document");
    ok(!tokens_read(t, 0, 0, 2, 100000, back, &err) && back[0] == 70000,
       "a wide token");
    tokens_close(t);
    w = tokens_create(scratch("wide"), 10, &err);
    ok(w && tokens_add(w, ids, 2, &err) == -1,
       "a token outside the vocabulary is not written");
    tokens_abandon(w);
    err = ERR_INIT;
    t = tokens_open(scratch("wide"), &err);
    ok(t != NULL, "an abandoned build leaves the old files");
    tokens_close(t);
    ok(!tokens_create(scratch("no/such/folder"), 10, &err),
       "no folder, no writer");
}

/* One change of the golden pair each, and a word of the message. */
static const struct {
    const char *name;
    int bin_bytes; /* cut or grow to this, -1 as it is */
    int idx_bytes;
    int at, value; /* byte of the index, -1 none */
    const char *says;
} bad[] = {
    {"empty index", -1, 0, -1, 0, "too few for a header"},
    {"short header", -1, 33, -1, 0, "too few for a header"},
    {"magic", -1, -1, 0, 'X', "MMIDIDX"},
    {"version", -1, -1, 9, 2, "version 2"},
    {"float tokens", -1, -1, 17, 7, "number type 7"},
    {"unknown type", -1, -1, 17, 9, "number type 9"},
    {"type 0", -1, -1, 17, 0, "number type 0"},
    {"wider type", -1, -1, 17, 4, "ends at 12"},
    {"more sequences", -1, -1, 18, 3, "header tells of"},
    {"absurd sequences", -1, -1, 25, 0x80, "do not fit"},
    {"absurd marks", -1, -1, 33, 0x80, "do not fit"},
    {"cut index", -1, 81, -1, 0, "header tells of"},
    {"long index", -1, 83, -1, 0, "header tells of"},
    {"negative length", -1, -1, 37, 0x80, "length -"},
    {"long sequence", -1, -1, 38, 3, "ends at"},
    {"pointer back", -1, -1, 50, 4, "starts at byte 4"},
    {"pointer far", -1, -1, 57, 1, "starts at byte"},
    {"first mark", -1, -1, 58, 1, "document mark 0"},
    {"mark back", -1, -1, 66, 3, "document mark 1"},
    {"last mark", -1, -1, 74, 1, "hold 1 of 2"},
    {"cut tokens", 9, -1, -1, 0, "has 9 bytes"},
    {"more tokens", 12, -1, -1, 0, "has 12 bytes"},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = ERR_INIT;
        unsigned char idx[128] = {0}, bin[16] = {0};
        size_t idx_n = from_hex(golden_idx, idx), bin_n = sizeof golden_bin;
        memcpy(bin, golden_bin, bin_n);
        if (bad[i].at >= 0)
            idx[bad[i].at] = (unsigned char)bad[i].value;
        if (bad[i].bin_bytes >= 0)
            bin_n = (size_t)bad[i].bin_bytes;
        if (bad[i].idx_bytes >= 0)
            idx_n = (size_t)bad[i].idx_bytes;
        scratch_write(scratch("bad.bin"), bin, bin_n);
        scratch_write(scratch("bad.idx"), idx, idx_n);
        struct tokens *t = tokens_open(scratch("bad"), &err);
        if (!ok(!t && strstr(err.msg, bad[i].says), "refused: %s", bad[i].name))
            printf("# %s\n", t ? "opened" : err.msg);
        tokens_close(t);
    }
    struct err err = ERR_INIT;
    ok(!tokens_open(scratch("absent"), &err) && err.class == ERR_REQUEST &&
           strstr(err.msg, "koboshi data build"),
       "an absent file is the user's to fix");
}

/* Files of a multimodal build have one byte more a sequence. */
static void test_modes(void)
{
    struct err err = ERR_INIT;
    unsigned char idx[128] = {0};
    size_t idx_n = from_hex(golden_idx, idx);
    scratch_write(scratch("modes.bin"), golden_bin, sizeof golden_bin);
    scratch_write(scratch("modes.idx"), idx, idx_n + 2);
    struct tokens *t = tokens_open(scratch("modes"), &err);
    ok(t && tokens_total(t) == 5, "modes behind the marks are left alone");
    tokens_close(t);
}

static void test_cut_while_open(void)
{
    struct err err = ERR_INIT;
    int lengths[] = {1000};
    int32_t ids[1000];
    scratch_corpus(scratch("cut"), lengths, 1, 0, 256);
    struct tokens *t = tokens_open(scratch("cut"), &err);
    uint64_t before = 0, after = 0;
    ok(t && !tokens_fingerprint(t, &before, &err), "fingerprint");
    ok(t && !truncate(scratch("cut.bin"), 500) &&
           tokens_read(t, 0, 0, 1000, 256, ids, &err) == -1 &&
           strstr(err.msg, "was cut to 500 bytes"),
       "a file cut while in use is an error");
    tokens_close(t);
    err = ERR_INIT;
    scratch_corpus(scratch("cut"), lengths, 1, 1, 256);
    t = tokens_open(scratch("cut"), &err);
    ok(t && !tokens_fingerprint(t, &after, &err) && before != after,
       "other tokens have another fingerprint");
    tokens_close(t);
}

int main(void)
{
    test_golden();
    test_wide_and_empty();
    test_bad();
    test_modes();
    test_cut_while_open();
    return tap_done();
}
