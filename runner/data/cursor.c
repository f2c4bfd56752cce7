/* cursor - the state of the data in a checkpoint's manifest.
 *
 *   {"order": "megatron", "seed": 1234, "seq_len": 4096, "consumed": 9600,
 *    "skipped": [[lo, hi], ...],             raw numbers, see windows.h
 *    "sets": [{"path": "/data/wiki", "weight": 0.7, "first": 0,
 *              "sequences": 1000, "tokens": 123456,
 *              "fingerprint": "0123456789abcdef",
 *              "index": [12000, 800],        requested sizes of order's parts
 *              "consumed": 6720}, ...]}
 *
 * After a change (cursor_change.c) also "origin", drawn samples before it, that
 * all counts go on from; "gone", sets taken out, each with its "seq_len"; and
 * in a set "past": [{"seq_len", "part", "index", "from"}], orders that were not
 * read to their end, and "part" and "from" of the last one (source.h).
 *
 * Paths are told, not compared: a corpus may move, but not change.
 */
#include "runner/data/cursor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/json.h"
#include "runner/data/data.h"

#define ORDER_NAME "megatron"

static json_t *index_of(const struct source *source)
{
    int64_t sizes[ORDER_PARTS_MAX];
    int parts_n = source->order ? order_parts(source->order, sizes) : 0;
    json_t *index = json_array();
    for (int p = 0; p < parts_n; p++)
        json_array_append_new(index, json_integer(sizes[p]));
    return index;
}

static void add_sources(json_t *o, const struct sources *s)
{
    const struct source *last = &s->at[s->n - 1];
    json_t *past = json_array();
    for (const struct source *source = s->at; source < last; source++)
        json_array_append_new(
            past, json_pack("{s:i, s:i, s:o, s:I}", "seq_len", source->seq_len,
                            "part", source->part, "index", index_of(source),
                            "from", (json_int_t)source->from));
    json_object_set_new(o, "index", index_of(last));
    if (json_array_size(past) || last->part || last->from) {
        json_object_set(o, "past", past);
        json_object_set_new(o, "part", json_integer(last->part));
        json_object_set_new(o, "from", json_integer(last->from));
    }
    json_decref(past);
}

static json_t *set_state(const struct data *data, int i, int64_t consumed)
{
    const struct data_set *set = &data->set[i];
    char print[20];
    snprintf(print, sizeof print, "%016" PRIx64, set->fingerprint);
    json_t *o = json_pack(
        "{s:s, s:f, s:I, s:I, s:I, s:s, s:I}", "path",
        tokens_prefix(set->tokens), "weight",
        data->blend ? blend_weight(data->blend, i) : 1.0, "first",
        (json_int_t)set->first, "sequences", (json_int_t)set->n, "tokens",
        (json_int_t)tokens_total(set->tokens), "fingerprint", print,
        "consumed", (json_int_t)consumed);
    if (o)
        add_sources(o, &set->samples);
    return o;
}

json_t *data_state(const struct data *data, int64_t consumed)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&data->lock;
    pthread_mutex_lock(lock);
    int64_t raw = windows_raw(&data->skipped, consumed - data->origin);
    int64_t counts[PLAN_LIST_MAX] = {raw};
    if (data->blend)
        blend_find(data->blend, raw, counts);
    pthread_mutex_unlock(lock);
    json_t *sets = json_array(), *skipped = json_array();
    for (int i = 0; i < data->sets_n; i++)
        json_array_append_new(sets, set_state(data, i, counts[i]));
    for (int i = 0; i < data->skipped.n; i++)
        json_array_append_new(
            skipped, json_pack("[I, I]", (json_int_t)data->skipped.list[i].lo,
                               (json_int_t)data->skipped.list[i].hi));
    json_t *o = json_pack("{s:s, s:I, s:i, s:I, s:o, s:o}", "order",
                          ORDER_NAME, "seed", (json_int_t)data->seed,
                          "seq_len", data->seq_len, "consumed",
                          (json_int_t)consumed, "skipped", skipped, "sets",
                          sets);
    if (data->origin)
        json_object_set_new(o, "origin", json_integer(data->origin));
    if (json_array_size(data->gone))
        json_object_set(o, "gone", data->gone);
    return o;
}

static int changed(struct err *err, const char *what, int64_t was,
                   int64_t now)
{
    return err_set_class(err, ERR_REQUEST,
                         "data: the checkpoint was made with %s %" PRId64
                         ", now it is %" PRId64 "; set it back, start "
                         "with a new run directory, or give "
                         "data.continue_changed: true", what, was, now);
}

static int check_settings(const struct data *data, const json_t *state,
                          struct err *err)
{
    int64_t seq_len;
    if (json_get_i64(state, "seq_len", &seq_len, err))
        return err_prefix(err, "data: bad cursor in the checkpoint");
    return seq_len == data->seq_len
               ? 0
               : changed(err, "sequence length", seq_len, data->seq_len);
}

static int restore_skipped(struct data *data, const json_t *state,
                           struct err *err)
{
    const json_t *list = json_object_get(state, "skipped");
    if (json_array_size(list) > WINDOWS_MAX)
        goto bad;
    int64_t end = -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        struct window w = {json_integer_value(json_array_get(pair, 0)),
                           json_integer_value(json_array_get(pair, 1))};
        if (w.lo <= end || w.hi <= w.lo)
            goto bad;
        end = w.hi;
        data->skipped.list[data->skipped.n++] = w;
    }
    return 0;
