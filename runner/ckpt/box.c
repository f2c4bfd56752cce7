/* box - boxes of a tensor; see box.h. */
#include "runner/ckpt/box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX ((int64_t)1 << 56)

struct box box_of_view(const struct view *view)
{
    struct box box = {.dims = view->dims};
    memcpy(box.offset, view->offset, sizeof box.offset);
    memcpy(box.extent, view->extent, sizeof box.extent);
    return box;
}

bool box_intersect(const struct box *a, const struct box *b, struct box *ret)
{
    *ret = (struct box){.dims = a->dims};
    for (int i = 0; i < a->dims; i++) {
        int64_t end_a = a->offset[i] + a->extent[i];
        int64_t end_b = b->offset[i] + b->extent[i];
        int64_t first = a->offset[i] > b->offset[i] ? a->offset[i]
                                                    : b->offset[i];
        int64_t end = end_a < end_b ? end_a : end_b;
        if (first >= end)
            return false;
        ret->offset[i] = first;
        ret->extent[i] = end - first;
    }
    return true;
}

int64_t box_count(const struct box *box)
{
    int64_t n = 1;
    for (int i = 0; i < box->dims; i++)
        n *= box->extent[i];
    return n;
}

int64_t box_shape_count(int dims, const int64_t shape[VIEW_DIMS])
{
    int64_t n = 1;
    if (dims < 1 || dims > VIEW_DIMS)
        return -1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 1 || shape[i] > COUNT_MAX / n)
            return -1;
        n *= shape[i];
    }
    return n;
}

int box_check(const struct box *box, const int64_t shape[VIEW_DIMS])
{
    if (box_shape_count(box->dims, shape) < 0)
        return -1;
    for (int i = 0; i < box->dims; i++)
        if (box->offset[i] < 0 || box->extent[i] < 1 ||
            box->extent[i] > shape[i] ||
            box->offset[i] > shape[i] - box->extent[i])
            return -1;
    return 0;
}

void box_text(const struct box *box, char *dst, size_t dst_bytes)
{
    size_t at = 0;
    for (int part = 0; part < 2; part++) {
        for (int i = 0; i < box->dims && at < dst_bytes; i++) {
            int64_t v = part ? box->extent[i] : box->offset[i];
            const char *between = i ? "," : part ? "+" : "";
            int n = snprintf(dst + at, dst_bytes - at, "%s%lld", between,
                             (long long)v);
            at += n > 0 ? (size_t)n : 0;
        }
    }
}

/* Digits alone, and not too many. */
static bool parse_number(const char **at, int64_t *ret)
{
    int64_t v = 0;
    int digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 18; (*at)++, digits++)
        v = v * 10 + (**at - '0');
    *ret = v;
    return digits > 0;
}

bool box_parse(const char *text, struct box *ret)
{
    *ret = (struct box){0};
    for (int i = 0; i < VIEW_DIMS; i++) {
        if (!parse_number(&text, &ret->offset[i]))
            return false;
        ret->dims = i + 1;
        if (*text == '+')
            break;
        if (*text++ != ',')
            return false;
    }
    if (*text++ != '+')
        return false;
    for (int i = 0; i < ret->dims; i++) {
        if (i && *text++ != ',')
            return false;
        if (!parse_number(&text, &ret->extent[i]))
            return false;
    }
    return !*text;
}
