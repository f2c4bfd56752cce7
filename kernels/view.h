/* view - a box of a global tensor, wherever it lies in memory.
 *
 * What is saved and loaded is a list of views; several views a tensor are
 * normal, and any layout loads any other. Names, shapes and orientation are
 * Hugging Face's, never fused; optimizer state is master/NAME, exp_avg/NAME,
 * exp_avg_sq/NAME, cut on rows.
 */
#ifndef KB_KERNELS_VIEW_H
#define KB_KERNELS_VIEW_H

#include <stdint.h>

#include "kernels/device.h"

#define VIEW_DIMS 4
#define VIEW_NAME_BYTES 192

/* Columns of a matrix in memory that are a box of columns of the tensor. */
struct view_cols {
    int64_t at;          /* in memory's row */
    int64_t offset, n;   /* in the tensor */
};
#define VIEW_COLS 3

struct view {
    char name[VIEW_NAME_BYTES];
    enum dtype dtype;
    int dims;
    int64_t shape[VIEW_DIMS];   /* of the global tensor */
    int64_t offset[VIEW_DIMS];  /* of this box */
    int64_t extent[VIEW_DIMS];
    int64_t stride[VIEW_DIMS];  /* in elements, in memory at ptr */
    bool on_device;             /* else host */
    void *ptr;
};

#endif
