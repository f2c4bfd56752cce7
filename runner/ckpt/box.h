/* box - boxes of a tensor. Private to runner/ckpt; no device, no comm. */
#ifndef KB_CKPT_BOX_H
#define KB_CKPT_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/view.h"

struct box {
    int dims;
    int64_t offset[VIEW_DIMS], extent[VIEW_DIMS];
};

struct box box_of_view(const struct view *view);
/* The common part; false when there is none. */
bool box_intersect(const struct box *a, const struct box *b, struct box *ret);
/* Elements. The box passed box_check. */
int64_t box_count(const struct box *box);
/* 0 when the box lies inside shape and its elements can be counted. */
int box_check(const struct box *box, const int64_t shape[VIEW_DIMS]);
/* Elements of a shape, or -1 when a side is below 1 or they are too many. */
int64_t box_shape_count(int dims, const int64_t shape[VIEW_DIMS]);
/* "0,128+64,128" (offset+extent) into dst. */
void box_text(const struct box *box, char *dst, size_t dst_bytes);
bool box_parse(const char *text, struct box *ret);

#endif
