/* args - the words behind spank_koboshi.so in plugstack.conf, root's file:
 * KEY=VALUE each, one table row a key. An unknown or bad one is told and
 * ignored: a typing error there must not stop a cluster's jobs.
 */
#ifndef KB_SPANK_ARGS_H
#define KB_SPANK_ARGS_H

#include <limits.h>
#include <stdbool.h>

struct args {
    char bindir[PATH_MAX];       /* koboshi, koboshi-health */
    char datadir[PATH_MAX];      /* the batch script's template */
    char slurm_bindir[PATH_MAX]; /* sinfo, scontrol; "" : looked for */
    char gate_dir[PATH_MAX];     /* verdicts of the gate, KB_GATE_DIR */
    char state_dir[PATH_MAX];    /* koboshi-health's history, KB_STATE_DIR */
    double plan_timeout_s;
    double health_timeout_s;
    double slurm_timeout_s;      /* of each Slurm command of a drain */
    bool may_drain;              /* false: the gate only reports */
    int drains_per_hour;
    double drains_percent;
    char complaint[256];         /* the first word that was ignored, or "" */
};

/* Defaults, then the words. */
void args_read(struct args *args, int ac, char *av[]);

#endif
