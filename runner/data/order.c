/* order - see order.h. The stages of a part are in the order in which the
 * generator is drawn from: sequences, then samples. */
#include "runner/data/order.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/order_cache.h"
#include "runner/data/twister.h"

struct order {
    const struct tokens *tokens;
    int64_t first, n, epoch_tokens;
    int seq_len;
    uint64_t seed;
    struct order_part part[ORDER_PARTS_MAX];
    int parts_n, first_part;
    int64_t samples_n;
    char *dir;            /* of the cache, or NULL */
    uint64_t fingerprint;
};

/* Entries of a part below which it is made faster than read. */
static const int64_t cached_from = 1 << 16;

/* How long another rank may make a part without a sign. */
static const double claim_patience_s = 20;

/* Share of the last epoch below which it is shuffled apart. */
static const double last_apart_share = 0.80;

/* Part 0 of a 32-bit seed is Megatron's; the rest are seeds of several words,
 * which no plain seed equals. */
static void seed_part(struct twister *rng, uint64_t seed, int part)
{
    if (seed <= UINT32_MAX && !part) {
        twister_seed(rng, (uint32_t)seed);
        return;
    }
    uint32_t words[3] = {(uint32_t)seed, (uint32_t)(seed >> 32),
                         (uint32_t)part};
    twister_seed_words(rng, words, part ? 3 : 2);
}

static void count_epochs(const struct order *o, struct order_part *p)
{
    int64_t need = p->requested_n * o->seq_len + 1;
    int64_t per = o->epoch_tokens;
    p->epochs_n = need / per + (need % per != 0);
    if (p->epochs_n < 1)
        p->epochs_n = 1;
    p->samples_n = (p->epochs_n * per - 1) / o->seq_len;
    p->last_apart = false;
    if (p->epochs_n > 1) {
        int64_t before = ((p->epochs_n - 1) * per - 1) / o->seq_len;
        int64_t whole = (per - 1) / o->seq_len;
        p->last_apart = p->requested_n - before <
                        (int64_t)(last_apart_share * (double)whole);
    }
}

static int shuffle_sequences(const struct order *o, struct order_part *p,
                             struct twister *rng, struct err *err)
{
    p->sequences_n = p->epochs_n * o->n;
    p->sequences = malloc((size_t)p->sequences_n * sizeof *p->sequences);
    if (!p->sequences)
        return err_set(err, "data: out of memory for the order of %" PRId64
                            " sequences", p->sequences_n);
    for (int64_t e = 0; e < p->epochs_n; e++)
        for (int64_t i = 0; i < o->n; i++)
            p->sequences[e * o->n + i] = (int32_t)(o->first + i);
    int64_t before = p->sequences_n - (p->last_apart ? o->n : 0);
    twister_shuffle_i32(rng, p->sequences, before);
    if (p->last_apart)
        twister_shuffle_i32(rng, p->sequences + before, o->n);
    return 0;
}

/* Walk the sequences, one cut each seq_len tokens. */
static int cut_samples(const struct order *o, struct order_part *p,
                       struct err *err)
{
    size_t cuts_n = (size_t)p->samples_n + 1;
    p->position = malloc(cuts_n * sizeof *p->position);
    p->offset = malloc(cuts_n * sizeof *p->offset);
    if (!p->position || !p->offset)
        return err_set(err, "data: out of memory for %" PRId64 " samples",
                       p->samples_n);
    int64_t at = 0, offset = 0;
    p->position[0] = 0;
    p->offset[0] = 0;
    for (int64_t i = 1; i <= p->samples_n; i++) {
        /* The last of the seq_len + 1 tokens is the next one's first. */
        int64_t need = o->seq_len + 1;
        for (;;) {
            int64_t length = tokens_length(o->tokens, p->sequences[at]);
            if (need <= length - offset) {
                offset += need - 1;
                break;
            }
            need -= length - offset;
            offset = 0;
            at++;
        }
        p->position[i] = at;
        p->offset[i] = (int32_t)offset;
    }
    return 0;
}

