/* Tests of runner/data/bpe.c on a small vocabulary against the plain rule. */
#include "runner/data/bpe.h"

#include <stdlib.h>

#include "runner/base/clock.h"
#include "runner/data/bpe_private.h"
#include "tests/tap.h"

static const char *const merges[][2] = {
    {"a", "a"}, {"a", "b"}, {"b", "c"}, {"aa", "aa"}, {"ab", "c"},
    {"c", "a"}, {"aa", "b"}, {"aaaa", "aaaa"}, {"bc", "bc"}, {"ca", "ab"},
};
enum { MERGES_N = sizeof merges / sizeof *merges };

static struct bpe *small_bpe(void)
{
    struct err err = ERR_INIT;
    struct bpe *b = bpe_create(&err);
    int32_t id = 0;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        if (bpe_add_token(b, id++, &byte, 1, &err))
            return NULL;
    }
    for (int i = 0; i < MERGES_N; i++) {
        char both[32];
        sprintf(both, "%s%s", merges[i][0], merges[i][1]);
        if (bpe_find(b, both, strlen(both)) < 0 &&
            bpe_add_token(b, id++, both, strlen(both), &err))
            return NULL;
    }
    for (int i = 0; i < MERGES_N; i++)
        if (bpe_add_merge(b, bpe_find(b, merges[i][0], strlen(merges[i][0])),
                          bpe_find(b, merges[i][1], strlen(merges[i][1])),
                          &err))
            return NULL;
    return bpe_finish(b, &err) ? NULL : b;
}

/* The rule as it is written: the first merge of the list that any pair has,
 * at its leftmost place, again and again. */
static size_t plain_rule(const struct bpe *b, const char *text, size_t n,
                         int32_t *id)
{
    for (size_t i = 0; i < n; i++)
        id[i] = bpe_find(b, text + i, 1);
    for (int m = 0; m < MERGES_N;) {
        int32_t l = bpe_find(b, merges[m][0], strlen(merges[m][0]));
        int32_t r = bpe_find(b, merges[m][1], strlen(merges[m][1]));
        size_t at = 0;
        while (at + 1 < n && (id[at] != l || id[at + 1] != r))
            at++;
        if (at + 1 >= n) {
            m++;
            continue;
        }
        char both[32];
        sprintf(both, "%s%s", merges[m][0], merges[m][1]);
        id[at] = bpe_find(b, both, strlen(both));
        memmove(&id[at + 1], &id[at + 2], (n - at - 2) * sizeof *id);
        n--;
        m = 0;
    }
    return n;
}

static void test_rule(const struct bpe *b)
{
    struct bpe_work work = {0};
    static char text[400];
    static int32_t got[400], want[400];
    int same = 1;
    uint32_t seed = 1;
    for (int round = 0; round < 2000 && same; round++) {
        size_t n = 1 + (seed >> 8) % (round % 4 ? 30 : 300);
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = "aaabbcx"[(seed >> 16) % 7];
        }
        int64_t got_n = bpe_encode(b, &work, text, n, got);
        size_t want_n = plain_rule(b, text, n, want);
        same = got_n == (int64_t)want_n &&
               !memcmp(got, want, want_n * sizeof *want);
    }
    ok(same, "short and long pieces follow the rule");
    bpe_work_release(&work);
}

static void test_long(const struct bpe *b)
{
    enum { N = 1 << 20 };
    struct bpe_work work = {0};
    char *text = malloc(N);
    int32_t *got = malloc(N * sizeof *got);
    memset(text, 'a', N);
    double start_s = clock_mono_s();
    int64_t n = bpe_encode(b, &work, text, N, got);
    double took_s = clock_mono_s() - start_s;
    is_int(n, N / 8, "a run of one letter");
    ok(took_s < 20, "is not quadratic");
    printf("# %.2f s for 1 MiB\n", took_s);
    free(text);
    free(got);
    bpe_work_release(&work);
}

/* ---- The walk against the merging ---------------------------------------- */

static uint32_t seed = 7;

static uint32_t dice(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(seed >> 4) * n) >> 28);
}

/* Merges of any two tokens, so that some are never made, and now and then a
 * merge older than its parts. */
