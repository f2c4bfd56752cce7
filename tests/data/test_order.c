/* Tests of runner/data/order.c, twister.c and blend.c against vectors that
 * Megatron's own functions gave. */
#include "runner/data/order.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runner/data/blend.h"
#include "runner/data/order_cache.h"
#include "runner/data/twister.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

static void test_twister(void)
{
    static const int32_t first[] = {7, 2, 9, 1, 0, 8, 4, 5, 6, 3};
    static const int32_t second[] = {7, 3, 5, 1, 4, 8, 0, 2, 6, 9};
    struct twister rng;
    int32_t items[10];
    int64_t wide[10];
    twister_seed(&rng, 1234);
    for (int i = 0; i < 10; i++)
        items[i] = i;
    twister_shuffle_i32(&rng, items, 10);
    ok(!memcmp(items, first, sizeof first), "shuffle of 0..9, seed 1234");
    for (int i = 0; i < 10; i++)
        wide[i] = i;
    twister_shuffle_i64(&rng, wide, 10);
    int same = 1;
    for (int i = 0; i < 10; i++)
        same &= wide[i] == second[i];
    ok(same, "the next shuffle from the same state");
    /* The generator's published test: seeds 0x123, 0x234, 0x345, 0x456. */
    uint32_t words[] = {0x123, 0x234, 0x345, 0x456};
    twister_seed_words(&rng, words, 4);
    is_int(twister_u32(&rng), 1067595299, "seeded with words: first");
    is_int(twister_u32(&rng), 955945823, "seeded with words: second");
    uint64_t most = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t v = twister_interval(&rng, (uint64_t)5 << 32);
        most = v > most ? v : most;
    }
    ok(most > UINT32_MAX && most <= (uint64_t)5 << 32, "64-bit intervals");
}

#define PLACES_MAX 16
static const struct {
    int samples, epochs, apart, sequences_n, cuts_n;
    int sequence[16];
    int cut[PLACES_MAX][2];
    int shuffle[PLACES_MAX];
} golden[] = {
    {5, 1, 0, 5, 7, {4, 0, 1, 2, 3},
     {{0, 0}, {0, 4}, {1, 2}, {2, 1}, {3, 2}, {3, 6}, {4, 3}},
     {5, 2, 3, 1, 0, 4}},
    {8, 2, 1, 10, 13, {4, 0, 1, 2, 3, 3, 2, 1, 0, 4},
     {{0, 0}, {0, 4}, {1, 2}, {2, 1}, {3, 2}, {3, 6}, {4, 3}, {5, 3}, {6, 3},
      {7, 0}, {8, 1}, {9, 0}, {9, 4}},
     {0, 4, 3, 2, 5, 1, 7, 6, 9, 8, 11, 10}},
    {12, 2, 0, 10, 13, {2, 2, 4, 1, 0, 3, 4, 0, 1, 3},
     {{0, 0}, {0, 4}, {1, 1}, {1, 5}, {2, 2}, {3, 0}, {4, 1}, {5, 0}, {6, 0},
      {6, 4}, {7, 2}, {8, 1}, {9, 2}},
     {3, 11, 2, 1, 7, 5, 4, 0, 8, 6, 10, 9}},
};

static struct tokens *golden_corpus(void)
{
    static const int lengths[] = {5, 3, 7, 4, 6};
    struct err err = ERR_INIT;
    scratch_corpus(scratch("order"), lengths, 5, 0, 256);
    return tokens_open(scratch("order"), &err);
}

static void test_golden(struct tokens *t)
{
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        struct err err = ERR_INIT;
        struct order *o = order_create(t, 0, 5, 4, 1234, golden[g].samples,
                                       &err);
        const struct order_part *p = o ? order_part(o, 0) : NULL;
        if (!ok(p != NULL, "order of %d samples", golden[g].samples))
            continue;
        is_int(p->epochs_n, golden[g].epochs, "epochs");
        is_int(p->last_apart, golden[g].apart, "last epoch apart");
        is_int(p->sequences_n, golden[g].sequences_n, "sequences");
        is_int(p->samples_n, golden[g].cuts_n - 1, "samples");
        int same = 1;
        for (int i = 0; i < golden[g].sequences_n; i++)
            same &= p->sequences[i] == golden[g].sequence[i];
        ok(same, "document index");
        same = 1;
        for (int i = 0; i < golden[g].cuts_n; i++)
            same &= p->position[i] == golden[g].cut[i][0] &&
                    p->offset[i] == golden[g].cut[i][1];
        ok(same, "sample index");
        same = 1;
        for (int i = 0; i < golden[g].cuts_n - 1; i++)
            same &= p->shuffle_32[i] == golden[g].shuffle[i];
        ok(same, "shuffle index");
        order_destroy(o);
    }
}

