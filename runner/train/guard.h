/* guard - is this step's loss or gradient norm out of line with the last ones?
 *
 * History of a window of good steps. A step above mean + sigma * deviation is
 * not applied (its update is skipped, its data consumed). Many in a short time,
 * or values that are not finite, end the attempt for a roll back. Not finite
 * from the first steps is the user's configuration, not an accident.
 * The whole state is in the checkpoint: a resumed run judges alike.
 */
#ifndef KB_TRAIN_GUARD_H
#define KB_TRAIN_GUARD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"

#define GUARD_WINDOW_MAX 1024

struct guard_history {
    double value[GUARD_WINDOW_MAX]; /* ring */
    int n, at;
};
struct guard {
    int window;
    double sigma;                   /* 0: off */
    struct guard_history loss, norm;
    int64_t good;                   /* steps that were fine, ever */
    int bad_row;                    /* not finite, in a row */
    uint32_t recent;                /* bit i: was the step i ago skipped */
};

enum guard_verdict {
    GUARD_FINE,
    GUARD_SKIPPED,   /* one bad step, not applied */
    GUARD_ROLL_BACK, /* go back to an older checkpoint */
    GUARD_HOPELESS,  /* never was finite: the configuration is wrong */
};

void guard_init(struct guard *guard, int window, double sigma);
/* What the next step may have at most; INFINITY while there is too little
 * history. */
void guard_limits(const struct guard *guard, double *ret_loss_max,
                  double *ret_norm_max);
enum guard_verdict guard_look(struct guard *guard, double loss, double norm,
                              bool finite, bool skipped);
json_t *guard_state(const struct guard *guard);
int guard_restore(struct guard *guard, const json_t *state, struct err *err);

#endif
