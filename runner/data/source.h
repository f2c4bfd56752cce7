/* source - the samples of one data set, out of orders one behind the other.
 *
 * Mostly there is one order and its samples are read as they are. When a run
 * goes on with another sequence length, what was not read of the order until
 * then comes first: its samples are laid end to end and cut anew, so that no
 * token is read twice; behind it comes an order of the new length. Less than a
 * sample is left out at each border.
 */
#ifndef KB_DATA_SOURCE_H
#define KB_DATA_SOURCE_H

#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/order.h"

#define SOURCES_MAX 8

struct source {
    struct order *order; /* owned; NULL: nothing was asked of it yet */
    int seq_len;         /* of the order */
    int part;            /* number of its first part */
    int64_t from;        /* its first tokens, in samples, were read before */
};

struct sources {
    struct source at[SOURCES_MAX]; /* [n], the last one grows */
    int n;
    int seq_len; /* of the samples read; the last one's too */
};

void sources_release(struct sources *s);
int64_t sources_samples(const struct sources *s);
/* The seq_len + 1 tokens of sample i. */
int sources_read(const struct sources *s, int64_t i, int64_t vocab,
                 int32_t *dst, struct err *err);
/* The first `samples` samples were read. From now on they are of seq_len
 * tokens; 1: too many such changes. */
int sources_go_on(struct sources *s, int64_t samples, int seq_len);

#endif
