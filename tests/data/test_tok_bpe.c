/* Tests of runner/data/tok_bpe.c and bpe_load.c: small tokenizer.json files
 * made here, and GPT-2's own vocabulary where it lies. */
#include "runner/data/tokenizer.h"

#include <stdlib.h>

#include "tests/data/scratch.h"
#include "tests/tap.h"

static int encodes(struct tokenizer *t, const char *text, const int32_t *want)
{
    struct err err = ERR_INIT;
    struct ids ids = IDS_INIT;
    struct sbuf back = SBUF_INIT;
    size_t n = 0;
    while (want[n] >= 0)
        n++;
    int same = !tokenizer_encode(t, text, strlen(text), &ids, &err) &&
               ids.n == n;
    for (size_t i = 0; i < n && same; i++)
        same = ids.data[i] == want[i];
    for (size_t i = 0; !same && i < ids.n; i++)
        printf("%s%d", i ? ", " : "# got ", ids.data[i]);
    printf(same ? "" : "\n");
    same = same && !tokenizer_decode(t, ids.data, ids.n, &back, &err) &&
           back.len == strlen(text) && !memcmp(back.data, text, back.len);
    ids_release(&ids);
    sbuf_release(&back);
    return same;
}

/* ---- GPT-2 -------------------------------------------------------------- */

/* As tiktoken and Hugging Face's tokenizers give them. */
static const struct {
    const char *text;
    int32_t ids[40];
} golden[] = {
    {"Hello, world!", {15496, 11, 995, 0, -1}},
    {"It's 2024; we've   two  spaces\n\n\nand\ttabs ",
     {1026, 338, 48609, 26, 356, 1053, 220, 220, 734, 220, 9029, 628, 198,
      392, 197, 8658, 82, 220, -1}},
    {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe3\x83\x86\xe3\x82\xad"
     "\xe3\x82\xb9\xe3\x83\x88\xe3\x80\x82",
     {33768, 98, 17312, 105, 45739, 252, 5641, 24336, 25084, 43302, 16764,
      -1}},
    {"na\xc3\xafve caf\xc3\xa9 \xe2\x80\x94 100%",
     {2616, 38776, 40304, 851, 1802, 4, -1}},
    {"<|endoftext|>", {27, 91, 437, 1659, 5239, 91, 29, -1}},
    {"supercalifragilisticexpialidocious antidisestablishmentarianism",
     {16668, 9948, 361, 22562, 346, 396, 501, 42372, 498, 312, 32346, 1885,
      29207, 44390, 3699, 1042, -1}},
    {"\xc2\xa0\xe3\x80\x80x", {1849, 5099, 222, 87, -1}},
    {"'S 's ''s", {6, 50, 705, 82, 10148, 82, -1}},
};

static const char *gpt2_folder(void)
{
    static const char *const places[] = {
        TESTS_DIR "/../../shared/data/gpt2",
        TESTS_DIR "/../../../shared/data/gpt2"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/vocab.json", places[i]);
        if (file_exists(path))
            return places[i];
    }
    return NULL;
}

static void test_gpt2(void)
{
    struct err err = ERR_INIT;
    const char *folder = gpt2_folder();
    if (!folder) {
        ok(1, "GPT-2's vocabulary # SKIP ../shared/data/gpt2 is not there");
        return;
    }
    struct tokenizer *t = tokenizer_open(folder, &err);
    if (!ok(t != NULL, "GPT-2's vocabulary")) {
        printf("# %s\n", err.msg);
        return;
    }
    is_int(tokenizer_vocab(t), 50257, "its size");
    is_int(tokenizer_eod(t), 50256, "its end of document");
    struct tokenizer *other = tokenizer_share(t, &err);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        ok(encodes(t, golden[i].text, golden[i].ids) &&
               encodes(other, golden[i].text, golden[i].ids) &&
               encodes(t, golden[i].text, golden[i].ids),
           "GPT-2: %zu, cold, shared and warm", i);
    tokenizer_close(t);
    ok(encodes(other, golden[0].text, golden[0].ids),
       "a shared handle outlives the first");
    tokenizer_close(other);
}

