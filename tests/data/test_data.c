/* Tests of runner/data/data.c, cursor.c and windows.c. */
#include "runner/data/data.h"

#include "runner/data/windows.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

enum { T = 4, B = 2, V = 256 };

static struct plan plan_of(const char *a, const char *b)
{
    struct plan plan = {.seed = 1234, .seq_len = T, .eod_token = -1,
                        .train_n = b ? 2 : 1};
    plan.shape.V = V;
    snprintf(plan.train[0].prefix, sizeof plan.train[0].prefix, "%s", a);
    plan.train[0].weight = 1;
    if (b) {
        snprintf(plan.train[1].prefix, sizeof plan.train[1].prefix, "%s", b);
        plan.train[0].weight = .3;
        plan.train[1].weight = .7;
    }
    return plan;
}

/* A batch with room for all; the buffers are static. */
static struct batch batch_of(int rows)
{
    static int32_t tokens[64], labels[64], positions[64], cu[65];
    static uint8_t mask[64];
    memset(tokens, -1, sizeof tokens);
    return (struct batch){.B = rows, .T = T, .tokens = tokens,
                          .labels = labels, .loss_mask = mask,
                          .positions = positions, .cu_seqlens = cu};
}

/* The first tokens of samples first .. first + n, as text. */
static const char *firsts(struct data *data, int64_t first, int n)
{
    static char text[2][256];
    static int at;
    char *p = text[at = !at];
    struct err err = ERR_INIT;
    *p = 0;
    for (int i = 0; i < n; i++) {
        struct batch batch = batch_of(1);
        if (data_fill(data, first + i, &batch, &err))
            return "error";
        sprintf(p + strlen(p), "%d ", batch.tokens[0]);
    }
    return p;
}

static const int lengths[] = {5, 3, 7, 4, 6};

static void test_single(void)
{
    struct err err = ERR_INIT;
    struct plan plan = plan_of(scratch("a"), NULL);
    scratch_corpus(scratch("a"), lengths, 5, 0, V);
    struct data *d = data_open(&plan, DATA_TRAIN, 12, NULL, &err);
    if (!ok(d != NULL, "opened"))
        return;
    is_int(data_samples(d), 12, "samples");
    struct batch batch = batch_of(B);
    ok(!data_fill(d, 0, &batch, &err), "filled");
    /* Sample 3 of the golden order starts in sequence 2 at token 5, and the
     * last but one sample at the start of sequence 0. */
    is_int(batch.tokens[0], 13, "the golden order's first sample");
    int shifted = 1;
    for (int i = 0; i < B; i++)
        for (int t = 0; t + 1 < T; t++)
            shifted &= batch.labels[i * T + t] == batch.tokens[i * T + t + 1];
    ok(shifted, "labels are the tokens shifted by one");
    ok(batch.positions[3] == 3 && batch.positions[4] == 0, "positions");
    ok(batch.loss_mask[0] == 1 && batch.loss_mask[7] == 1, "loss everywhere");
    ok(batch.docs == 2 && batch.cu_seqlens[1] == T &&
           batch.cu_seqlens[2] == 2 * T && batch.doc_max == T,
       "each row is one document");
    ok(data_fill(d, 11, &batch, &err) == -1, "no sample past the last");
    err = ERR_INIT;
    batch.T = T + 1;
    ok(data_fill(d, 0, &batch, &err) == -1, "a longer sequence");
    struct batch part = batch_of(2);
    int32_t whole[2 * T];
    err = ERR_INIT;
    data_fill(d, 4, &part, &err);
    memcpy(whole, part.tokens, sizeof whole);
    part.T = T - 1;
    ok(!data_fill(d, 4, &part, &err) &&
           !memcmp(part.tokens, whole, (T - 1) * sizeof *whole) &&
           !memcmp(part.tokens + T - 1, whole + T, (T - 1) * sizeof *whole) &&
           part.cu_seqlens[2] == 2 * (T - 1),
       "a shorter one: the first tokens of each sample");
    data_close(d);

    err = ERR_INIT;
    plan.shape.V = 20;
    d = data_open(&plan, DATA_TRAIN, 12, NULL, &err);
    int failed = 0;
    for (int i = 0; i < 12; i++) {
        batch = batch_of(1);
        failed |= data_fill(d, i, &batch, &err) == -1;
    }
    ok(failed && strstr(err.msg, "document 4"),
       "a token >= V names the document");
    data_close(d);
}

