/* Damaged input of every parser of runner/data, by a fixed stream of random
 * changes: it is refused or read, and nothing else. Worth most with the
 * sanitizers of --enable-developer. */
#include "runner/data/corpus.h"
#include "runner/data/jsonl.h"
#include "runner/data/nfc.h"
#include "runner/data/pretok.h"
#include "runner/data/tokenizer.h"
#include "runner/data/tokens.h"

#include "tests/data/scratch.h"
#include "tests/tap.h"

static uint32_t seed = 20240531;

static uint32_t dice(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(seed >> 4) * n) >> 28);
}

/* One to four changes: a byte set, bytes gone, bytes doubled, a bit turned.
 * data has room for twice n. */
static size_t damage(char *data, size_t n)
{
    static const char odd[] = "\"\\{}[]:,u0\xff\x80\x00\x7f-eE.";
    for (uint32_t turns = 1 + dice(4); turns && n > 1; turns--) {
        size_t at = dice((uint32_t)n), some = 1 + dice(8);
        if (some > n - at)
            some = n - at;
        switch (dice(5)) {
        case 0:
            data[at] = (char)dice(256);
            break;
        case 1:
            data[at] = odd[dice(sizeof odd - 1)];
            break;
        case 2:
            data[at] = (char)(data[at] ^ 1 << dice(8));
            break;
        case 3:
            memmove(data + at, data + at + some, n - at - some);
            n -= some;
            break;
        default:
            memmove(data + at + some, data + at, n - at);
            n += some;
        }
    }
    return n;
}

static void fuzz_tokens(void)
{
    struct err err = ERR_INIT;
    static const int lengths[] = {5, 0, 3, 7};
    int opened = 0, refused = 0;
    size_t idx_n, bin_n;
    scratch_corpus(scratch("good"), lengths, 4, 0, 200);
    char *idx = file_read(scratch("good.idx"), 4096, &idx_n, &err);
    char *bin = file_read(scratch("good.bin"), 4096, &bin_n, &err);
    for (int i = 0; i < 3000; i++) {
        char copy[1024];
        memcpy(copy, idx, idx_n);
        size_t n = damage(copy, idx_n);
        scratch_write(scratch("bad.idx"), copy, n);
        scratch_write(scratch("bad.bin"), bin, dice(8) ? bin_n : dice(40));
        err = ERR_INIT;
        struct tokens *t = tokens_open(scratch("bad"), &err);
        if (t) {
            struct corpus_facts facts;
            int64_t most;
            opened++;
            corpus_measure(t, &facts);
            corpus_verify(t, 1 << 30, &most, &err);
            for (int64_t s = 0; s < tokens_sequences(t); s++)
                tokens_document_of(t, s);
        } else {
            refused += err.class == ERR_REQUEST && err.msg[0];
        }
        tokens_close(t);
    }
    ok(opened + refused == 3000 && refused > 1000,
       "3000 token files: %d refused, %d read", refused, opened);
    free(idx);
    free(bin);
}

static void fuzz_jsonl(void)
{
    static const char line[] =
        "{\"id\":[1,-2.5e+3,{\"a\":null}],\"text\":\"\\u00e9\\ud83d\\ude00 "
        "\xe3\x81\x82\\n\",\"x\":true,\"text\":\"last\"}";
    struct text text = TEXT_INIT;
    int good = 0;
    for (int i = 0; i < 60000; i++) {
        char why[JSONL_WHY_BYTES];
        char buf[512];
        memcpy(buf, line, sizeof line - 1);
        size_t n = damage(buf, sizeof line - 1);
        char *copy = malloc(n + !n);
        memcpy(copy, buf, n);
        good += !jsonl_text(copy, n, "text", i % 2, &text, why);
        free(copy);
    }
    ok(good > 1000 && good < 59000, "60000 lines, %d of them good", good);
    text_release(&text);
}

static void fuzz_text(void)
{
    static const char sample[] =
        "It's 'LL a caf\xc3\xa9 e\xcc\x81\xcc\xa3 \xe1\x84\x80\xe1\x85\xa1 "
        "\xe3\x81\x8b\xe3\x82\x99  \r\n\t 12345 \xf0\x9f\x98\x80!? ";
    struct text out = TEXT_INIT;
    int whole = 1;
    for (int i = 0; i < 60000; i++) {
        char buf[256];
        memcpy(buf, sample, sizeof sample - 1);
        size_t n = damage(buf, sizeof sample - 1), sum = 0;
        char *copy = malloc(n + !n);
        memcpy(copy, buf, n);
        for (size_t some; sum < n && whole; sum += some) {
            some = pretok_next((enum pretok)(i % PRETOK_N), copy + sum,
                               copy + n);
            whole &= some > 0 && some <= n - sum;
        }
        out.n = 0;
        whole &= !nfc_add(&out, copy, n, NULL) && !utf8_repair(&out, NULL) &&
                 utf8_valid(out.data, out.n) == out.n;
        free(copy);
    }
    ok(whole, "60000 texts are cut without rest and normalised");
    text_release(&out);
}

static void fuzz_tokenizer(void)
{
    char good[16384], copy[33000], path[PATH_MAX];
    size_t n = (size_t)sprintf(
        good, "{\"added_tokens\":[{\"id\":258,\"content\":\"<s>\"}],"
              "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":true},"
              "\"model\":{\"type\":\"BPE\",\"merges\":[\"l o\",[\"lo\",\"w\"]],"
              "\"vocab\":{\"lo\":256,\"low\":257");
    int next = 256, opened = 0;
    for (int b = 0; b < 256; b++) {
        int as_is = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
                    b >= 0xae;
        n += (size_t)sprintf(good + n, ",\"\\u%04x\":%d", as_is ? b : next++,
                             b);
    }
    n += (size_t)sprintf(good + n, "}}}");
    strcpy(path, scratch("tokenizer.json"));
    for (int i = 0; i < 1500; i++) {
        struct err err = ERR_INIT;
        struct ids ids = IDS_INIT;
        memcpy(copy, good, n);
        /* Mostly where the interesting part is. */
        size_t head = dice(4) ? 250 : n, now;
        char part[16384 * 2];
        memcpy(part, copy, head);
        now = damage(part, head);
        memcpy(part + now, copy + head, n - head);
        scratch_write(path, part, now + n - head);
        struct tokenizer *t = tokenizer_open(path, &err);
        if (t) {
            opened++;
            tokenizer_encode(t, "low <s>lo\xff", 10, &ids, &err);
        }
        tokenizer_close(t);
        ids_release(&ids);
    }
    ok(opened > 0 && opened < 1500, "1500 tokenizer.json, %d opened", opened);
}

int main(void)
{
    fuzz_tokens();
    fuzz_jsonl();
    fuzz_text();
    fuzz_tokenizer();
    return tap_done();
}
