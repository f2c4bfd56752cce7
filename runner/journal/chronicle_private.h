/* chronicle_private - what the report's reading hands to its reckoning. */
#ifndef KB_JOURNAL_CHRONICLE_PRIVATE_H
#define KB_JOURNAL_CHRONICLE_PRIVATE_H

#include "runner/journal/chronicle.h"

/* One line of metrics.jsonl, kept until it is known which steps count. */
struct chronicle_point {
    int64_t step;
    double ms, loss, tokens_per_s;
};

struct chronicle_reading {
    struct chronicle_attempt *a;
    struct chronicle *run;
    struct chronicle_point *points;   /* [points_n] of this attempt, owned */
    int points_n, points_cap;
};

/* Fills reading->a and its points; what is missing is left blank. */
int chronicle_read_attempt(const char *run_dir, int number,
                        struct chronicle_reading *reading, struct err *err);
/* Iteration time of an attempt's steps up to `kept`, in seconds. */
double chronicle_productive(const struct chronicle_attempt *a,
                         const struct chronicle_point *points, int points_n,
                         int64_t kept);

#endif
