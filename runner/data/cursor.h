/* cursor - the data's inside, and how it goes into a manifest and back. */
#ifndef KB_DATA_CURSOR_H
#define KB_DATA_CURSOR_H

#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/ahead.h"
#include "runner/data/blend.h"
#include "runner/data/order.h"
#include "runner/data/source.h"
#include "runner/data/tokens.h"
#include "runner/data/windows.h"

/* One corpus of the blend. */
struct data_set {
    struct tokens *tokens;
    struct sources samples; /* the last one is empty until asked for */
    int64_t first, n;      /* the split's sequences */
    uint64_t fingerprint;
};

struct data {
    struct data_set *set;  /* [sets_n] */
    int sets_n;
    struct blend *blend;   /* NULL: one set */
    struct windows skipped;
    int64_t origin;        /* drawn samples before the data last changed: blend
                              and windows count from there */
    json_t *gone;          /* sets that were taken out, as they were, or NULL */
    bool may_change;
    int64_t wanted_n;      /* samples that the run draws */
    int64_t raw_n;         /* samples that exist, the skipped ones counted */
    uint64_t seed;
    int seq_len;
    int64_t vocab;
    int32_t *sample;       /* [seq_len + 1] scratch */
    int eod;
    bool mask_loss, reset_positions, reset_attention;
    pthread_mutex_t lock;  /* blend and windows: a reader ahead uses them too */
    struct ahead *ahead;   /* or NULL */
    char cache[PATH_MAX];  /* folder of the orders' files, or "" */
};

/* Samples more for a set. */
int data_grow(struct data *data, int set, int64_t more, struct err *err);

/* Take over windows and orders. A state that does not fit the files and
 * settings is refused, or gone on from where data.continue_changed allows it
 * (cursor_change.c). */
int cursor_restore(struct data *data, const json_t *state, struct err *err);
/* Orders of a set as it was recorded, for samples of seq_len. */
int cursor_orders(struct data *data, int set, const json_t *was, int seq_len,
                  struct err *err);

/* ---- cursor_change.c ----------------------------------------------------- */
/* Go on with other sets, weights or sequence length: each set that was there
 * goes on where it was, a new one begins. */
int cursor_change(struct data *data, const json_t *state, struct err *err);

#endif