/* ---- Files made here ---------------------------------------------------- */

/* All bytes, then l, o -> lo, lo w -> low; with `parts` in the file. */
static const char *write_json(const char *parts, const char *merges,
                              const char *more_vocab)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", scratch("tokenizer.json"));
    FILE *f = fopen(path, "w");
    fprintf(f, "{%s\"model\":{\"type\":\"BPE\",\"vocab\":{", parts);
    int next = 256;
    for (int b = 0; b < 256; b++) {
        int as_is = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
                    b >= 0xae;
        fprintf(f, "\"\\u%04x\":%d,", as_is ? b : next++, b);
    }
    fprintf(f, "\"lo\":256,\"low\":257%s},\"merges\":%s}}", more_vocab,
            merges);
    fclose(f);
    return path;
}

#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
static const char bytes_only[] =
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},";

static void test_json(void)
{
    struct err err = ERR_INIT;
    static const char added[] =
        "\"added_tokens\":[{\"id\":258,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":259,\"content\":\"<s>>\"},{\"id\":260,\"content\":\"</s>\"}],"
        "\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":true},";
    const char *path =
        write_json(added, "[[\"l\",\"o\"],[\"lo\",\"w\"]]", "");
    struct tokenizer *t = tokenizer_open(path, &err);
    if (!ok(t != NULL, "a tokenizer.json")) {
        printf("# %s\n", err.msg);
        return;
    }
    is_int(tokenizer_vocab(t), 261, "its size");
    is_int(tokenizer_eod(t), 260, "its end of document");
    ok(encodes(t, "low lo", (int32_t[]){257, ' ', 256, -1}), "merges");
    ok(encodes(t, "lo<s>w<s>>", (int32_t[]){256, 258, 'w', 259, -1}),
       "added tokens in the text, the longest");
    ok(encodes(t, "<s><s", (int32_t[]){258, '<', 's', -1}), "and their parts");
    ok(encodes(t, "", (int32_t[]){-1}), "no text");
    ok(encodes(t, "\xe3\x81\x82", (int32_t[]){0xe3, 0x81, 0x82, -1}),
       "bytes of other characters");
    tokenizer_close(t);

    /* A token that no merge makes, taken whole. */
    t = tokenizer_open(write_json(bytes_only, "[\"l o\"]", ",\"xyz\":258"),
                       &err);
    ok(t && encodes(t, "xyz", (int32_t[]){'x', 'y', 'z', -1}), "by merges");
    tokenizer_close(t);
    path = write_json(bytes_only, "[\"l o\"],\"ignore_merges\":true",
                      ",\"xyz\":258");
    t = tokenizer_open(path, &err);
    ok(t && encodes(t, "xyz", (int32_t[]){258, -1}), "ignore_merges");
    tokenizer_close(t);

    t = tokenizer_open(write_json("\"normalizer\":{\"type\":\"NFC\"},"
                                  BYTE_LEVEL, "[]", ""), &err);
    struct ids ids = IDS_INIT;
    ok(t && !tokenizer_encode(t, "xe\xcc\x81", 4, &ids, &err) &&
           ids.n == 3 && ids.data[1] == 0xc3 && ids.data[2] == 0xa9,
       "normalisation form C");
    ids_release(&ids);
    tokenizer_close(t);

    /* By its folder, with a tokenizer_config.json beside it. */
    static const char config[] = "{\"eos_token\":{\"content\":\"low\"}}";
    scratch_write(scratch("tokenizer_config.json"), config, sizeof config - 1);
    t = tokenizer_open(scratch_dir, &err);
    ok(t && tokenizer_eod(t) == 257, "tokenizer_config.json names the end");
    tokenizer_close(t);
    unlink(scratch("tokenizer_config.json"));
}

/* ---- Characters with byte fallback -------------------------------------- */

#define SPACE "\xe2\x96\x81"

