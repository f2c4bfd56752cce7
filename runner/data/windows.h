/* windows - samples of an order that are never drawn, and the count that goes
 * on without them. "Drawn" numbers count samples as a run sees them, "raw"
 * numbers are places in the order. */
#ifndef KB_DATA_WINDOWS_H
#define KB_DATA_WINDOWS_H

#include <stdint.h>

#include "runner/base/err.h"

#define WINDOWS_MAX 1024

/* Raw [lo, hi), ascending, apart from each other. */
struct window {
    int64_t lo, hi;
};

struct windows {
    struct window list[WINDOWS_MAX];
    int n;
};

int64_t windows_raw(const struct windows *w, int64_t drawn);
int64_t windows_total(const struct windows *w); /* samples left out */
/* Leave out drawn samples first .. first + n from now on. */
int windows_add(struct windows *w, int64_t first, int64_t n, struct err *err);

#endif
