/* move - elements between a box in row-major order (as a file has it) and a
 * view's memory, on the host or a device. Private to runner/ckpt. */
#ifndef KB_CKPT_MOVE_H
#define KB_CKPT_MOVE_H

#include "runner/ckpt/box.h"

/* How the common part of a box in row-major order and a view's memory moves.
 * Linear elements count in the box. */
struct move {
    int dims;
    int64_t part[VIEW_DIMS];   /* extent of what moves */
    int64_t skip[VIEW_DIMS];   /* its start in the box */
    int64_t box[VIEW_DIMS];    /* extent of the box */
    int64_t stride[VIEW_DIMS]; /* in memory */
    int64_t base;              /* element of memory where the part starts */
    int64_t first, end;        /* linear elements of the box that it spans */
};
/* False when box and view have nothing in common. */
bool move_plan(const struct view *view, const struct box *box,
               struct move *ret);
/* Move those of linear elements lo .. hi (exclusive) that belong to the part:
 * linear points at element lo of the box, memory at the view's. device: NULL,
 * or memory is the device's; then the copies are queued on its stream 0. */
enum kstatus move_in(const struct move *move, size_t elem_bytes, int64_t lo,
                     int64_t hi, const void *linear, void *memory,
                     struct device *device);
enum kstatus move_out(const struct move *move, size_t elem_bytes, int64_t lo,
                      int64_t hi, void *linear, const void *memory,
                      struct device *device);

#endif