bad:
    return err_set(err, "data: bad cursor in the checkpoint: 'skipped'");
}

static int check_set(const struct data *data, int i, const json_t *was,
                     struct err *err)
{
    const struct data_set *set = &data->set[i];
    const char *path = json_string_or(was, "path", "?");
    double weight = json_double_or(was, "weight", 1);
    char print[20];
    snprintf(print, sizeof print, "%016" PRIx64, set->fingerprint);
    if (strcmp(print, json_string_or(was, "fingerprint", "")))
        return err_set_class(
            err, ERR_REQUEST,
            "data: the corpus changed since the checkpoint: '%s' (then '%s', "
            "%" PRId64 " tokens, now %" PRId64 "); give the same files in the "
            "same order, start with a new run directory, or give "
            "data.continue_changed: true",
            tokens_prefix(set->tokens), path, json_i64_or(was, "tokens", -1),
            tokens_total(set->tokens));
    if (json_i64_or(was, "first", -1) != set->first ||
        json_i64_or(was, "sequences", -1) != set->n)
        return err_set_class(
            err, ERR_REQUEST,
            "data: the split changed since the checkpoint: '%s' gave %" PRId64
            " sequences, now %" PRId64 "; set data.split back, start with a "
            "new run directory, or give data.continue_changed: true",
            path, json_i64_or(was, "sequences", -1), set->n);
    if (data->blend && fabs(weight - blend_weight(data->blend, i)) > 1e-12)
        return err_set_class(
            err, ERR_REQUEST,
            "data: the blend changed since the checkpoint: '%s' had weight "
            "%.6g, now %.6g; set it back, start with a new run directory, or "
            "give data.continue_changed: true",
            path, weight, blend_weight(data->blend, i));
    return 0;
}

static int restore_order(struct data *data, int i, const json_t *index,
                         struct err *err)
{
    for (size_t p = 0; p < json_array_size(index); p++)
        if (data_grow(data, i, json_integer_value(json_array_get(index, p)),
                      err))
            return -1;
    return 0;
}

int cursor_orders(struct data *data, int i, const json_t *was, int seq_len,
                  struct err *err)
{
    struct sources *s = &data->set[i].samples;
    const json_t *past = json_object_get(was, "past");
    size_t n = json_array_size(past);
    if (n >= SOURCES_MAX)
        return err_set(err, "data: bad cursor in the checkpoint: 'past'");
    s->n = 0;
    for (size_t k = 0; k <= n; k++) {
        const json_t *source = k < n ? json_array_get(past, k) : was;
        int64_t len = k < n ? json_i64_or(source, "seq_len", 0) : seq_len;
        int64_t from = json_i64_or(source, "from", 0);
        if (len < 1 || len > 1 << 24 || from < 0)
            return err_set(err, "data: bad cursor in the checkpoint: 'past'");
        s->at[s->n++] = (struct source){
            .seq_len = (int)len, .from = from,
            .part = (int)json_i64_or(source, "part", 0)};
        if (restore_order(data, i, json_object_get(source, "index"), err))
            return -1;
    }
    s->seq_len = seq_len;
    return 0;
}

static int check_sets(const struct data *data, const json_t *state,
                      struct err *err)
{
    const json_t *sets = json_object_get(state, "sets");
    if (check_settings(data, state, err))
        return -1;
    if ((int)json_array_size(sets) != data->sets_n)
        return changed(err, "a number of data sets of",
                       (int64_t)json_array_size(sets), data->sets_n);
    for (int i = 0; i < data->sets_n; i++)
        if (check_set(data, i, json_array_get(sets, (size_t)i), err))
            return -1;
    return 0;
}

/* Its order and seed never change. */
static int check_order(const struct data *data, const json_t *state,
                       struct err *err)
{
    int64_t seed;
    const char *order;
    if (json_get_string(state, "order", &order, err) ||
        json_get_i64(state, "seed", &seed, err))
        return err_prefix(err, "data: bad cursor in the checkpoint");
    if (strcmp(order, ORDER_NAME))
        return err_set_class(err, ERR_REQUEST,
                             "data: the checkpoint's sample order '%s' is not "
                             "known to this version", order);
    if ((uint64_t)seed != data->seed)
        return changed(err, "run.seed", seed, (int64_t)data->seed);
    return 0;
}

int cursor_restore(struct data *data, const json_t *state, struct err *err)
{
    const json_t *sets = json_object_get(state, "sets");
    struct err why = ERR_INIT;
    if (check_order(data, state, err))
        return -1;
    if (check_sets(data, state, &why)) {
        if (data->may_change)
            return cursor_change(data, state, err);
        *err = why;
        return -1;
    }
    data->origin = json_i64_or(state, "origin", 0);
    data->gone = json_deep_copy(json_object_get(state, "gone"));
    if (restore_skipped(data, state, err))
        return -1;
    for (int i = 0; i < data->sets_n; i++)
        if (cursor_orders(data, i, json_array_get(sets, (size_t)i),
                          data->seq_len, err))
            return -1;
    return 0;
}