static struct bpe *random_bpe(int merges_n)
{
    struct err err = ERR_INIT;
    struct bpe *b = bpe_create(&err);
    int32_t id = 0, letters[3] = {'a', 'b', 'c'}, token[64];
    int tokens_n = 3;
    for (; id < 256; id++) {
        char byte = (char)id;
        bpe_add_token(b, id, &byte, 1, &err);
    }
    memcpy(token, letters, sizeof letters);
    struct {
        int32_t left, right;
    } merge[64];
    for (int i = 0; i < merges_n; i++) {
        char both[64];
        size_t l_n, r_n;
        merge[i].left = token[dice((uint32_t)tokens_n)];
        merge[i].right = token[dice((uint32_t)tokens_n)];
        const char *l = bpe_bytes(b, merge[i].left, &l_n);
        memcpy(both, l, l_n);
        const char *r = bpe_bytes(b, merge[i].right, &r_n);
        if (l_n + r_n > 24) {
            i--;
            continue;
        }
        memcpy(both + l_n, r, r_n);
        if (bpe_find(b, both, l_n + r_n) < 0) {
            bpe_add_token(b, id, both, l_n + r_n, &err);
            token[tokens_n++] = id++;
        }
    }
    if (dice(8) == 0) {
        int x = (int)dice((uint32_t)merges_n);
        int y = (int)dice((uint32_t)merges_n);
        int32_t left = merge[x].left, right = merge[x].right;
        merge[x] = merge[y];
        merge[y].left = left;
        merge[y].right = right;
    }
    for (int i = 0; i < merges_n; i++)
        bpe_add_merge(b, merge[i].left, merge[i].right, &err);
    bpe_finish(b, &err);
    if (err.class != ERR_NONE)
        printf("# %s\n", err.msg);
    return b;
}

static void test_walk(void)
{
    struct bpe_work walk = {0}, merging = {0};
    static char text[300];
    static int32_t got[300], want[300];
    int same = 1, walks = 0, rounds = 3000;
    for (int round = 0; round < rounds && same; round++) {
        struct bpe *b = random_bpe(2 + (int)dice(40));
        walks += b->walk != NULL;
        for (int i = 0; i < 40 && same; i++) {
            size_t n = 1 + dice(i % 8 ? 30 : 290);
            for (size_t k = 0; k < n; k++)
                text[k] = "aabcx"[dice(i % 4 ? 4 : 5)];
            int64_t got_n = bpe_encode(b, &walk, text, n, got);
            int64_t want_n = bpe_encode_merging(b, &merging, text, n, want);
            same = got_n == want_n &&
                   !memcmp(got, want, (size_t)want_n * sizeof *want);
        }
        bpe_destroy(b);
        bpe_work_release(&walk); /* what it remembers is this one's */
    }
    ok(same, "the walk gives what merging gives");
    ok(walks > rounds / 2 && walks < rounds,
       "of %d vocabularies %d can be walked", rounds, walks);
    bpe_work_release(&merging);
}

static void test_bad(void)
{
    struct err err = ERR_INIT;
    struct bpe *b = bpe_create(&err);
    ok(bpe_finish(b, &err) == -1 && strstr(err.msg, "byte 0"),
       "a vocabulary without bytes");
    err = ERR_INIT;
    ok(!bpe_add_token(b, 5, "x", 1, &err), "a token");
    ok(bpe_add_token(b, 5, "y", 1, &err) == -1, "a number twice");
    err = ERR_INIT;
    ok(bpe_add_token(b, 6, "x", 1, &err) == -1, "bytes twice");
    err = ERR_INIT;
    ok(bpe_add_token(b, -1, "z", 1, &err) == -1, "a negative number");
    err = ERR_INIT;
    ok(bpe_add_token(b, 7, "", 0, &err) == -1, "no bytes");
    err = ERR_INIT;
    ok(bpe_add_merge(b, 5, 6, &err) == -1, "a merge of no token");
    err = ERR_INIT;
    ok(bpe_add_merge(b, 5, 5, &err) == -1 && strstr(err.msg, "'xx'"),
       "a merge to no token names it");
    size_t n;
    ok(!bpe_bytes(b, 6, &n) && !bpe_bytes(b, -1, &n) && bpe_bytes(b, 5, &n),
       "bytes of numbers");
    bpe_destroy(b);
    bpe_destroy(NULL);
}

int main(void)
{
    struct bpe *b = small_bpe();
    if (ok(b != NULL, "a small vocabulary")) {
        test_rule(b);
        test_long(b);
    }
    bpe_destroy(b);
    test_walk();
    test_bad();
    return tap_done();
}