/* Rank 1 of 3 with micro-batches of 2, then one that jumps about. */
static void test_ahead(void)
{
    static const int64_t jumps[] = {2, 8, 14, 1, 7, 0, 19, 6, 12, 18};
    struct err err = ERR_INIT;
    struct plan plan = plan_of(scratch("a"), NULL);
    struct data *d = data_open(&plan, DATA_TRAIN, 20, NULL, &err);
    struct data *ahead = data_open(&plan, DATA_TRAIN, 20, NULL, &err);
    int same = d && ahead && !data_read_ahead(ahead, 2, 6, &err);
    int32_t want[2 * T];
    for (size_t i = 0; same && i < sizeof jumps / sizeof *jumps; i++) {
        struct batch batch = batch_of(2);
        int rc = data_fill(d, jumps[i], &batch, &err);
        memcpy(want, batch.tokens, sizeof want);
        batch = batch_of(2);
        err = ERR_INIT;
        same = rc == data_fill(ahead, jumps[i], &batch, &err) &&
               (rc || !memcmp(want, batch.tokens, sizeof want));
    }
    ok(same, "read ahead: the same batches");
    struct batch batch = batch_of(1);
    int64_t n;
    double wait_s;
    data_waits(ahead, &n, &wait_s);
    ok(n >= 0 && n < 8 && wait_s < 5, "%d waits", (int)n);
    err = ERR_INIT;
    ok(data_skip(ahead, 3, 1, &err) == -1, "no skipping then");
    ok(!data_fill(ahead, 3, &batch, &err), "another batch size is read now");
    batch = batch_of(2);
    err = ERR_INIT;
    ok(data_fill(ahead, 100, &batch, &err) == -1 &&
           strstr(err.msg, "no sample"), "past the end is told");
    data_close(ahead);
    data_close(d);
}

static void test_state(void)
{
    struct err err = ERR_INIT;
    struct plan plan = plan_of(scratch("a"), NULL);
    struct data *d = data_open(&plan, DATA_TRAIN, 5, NULL, &err);
    char seen[256];
    snprintf(seen, sizeof seen, "%s", firsts(d, 0, 6));
    json_t *state = data_state(d, 5);
    data_close(d);

    /* 8 samples would be another order; what was seen stays. */
    d = data_open(&plan, DATA_TRAIN, 8, NULL, &err);
    ok(strcmp(firsts(d, 0, 6), seen) != 0, "another size is another order");
    data_close(d);
    d = data_open(&plan, DATA_TRAIN, 8, state, &err);
    ok(d && data_samples(d) >= 8, "a longer run");
    is_str(firsts(d, 0, 6), seen, "a longer run keeps what was seen");
    char longer[256];
    snprintf(longer, sizeof longer, "%s", firsts(d, 0, 8));
    json_t *second = data_state(d, 6);
    data_close(d);
    d = data_open(&plan, DATA_TRAIN, 8, second, &err);
    is_str(firsts(d, 0, 8), longer, "and again from its own state");
    data_close(d);

    plan.seq_len = T + 1;
    ok(!data_open(&plan, DATA_TRAIN, 8, state, &err) &&
           strstr(err.msg, "sequence length 4, now it is 5"),
       "another sequence length is refused");
    plan.seq_len = T;
    plan.seed = 1;
    err = ERR_INIT;
    ok(!data_open(&plan, DATA_TRAIN, 8, state, &err) &&
           strstr(err.msg, "seed"), "another seed is refused");
    plan.seed = 1234;
    scratch_corpus(scratch("a"), lengths, 5, 1, V);
    err = ERR_INIT;
    ok(!data_open(&plan, DATA_TRAIN, 8, state, &err) &&
           strstr(err.msg, "corpus changed") && strstr(err.msg, "/a'"),
       "a changed corpus is refused by name");
    scratch_corpus(scratch("a"), lengths, 5, 0, V);
    scratch_corpus(scratch("moved"), lengths, 5, 0, V);
    plan = plan_of(scratch("moved"), NULL);
    err = ERR_INIT;
    d = data_open(&plan, DATA_TRAIN, 8, state, &err);
    ok(d != NULL, "a corpus may move");
    data_close(d);
    plan.train[1] = plan.train[0];
    plan.train_n = 2;
    ok(!data_open(&plan, DATA_TRAIN, 8, state, &err) &&
           strstr(err.msg, "number of data sets"), "one set more is refused");
    json_t *odd = json_pack("{s:s}", "order", "other");
    plan.train_n = 1;
    err = ERR_INIT;
    ok(!data_open(&plan, DATA_TRAIN, 8, odd, &err), "a broken state");
    json_decref(odd);
    json_decref(state);
    json_decref(second);
}