/* A sample is what lies at its place in the corpus: the tokens are their own
 * place here, so that they show it. */
static void test_read(struct tokens *t)
{
    static const int start[] = {0, 5, 8, 15, 19}, length[] = {5, 3, 7, 4, 6};
    struct err err = ERR_INIT;
    struct order *o = order_create(t, 0, 5, 4, 1234, 12, &err);
    const struct order_part *p = order_part(o, 0);
    int same = 1;
    for (int i = 0; i < 12; i++) {
        int32_t got[5];
        int64_t at;
        int32_t offset;
        order_place(o, i, &at, &offset);
        same &= !order_read(o, i, 256, got, &err);
        for (int k = 0; k < 5; k++) {
            if (offset == length[p->sequences[at]]) {
                at++;
                offset = 0;
            }
            same &= got[k] == start[p->sequences[at]] + offset++;
        }
    }
    ok(same, "samples read across sequences");
    int32_t got[5];
    ok(order_read(o, 12, 256, got, &err) == -1, "no sample past the last");
    order_destroy(o);
}

static void test_extend(struct tokens *t)
{
    struct err err = ERR_INIT;
    struct order *o = order_create(t, 0, 5, 4, 1234, 5, &err);
    int32_t before[6][5], after[5];
    for (int i = 0; i < 6; i++)
        order_read(o, i, 256, before[i], &err);
    ok(!order_extend(o, 7, &err) && order_samples(o) >= 12,
       "an order grows by a part");
    int same = 1;
    for (int i = 0; i < 6; i++) {
        order_read(o, i, 256, after, &err);
        same &= !memcmp(before[i], after, sizeof after);
    }
    ok(same, "what was there stays");
    int64_t sizes[ORDER_PARTS_MAX];
    ok(order_parts(o, sizes) == 2 && sizes[0] == 5 && sizes[1] == 7,
       "the parts' sizes are told");
    struct order *again = order_create(t, 0, 5, 4, 1234, sizes[0], &err);
    order_extend(again, sizes[1], &err);
    same = order_samples(o) == order_samples(again);
    for (int i = 0; i < order_samples(o) && same; i++) {
        int32_t other[5];
        order_read(o, i, 256, after, &err);
        order_read(again, i, 256, other, &err);
        same = !memcmp(other, after, sizeof after);
    }
    ok(same, "and give the same order again");
    order_destroy(o);
    order_destroy(again);
    o = order_create(t, 0, 5, 4, (uint64_t)1 << 40, 5, &err);
    ok(o != NULL, "a seed of more than 32 bits");
    order_destroy(o);
}

static void test_odd(void)
{
    struct err err = ERR_INIT;
    static const int lengths[] = {0, 1, 0, 1, 1, 0};
    scratch_corpus(scratch("odd"), lengths, 6, 0, 256);
    struct tokens *t = tokens_open(scratch("odd"), &err);
    struct order *o = order_create(t, 0, 6, 5, 7, 4, &err);
    int32_t got[6];
    int good = o != NULL;
    for (int64_t i = 0; o && i < order_samples(o); i++)
        good &= !order_read(o, i, 256, got, &err);
    ok(good, "empty and one-token sequences, longer samples than the corpus");
    order_destroy(o);
    ok(!order_create(t, 0, 1, 5, 7, 4, &err) && strstr(err.msg, "no tokens"),
       "a corpus without tokens is refused");
    err = ERR_INIT;
    ok(!order_create(t, 0, 6, 5, 7, 0, &err), "no order of 0 samples");
    tokens_close(t);
}

static void test_split(void)
{
    struct err err = ERR_INIT;
    int64_t b[4];
    order_split("969,30,1", 1000, b, &err);
    ok(!b[0] && b[1] == 969 && b[2] == 999 && b[3] == 1000, "969,30,1");
    order_split("1,1,2", 10, b, &err);
    ok(b[1] == 2 && b[2] == 5 && b[3] == 10, "2.5 is rounded to even, down");
    order_split("3,1", 6, b, &err);
    ok(b[1] == 4 && b[2] == 6 && b[3] == 6, "4.5 too; a missing part is 0");
    order_split("7,1", 12, b, &err);
    ok(b[1] == 10, "10.5 too");
    order_split("5/5", 7, b, &err);
    ok(b[1] == 4 && b[2] == 7, "3.5 is rounded to even, up");
    static const char *const bad[] = {"", "0,0,0", "1,2,3,4", "1..2,1", "."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = ERR_INIT;
        ok(order_split(bad[i], 10, b, &err) == -1, "refused: '%s'", bad[i]);
    }
}

