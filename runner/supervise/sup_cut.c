/* sup_cut - did the others fall silent, or is this host cut off?
 *
 * When most other nodes are silent at once, it may be this host that is gone
 * for them. Their watchers requeue the job then, and a supervisor that judges
 * them would write nonsense into the run directory of an attempt that is
 * another's by now. So Slurm is asked, in a child with a deadline: only when it
 * answers, and this is still the job's current start, are they judged.
 */
#include "runner/supervise/sup.h"

#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"

#define ASK_S 8.0
#define AGAIN_S 2.0
#define GOOD_FOR_S 10.0

static bool most_are_silent(const struct sup *sup)
{
    int others = 0, silent = 0;
    for (int i = 0; i < sup->nodes_n; i++) {
        const struct sup_node *node = &sup->nodes[i];
        if (node->bad || !strcmp(node->name, sup->facts.node_name))
            continue;
        others++;
        silent += node->lost_s && !node->up && !strcmp(node->why, "silent");
    }
    return 2 * silent > others;
}

static json_t *ask(void *ctx)
{
    const struct sup *sup = ctx;
    struct ctl_job job;
    if (ctl_load_job((uint32_t)sup->facts.job, &job, NULL))
        return NULL;
    return json_pack("{s:b}", "ours",
                     job.state == CTL_RUNNING &&
                         job.restart_count == sup->job.restart_count);
}

static void take_answer(struct sup *sup, const json_t *answer, double now)
{
    if (!answer) {
        if (!sup->cut) {
            story_say(sup, "no word from most nodes, nor from Slurm: this "
                           "host may be cut off; judging nobody");
            act_abandon_sruns(sup);
        }
        sup->cut = true;
        sup->cut_ask_s = now + AGAIN_S;
    } else if (json_is_true(json_object_get(answer, "ours"))) {
        sup->cut = false;
        sup->cut_good_s = now + GOOD_FOR_S;
    } else {
        story_say(sup, "the job was ended or requeued while this host was "
                       "cut off");
        act_end_ranks(sup);
        sup->term_seen++;
        sup->slurm_cause = CAUSE_REQUEUED;
        sup->cut_ask_s = now + 3600;
    }
}

bool sup_is_cut_off(struct sup *sup, double now)
{
    struct err err = ERR_INIT;
    json_t *answer = NULL;
    if (!most_are_silent(sup)) {
        sup->cut = false;
        return false;
    }
    if (now < sup->cut_good_s)
        return false;
    if (!sup->cut_child.pid && now >= sup->cut_ask_s)
        node_child_start(&sup->cut_child, ASK_S, ask, sup, &err);
    if (node_child_poll(&sup->cut_child, now, &answer, &err)) {
        take_answer(sup, answer, now);
        json_decref(answer);
    }
    return now >= sup->cut_good_s;
}
