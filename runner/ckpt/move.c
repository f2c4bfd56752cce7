/* move - elements between a box and memory; see move.h. */
#include "runner/ckpt/move.h"

#include <string.h>

/* Where all of the last side moves and memory goes on without a gap, the last
 * two sides are one: fewer and longer runs. */
static void merge_sides(struct move *m)
{
    while (m->dims > 1) {
        int last = m->dims - 1, before = last - 1;
        if (m->part[last] != m->box[last] ||
            m->stride[before] != m->box[last] * m->stride[last])
            return;
        m->part[before] *= m->part[last];
        m->skip[before] *= m->box[last];
        m->box[before] *= m->box[last];
        m->stride[before] = m->stride[last];
        m->dims = last;
    }
}

bool move_plan(const struct view *view, const struct box *box,
               struct move *ret)
{
    struct box mine = box_of_view(view), part;
    if (mine.dims != box->dims || !box_intersect(&mine, box, &part))
        return false;
    *ret = (struct move){.dims = box->dims};
    for (int i = 0; i < box->dims; i++) {
        ret->part[i] = part.extent[i];
        ret->skip[i] = part.offset[i] - box->offset[i];
        ret->box[i] = box->extent[i];
        ret->stride[i] = view->stride[i];
        ret->base += (part.offset[i] - mine.offset[i]) * view->stride[i];
    }
    merge_sides(ret);
    int64_t first = 0, last = 0;
    for (int i = 0; i < ret->dims; i++) {
        first = first * ret->box[i] + ret->skip[i];
        last = last * ret->box[i] + ret->skip[i] + ret->part[i] - 1;
    }
    ret->first = first;
    ret->end = last + 1;
    return true;
}

/* One run of n elements, `stride` apart in memory. */
struct run {
    char *linear, *memory;
    int64_t n, stride;
    size_t elem;
    bool in;
    struct device *device;
};

static enum kstatus copy_bytes(const struct run *run, char *linear,
                               char *memory, size_t bytes)
{
    stream_t stream;
    if (!run->device) {
        if (run->in)
            memcpy(memory, linear, bytes);
        else
            memcpy(linear, memory, bytes);
        return K_OK;
    }
    stream = device_stream(run->device, 0);
    return run->in ? device_copy_in(run->device, memory, linear, bytes, stream)
                   : device_copy_out(run->device, linear, memory, bytes,
                                     stream);
}

static enum kstatus copy_run(const struct run *run)
{
    enum kstatus rc = K_OK;
    if (run->stride == 1)
        return copy_bytes(run, run->linear, run->memory,
                          (size_t)run->n * run->elem);
    for (int64_t i = 0; i < run->n && rc == K_OK; i++)
        rc = copy_bytes(run, run->linear + (size_t)i * run->elem,
                        run->memory + i * run->stride * (int64_t)run->elem,
                        run->elem);
    return rc;
}

/* The part's run in row `row` of the box: its start in memory, or false when
 * the row is not of the part. */
static bool row_in_part(const struct move *m, int64_t row, int64_t *ret_memory)
{
    int64_t at = m->base;
    for (int i = m->dims - 2; i >= 0; i--) {
        int64_t index = row % m->box[i] - m->skip[i];
        row /= m->box[i];
        if (index < 0 || index >= m->part[i])
            return false;
        at += index * m->stride[i];
    }
    *ret_memory = at;
    return true;
}

static enum kstatus move_range(const struct move *m, struct run run,
                               char *memory, int64_t lo, int64_t hi)
{
    int last = m->dims - 1;
    int64_t width = m->box[last], at;
    char *linear = run.linear;
    if (lo < m->first)
        linear += (size_t)(m->first - lo) * run.elem, lo = m->first;
    if (hi > m->end)
        hi = m->end;
    run.stride = m->stride[last];
    for (int64_t row = lo / width; lo < hi && row <= (hi - 1) / width; row++) {
        if (!row_in_part(m, row, &at))
            continue;
        int64_t begin = row * width + m->skip[last];
        int64_t first = begin > lo ? begin : lo;
        int64_t end = begin + m->part[last] < hi ? begin + m->part[last] : hi;
        if (first >= end)
            continue;
        run.linear = linear + (size_t)(first - lo) * run.elem;
        run.memory = memory + (at + (first - begin) * run.stride) *
                                  (int64_t)run.elem;
        run.n = end - first;
        enum kstatus rc = copy_run(&run);
        if (rc != K_OK)
            return rc;
    }
    return K_OK;
}

enum kstatus move_in(const struct move *move, size_t elem_bytes, int64_t lo,
                     int64_t hi, const void *linear, void *memory,
                     struct device *device)
{
    struct run run = {.linear = (char *)(uintptr_t)linear, .elem = elem_bytes,
                      .in = true, .device = device};
    return move_range(move, run, memory, lo, hi);
}

enum kstatus move_out(const struct move *move, size_t elem_bytes, int64_t lo,
                      int64_t hi, void *linear, const void *memory,
                      struct device *device)
{
    struct run run = {.linear = linear, .elem = elem_bytes, .in = false,
                      .device = device};
    return move_range(move, run, (char *)(uintptr_t)memory, lo, hi);
}
