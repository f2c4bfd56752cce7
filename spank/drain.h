/* drain - take a node out of service. The only code that does.
 *
 * Policy. A drain's reason is `koboshi: CODE SUBJECT`. A node that somebody
 * gave a reason, or that is down, draining or drained, is left as it is. At
 * most drains_percent of the cluster's nodes (one at least) are out for our
 * reasons at a time, and at most drains_per_hour go out within an hour: past
 * that the gate only reports, for a dead file server or a wrong threshold must
 * not drain a cluster. Nodes judge at once and alone; each looks again after
 * its drain, and those that came too late by the controller's own times take
 * theirs back. No node is resumed that this call did not drain.
 */
#ifndef KB_SPANK_DRAIN_H
#define KB_SPANK_DRAIN_H

#include <stdbool.h>

#include "runner/base/err.h"
#include "spank/args.h"

#define DRAIN_PREFIX "koboshi: "

enum drain_verdict {
    DRAIN_GO,
    DRAIN_NO_NODE,    /* Slurm does not know this node */
    DRAIN_HAS_REASON, /* somebody's reason, ours perhaps, stands */
    DRAIN_IS_OUT,     /* down or drained without a reason */
    DRAIN_TOO_MANY,
    DRAIN_TOO_FAST,
};

/* Pure: what `sinfo -h -a -N -o '%N|%T|%H|%E'` printed, and what follows for
 * `node` at wall time now_s. After its own drain (`mine`): DRAIN_GO if it may
 * stay out. */
enum drain_verdict drain_judge(const char *sinfo, const char *node,
                               double now_s, const struct args *args,
                               bool mine);
const char *drain_verdict_text(enum drain_verdict verdict);

/* Drain `node` for code and subject if policy allows. 1: drained; 0: policy
 * says no, *ret_why tells; -1: a Slurm command failed. */
int drain_node(const struct args *args, const char *node, const char *code,
               const char *subject, enum drain_verdict *ret_why,
               struct err *err);

#endif
