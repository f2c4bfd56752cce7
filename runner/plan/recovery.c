/* recovery - the stage that looks at recovery's settings, and at Slurm's where
 * they would defeat it. What the site's administrator must change is a
 * warning with the remedy, never a refusal. */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"

/* Any number of nodes down to the fewest can be what is left, so the layout
 * must go on with each: its other degrees must divide the ranks. Fewer ranks
 * have more micro-batches each, evenly or not. */
static void check_sizes(struct making *m)
{
    const struct plan *plan = m->plan;
    int others = plan->tensor * plan->pipeline, fewest = plan->nodes;
    if (!strcmp(conf_text(m->conf, "parallel.layout"), "auto"))
        return; /* chosen anew */
    while (fewest > 1 && (fewest - 1) * plan->ranks_per_node % others == 0)
        fewest--;
    if (fewest <= plan->min_nodes)
        return;
    int bad = fewest - 1;
    refuse(m, "recovery.min_nodes", "with %d nodes left, %d ranks would not "
           "divide by tensor %d times pipeline %d; give at least %d%s", bad,
           bad * plan->ranks_per_node, plan->tensor, plan->pipeline, fewest,
           fewest == plan->nodes ? ", or recovery.elastic: false, or "
                                   "parallel: auto"
                                 : ", or parallel: auto");
}

static void check_elastic(struct making *m)
{
    struct plan *plan = m->plan;
    if (!plan->nodes)
        return;
    if (plan->min_nodes > plan->nodes)
        refuse(m, "recovery.min_nodes", "%d nodes at least, but %d train; "
               "give at most %d", plan->min_nodes, plan->nodes, plan->nodes);
    if (!plan->elastic)
        return;
    check_sizes(m);
}

static void check_times(struct making *m)
{
    struct plan *plan = m->plan;
    char limit[24], before[24];
    if (plan->silent_s < 3 * plan->heartbeat_s)
        refuse(m, "recovery.silent_limit", "%g s is less than 3 heartbeats of "
               "%g s: a late one would look like a dead node; give at least "
               "%g", plan->silent_s, plan->heartbeat_s, 3 * plan->heartbeat_s);
    if (m->site->time_limit_s <= 0)
        return;
    if (!conf_is_set(m->conf, "recovery.save_before_limit") &&
        plan->save_before_limit_s > m->site->time_limit_s / 4)
        plan->save_before_limit_s = m->site->time_limit_s / 4;
    if (plan->save_before_limit_s >= m->site->time_limit_s)
        refuse(m, "recovery.save_before_limit", "%s before a time limit of "
               "%s leaves no time to train; give less, or a longer --time",
               clock_human(plan->save_before_limit_s, before, sizeof before),
               clock_human(m->site->time_limit_s, limit, sizeof limit));
}

/* Settings of slurm.conf: when they are bad, and what to say. */
static void check_slurm(struct making *m)
{
    const struct site *s = m->site;
    int restarts = m->plan->max_restarts;
    if (s->slurmd_timeout_s == 0)
        warn(m, NULL, "SlurmdTimeout=0: Slurm never gives up a dead node, so "
             "that a job without spares cannot be requeued; ask for "
             "SlurmdTimeout=60 in slurm.conf");
    else if (s->slurmd_timeout_s > 300)
        warn(m, NULL, "SlurmdTimeout=%d: a dead node holds a requeued job for "
             "so many seconds; ask for SlurmdTimeout=60 in slurm.conf",
             s->slurmd_timeout_s);
    if (s->job_requeue == 0)
        warn(m, NULL, "JobRequeue=0: the job cannot be requeued after a "
             "failure; submit with --requeue");
    if (s->max_batch_requeue >= 0 && s->max_batch_requeue < restarts &&
        (s->max_batch_requeue < 5 ||
         conf_is_set(m->conf, "recovery.max_restarts")))
        warn(m, "recovery.max_restarts", "%d restarts, but Slurm holds a job "
             "after %d automatic requeues; ask for a larger MaxBatchRequeue "
             "in slurm.conf", restarts, s->max_batch_requeue);
    if (s->requeue_delay_s > 300)
        warn(m, NULL, "a requeued job waits %d s before it starts again; ask "
             "for AuthInfo=cred_expire=60 in slurm.conf", s->requeue_delay_s);
    if (s->plugin_required > 0)
        warn(m, NULL, "plugstack.conf names spank_koboshi.so required: if the "
             "file is missing on one node, no job of anybody starts there; "
             "ask for 'optional' instead");
    if (s->plugin_missing > 0)
        warn(m, NULL, "plugstack.conf names a spank_koboshi.so that is not "
             "there: nodes without it have no health gate and wire no ranks; "
             "ask for the same installation on every node");
    if (s->kill_wait_s >= 0 && s->kill_wait_s < 10)
        warn(m, NULL, "KillWait=%d: too short to save at the end of a job; "
             "the run saves before its time limit, but not when it is "
             "cancelled", s->kill_wait_s);
}

void make_recovery(struct making *m)
{
    check_elastic(m);
    check_times(m);
    check_slurm(m);
}
