/* scaler - see scaler.h. */
#include "runner/optim/scaler.h"

#include <math.h>

#include "runner/base/json.h"

#define SCALE_MOST 0x1p60 /* gradients of zero never overflow */

void scaler_init(struct scaler *s, double scale, double least, int window,
                 int hysteresis)
{
    *s = (struct scaler){.scale = scale, .least = least, .window = window,
                         .hysteresis = hysteresis, .left = hysteresis};
}

static void step_good(struct scaler *s)
{
    if (++s->good < s->window)
        return;
    s->good = 0;
    s->left = s->hysteresis;
    if (s->scale < SCALE_MOST)
        s->scale *= 2;
}

bool scaler_step(struct scaler *s, bool overflow)
{
    if (!overflow) {
        step_good(s);
        return true;
    }
    s->good = 0;
    s->overflows++;
    if (s->left > 1) {
        s->left--;
        return true;
    }
    if (s->scale <= s->least)
        return false;
    s->scale = fmax(s->scale / 2, s->least);
    return true;
}

json_t *scaler_state(const struct scaler *s)
{
    return json_pack("{s:f, s:i, s:i, s:I}", "scale", s->scale, "good",
                     s->good, "left", s->left, "overflows",
                     (json_int_t)s->overflows);
}

int scaler_restore(struct scaler *s, const json_t *state, struct err *err)
{
    int64_t good, left, overflows;
    double scale = json_number_value(json_object_get(state, "scale"));
    if (json_get_i64(state, "good", &good, err) != 0 ||
        json_get_i64(state, "left", &left, err) != 0 ||
        json_get_i64(state, "overflows", &overflows, err) != 0)
        return -1;
    if (!(scale > 0) || !isfinite(scale) || good < 0 || left < 0 ||
        overflows < 0)
        return err_set_class(err, ERR_STEP,
                             "optim: the checkpoint's loss scale is damaged");
    s->scale = fmax(scale, s->least);
    s->good = good < s->window ? (int)good : s->window - 1;
    s->left = left < s->hysteresis ? (int)left : s->hysteresis;
    s->overflows = overflows;
    return 0;
}
