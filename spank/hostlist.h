/* hostlist - the first host of a list as Slurm writes it: names with ranges in
 * brackets, several brackets a name, zeros in front kept.
 */
#ifndef KB_SPANK_HOSTLIST_H
#define KB_SPANK_HOSTLIST_H

#include <stddef.h>

/* 0 and the name in dst, or -1: empty, brackets that do not match, too long.
 * `linux[1,2]` is linux1, `a,b[001,003]` is a, `r[0-1]n[08-10]` is r0n08. */
int hostlist_first(const char *list, char *dst, size_t dst_bytes);

#endif
