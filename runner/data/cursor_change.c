/* cursor_change - a run goes on with other data.
 *
 * A set is the same if its tokens and its share of a split are: it goes on
 * behind what was read of it, whatever its weight or the sequence length is
 * now. A new one begins; one that was taken out is kept in mind, and goes on if
 * it comes back. Blend and skipped windows count anew from here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/json.h"
#include "runner/data/cursor.h"

static bool is_set(const struct data_set *set, const json_t *was)
{
    char print[20];
    snprintf(print, sizeof print, "%016" PRIx64, set->fingerprint);
    return !strcmp(print, json_string_or(was, "fingerprint", "")) &&
           json_i64_or(was, "first", -1) == set->first &&
           json_i64_or(was, "sequences", -1) == set->n;
}

/* What was recorded of a set, or NULL. */
static const json_t *find_set(const struct data_set *set, const json_t *list)
{
    size_t i;
    json_t *was;
    json_array_foreach ((json_t *)list, i, was)
        if (is_set(set, was))
            return was;
    return NULL;
}

/* The same file with other content, or another share of it: what of it was
 * read cannot be told. */
static int refuse_same_path(const struct data_set *set, const json_t *list,
                            struct err *err)
{
    size_t i;
    json_t *was;
    json_array_foreach ((json_t *)list, i, was)
        if (!strcmp(json_string_or(was, "path", ""),
                    tokens_prefix(set->tokens)))
            return err_set_class(
                err, ERR_REQUEST,
                "data: '%s' or its share changed since the checkpoint, so what "
                "was read of it is not known; give the old file and "
                "data.split, or the new file another name",
                tokens_prefix(set->tokens));
    return 0;
}

static int go_on(struct data *data, int i, const json_t *was, int64_t seq_len,
                 struct err *err)
{
    struct sources *s = &data->set[i].samples;
    if (seq_len < 1 || seq_len > 1 << 24)
        return err_set(err, "data: bad cursor in the checkpoint: 'seq_len'");
    if (cursor_orders(data, i, was, (int)seq_len, err))
        return -1;
    if (sources_go_on(s, json_i64_or(was, "consumed", 0), data->seq_len))
        return err_set_class(err, ERR_REQUEST,
                             "data: the sequence length changed more than %d "
                             "times before '%s' was read through",
                             SOURCES_MAX, tokens_prefix(data->set[i].tokens));
    return 0;
}

static int take_set(struct data *data, int i, const json_t *state,
                    struct err *err)
{
    const struct data_set *set = &data->set[i];
    const json_t *sets = json_object_get(state, "sets");
    const json_t *gone = json_object_get(state, "gone"), *was;
    if ((was = find_set(set, sets)))
        return go_on(data, i, was, json_i64_or(state, "seq_len", 0), err);
    if ((was = find_set(set, gone)))
        return go_on(data, i, was, json_i64_or(was, "seq_len", 0), err);
    return refuse_same_path(set, sets, err) ||
                   refuse_same_path(set, gone, err)
               ? -1
               : 0;
}

/* Those of list that are no longer there. */
static void keep_gone(struct data *data, const json_t *list, int64_t seq_len)
{
    size_t i;
    json_t *was;
    json_array_foreach ((json_t *)list, i, was) {
        bool there = false;
        for (int k = 0; k < data->sets_n; k++)
            there = there || is_set(&data->set[k], was);
        if (there)
            continue;
        json_t *copy = json_deep_copy(was);
        if (!json_object_get(copy, "seq_len"))
            json_object_set_new(copy, "seq_len", json_integer(seq_len));
        json_array_append_new(data->gone, copy);
    }
}

int cursor_change(struct data *data, const json_t *state, struct err *err)
{
    data->origin = json_i64_or(state, "consumed", 0);
    data->gone = json_array();
    keep_gone(data, json_object_get(state, "gone"), 0);
    keep_gone(data, json_object_get(state, "sets"),
              json_i64_or(state, "seq_len", 0));
    for (int i = 0; i < data->sets_n; i++)
        if (take_set(data, i, state, err))
            return -1;
    return 0;
}
