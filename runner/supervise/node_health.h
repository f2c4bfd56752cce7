/* node_health - `koboshi-health --watch` beside the ranks: the watcher's eye on
 * the node's hardware.
 *
 * A child in a process group of its own; what it tells comes by a socket that
 * is never waited for. One that hangs, floods or dies is ended and started anew
 * later; the watcher goes on without it.
 */
#ifndef KB_SUPERVISE_NODE_HEALTH_H
#define KB_SUPERVISE_NODE_HEALTH_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runner/supervise/wire.h"

struct node_health {
    pid_t pid;      /* 0: none runs */
    int fd;         /* of its output, or -1 */
    struct wire_in in;
    double heard_s; /* when it last said anything */
    double again_s; /* not started before then */
    double pause_s;
    char history[PATH_MAX];
    double round_s; /* between its rounds; 0: no watch is wanted */
};

/* history: the file that it remembers counters in. */
void node_health_init(struct node_health *health, const char *run_dir,
                      const char *node);
/* Starts, reads, ends it; each finding goes to send, which takes it. A line
 * for people to say, if there is one. */
void node_health_turn(struct node_health *health, double now, bool wanted,
                      void (*send)(void *ctx, json_t *finding), void *ctx,
                      void (*say)(const char *line));
/* Time in which this process did not run says nothing about the other. */
void node_health_forgive(struct node_health *health, double gap_s);
void node_health_end(struct node_health *health);

#endif
