/* source - see source.h. A source's samples laid end to end are its row; a
 * place in it is a number of tokens. */
#include "runner/data/source.h"

#include <stdlib.h>
#include <string.h>

void sources_release(struct sources *s)
{
    for (int i = 0; i < s->n; i++)
        order_destroy(s->at[i].order);
    s->n = 0;
}

/* Samples of seq_len tokens that are left in it. */
static int64_t left(const struct source *s, int seq_len)
{
    int64_t row = s->order ? order_samples(s->order) * s->seq_len : 0;
    return row > s->from ? (row - s->from) / seq_len : 0;
}

int64_t sources_samples(const struct sources *s)
{
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += left(&s->at[i], s->seq_len);
    return sum;
}

/* n + 1 tokens of the row at `at`. The one behind the last is that of the
 * order's sample, which goes on there. */
static int read_row(const struct source *s, int64_t at, int n, int64_t vocab,
                    int32_t *dst, struct err *err)
{
    int32_t *sample = malloc(((size_t)s->seq_len + 1) * sizeof *sample);
    int rc = sample ? 0 : err_set(err, "data: out of memory");
    for (int done = 0; !rc && done < n;) {
        int offset = (int)(at % s->seq_len), some = s->seq_len - offset;
        if (some > n - done)
            some = n - done;
        rc = order_read(s->order, at / s->seq_len, vocab, sample, err);
        if (!rc)
            memcpy(dst + done, sample + offset,
                   ((size_t)some + 1) * sizeof *dst);
        done += some;
        at += some;
    }
    free(sample);
    return rc;
}

int sources_read(const struct sources *s, int64_t i, int64_t vocab,
                 int32_t *dst, struct err *err)
{
    const struct source *source = s->at;
    for (int64_t n; source < s->at + s->n - 1; source++, i -= n)
        if (i < (n = left(source, s->seq_len)))
            break;
    int64_t at = source->from + i * s->seq_len;
    if (source->seq_len == s->seq_len && at % s->seq_len == 0)
        return order_read(source->order, at / s->seq_len, vocab, dst, err);
    return read_row(source, at, s->seq_len, vocab, dst, err);
}

/* Forget sources of which nothing is left, but not the last one. */
static void drop_empty(struct sources *s, int seq_len)
{
    int kept = 0;
    for (int i = 0; i < s->n; i++) {
        if (i < s->n - 1 && !left(&s->at[i], seq_len))
            order_destroy(s->at[i].order);
        else
            s->at[kept++] = s->at[i];
    }
    s->n = kept;
}

int sources_go_on(struct sources *s, int64_t samples, int seq_len)
{
    for (int i = 0; i < s->n; i++) {
        int64_t n = left(&s->at[i], s->seq_len);
        n = n < samples ? n : samples;
        s->at[i].from += n * s->seq_len;
        samples -= n;
    }
    drop_empty(s, seq_len);
    struct source *last = &s->at[s->n - 1];
    if (last->seq_len != seq_len) {
        int64_t sizes[ORDER_PARTS_MAX];
        int parts_n = last->order ? order_parts(last->order, sizes) : 0;
        if (s->n == SOURCES_MAX)
            return 1;
        s->at[s->n++] = (struct source){.seq_len = seq_len,
                                        .part = last->part + parts_n};
        drop_empty(s, seq_len);
    }
    s->seq_len = seq_len;
    return 0;
}
