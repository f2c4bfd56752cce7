/* decide - one table from causes to actions; see decide.h.
 *
 * The first row whose cause (or class) and needs match is taken. Budgets come
 * first: a failure that counts and finds none left, or that repeats without
 * progress, stops the run, whatever its row says.
 */
#include "runner/supervise/decide.h"

#include <stdio.h>

#define WIREUPS_MAX 5
#define AWAYS_MAX 10 /* a longer pause each time: 5 minutes */
#define REQUEUES_IDLE_MAX 8

const char *const action_names[ACTION_N] = {
    [ACTION_FINISH] = "finish",       [ACTION_CONTINUE] = "continue",
    [ACTION_RELAUNCH] = "relaunch",   [ACTION_REPLACE] = "replace",
    [ACTION_REQUEUE] = "requeue",     [ACTION_ROLL_BACK] = "roll_back",
    [ACTION_SHRINK] = "shrink",       [ACTION_YIELD] = "yield",
    [ACTION_STOP] = "stop",
};

const char *const finding_choice_names[CHOICE_N] = {
    [CHOICE_IGNORE] = "ignore",
    [CHOICE_CHECKPOINT] = "checkpoint",
    [CHOICE_SAVE_REPLACE] = "save and replace",
    [CHOICE_REPLACE] = "replace",
    [CHOICE_STOP] = "stop",
};

/* By severity: drain lets a running job save and go, fail does not. Info, warn
 * and what could not be found out are no reason to do anything. */
enum finding_choice decide_finding(enum finding_severity severity,
                                   enum err_class class, bool can_replace)
{
    if (severity != FINDING_DRAIN && severity != FINDING_FAIL)
        return CHOICE_IGNORE;
    if (class == ERR_REQUEST)
        return CHOICE_STOP;
    if (severity == FINDING_FAIL)
        return CHOICE_REPLACE;
    return can_replace ? CHOICE_SAVE_REPLACE : CHOICE_CHECKPOINT;
}

enum { /* needs, or-ed */
    SPARE = 1,       /* a spare is there */
    CAN_REQUEUE = 2,
    ELASTIC = 4,
    TRAINS = 8,      /* the blamed node trains now */
    ASKED = 16,      /* we asked for the save */
    IDLE = 32,       /* the blamed node does not train now */
    FEW_WIREUPS = 64,
    FEW_AWAYS = 128,
};

