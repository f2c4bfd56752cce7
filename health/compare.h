/* compare - reports of many nodes beside each other: how many are fit, what is
 * found where, and which node stands out in what the others agree on.
 */
#ifndef KB_HEALTH_COMPARE_H
#define KB_HEALTH_COMPARE_H

#include "runner/base/err.h"
#include "runner/base/str.h"

/* Files of koboshi-health --json, or folders of them. The table to out. A file
 * that is no report is told in the table; -1 when there is none at all. */
int compare_reports(const char *const *paths, int paths_n, struct sbuf *out,
                    struct err *err);

#endif
