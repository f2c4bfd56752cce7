/* fill - views filled from a checkpoint of any layout. Private to runner/ckpt.
 *
 * For each view the boxes of its tensor that have something in common with it
 * are looked up; each block that holds a byte of these is read once, verified,
 * and copied from. */
#ifndef KB_CKPT_FILL_H
#define KB_CKPT_FILL_H

#include "kernels/view.h"
#include "runner/base/err.h"
#include "runner/ckpt/manifest.h"

struct fill_stats {
    int64_t read_bytes;   /* of files */
    int64_t wanted_bytes; /* of the views */
};

/* A tensor that is absent or has another shape or dtype: ERR_REQUEST. device
 * may be NULL when all views are in host memory; stats may be NULL. */
int fill_views(const char *dir, const struct manifest *m,
               const struct view *views, int views_n, struct device *device,
               struct fill_stats *stats, struct err *err);

/* Rows first .. first + rows (of the first side) of a tensor, row-major. */
int fill_rows(const char *dir, const struct manifest *m,
              const struct tensor *t, int64_t first, int64_t rows, void *dst,
              struct err *err);
/* Bytes of one row. */
int64_t fill_row_bytes(const struct tensor *t);

#endif
