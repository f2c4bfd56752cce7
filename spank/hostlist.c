/* hostlist - the first host of a list; see hostlist.h. */
#include "spank/hostlist.h"

#include <string.h>

int hostlist_first(const char *list, char *dst, size_t dst_bytes)
{
    size_t len = 0;
    const char *p = list;
    while (*p && *p != ',') {
        const char *from = p;
        size_t n = 1;
        if (*p == ']')
            return -1;
        if (*p == '[') {
            /* The first number of the bracket; the rest is passed over. */
            from = p + 1;
            n = strspn(from, "0123456789");
            const char *end = from + strcspn(from, "[]");
            if (!n || *end != ']' || !strchr(",-]", from[n]))
                return -1;
            p = end;
        }
        if (len + n >= dst_bytes)
            return -1;
        memcpy(dst + len, from, n);
        len += n;
        p++;
    }
    if (!len)
        return -1;
    dst[len] = 0;
    return 0;
}
