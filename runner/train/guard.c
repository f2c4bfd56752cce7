/* guard - see guard.h. */
#include "runner/train/guard.h"

#include <math.h>
#include <string.h>

#include "runner/base/json.h"

#define ENOUGH_OF_WINDOW 0.5  /* history needed before judging */
#define BAD_ROW_MAX 2         /* not finite in a row */
#define RECENT_STEPS 32
#define RECENT_MAX 6          /* skipped among the recent ones */
/* A deviation below this share of the mean is taken as this: small models'
 * losses lie so close that chance would look like a spike. */
#define LOSS_FLOOR 0.02
#define NORM_FLOOR 0.25

void guard_init(struct guard *guard, int window, double sigma)
{
    memset(guard, 0, sizeof *guard);
    guard->window = window < GUARD_WINDOW_MAX ? window : GUARD_WINDOW_MAX;
    guard->sigma = sigma;
}

static void history_add(struct guard_history *h, int window, double value)
{
    if (window < 1)
        return;
    h->value[h->at] = value;
    h->at = (h->at + 1) % window;
    if (h->n < window)
        h->n++;
}

static double history_limit(const struct guard_history *h, double sigma,
                            double floor)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < h->n; i++)
        sum += h->value[i];
    double mean = sum / h->n;
    for (int i = 0; i < h->n; i++)
        squares += (h->value[i] - mean) * (h->value[i] - mean);
    double deviation = sqrt(squares / h->n);
    return mean + sigma * fmax(deviation, floor * fabs(mean));
}

void guard_limits(const struct guard *guard, double *ret_loss_max,
                  double *ret_norm_max)
{
    *ret_loss_max = *ret_norm_max = INFINITY;
    if (guard->sigma <= 0 || guard->loss.n < 8 ||
        guard->loss.n < guard->window * ENOUGH_OF_WINDOW)
        return;
    *ret_loss_max = history_limit(&guard->loss, guard->sigma, LOSS_FLOOR);
    *ret_norm_max = history_limit(&guard->norm, guard->sigma, NORM_FLOOR);
}

enum guard_verdict guard_look(struct guard *guard, double loss, double norm,
                              bool finite, bool skipped)
{
    guard->recent = guard->recent << 1 | (skipped ? 1u : 0u);
    guard->bad_row = finite ? 0 : guard->bad_row + 1;
    if (!skipped) {
        guard->good++;
        history_add(&guard->loss, guard->window, loss);
        history_add(&guard->norm, guard->window, norm);
        return GUARD_FINE;
    }
    if (guard->bad_row >= BAD_ROW_MAX)
        return guard->good == 0 ? GUARD_HOPELESS : GUARD_ROLL_BACK;
    if (__builtin_popcount(guard->recent) >= RECENT_MAX)
        return GUARD_ROLL_BACK;
    return GUARD_SKIPPED;
}

/* ---- In the checkpoint --------------------------------------------------- */
static json_t *history_state(const struct guard_history *h)
{
    json_t *values = json_array();
    for (int i = 0; i < h->n; i++)
        json_array_append_new(values, json_real(h->value[i]));
    return json_pack("{s:i, s:o}", "at", h->at, "values", values);
}

json_t *guard_state(const struct guard *guard)
{
    return json_pack("{s:i, s:I, s:i, s:I, s:o, s:o}", "window", guard->window,
                     "good", (json_int_t)guard->good, "bad_row",
                     guard->bad_row, "recent", (json_int_t)guard->recent,
                     "loss", history_state(&guard->loss), "norm",
                     history_state(&guard->norm));
}

static int history_restore(struct guard_history *h, int window,
                           const json_t *state, struct err *err)
{
    const json_t *values = json_object_get(state, "values");
    int64_t at;
    if (json_get_i64(state, "at", &at, err) != 0)
        return -1;
    if (!json_is_array(values) || json_array_size(values) > (size_t)window ||
        at < 0 || at >= window)
        return err_set_class(err, ERR_STEP,
                             "guard: the checkpoint's history is damaged");
    h->n = (int)json_array_size(values);
    h->at = (int)at;
    for (int i = 0; i < h->n; i++)
        h->value[i] = json_number_value(json_array_get(values, (size_t)i));
    return 0;
}

int guard_restore(struct guard *guard, const json_t *state, struct err *err)
{
    int64_t good, bad_row, recent;
    if (json_get_i64(state, "good", &good, err) != 0 ||
        json_get_i64(state, "bad_row", &bad_row, err) != 0 ||
        json_get_i64(state, "recent", &recent, err) != 0)
        return -1;
    guard->good = good;
    guard->bad_row = (int)bad_row;
    guard->recent = (uint32_t)recent;
    /* Another window starts a history of its own. */
    if (json_i64_or(state, "window", -1) != guard->window)
        return 0;
    return history_restore(&guard->loss, guard->window,
                           json_object_get(state, "loss"), err) ||
                   history_restore(&guard->norm, guard->window,
                                   json_object_get(state, "norm"), err)
               ? -1
               : 0;
}
