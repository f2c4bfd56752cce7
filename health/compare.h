/* compare - reports of many nodes beside each other: how many are fit, what is
 * found where, and which node stands out in what the others agree on.
 */
#ifndef KB_HEALTH_COMPARE_H
#define KB_HEALTH_COMPARE_H

#include <jansson.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

/* Files of koboshi-health --json, or folders of them. The table to out. A file
 * that is no report is told in the table; -1 when there is none at all. */
int compare_reports(const char *const *paths, int paths_n, struct sbuf *out,
                    struct err *err);

/* Trials of pairs (--pairs): gathered from each report into *nodes (NULL at
 * first; the caller frees it), then judged. */
struct pair_nodes;
void compare_pairs_add(struct pair_nodes **nodes, const json_t *report);
void compare_pairs_print(struct pair_nodes *nodes, struct sbuf *out);

#endif