static void is_blend(const double *weights, int sets_n, const char *want)
{
    struct err err = ERR_INIT;
    struct blend *b = blend_create(weights, sets_n, &err);
    char got[32] = "";
    for (size_t k = 0; k < strlen(want); k++)
        got[k] = (char)('0' + blend_find(b, (int64_t)k, NULL));
    is_str(got, want, "blend");
    blend_destroy(b);
}

static void test_blend(void)
{
    struct err err = ERR_INIT;
    is_blend((double[]){.3, .7}, 2, "1011011011");
    is_blend((double[]){.5, .5}, 2, "010101");
    is_blend((double[]){.2, .5, .3}, 3, "1201210121");
    is_blend((double[]){2, 5, 3}, 3, "1201210121");

    double weights[] = {.11, .29, .35, .25};
    struct blend *a = blend_create(weights, 4, &err);
    struct blend *b = blend_create(weights, 4, &err);
    enum { N = 20000 };
    static int8_t forward[N];
    for (int k = 0; k < N; k++)
        forward[k] = (int8_t)blend_find(a, k, NULL);
    int same = 1;
    for (int i = 0; i < 300; i++) {
        int k = i * 7919 % N;
        int64_t counts[4], want[4] = {0};
        same &= blend_find(b, k, counts) == forward[k];
        for (int j = 0; j < k; j++)
            want[forward[j]]++;
        same &= !memcmp(counts, want, sizeof want);
    }
    ok(same, "a blend may be asked in any order");
    blend_destroy(a);
    blend_destroy(b);
    ok(!blend_create((double[]){0, 0}, 2, &err), "weights that are all 0");
    ok(!blend_create((double[]){1, -1}, 2, &err), "a negative weight");
    ok(!blend_create((double[]){1, NAN}, 2, &err), "a weight that is none");
}

/* ---- Orders as files ----------------------------------------------------- */

enum { MANY = 12000, MANY_SAMPLES = 40000 };

static uint64_t read_all(const struct order *o)
{
    uint64_t sum = 0;
    struct err err = ERR_INIT;
    for (int64_t i = 0; o && i < order_samples(o); i += 7) {
        int32_t got[9];
        if (order_read(o, i, 256, got, &err))
            return 0;
        sum = sum * 31 + (uint64_t)got[0] * 7 + (uint64_t)got[8];
    }
    return sum;
}

static struct order *many(const struct tokens *t, const char *dir)
{
    struct err err = ERR_INIT;
    return order_create_cached(t, 0, MANY, 8, 1234, 0, MANY_SAMPLES, dir, 42,
                               &err);
}

/* The one file in the cache; the number of all in ret_n. */
static const char *cache_file(const char *dir, int *ret_n)
{
    static char line[PATH_MAX];
    char command[PATH_MAX + 32], more[PATH_MAX];
    snprintf(command, sizeof command, "ls -d %s/*", dir);
    FILE *f = popen(command, "r");
    *ret_n = 0;
    while (fgets(*ret_n ? more : line, PATH_MAX, f))
        ++*ret_n;
    pclose(f);
    line[strcspn(line, "\n")] = 0;
    return line;
}

