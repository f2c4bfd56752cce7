/* repeats - runs of tokens that come again; see corpus.h. */
#include "runner/data/corpus.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_LOG2 = 20, SLOTS_N = 1 << SLOTS_LOG2 };

struct run {
    uint64_t hash; /* 0: free */
    int64_t times, document, at;
};

struct table {
    struct run *run; /* [SLOTS_N] */
    int64_t used;
    uint64_t most;   /* runs of a higher hash are not in the sample */
};

static struct run *find(struct run *run, uint64_t hash)
{
    size_t i = (size_t)(hash * 0x9e3779b97f4a7c15u >> (64 - SLOTS_LOG2));
    while (run[i].hash && run[i].hash != hash)
        i = (i + 1) & (SLOTS_N - 1);
    return &run[i];
}

/* Half of the sample goes. */
static int thin(struct table *t, struct err *err)
{
    struct run *kept = calloc(SLOTS_N, sizeof *kept);
    if (!kept)
        return err_set(err, "data: out of memory for the runs of tokens");
    t->most /= 2;
    t->used = 0;
    for (size_t i = 0; i < SLOTS_N; i++)
        if (t->run[i].hash && t->run[i].hash <= t->most) {
            *find(kept, t->run[i].hash) = t->run[i];
            t->used++;
        }
    free(t->run);
    t->run = kept;
    return 0;
}

static int count(struct table *t, uint64_t hash, int64_t document, int64_t at,
                 struct err *err)
{
    if (hash > t->most)
        return 0;
    struct run *run = find(t->run, hash);
    if (!run->hash) {
        *run = (struct run){hash, 0, document, at};
        t->used++;
    }
    run->times++;
    return t->used > SLOTS_N / 2 ? thin(t, err) : 0;
}

/* Every value of the sum is met, and 0 never. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return x ? x : 1;
}

/* A rolling polynomial in 64 bits. */
static int count_document(struct table *t, const struct ids *ids, int64_t n,
                          int64_t document, struct err *err)
{
    static const uint64_t base = 0x9e3779b97f4a7c15u;
    uint64_t sum = 0, top = 1;
    for (int64_t i = 1; i < n; i++)
        top *= base;
    for (int64_t i = 0; i < (int64_t)ids->n; i++) {
        if (i >= n)
            sum -= top * mix((uint64_t)ids->data[i - n] + 1);
        sum = sum * base + mix((uint64_t)ids->data[i] + 1);
        if (i >= n - 1 && count(t, mix(sum), document, i - n + 1, err))
            return -1;
    }
    return 0;
}

static int more_often(const void *a, const void *b)
{
    const struct run *x = *(const struct run *const *)a;
    const struct run *y = *(const struct run *const *)b;
    if (x->times != y->times)
        return x->times < y->times ? 1 : -1;
    if (x->document != y->document)
        return x->document < y->document ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Overlapping runs tell of one repetition. */
static bool is_apart(const struct repeats *r, const struct run *run)
{
    for (int i = 0; i < r->top_n; i++)
        if (r->top[i].document == run->document &&
            llabs(r->top[i].at - run->at) < r->n)
            return false;
    return true;
}

static int sum_up(const struct table *t, struct repeats *ret, struct err *err)
{
    struct run **often = malloc(SLOTS_N * sizeof(*often));
    size_t often_n = 0;
    if (!often)
        return err_set(err, "data: out of memory for the runs of tokens");
    for (size_t i = 0; i < SLOTS_N; i++) {
        if (!t->run[i].hash)
            continue;
        ret->runs += t->run[i].times;
        ret->repeated += t->run[i].times - 1;
        if (t->run[i].times > 1)
            often[often_n++] = &t->run[i];
    }
    qsort(often, often_n, sizeof(*often), more_often);
    for (size_t i = 0; i < often_n && ret->top_n < REPEATS_TOP_N; i++)
        if (is_apart(ret, often[i]))
            ret->top[ret->top_n++] = (struct repeat){
                often[i]->times, often[i]->document, often[i]->at};
    ret->one_in = (int64_t)(UINT64_MAX / t->most);
    free(often);
    return 0;
}

int corpus_repeats(const struct tokens *t, int64_t n, struct repeats *ret,
                   struct err *err)
{
    struct ids ids = IDS_INIT;
    struct table table = {.run = calloc(SLOTS_N, sizeof *table.run),
                          .most = UINT64_MAX};
    int rc = table.run ? 0
                       : err_set(err, "data: out of memory for the runs of "
                                      "tokens");
    *ret = (struct repeats){.n = n};
    for (int64_t d = 0; d < tokens_documents(t) && !rc; d++) {
        ids.n = 0;
        rc = corpus_document(t, d, 0, INT64_MAX, INT32_MAX, &ids, err) ||
             count_document(&table, &ids, n, d, err);
    }
    if (!rc)
        rc = sum_up(&table, ret, err);
    free(table.run);
    ids_release(&ids);
    return rc ? -1 : 0;
}
