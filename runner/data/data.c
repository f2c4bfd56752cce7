/* data - see data.h. Opening takes files, split, recorded state and wanted
 * samples, in this order; filling is drawn number -> raw number -> set and
 * its sample -> tokens -> batch. */
#include "runner/data/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/cursor.h"

/* A blend's set is given a little more than its share, since the greedy rule
 * may ask for more: Megatron's surplus. */
static const double set_surplus = 0.005;

/* Blocks that are read ahead. */
static const int ahead_depth = 4;

static int open_set(struct data *data, const char *prefix, const char *split,
                    enum data_split which, struct err *err)
{
    struct data_set *set = &data->set[data->sets_n];
    int64_t bounds[4];
    set->tokens = tokens_open(prefix, err);
    if (!set->tokens)
        return -1;
    data->sets_n++;
    set->samples = (struct sources){.n = 1, .seq_len = data->seq_len};
    set->samples.at[0].seq_len = data->seq_len;
    set->n = tokens_sequences(set->tokens);
    if (split) {
        if (order_split(split, set->n, bounds, err))
            return -1;
        set->first = bounds[which];
        set->n = bounds[which + 1] - bounds[which];
    }
    return tokens_fingerprint(set->tokens, &set->fingerprint, err);
}

static double tokens_of_set(const struct data_set *set)
{
    double sum = 0;
    for (int64_t i = set->first; i < set->first + set->n; i++)
        sum += tokens_length(set->tokens, i);
    return sum;
}

/* The files of a split: those of its own, or its share of the training
 * files. No set at all: the split is empty. */
static int open_sets(struct data *data, const struct plan *plan,
                     enum data_split which, struct err *err)
{
    const struct plan_data *list = plan->train;
    int list_n = plan->train_n;
    const char *split = plan->split[0] ? plan->split : NULL;
    if (which == DATA_VALID && plan->valid_n) {
        list = plan->valid;
        list_n = plan->valid_n;
        split = NULL;
    } else if (which != DATA_TRAIN && !split) {
        return 0;
    }
    double weights[PLAN_LIST_MAX];
    data->set = calloc((size_t)list_n + 1, sizeof *data->set);
    if (!data->set)
        return err_set(err, "data: out of memory");
    for (int i = 0; i < list_n; i++) {
        if (open_set(data, list[i].prefix, split, which, err))
            return -1;
        weights[i] = list[i].weight *
                     (plan->blend_by_size ? tokens_of_set(&data->set[i]) : 1);
    }
    if (list_n > 1) {
        data->blend = blend_create(weights, list_n, err);
        if (!data->blend)
            return -1;
    }
    return 0;
}

int data_grow(struct data *data, int i, int64_t more, struct err *err)
{
    struct data_set *set = &data->set[i];
    struct source *last = &set->samples.at[set->samples.n - 1];
    if (last->order)
        return order_extend(last->order, more, err);
    last->order = order_create_cached(set->tokens, set->first, set->n,
                                      last->seq_len, data->seed, last->part,
                                      more, data->cache, set->fingerprint,
                                      err);
    return last->order ? 0 : -1;
}

static int want_of_set(struct data *data, int i, int64_t n, struct err *err)
{
    int64_t have = sources_samples(&data->set[i].samples);
    return n > have ? data_grow(data, i, n - have, err) : 0;
}

/* Make the orders long enough for wanted_n samples beside the skipped ones.
 * What exists stays. */
static int want(struct data *data, struct err *err)
{
    int64_t raw = data->wanted_n - data->origin +
                  windows_total(&data->skipped);
    int64_t counts[PLAN_LIST_MAX];
    if (!data->sets_n || raw < 1)
        return 0;
    if (!data->blend) {
        if (want_of_set(data, 0, raw, err))
            return -1;
        data->raw_n = sources_samples(&data->set[0].samples);
        return 0;
    }
    blend_find(data->blend, raw, counts);
    for (int i = 0; i < data->sets_n; i++) {
        double share = ceil((double)raw * blend_weight(data->blend, i));
        int64_t n = (int64_t)ceil(share * (1 + set_surplus));
        if (want_of_set(data, i, n > counts[i] ? n : counts[i], err))
            return -1;
    }
    data->raw_n = raw;
    return 0;
}

static int take_settings(struct data *data, const struct plan *plan,
                         struct err *err)
{
    data->seed = plan->seed;
    data->seq_len = plan->seq_len;
    data->may_change = plan->data_may_change;
    if (*plan->run_dir && snprintf(data->cache, sizeof data->cache,
                                   "%s/index", plan->run_dir) >=
                              (int)sizeof data->cache)
        data->cache[0] = 0;
    data->vocab = plan->shape.V;
    data->eod = plan->eod_token;
    data->mask_loss = plan->eod_mask_loss;
    data->reset_positions = plan->eod_reset_positions;
    data->reset_attention = plan->eod_reset_attention;
    if (data->eod < 0 && (data->mask_loss || data->reset_positions ||
                          data->reset_attention))
        return err_set_class(err, ERR_REQUEST,
                             "data: eod_mask_loss, reset_positions and "
                             "reset_attention need an end-of-document token; "
                             "set data.eod_token or turn them off");
    data->sample = malloc(((size_t)data->seq_len + 1) * sizeof *data->sample);
    return data->sample ? 0 : err_set(err, "data: out of memory");
}

struct data *data_open(const struct plan *plan, enum data_split split,
                       int64_t samples_n, const json_t *state,
                       struct err *err)
{
    struct data *data = calloc(1, sizeof *data);
    if (!data) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    pthread_mutex_init(&data->lock, NULL);
    data->wanted_n = samples_n;
    if (take_settings(data, plan, err) || open_sets(data, plan, split, err) ||
        (state && cursor_restore(data, state, err)) || want(data, err)) {
        data_close(data);
        return NULL;
    }
    return data;
}