static void test_cache(void)
{
    enum { RANKS = 6 };
    struct err err = ERR_INIT;
    static int lengths[MANY];
    char dir[PATH_MAX], path[PATH_MAX];
    int n, good = 0, status;
    for (int i = 0; i < MANY; i++)
        lengths[i] = 30 + i % 20;
    scratch_corpus(scratch("many"), lengths, MANY, 0, 251);
    strcpy(dir, scratch("run/index"));
    struct tokens *t = tokens_open(scratch("many"), &err);
    struct order *o = many(t, NULL);
    uint64_t want = read_all(o);
    ok(want && !order_part(o, 0)->map, "an order in memory");
    order_destroy(o);
    for (int r = 0; r < RANKS; r++)
        if (!fork()) {
            o = many(t, dir);
            int mapped = o && order_part(o, 0)->map;
            _exit(mapped && read_all(o) == want ? 0 : 1);
        }
    while (wait(&status) > 0)
        good += !status;
    is_int(good, RANKS, "ranks map the same order, made by one");
    strcpy(path, cache_file(dir, &n));
    is_int(n, 1, "of which one file is left");
    size_t bytes;
    char *whole = file_read(path, 1 << 30, &bytes, &err);
    static const struct {
        const char *what;
        double at; /* of the file: a bit is turned; 2: cut, 3: emptied */
    } damage[] = {{"magic", 0}, {"key", 20e-6}, {"body", 0.5},
                  {"last byte", 0.999999}, {"cut", 2}, {"empty", 3}};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        int fd = open(path, O_RDWR);
        size_t at = (size_t)(damage[i].at * (double)bytes);
        char byte = (char)(damage[i].at < 1 ? whole[at] ^ 4 : 0);
        int rc = damage[i].at < 1
                     ? pwrite(fd, &byte, 1, (off_t)at) != 1
                     : ftruncate(fd, damage[i].at > 2 ? 0 : (off_t)bytes - 9);
        close(fd);
        o = many(t, dir);
        ok(!rc && order_part(o, 0)->map && read_all(o) == want,
           "damaged, and made again: %s", damage[i].what);
        order_destroy(o);
    }
    char *again = file_read(path, 1 << 30, &bytes, &err);
    ok(again && !memcmp(again, whole, bytes), "with the same bytes");
    o = order_create_cached(t, 0, MANY, 8, 1235, 0, MANY_SAMPLES, dir, 42,
                            &err);
    cache_file(dir, &n);
    ok(n == 2 && read_all(o) != want, "another seed has a file of its own");
    order_destroy(o);
    o = many(t, "/proc/no/such");
    ok(o && !order_part(o, 0)->map && read_all(o) == want,
       "without a folder it is made in memory");
    order_destroy(o);
    free(again);
    free(whole);
    tokens_close(t);
}

enum { MAPPED, ALONE, MADE };

/* One rank; which way it came to the part. */
static int take_claimed(const char *dir, const struct order_key *key,
                        const struct order_part *made, double patience_s)
{
    struct order_claim *claim;
    struct order_part part;
    alarm(20);
    if (order_cache_wait(dir, key, patience_s, &part, &claim))
        return MAPPED;
    if (!claim)
        return ALONE;
    order_cache_save(dir, key, made, claim);
    order_claim_end(claim);
    return MADE;
}

/* A rank that died while it made the part: nobody waits for it for ever. */
static void test_dead_claim(void)
{
    enum { RANKS = 4 };
    struct err err = ERR_INIT;
    struct stat before, after;
    char dir[PATH_MAX], path[PATH_MAX];
    int n, ended = 0, ways[3] = {0}, status;
    strcpy(dir, scratch("dead"));
    scratch_corpus(scratch("few"), (int[]){9, 9, 9}, 3, 0, 251);
    struct tokens *t = tokens_open(scratch("few"), &err);
    struct order *o = order_create(t, 0, 3, 4, 1, 12, &err);
    struct order_key key = {.fingerprint = 7, .n = 3, .seq_len = 4, .seed = 1,
                            .requested_n = 12};
    struct order_claim *dead;
    struct order_part part;
    ok(!order_cache_wait(dir, &key, 20, &part, &dead) && dead,
       "nobody makes it: it is claimed");
    strcpy(path, cache_file(dir, &n));
    stat(path, &before);
    usleep(20000);
    order_claim_beat(dead);
    stat(path, &after);
    ok(n == 1 && memcmp(&before.st_mtim, &after.st_mtim,
                        sizeof before.st_mtim),
       "a beat is seen on the claim's file");
    free(dead); /* and no order_claim_end */
    fflush(stdout);
    for (int r = 0; r < RANKS; r++)
        if (!fork())
            _exit(take_claimed(dir, &key, order_part(o, 0), 0.2));
    while (wait(&status) > 0)
        if (WIFEXITED(status) && ++ended)
            ways[WEXITSTATUS(status)]++;
    is_int(ended, RANKS, "a claim of the dead holds nobody for ever");
    printf("# %d mapped, %d alone, %d made\n", ways[MAPPED], ways[ALONE],
           ways[MADE]);
    ok(ways[ALONE] + ways[MADE], "somebody makes it");
    is_int(take_claimed(dir, &key, order_part(o, 0), 0.2),
           ways[MADE] ? MAPPED : MADE, "and who comes later maps or makes it");
    alarm(0);
    cache_file(dir, &n);
    is_int(n, 1, "no claim is left");
    order_destroy(o);
    tokens_close(t);
}

int main(void)
{
    test_twister();
    struct tokens *t = golden_corpus();
    test_golden(t);
    test_read(t);
    test_extend(t);
    tokens_close(t);
    test_odd();
    test_split();
    test_blend();
    test_cache();
    test_dead_claim();
    return tap_done();
}
