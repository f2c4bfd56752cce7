/* scaler - fp16's dynamic loss scale: a state machine, pure.
 *
 * The loss is multiplied by the scale, so that small gradients do not vanish
 * in fp16; the update divides by it. A gradient that is not finite while the
 * loss is finite is an overflow: the step is skipped, and the scale comes down
 * when `hysteresis` of them were seen since it last changed upwards. After
 * `window` good steps in a row it doubles. At the least scale an overflow is no
 * matter of the scale any more.
 */
#ifndef KB_OPTIM_SCALER_H
#define KB_OPTIM_SCALER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"

struct scaler {
    double scale, least;
    int window, hysteresis;
    int good;              /* steps in a row without an overflow */
    int left;              /* overflows until the scale comes down */
    int64_t overflows;     /* ever */
};

void scaler_init(struct scaler *scaler, double scale, double least, int window,
                 int hysteresis);
/* After a step. false: an overflow that a smaller scale cannot mend. */
bool scaler_step(struct scaler *scaler, bool overflow);
json_t *scaler_state(const struct scaler *scaler);
/* What the scale was; window and hysteresis stay as configured. */
int scaler_restore(struct scaler *scaler, const json_t *state,
                   struct err *err);

#endif
