/* ctl - what is asked of Slurm's controller, as the job's owner.
 *
 * Everything here may take as long as the controller does (seconds when it is
 * being restarted). In steady state the supervisor calls at most twice a
 * minute. Every function but ctl_check needs ctl_check to have passed.
 */
#ifndef KB_SUPERVISE_CTL_H
#define KB_SUPERVISE_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"

enum ctl_state { CTL_PENDING, CTL_RUNNING, CTL_SUSPENDED, CTL_CANCELLED,
                 CTL_PREEMPTED, CTL_TIMEOUT, CTL_OTHER };

struct ctl_job {
    uint32_t id, array_job, array_task;
    enum ctl_state state;
    bool completing, batch, requeue, preempting;
    int restart_count;
    double left_s;       /* to the time limit, by Slurm's own clock, which
                          * may not be this host's; INFINITY: no limit */
    char *nodes;         /* Slurm's short form; owned */
    char *exclude;       /* owned, "" none */
    char *comment;       /* owned, "" none */
    char *batch_host;    /* owned, "" unknown */
};

struct ctl_node {
    char name[256], address[256];
    int port;            /* slurmd's */
    bool down, draining, silent; /* silent: Slurm itself has no answer */
};

/* Refuses a libslurm of another major version than that built against. */
int ctl_check(struct err *err);
/* ERR_REQUEST: Slurm knows no such job (any more). */
int ctl_load_job(uint32_t id, struct ctl_job *ret, struct err *err);
void ctl_job_release(struct ctl_job *job);
int ctl_load_node(const char *name, struct ctl_node *ret, struct err *err);
/* Several at once, in the order of names. */
int ctl_load_nodes(const char *const *names, int n, struct ctl_node *ret,
                   struct err *err);
/* Requeue, then nothing: the caller excludes afterwards. ERR_REQUEST when the
 * job is one that Slurm cannot requeue. */
int ctl_requeue(uint32_t id, struct err *err);
/* Replaces the list. Only right after a requeue; tries again for a moment. */
int ctl_exclude(uint32_t id, const char *list, struct err *err);
int ctl_comment(uint32_t id, const char *text, struct err *err);

/* How many nodes the job's partitions have that are not in the list. */
int ctl_nodes_left(uint32_t id, const char *exclude, int *ret,
                   struct err *err);

/* Host lists, as Slurm expands them. *ret: NULL-ended array and its strings,
 * freed by ctl_names_free. Returns the number, -1 on failure. */
int ctl_expand(const char *list, char ***ret, struct err *err);
void ctl_names_free(char **names);
/* Short form of names, to be freed; duplicates once. */
char *ctl_compress(const char *const *names, int n);

#endif
