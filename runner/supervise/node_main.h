/* node_main - the watcher of one node: `koboshi-supervise --node`. */
#ifndef KB_SUPERVISE_NODE_MAIN_H
#define KB_SUPERVISE_NODE_MAIN_H

#include "runner/base/err.h"

struct node_facts { /* from the environment; borrowed */
    const char *name;       /* Slurm's name of this node */
    const char *supervisor; /* host:port */
    const char *launched_from; /* srun's address, or NULL */
    const char *secret, *run_dir, *config;
    long job;
    int restart_count;
    void (*say)(const char *line); /* a line for people */
};
/* Runs until the supervisor says bye, or the job is over. 0 or -1. */
int node_main(const struct node_facts *facts, struct err *err);

#endif
