/* node_child - work that may hang, in a child with a deadline.
 *
 * The child leads a process group, so that what it starts dies with it. One
 * that does not die (uninterruptible sleep) is left behind.
 */
#ifndef KB_SUPERVISE_NODE_CHILD_H
#define KB_SUPERVISE_NODE_CHILD_H

#include <jansson.h>
#include <sys/types.h>

#include "runner/base/err.h"

#define NODE_CHILD_BYTES (128u << 10)

/* A bounded child that writes one JSON object. */
struct node_child {
    pid_t pid;               /* 0: none runs */
    int fd;
    double deadline;
    size_t len;
    char text[NODE_CHILD_BYTES];
};

/* Runs work() in a child; it returns an object that is sent back. */
int node_child_start(struct node_child *child, double deadline_s,
                     json_t *(*work)(void *ctx), void *ctx, struct err *err);
/* 1: it ended, *ret set (NULL: no answer; why in err); 0: not yet. */
int node_child_poll(struct node_child *child, double now, json_t **ret,
                    struct err *err);

#endif