static void test_skip(void)
{
    struct err err = ERR_INIT;
    struct plan plan = plan_of(scratch("a"), NULL);
    struct data *d = data_open(&plan, DATA_TRAIN, 12, NULL, &err);
    struct batch batch = batch_of(1);
    int32_t raw[12];
    for (int i = 0; i < 12; i++) {
        data_fill(d, i, &batch, &err);
        raw[i] = batch.tokens[0] * 1000 + batch.tokens[3];
    }
    ok(!data_skip(d, 4, 3, &err), "skip 4, 5, 6");
    ok(data_samples(d) >= 12, "12 are still drawn");
    int same = 1;
    for (int i = 0; i < 9; i++) {
        batch = batch_of(1);
        same &= !data_fill(d, i, &batch, &err) &&
                batch.tokens[0] * 1000 + batch.tokens[3] ==
                    raw[i < 4 ? i : i + 3];
    }
    ok(same, "later samples move up");
    json_t *state = data_state(d, 6);
    ok(json_integer_value(json_object_get(
           json_array_get(json_object_get(state, "sets"), 0), "consumed")) ==
           9, "consumed of the set counts the skipped ones");
    char seen[256];
    snprintf(seen, sizeof seen, "%s", firsts(d, 0, 12));
    data_close(d);
    d = data_open(&plan, DATA_TRAIN, 12, state, &err);
    is_str(firsts(d, 0, 12), seen, "windows come back with the state");
    data_close(d);
    json_decref(state);
}

static void test_windows(void)
{
    struct err err = ERR_INIT;
    struct windows w = {0};
    windows_add(&w, 10, 5, &err);
    ok(windows_raw(&w, 9) == 9 && windows_raw(&w, 10) == 15, "one window");
    windows_add(&w, 8, 4, &err); /* raw 8, 9, 15, 16 */
    ok(w.n == 1 && w.list[0].lo == 8 && w.list[0].hi == 17,
       "a window around it swallows it");
    windows_add(&w, 20, 1, &err);
    windows_add(&w, 2, 1, &err);
    ok(w.n == 3 && windows_total(&w) == 11 && windows_raw(&w, 7) == 17 &&
           windows_raw(&w, 2) == 3, "windows before and behind");
    ok(windows_add(&w, -1, 2, &err) == -1, "no window before the start");
}

static void test_blend(void)
{
    struct err err = ERR_INIT;
    static const int many[] = {9, 8, 7, 6, 5, 4, 9, 8, 7, 6, 5, 4};
    scratch_corpus(scratch("b"), many, 12, 100, V);
    struct plan plan = plan_of(scratch("a"), scratch("b"));
    struct data *d = data_open(&plan, DATA_TRAIN, 10, NULL, &err);
    char from[16] = "";
    for (int i = 0; i < 10; i++) {
        struct batch batch = batch_of(1);
        data_fill(d, i, &batch, &err);
        from[i] = batch.tokens[0] >= 100 ? '1' : '0';
    }
    is_str(from, "1011011011", "sets by weight");
    json_t *state = data_state(d, 10);
    char seen[256];
    snprintf(seen, sizeof seen, "%s", firsts(d, 0, 10));
    data_close(d);
    is_int(json_integer_value(json_object_get(
               json_array_get(json_object_get(state, "sets"), 1),
               "consumed")), 7, "consumed of each set");
    d = data_open(&plan, DATA_TRAIN, 60, state, &err);
    is_str(firsts(d, 0, 10), seen, "a longer run keeps the blend");
    ok(strcmp(firsts(d, 50, 10), "error") != 0, "and goes on to its end");
    data_close(d);
    plan.train[0].weight = .4;
    ok(!data_open(&plan, DATA_TRAIN, 60, state, &err) &&
           strstr(err.msg, "blend changed"), "another weight is refused");
    json_decref(state);
}

static void test_splits(void)
{
    struct err err = ERR_INIT;
    struct plan plan = plan_of(scratch("a"), NULL);
    struct data *d = data_open(&plan, DATA_VALID, 4, NULL, &err);
    ok(d && data_samples(d) == 0, "no validation data");
    data_close(d);
    strcpy(plan.split, "3,2,0"); /* sequences 0 .. 2 and 3, 4 */
    d = data_open(&plan, DATA_VALID, 4, NULL, &err);
    struct batch batch = batch_of(1);
    int within = d != NULL;
    for (int i = 0; d && i < 4; i++)
        within &= !data_fill(d, i, &batch, &err) && batch.tokens[0] >= 15;
    ok(within, "validation takes its share of the files");
    data_close(d);
    d = data_open(&plan, DATA_TEST, 4, NULL, &err);
    ok(!d && strstr(err.msg, "no tokens"), "an empty share is refused");
    data_close(d);
    err = ERR_INIT;
    plan.valid_n = 1;
    plan.valid[0] = (struct plan_data){.weight = 1};
    strcpy(plan.valid[0].prefix, scratch("b"));
    d = data_open(&plan, DATA_VALID, 4, NULL, &err);
    ok(d && !data_fill(d, 0, &batch, &err) && batch.tokens[0] >= 100,
       "validation files of its own");
    data_close(d);
}