static const struct {
    enum cause cause;
    unsigned needs;
    enum action action;
    const char *why;
} rows[] = {
    {CAUSE_DONE, 0, ACTION_FINISH, "all steps are done"},
    {CAUSE_SAVED, ASKED | CAN_REQUEUE, ACTION_REQUEUE,
     "saved; goes on in the next allocation"},
    {CAUSE_SAVED, ASKED, ACTION_STOP,
     "saved, and this job cannot be requeued; submit it "
     "again to go on"},
    {CAUSE_SAVED, 0, ACTION_YIELD, "saved on request"},
    /* By scancel JOB.STEP, or by an srun of the job's former start that came
     * back: Slurm uses the step's number again. */
    {CAUSE_STEP_CANCELLED, 0, ACTION_RELAUNCH, "the job itself goes on"},
    {CAUSE_TIME_LIMIT, CAN_REQUEUE, ACTION_REQUEUE,
     "time limit; goes on in the next allocation"},
    {CAUSE_TIME_LIMIT, 0, ACTION_STOP, "time limit; submit it again to go on"},
    {CAUSE_PREEMPTED, 0, ACTION_YIELD, "preempted: Slurm starts it again"},
    {CAUSE_REQUEUED, 0, ACTION_YIELD, "requeued: Slurm starts it again"},
    {CAUSE_CANCELLED, 0, ACTION_YIELD, "cancelled"},
    {CAUSE_USER, 0, ACTION_STOP, "it would fail again; correct it and submit"},
    {CAUSE_NO_CKPT, 0, ACTION_STOP,
     "a run with checkpoints never starts again from step 0 by itself"},
    {CAUSE_LOSS, 0, ACTION_ROLL_BACK, "older checkpoint, other data"},
    /* The node is to blame. */
    {CAUSE_NODE_DEAD, IDLE, ACTION_CONTINUE, "it was a spare"},
    {CAUSE_NODE_SILENT, IDLE, ACTION_CONTINUE, "it was a spare"},
    {CAUSE_NODE_UNFIT, IDLE, ACTION_CONTINUE, "it was a spare"},
    {CAUSE_NODE_DEAD, SPARE, ACTION_REPLACE, "a spare takes its place"},
    {CAUSE_NODE_SILENT, SPARE, ACTION_REPLACE, "a spare takes its place"},
    {CAUSE_NODE_UNFIT, SPARE, ACTION_REPLACE, "a spare takes its place"},
    {CAUSE_NODE_SUSPECT, SPARE, ACTION_REPLACE, "a spare takes its place"},
    {CAUSE_GPU, SPARE, ACTION_REPLACE, "a spare takes its place"},
    {CAUSE_NODE_DEAD, ELASTIC, ACTION_SHRINK, "fewer nodes are allowed"},
    {CAUSE_NODE_SILENT, ELASTIC, ACTION_SHRINK, "fewer nodes are allowed"},
    {CAUSE_NODE_DEAD, CAN_REQUEUE, ACTION_REQUEUE, "no spare is left"},
    {CAUSE_NODE_SILENT, CAN_REQUEUE, ACTION_REQUEUE, "no spare is left"},
    {CAUSE_NODE_UNFIT, CAN_REQUEUE, ACTION_REQUEUE, "no spare is left"},
    {CAUSE_NODE_SUSPECT, CAN_REQUEUE, ACTION_REQUEUE, "no spare is left"},
    {CAUSE_GPU, CAN_REQUEUE, ACTION_REQUEUE, "no spare is left"},
    {CAUSE_NODE_DEAD, 0, ACTION_STOP,
     "no spare is left and this job cannot be requeued"},
    {CAUSE_NODE_SILENT, 0, ACTION_STOP,
     "no spare is left and this job cannot be requeued"},
    {CAUSE_NODE_UNFIT, 0, ACTION_STOP,
     "no spare is left and this job cannot be requeued"},
    {CAUSE_NODE_SUSPECT, 0, ACTION_STOP,
     "no spare is left and this job cannot be requeued"},
    {CAUSE_GPU, 0, ACTION_STOP,
     "no spare is left and this job cannot be requeued"},
    /* A hung process says more about its node than a crashed one. */
    {CAUSE_STALL, TRAINS | SPARE, ACTION_REPLACE,
     "a spare takes the place of its node"},
    {CAUSE_STALL, 0, ACTION_RELAUNCH, "no spare is left; its node may be good"},
    {CAUSE_WIREUP, FEW_WIREUPS, ACTION_RELAUNCH, "nobody's failure"},
    {CAUSE_WIREUP, CAN_REQUEUE, ACTION_REQUEUE,
     "the start never comes together on these nodes"},
    {CAUSE_WIREUP, 0, ACTION_STOP,
     "the start never comes together on these nodes"},
    {CAUSE_RANK_CRASH, 0, ACTION_RELAUNCH, "its node may be good"},
    {CAUSE_RANK_KILLED, 0, ACTION_RELAUNCH, "its node may be good"},
    {CAUSE_OUT_OF_MEMORY, 0, ACTION_RELAUNCH, "its node may be good"},
    {CAUSE_RANK_ERROR, 0, ACTION_RELAUNCH, "its node may be good"},
    {CAUSE_RANK_LEFT, 0, ACTION_RELAUNCH, "its node may be good"},
    {CAUSE_PEER, 0, ACTION_RELAUNCH, "all nodes answer"},
    {CAUSE_SLURM_AWAY, FEW_AWAYS, ACTION_RELAUNCH, "as soon as it answers"},
    {CAUSE_SLURM_AWAY, CAN_REQUEUE, ACTION_REQUEUE,
     "Slurm starts no step in this allocation"},
    {CAUSE_SLURM_AWAY, 0, ACTION_STOP,
     "Slurm starts no step in this allocation"},
    {CAUSE_LAUNCH, 0, ACTION_RELAUNCH, "all nodes answer"},
    {CAUSE_SUPERVISOR, 0, ACTION_RELAUNCH, "not counted"},
};

static unsigned have(const struct means *m)
{
    return (m->spares > 0 ? SPARE : 0u) | (m->can_requeue ? CAN_REQUEUE : 0u) |
           (m->elastic ? ELASTIC : 0u) | (m->node_out ? TRAINS : IDLE) |
           (m->save_asked ? ASKED : 0u) |
           (m->wireups < WIREUPS_MAX ? FEW_WIREUPS : 0u) |
           (m->aways < AWAYS_MAX ? FEW_AWAYS : 0u);
}

void decide(const struct diagnosis *d, const struct means *m,
            struct decision *ret)
{
    *ret = (struct decision){.action = ACTION_STOP};
    snprintf(ret->why, sizeof ret->why, "nobody knows better");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].cause != d->cause || rows[i].needs & ~have(m))
            continue;
        ret->action = rows[i].action;
        snprintf(ret->why, sizeof ret->why, "%s", rows[i].why);
        break;
    }
    bool again = ret->action != ACTION_FINISH && ret->action != ACTION_STOP &&
                 ret->action != ACTION_YIELD && ret->action != ACTION_CONTINUE;
    if (!again)
        return;
    if (cause_rows[d->cause].counted && m->repeated) {
        ret->action = ACTION_STOP;
        snprintf(ret->why, sizeof ret->why,
                 "the same failure twice without a newer checkpoint");
    } else if (cause_rows[d->cause].counted && m->budget <= 0) {
        ret->action = ACTION_STOP;
        snprintf(ret->why, sizeof ret->why,
                 "no restart is left; recovery.max_restarts sets how many");
    } else if (ret->action == ACTION_REQUEUE && m->starved) {
        ret->action = ACTION_STOP;
        snprintf(ret->why, sizeof ret->why,
                 "too few nodes of the partition are left that this job has "
                 "not found bad and excluded");
    } else if (ret->action == ACTION_REQUEUE &&
               m->requeues_idle >= REQUEUES_IDLE_MAX) {
        ret->action = ACTION_STOP;
        snprintf(ret->why, sizeof ret->why,
                 "%d requeues without a newer checkpoint", m->requeues_idle);
    }
}