void data_close(struct data *data)
{
    if (!data)
        return;
    ahead_stop(data->ahead);
    for (int i = 0; i < data->sets_n; i++) {
        sources_release(&data->set[i].samples);
        tokens_close(data->set[i].tokens);
    }
    blend_destroy(data->blend);
    free(data->set);
    free(data->sample);
    json_decref(data->gone);
    pthread_mutex_destroy(&data->lock);
    free(data);
}

int64_t data_samples(const struct data *data)
{
    return data->raw_n ? data->origin + data->raw_n -
                             windows_total(&data->skipped)
                       : 0;
}

int data_skip(struct data *data, int64_t first, int64_t n, struct err *err)
{
    if (data->ahead)
        return err_set(err, "data: samples are skipped before reading ahead");
    if (first < data->origin) { /* the rest of it was drawn differently */
        n -= n < data->origin - first ? n : data->origin - first;
        first = data->origin;
    }
    return windows_add(&data->skipped, first - data->origin, n, err) ||
                   want(data, err)
               ? -1
               : 0;
}

/* seq_len + 1 tokens of drawn sample i. */
static int read_sample(void *ctx, int64_t i, int32_t *dst, struct err *err)
{
    struct data *data = ctx;
    int64_t counts[PLAN_LIST_MAX];
    int set = 0;
    pthread_mutex_lock(&data->lock);
    int64_t raw = windows_raw(&data->skipped, i - data->origin);
    counts[0] = raw;
    if (data->blend && i >= data->origin && raw < data->raw_n)
        set = blend_find(data->blend, raw, counts);
    pthread_mutex_unlock(&data->lock);
    if (i < data->origin || raw >= data->raw_n)
        return err_set(err, "data: no sample %" PRId64 ", there are %" PRId64,
                       i, data_samples(data));
    return sources_read(&data->set[set].samples, counts[set], data->vocab, dst,
                        err);
}

int data_read_ahead(struct data *data, int B, int64_t stride, struct err *err)
{
    data->ahead = ahead_start(read_sample, data, B, stride, data->seq_len + 1,
                              ahead_depth, err);
    return data->ahead ? 0 : -1;
}

void data_waits(const struct data *data, int64_t *ret_n, double *ret_s)
{
    *ret_n = 0;
    *ret_s = 0;
    if (data->ahead)
        ahead_waits(data->ahead, ret_n, ret_s);
}

/* Positions, loss mask and document ends of one row. A document owns its end
 * token; what follows starts anew. */
static void mark_row(const struct data *data, const int32_t *sample,
                     struct batch *batch, int b)
{
    int T = batch->T;
    int64_t row = (int64_t)b * T;
    int start = 0;
    for (int t = 0; t < T; t++) {
        bool ends = data->eod >= 0 && sample[t] == data->eod;
        if (batch->positions)
            batch->positions[row + t] = t - (data->reset_positions ? start
                                                                   : 0);
        if (batch->loss_mask)
            batch->loss_mask[row + t] = !(data->mask_loss && ends);
        if (!ends)
            continue;
        start = t + 1;
        if (batch->cu_seqlens && data->reset_attention && start < T)
            batch->cu_seqlens[++batch->docs] = (int32_t)(row + start);
    }
    if (batch->cu_seqlens)
        batch->cu_seqlens[++batch->docs] = (int32_t)(row + T);
}

static void measure_documents(struct batch *batch)
{
    batch->doc_max = batch->cu_seqlens ? 0 : batch->T;
    for (int i = 0; batch->cu_seqlens && i < batch->docs; i++) {
        int n = batch->cu_seqlens[i + 1] - batch->cu_seqlens[i];
        if (n > batch->doc_max)
            batch->doc_max = n;
    }
}

/* One row out of its sample's first T + 1 tokens. */
static void fill_row(const struct data *data, const int32_t *sample,
                     struct batch *batch, int b)
{
    size_t row_bytes = (size_t)batch->T * sizeof(int32_t);
    memcpy(batch->tokens + (int64_t)b * batch->T, sample, row_bytes);
    memcpy(batch->labels + (int64_t)b * batch->T, sample + 1, row_bytes);
    mark_row(data, sample, batch, b);
}

int data_fill(struct data *data, int64_t first, struct batch *batch,
              struct err *err)
{
    const int32_t *block = NULL;
    if (batch->T < 1 || batch->T > data->seq_len)
        return err_set(err, "data: a batch of %d tokens a sequence, the order "
                            "was made for %d", batch->T, data->seq_len);
    if ((data->mask_loss && !batch->loss_mask) ||
        (data->reset_attention && !batch->cu_seqlens))
        return err_set(err, "data: the batch has no room for a loss mask or "
                            "document bounds that the plan asks for");
    batch->docs = 0;
    if (batch->cu_seqlens)
        batch->cu_seqlens[0] = 0;
    if (data->ahead && batch->B == ahead_samples(data->ahead) &&
        !(block = ahead_take(data->ahead, first, err)))
        return -1;
    for (int b = 0; b < batch->B; b++) {
        const int32_t *sample = block ? block + b * (data->seq_len + 1)
                                      : data->sample;
        if (!block && read_sample(data, first + b, data->sample, err))
            return -1;
        fill_row(data, sample, batch, b);
    }
    if (!batch->cu_seqlens)
        batch->docs = batch->B;
    measure_documents(batch);
    return 0;
}