static void test_eod(void)
{
    struct err err = ERR_INIT;
    const int32_t ids[] = {1, 9, 2, 3, 9, 9, 4, 5, 6};
    struct tokens_writer *w = tokens_create(scratch("eod"), V, &err);
    tokens_add(w, ids, 9, &err);
    tokens_end_document(w, &err);
    tokens_finish(w, &err);
    struct plan plan = plan_of(scratch("eod"), NULL);
    plan.eod_mask_loss = plan.eod_reset_positions = true;
    plan.eod_reset_attention = true;
    ok(!data_open(&plan, DATA_TRAIN, 2, NULL, &err) &&
           strstr(err.msg, "end-of-document"), "resets need a token");
    err = ERR_INIT;
    plan.eod_token = 9;
    struct data *d = data_open(&plan, DATA_TRAIN, 2, NULL, &err);
    struct batch batch = batch_of(2);
    ok(d && !data_fill(d, 0, &batch, &err), "filled");
    int one = batch.tokens[0] == 1 ? 0 : 1; /* the row 1 9 2 3 */
    const int32_t *p = batch.positions + one * T;
    const int32_t *q = batch.positions + !one * T; /* 9 9 4 5 */
    ok(p[0] == 0 && p[1] == 1 && p[2] == 0 && p[3] == 1,
       "positions start anew after the end token");
    ok(q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 1,
       "and after each of two");
    const uint8_t *m = batch.loss_mask + one * T;
    ok(m[0] && !m[1] && m[2] && m[3], "no loss at an end token");
    ok(batch.docs == 5 && batch.cu_seqlens[5] == 8 && batch.doc_max == 2,
       "documents' bounds");
    batch.cu_seqlens = NULL;
    ok(data_fill(d, 0, &batch, &err) == -1, "bounds need room");
    data_close(d);
}

/* ---- Going on with other data -------------------------------------------- */

enum { MANY = 4000 };

/* 100 sequences of 7 tokens that no other token of the test is. */
static void unique_corpus(const char *name, int first)
{
    int sevens[100];
    for (int i = 0; i < 100; i++)
        sevens[i] = 7;
    scratch_corpus(scratch(name), sevens, 100, first, MANY);
}

static struct plan plan_changed(int seq_len, const char *const *names,
                                const double *weights)
{
    struct plan plan = plan_of("", NULL);
    plan.seq_len = seq_len;
    plan.shape.V = MANY;
    plan.data_may_change = true;
    plan.train_n = 0;
    for (; names[plan.train_n]; plan.train_n++) {
        struct plan_data *set = &plan.train[plan.train_n];
        snprintf(set->prefix, sizeof set->prefix, "%s",
                 scratch(names[plan.train_n]));
        set->weight = weights[plan.train_n];
    }
    return plan;
}

/* Reads samples first .. end; how many input tokens were read before. */
static int repeats(struct data *d, int64_t first, int64_t end, int seq_len,
                   char seen[MANY])
{
    int again = 0;
    for (int64_t i = first; i < end; i++) {
        struct err err = ERR_INIT;
        struct batch batch = batch_of(1);
        batch.T = seq_len;
        if (data_fill(d, i, &batch, &err)) {
            printf("# sample %lld: %s\n", (long long)i, err.msg);
            return -1;
        }
        for (int t = 0; t < seq_len; t++)
            again += seen[batch.tokens[t]]++ > 0;
    }
    return again;
}