static int shuffle_samples(const struct order *o, struct order_part *p,
                           struct twister *rng, struct err *err)
{
    int64_t n = p->samples_n, before = n;
    bool wide = n > INT32_MAX;
    if (p->last_apart)
        before = ((p->epochs_n - 1) * o->epoch_tokens - 1) / o->seq_len;
    void *items = malloc((size_t)n * (wide ? sizeof *p->shuffle
                                           : sizeof *p->shuffle_32) + 1);
    if (!items)
        return err_set(err, "data: out of memory for %" PRId64 " samples", n);
    if (wide) {
        p->shuffle = items;
        for (int64_t i = 0; i < n; i++)
            p->shuffle[i] = i;
        twister_shuffle_i64(rng, p->shuffle, before);
        twister_shuffle_i64(rng, p->shuffle + before, n - before);
    } else {
        p->shuffle_32 = items;
        for (int64_t i = 0; i < n; i++)
            p->shuffle_32[i] = (int32_t)i;
        twister_shuffle_i32(rng, p->shuffle_32, before);
        twister_shuffle_i32(rng, p->shuffle_32 + before, n - before);
    }
    return 0;
}

static void part_release(struct order_part *p)
{
    if (p->map) {
        order_cache_unmap(p);
        return;
    }
    free(p->sequences);
    free(p->position);
    free(p->offset);
    free(p->shuffle);
    free(p->shuffle_32);
    *p = (struct order_part){0};
}

static int make_part(const struct order *o, struct order_part *p,
                     struct order_claim *claim, struct err *err)
{
    struct twister rng;
    seed_part(&rng, o->seed, o->first_part + o->parts_n);
    if (shuffle_sequences(o, p, &rng, err))
        return -1;
    order_claim_beat(claim);
    if (cut_samples(o, p, err))
        return -1;
    order_claim_beat(claim);
    return shuffle_samples(o, p, &rng, err);
}

/* From the cache, or made and put there. */
static int take_part(const struct order *o, struct order_part *p,
                     struct err *err)
{
    struct order_key key = {o->fingerprint, o->first, o->n, o->seq_len,
                            (int64_t)o->seed, o->first_part + o->parts_n,
                            p->requested_n};
    struct order_claim *claim;
    if (order_cache_wait(o->dir, &key, claim_patience_s, p, &claim))
        return 0;
    int rc = make_part(o, p, claim, err);
    if (!rc && claim) {
        order_cache_save(o->dir, &key, p, claim);
        struct order_part made = *p;
        if (order_cache_load(o->dir, &key, p)) /* one copy for all ranks */
            part_release(&made);
    }
    order_claim_end(claim);
    return rc;
}

int order_extend(struct order *o, int64_t samples_n, struct err *err)
{
    if (o->parts_n == ORDER_PARTS_MAX)
        return err_set_class(err, ERR_REQUEST,
                             "data: the run was extended %d times, more is "
                             "not recorded", ORDER_PARTS_MAX);
    if (samples_n < 1 || samples_n > INT64_MAX / 4 / o->seq_len)
        return err_set_class(err, ERR_REQUEST,
                             "data: cannot order %" PRId64 " samples",
                             samples_n);
    struct order_part *p = &o->part[o->parts_n];
    p->requested_n = samples_n;
    count_epochs(o, p);
    bool cached = o->dir && p->epochs_n * o->n + p->samples_n >= cached_from;
    if (cached ? take_part(o, p, err) : make_part(o, p, NULL, err)) {
        part_release(p);
        return -1;
    }
    o->parts_n++;
    o->samples_n += p->samples_n;
    return 0;
}

struct order *order_create(const struct tokens *t, int64_t first, int64_t n,
                           int seq_len, uint64_t seed, int64_t samples_n,
                           struct err *err)
{
    return order_create_cached(t, first, n, seq_len, seed, 0, samples_n, NULL,
                               0, err);
}

struct order *order_create_cached(const struct tokens *t, int64_t first,
                                  int64_t n, int seq_len, uint64_t seed,
                                  int part, int64_t samples_n, const char *dir,
                                  uint64_t fingerprint, struct err *err)
{
    struct order *o = calloc(1, sizeof *o);
    if (!o) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    *o = (struct order){.tokens = t, .first = first, .n = n,
                        .seq_len = seq_len, .seed = seed, .first_part = part,
                        .dir = dir && *dir ? strdup(dir) : NULL,
                        .fingerprint = fingerprint};
    for (int64_t i = first; i < first + n; i++)
        o->epoch_tokens += tokens_length(t, i);
    if (first + n > INT32_MAX)
        err_set_class(err, ERR_REQUEST, "data: '%s' has more sequences than "
                                        "the order can number; split it",
                      tokens_prefix(t));
    else if (o->epoch_tokens < 1)
        err_set_class(err, ERR_REQUEST,
                      "data: no tokens in sequences %" PRId64 " .. %" PRId64
                      " of '%s'; give more data or another split",
                      first, first + n, tokens_prefix(t));
    else if (!order_extend(o, samples_n, err))
        return o;
    order_destroy(o);
    return NULL;
}

