/* feed - micro-batches from token files to device memory.
 *
 * On the CPU the samples are written where the model reads them. On a device
 * they go through pinned memory on the compute stream; a host buffer is
 * written again only when its last copy is done.
 */
#include "runner/train/train.h"

#include <stdlib.h>

static int64_t tokens_of(const struct plan *plan)
{
    return (int64_t)plan->micro_batch * plan->seq_len;
}

static bool batch_alloc(struct batch *b, const struct plan *plan,
                        void *(*alloc)(struct device *device, size_t bytes),
                        struct device *device)
{
    size_t N = (size_t)tokens_of(plan);
    *b = (struct batch){.B = plan->micro_batch, .T = plan->seq_len};
    b->tokens = alloc(device, 4 * N);
    b->labels = alloc(device, 4 * N);
    b->positions = alloc(device, 4 * N);
    if (plan->eod_mask_loss)
        b->loss_mask = alloc(device, N);
    if (plan->eod_reset_attention)
        b->cu_seqlens = alloc(device, 4 * (N + 1));
    return b->tokens && b->labels && b->positions &&
           (b->loss_mask || !plan->eod_mask_loss) &&
           (b->cu_seqlens || !plan->eod_reset_attention);
}

static int tables_alloc(struct feed *feed)
{
    size_t n = (size_t)feed->n;
    feed->host = calloc(n, sizeof *feed->host);
    feed->dev = calloc(n, sizeof *feed->dev);
    feed->used = calloc(n, sizeof *feed->used);
    feed->first = calloc(n, sizeof *feed->first);
    return feed->host && feed->dev && feed->used && feed->first ? 0 : -1;
}

int feed_open(struct feed *feed, const struct plan *plan,
              struct device *device, stream_t stream, struct err *err)
{
    *feed = (struct feed){.device = device, .stream = stream, .n = plan->feeds,
                          .T = plan->seq_len,
                          .direct = device_kind(device) == DEVICE_CPU};
    if (tables_alloc(feed) != 0)
        return err_set(err, "train: no memory for batches");
    for (int i = 0; i < feed->n; i++) {
        if (!batch_alloc(&feed->dev[i], plan, device_alloc, device) ||
            (!feed->direct &&
             !batch_alloc(&feed->host[i], plan, device_alloc_host, device)))
            return err_set(err, "train: no memory for batches");
        if (!feed->direct)
            feed->used[i] = device_event_create(device);
    }
    feed_forget(feed);
    return 0;
}

void feed_close(struct feed *feed)
{
    free(feed->host);
    free(feed->dev);
    free(feed->used);
    free(feed->first);
    *feed = (struct feed){0};
}

void feed_forget(struct feed *feed)
{
    for (int i = 0; i < feed->n; i++)
        feed->first[i] = -1;
}

static enum kstatus copy_batch(struct feed *f, const struct batch *host,
                               struct batch *dev)
{
    size_t N = (size_t)host->B * (size_t)host->T;
    const struct { void *dst; const void *src; size_t bytes; } parts[] = {
        {dev->tokens, host->tokens, 4 * N},
        {dev->labels, host->labels, 4 * N},
        {dev->positions, host->positions, 4 * N},
        {dev->loss_mask, host->loss_mask, N},
        {dev->cu_seqlens, host->cu_seqlens, 4 * (size_t)(host->docs + 1)},
    };
    enum kstatus k = K_OK;
    for (int i = 0; i < 5 && k == K_OK; i++)
        if (parts[i].dst)
            k = device_copy_in(f->device, parts[i].dst, parts[i].src,
                               parts[i].bytes, f->stream);
    dev->docs = host->docs;
    dev->doc_max = host->doc_max;
    return k;
}

static const struct batch *copied(struct feed *f, int at, struct err *err)
{
    enum kstatus k = copy_batch(f, &f->host[at], &f->dev[at]);
    if (k == K_OK)
        k = device_event_record(f->device, f->used[at], f->stream);
    if (k == K_OK)
        return &f->dev[at];
    err_set_class(err, ERR_GPU, "train: copying a batch failed: %s",
                  device_error(f->device));
    return NULL;
}

const struct batch *feed_get(struct feed *f, int at, struct data *data,
                             int64_t first, struct err *err)
{
    if (f->first[at] == first)
        return &f->dev[at];
    f->first[at] = first;
    f->dev[at].T = f->host[at].T = f->T;
    if (f->direct)
        return data_fill(data, first, &f->dev[at], err) == 0 ? &f->dev[at]
                                                             : NULL;
    while (!device_event_done(f->device, f->used[at]))
        ; /* some micro-batches ago: long done in practice */
    if (data_fill(data, first, &f->host[at], err) != 0)
        return NULL;
    return copied(f, at, err);
}