/* Numbers: 0 <unk>, 1 <s>, 2.. the bytes, 258.. the rest. */
static const char *write_chars(const char *parts, const char *options)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", scratch("chars.json"));
    FILE *f = fopen(path, "w");
    fprintf(f, "{%s\"added_tokens\":[{\"id\":1,\"content\":\"<s>\"}],"
               "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",%s"
               "\"vocab\":{\"<unk>\":0,\"<s>\":1,", parts, options);
    for (int b = 0; b < 256; b++)
        fprintf(f, "\"<0x%02X>\":%d,", (unsigned)b, 2 + b);
    fprintf(f, "\"" SPACE "\":258,\"a\":259,\"b\":260,\"ab\":261,\"" SPACE
               "ab\":262},\"merges\":[\"a b\",\"" SPACE " ab\"]}}");
    fclose(f);
    return path;
}

static void test_chars(void)
{
    struct err err = ERR_INIT;
    static const char back[] = "\"decoder\":{\"type\":\"Sequence\","
        "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\""
        SPACE "\"},\"content\":\" \"},{\"type\":\"Strip\","
        "\"content\":\" \",\"start\":1,\"stop\":0}]},";
    static const char llama[] = "\"normalizer\":{\"type\":\"Sequence\","
        "\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
        "\"content\":\"" SPACE "\"}]},\"pre_tokenizer\":null,";
    static const char first[] = "\"pre_tokenizer\":{\"type\":\"Metaspace\","
        "\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"first\","
        "\"split\":false},";
    char parts[1024];
    snprintf(parts, sizeof parts, "%s%s", back, llama);
    struct tokenizer *t =
        tokenizer_open(write_chars(parts, "\"byte_fallback\":true,"), &err);
    if (!ok(t != NULL, "characters with byte fallback")) {
        printf("# %s\n", err.msg);
        return;
    }
    ok(encodes(t, "ab ab", (int32_t[]){262, 262, -1}), "a space in front");
    ok(encodes(t, "a  \xc3\xa9", (int32_t[]){258, 259, 258, 258, 2 + 0xc3,
                                             2 + 0xa9, -1}),
       "bytes of what is no token");
    ok(encodes(t, "\xff", (int32_t[]){258, 2 + 0xff, -1}), "and of no UTF-8");
    tokenizer_close(t);
    snprintf(parts, sizeof parts, "%s%s", back, first);
    t = tokenizer_open(write_chars(parts, "\"fuse_unk\":true,"), &err);
    struct ids ids = IDS_INIT;
    ok(t && !tokenizer_encode(t, "ab<s>abxyb", 10, &ids, &err) &&
           ids.n == 5 && ids.data[0] == 262 && ids.data[1] == 1 &&
           ids.data[2] == 261 && ids.data[3] == 0 && ids.data[4] == 260,
       "a space before the first part alone, unknown ones fused");
    ids_release(&ids);
    tokenizer_close(t);
    ok(!tokenizer_open(write_chars("\"pre_tokenizer\":{\"type\":"
                                   "\"Metaspace\",\"prepend_scheme\":"
                                   "\"often\"},", ""), &err) &&
           strstr(err.msg, "prepend_scheme that is not known here: 'often'"),
       "another scheme is refused");
}

/* ---- tiktoken's files --------------------------------------------------- */

static void put_base64(FILE *f, const char *bytes, size_t n, int id)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < n ? (unsigned char)bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            fputc(i + k > n ? '=' : digits[bits >> (18 - 6 * k) & 63], f);
    }
    fprintf(f, " %d\n", id);
}

static const char *write_tiktoken(const char *name, const char *more)
{
    static const char *const words[] = {"ab", "bc", "abc", "cd", "abcd"};
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", scratch(name));
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        put_base64(f, &byte, 1, i);
    }
    for (int i = 0; i < 5; i++)
        put_base64(f, words[i], strlen(words[i]), 256 + i);
    fputs(more, f);
    fclose(f);
    return path;
}