void order_destroy(struct order *o)
{
    if (!o)
        return;
    for (int i = 0; i < o->parts_n; i++)
        part_release(&o->part[i]);
    free(o->dir);
    free(o);
}

int64_t order_samples(const struct order *o)
{
    return o->samples_n;
}

int order_parts(const struct order *o, int64_t sizes[ORDER_PARTS_MAX])
{
    for (int i = 0; i < o->parts_n; i++)
        sizes[i] = o->part[i].requested_n;
    return o->parts_n;
}

const struct order_part *order_part(const struct order *o, int i)
{
    return i < o->parts_n ? &o->part[i] : NULL;
}

/* The part that holds sample *i, which becomes the number of its cut. */
static const struct order_part *find_cut(const struct order *o, int64_t *i)
{
    const struct order_part *p = o->part;
    while (*i >= p->samples_n)
        *i -= p++->samples_n;
    *i = p->shuffle ? p->shuffle[*i] : p->shuffle_32[*i];
    return p;
}

/* A mapped file was good when it was opened; that it still is, is seen here. */
static int broken(const struct order *o, struct err *err)
{
    return err_set(err, "data: the order of '%s' in '%s' changed while it was "
                        "in use; remove that folder and start again",
                   tokens_prefix(o->tokens), o->dir ? o->dir : "memory");
}

void order_place(const struct order *o, int64_t i, int64_t *ret_position,
                 int32_t *ret_offset)
{
    const struct order_part *p = find_cut(o, &i);
    *ret_position = p->position[i];
    *ret_offset = p->offset[i];
}

int order_read(const struct order *o, int64_t i, int64_t vocab, int32_t *dst,
               struct err *err)
{
    if (i < 0 || i >= o->samples_n)
        return err_set(err, "data: no sample %" PRId64 " of %" PRId64
                            " in '%s'", i, o->samples_n,
                       tokens_prefix(o->tokens));
    const struct order_part *p = find_cut(o, &i);
    if (i < 0 || i >= p->samples_n)
        return broken(o, err);
    int64_t at = p->position[i], offset = p->offset[i];
    for (int64_t done = 0; done <= o->seq_len; at++, offset = 0) {
        if (at < 0 || at >= p->sequences_n || p->sequences[at] < o->first ||
            p->sequences[at] >= o->first + o->n)
            return broken(o, err);
        int64_t n = tokens_length(o->tokens, p->sequences[at]) - offset;
        if (n > o->seq_len + 1 - done)
            n = o->seq_len + 1 - done;
        if (tokens_read(o->tokens, p->sequences[at], offset, n, vocab,
                        dst + done, err))
            return -1;
        done += n;
    }
    return 0;
}

int order_split(const char *split, int64_t n, int64_t bounds[4],
                struct err *err)
{
    double share[3] = {0};
    int shares_n = 0;
    for (const char *p = split; *p;) {
        if (*p != '.' && !isdigit((unsigned char)*p)) {
            p++;
            continue;
        }
        size_t len = strspn(p, ".0123456789");
        char number[64], *end;
        if (shares_n == 3 || len >= sizeof number)
            goto bad;
        memcpy(number, p, len);
        number[len] = 0;
        share[shares_n++] = strtod(number, &end);
        if (*end)
            goto bad;
        p += len;
    }
    double sum = share[0] + share[1] + share[2];
    if (!(sum > 0))
        goto bad;
    double edge = 0;
    bounds[0] = 0;
    for (int s = 0; s < 3; s++) {
        edge += share[s] / sum;
        /* Halves go to the even number, as Python rounds. */
        bounds[s + 1] = (int64_t)rint(edge * (double)n);
    }
    return 0;
bad:
    return err_set_class(err, ERR_REQUEST,
                         "data: bad data.split: '%s'; give up to three weights "
                         "for train, valid and test, as 969,30,1", split);
}
