/* windows - see windows.h. */
#include "runner/data/windows.h"

#include <string.h>

int64_t windows_raw(const struct windows *w, int64_t drawn)
{
    int64_t raw = drawn;
    for (int i = 0; i < w->n && w->list[i].lo <= raw; i++)
        raw += w->list[i].hi - w->list[i].lo;
    return raw;
}

int64_t windows_total(const struct windows *w)
{
    int64_t sum = 0;
    for (int i = 0; i < w->n; i++)
        sum += w->list[i].hi - w->list[i].lo;
    return sum;
}

int windows_add(struct windows *w, int64_t first, int64_t n, struct err *err)
{
    if (first < 0 || n < 0 || first > INT64_MAX - n)
        return err_set(err, "data: cannot skip %lld samples from %lld",
                       (long long)n, (long long)first);
    if (!n)
        return 0;
    /* Windows between the first and the last new one are swallowed, windows
     * that touch are joined. */
    struct window add = {windows_raw(w, first),
                         windows_raw(w, first + n - 1) + 1};
    int from = 0, to;
    while (from < w->n && w->list[from].hi < add.lo)
        from++;
    for (to = from; to < w->n && w->list[to].lo <= add.hi; to++) {
        if (w->list[to].lo < add.lo)
            add.lo = w->list[to].lo;
        if (w->list[to].hi > add.hi)
            add.hi = w->list[to].hi;
    }
    if (to == from && w->n == WINDOWS_MAX)
        return err_set(err, "data: more than %d skipped windows", WINDOWS_MAX);
    memmove(&w->list[from + 1], &w->list[to],
            (size_t)(w->n - to) * sizeof *w->list);
    w->list[from] = add;
    w->n += 1 - (to - from);
    return 0;
}