static void test_tiktoken(void)
{
    struct err err = ERR_INIT;
    struct tokenizer *t =
        tokenizer_open(write_tiktoken("r50k_base.tiktoken", ""), &err);
    if (!ok(t != NULL, "a file of tiktoken"))
        printf("# %s\n", err.msg);
    ok(t && tokenizer_vocab(t) == 50257 && tokenizer_eod(t) == 50256,
       "size and end by its name");
    ok(t && encodes(t, "abc bcd abcdx", (int32_t[]){258, ' ', 257, 'd', ' ',
                                                    260, 'x', -1}),
       "merges by the number of what they make");
    tokenizer_close(t);
    t = tokenizer_open(write_tiktoken("tokenizer.model", ""), &err);
    ok(t && tokenizer_vocab(t) == 128256 && tokenizer_eod(t) == 128001,
       "Llama 3's tokenizer.model");
    tokenizer_close(t);
    static const char *const more[] = {"YQ== 7\n", "!!\n", "enp6\n",
                                       "enp6 x\n", "enp6 -1\n",
                                       "enp6 300 4\n"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        err = ERR_INIT;
        t = tokenizer_open(write_tiktoken("gpt2.tiktoken", more[i]), &err);
        ok(!t && strstr(err.msg, "gpt2.tiktoken:262"), "refused: line %zu", i);
        tokenizer_close(t);
    }
    err = ERR_INIT;
    t = tokenizer_open(write_tiktoken("other.tiktoken", ""), &err);
    ok(!t, "a name that tells nothing is refused");
    tokenizer_close(t);
}

static const struct {
    const char *name, *parts, *merges, *more_vocab, *says;
} bad[] = {
    {"normalizer", "\"normalizer\":{\"type\":\"Lowercase\"},", "[]", "",
     "normalizer that is not known here: 'Lowercase'"},
    {"pattern", "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
     "\"\\\\w+\"},\"behavior\":\"Isolated\"},", "[]", "", "'\\w+'"},
    {"pre_tokenizer", "\"pre_tokenizer\":{\"type\":\"Whitespace\"},", "[]", "",
     "'Whitespace'"},
    {"prefix space", "\"pre_tokenizer\":{\"type\":\"ByteLevel\","
     "\"add_prefix_space\":true},", "[]", "", "add_prefix_space"},
    {"strip", BYTE_LEVEL "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\","
     "\"lstrip\":true}],", "[]", "", "lstrip"},
    {"added", BYTE_LEVEL "\"added_tokens\":[{\"content\":\"<s>\"}],", "[]", "",
     "without text or number"},
    {"merge", bytes_only, "[\"lo\"]", "", "without a space"},
    {"merge of what is not there", bytes_only, "[\"q q\"]", "", "'qq'"},
    {"merge type", bytes_only, "[7]", "", "a merge that is none"},
    {"number", bytes_only, "[]", ",\"xyz\":\"a\"", "without a number"},
    {"number twice", bytes_only, "[]", ",\"xyz\":257", "twice"},
    {"dropout", bytes_only, "[],\"dropout\":0.1", "", "dropout"},
    {"byte fallback", bytes_only, "[],\"byte_fallback\":true", "",
     "byte_fallback"},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = ERR_INIT;
        const char *path = write_json(bad[i].parts, bad[i].merges,
                                      bad[i].more_vocab);
        struct tokenizer *t = tokenizer_open(path, &err);
        if (!ok(!t && strstr(err.msg, bad[i].says), "refused: %s",
                bad[i].name))
            printf("# %s\n", t ? "opened" : err.msg);
        tokenizer_close(t);
    }
    struct err err = ERR_INIT;
    static const char other[] = "{" BYTE_LEVEL
                                "\"model\":{\"vocab\":{\"a\":0}}}";
    scratch_write(scratch("other.json"), other, sizeof other - 1);
    ok(!tokenizer_open(scratch("other.json"), &err) &&
           strstr(err.msg, "byte 0"), "a vocabulary without bytes");
    err = ERR_INIT;
    scratch_write(scratch("other.json"), "[1]", 3);
    ok(!tokenizer_open(scratch("other.json"), &err) &&
           strstr(err.msg, "is it a tokenizer.json"), "another JSON file");
    err = ERR_INIT;
    ok(!tokenizer_open(scratch("absent.json"), &err), "an absent file");
}

int main(void)
{
    test_gpt2();
    test_json();
    test_chars();
    test_tiktoken();
    test_bad();
    return tap_done();
}