static void test_change_length(void)
{
    static const char *const a[] = {"ua", NULL};
    static const double one[] = {1};
    struct err err = ERR_INIT;
    char seen[MANY] = {0};
    unique_corpus("ua", 0);
    struct plan plan = plan_changed(8, a, one);
    struct data *d = data_open(&plan, DATA_TRAIN, 60, NULL, &err);
    is_int(repeats(d, 0, 30, 8, seen), 0, "30 of 87 samples of 8 tokens");
    json_t *state = data_state(d, 30);
    data_close(d);

    plan = plan_changed(5, a, one);
    plan.data_may_change = false;
    ok(!data_open(&plan, DATA_TRAIN, 125, state, &err) &&
           strstr(err.msg, "data.continue_changed"),
       "another length is refused, and the key is named");
    err = ERR_INIT;
    plan.data_may_change = true;
    d = data_open(&plan, DATA_TRAIN, 125, state, &err);
    /* 57 * 8 / 5 = 91 samples are left; 4 more begin another epoch. */
    is_int(repeats(d, 30, 30 + 91, 5, seen), 0, "the rest in samples of 5");
    ok(repeats(d, 121, 125, 5, seen) > 0, "then it comes again");
    json_t *later = data_state(d, 60);
    struct data *again = data_open(&plan, DATA_TRAIN, 125, later, &err);
    char text[256];
    strcpy(text, firsts(d, 60, 20));
    is_str(firsts(again, 60, 20), text, "a checkpoint of it goes on alike");
    data_close(again);
    data_close(d);

    memset(seen, 0, sizeof seen);
    plan = plan_changed(8, a, one);
    d = data_open(&plan, DATA_TRAIN, 60, NULL, &err);
    repeats(d, 0, 30, 8, seen);
    data_close(d);
    plan = plan_changed(5, a, one);
    d = data_open(&plan, DATA_TRAIN, 125, state, &err);
    repeats(d, 30, 60, 5, seen);
    data_close(d);
    plan = plan_changed(12, a, one);
    d = data_open(&plan, DATA_TRAIN, 80, later, &err);
    is_int(repeats(d, 60, 80, 12, seen), 0, "and a third length");
    data_close(d);
    json_decref(state);
    json_decref(later);
}

static void test_change_blend(void)
{
    static const char *const ab[] = {"ua", "ub", NULL};
    static const char *const bc[] = {"uc", "ub", NULL};
    static const char *const abc[] = {"uc", "ua", "ub", NULL};
    static const double even[] = {.5, .5}, odd[] = {.8, .1, .1};
    struct err err = ERR_INIT;
    char seen[MANY] = {0};
    unique_corpus("ub", 1000);
    unique_corpus("uc", 2000);
    struct plan plan = plan_changed(4, ab, even);
    struct data *d = data_open(&plan, DATA_TRAIN, 400, NULL, &err);
    int again = repeats(d, 0, 100, 4, seen);
    json_t *state = data_state(d, 100);
    data_close(d);
    plan = plan_changed(4, ab, odd);
    d = data_open(&plan, DATA_TRAIN, 400, state, &err);
    again += repeats(d, 100, 200, 4, seen);
    json_t *heavy = data_state(d, 200);
    data_close(d);
    plan = plan_changed(4, bc, even);
    d = data_open(&plan, DATA_TRAIN, 400, heavy, &err);
    again += repeats(d, 200, 300, 4, seen);
    json_t *other = data_state(d, 300);
    is_int(json_array_size(json_object_get(other, "gone")), 1,
           "a set that was taken out is kept in mind");
    data_close(d);
    plan = plan_changed(4, abc, odd);
    d = data_open(&plan, DATA_TRAIN, 400, other, &err);
    again += repeats(d, 300, 350, 4, seen);
    is_int(again, 0, "weights, a new set, one that comes back: no repeats");
    data_close(d);

    unique_corpus("ua", 3000);
    err = ERR_INIT;
    ok(!data_open(&plan, DATA_TRAIN, 400, other, &err) &&
           strstr(err.msg, "another name"), "another content is refused");
    json_decref(state);
    json_decref(heavy);
    json_decref(other);
}

/* 700 and 7000 tokens: shares of 1 to 10. */
static void test_by_size(void)
{
    static const char *const ab[] = {"ua", "long", NULL};
    static const double even[] = {1, 1};
    struct err err = ERR_INIT;
    int sevens[1000];
    for (int i = 0; i < 1000; i++)
        sevens[i] = 7;
    scratch_corpus(scratch("long"), sevens, 1000, 0, MANY);
    struct plan plan = plan_changed(4, ab, even);
    plan.blend_by_size = true;
    struct data *d = data_open(&plan, DATA_TRAIN, 1100, NULL, &err);
    json_t *state = data_state(d, 1100), *sets = json_object_get(state, "sets");
    is_int(json_integer_value(json_object_get(json_array_get(sets, 0),
                                              "consumed")), 100,
           "a blend by size draws as much of each");
    json_decref(state);
    data_close(d);
}

int main(void)
{
    test_change_length();
    test_by_size();
    test_change_blend();
    test_single();
    test_ahead();
    test_state();
    test_skip();
    test_windows();
    test_blend();
    test_splits();
    test_eod();
    return tap_done();
}
