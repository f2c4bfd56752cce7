/* node_quorum - who requeues the job when the supervisor's host is lost.
 *
 * Under --no-kill Slurm itself does nothing then: the job stays RUNNING for
 * ever. Watchers know each other's addresses from the supervisor, and ask each
 * other when they do not hear it. One requeues, when all of this holds:
 *
 *   - it has not heard the supervisor for silent_s plus a margin, nor has any
 *     watcher that answers; no watcher on the supervisor's host answers;
 *   - the supervisor's host answers no connection to slurmd;
 *   - more than half of the watchers not on that host agree, itself included;
 *     with one such watcher alone, Slurm too must have no answer from the host;
 *   - it is the first of those that agree, in the job's node order;
 *   - Slurm says that the job runs with this watcher's own restart count.
 *
 * Spares' watchers count like any other. Every connection is proved as the
 * supervisor's are.
 */
#ifndef KB_SUPERVISE_NODE_QUORUM_H
#define KB_SUPERVISE_NODE_QUORUM_H

#include <jansson.h>
#include <poll.h>

#include "runner/supervise/node.h"
#include "runner/supervise/node_main.h"

#define NODE_QUORUM_FDS 20

struct node_quorum *node_quorum_open(const struct node *node,
                                     const struct node_facts *facts,
                                     struct err *err);
void node_quorum_close(struct node_quorum *quorum);
int node_quorum_port(const struct node_quorum *quorum);
/* The supervisor's list: {"host": NODE, "slurmd_port", "address",
 * "peers": [{"node", "address", "port"}]} in the job's order. */
void node_quorum_peers(struct node_quorum *quorum, const json_t *message);
int node_quorum_poll(const struct node_quorum *quorum, struct pollfd *fds);
void node_quorum_turn(struct node_quorum *quorum, double now);
void node_quorum_forgive(struct node_quorum *quorum, double now);

/* Pure: what the answers amount to. */
struct quorum_view {
    int electorate;       /* watchers not on the supervisor's host */
    int lost_n;           /* of them, who say that they lost it, self too */
    int heard_n;          /* who say that they hear it */
    bool first;           /* no one before self in the order agrees */
    bool host_watcher;    /* the watcher on its host answers */
    bool host_answers;    /* its slurmd does */
    bool slurm_silent;    /* Slurm has no answer from the host */
};
bool quorum_says_requeue(const struct quorum_view *view);

#endif
