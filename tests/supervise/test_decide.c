/* Tests of runner/supervise/decide.c and budget.c: one table each. */
#include "runner/supervise/budget.h"
#include "runner/supervise/decide.h"
#include "tests/tap.h"

static void test_finding(void)
{
    static const struct {
        enum finding_severity severity;
        enum err_class class;
        bool can_replace;
        enum finding_choice want;
    } rows[] = {
        {FINDING_INFO, ERR_GPU, true, CHOICE_IGNORE},
        {FINDING_WARN, ERR_NODE, true, CHOICE_IGNORE},
        {FINDING_UNKNOWN, ERR_NODE, true, CHOICE_IGNORE},
        {FINDING_WARN, ERR_REQUEST, true, CHOICE_IGNORE},
        {FINDING_DRAIN, ERR_GPU, true, CHOICE_SAVE_REPLACE},
        {FINDING_DRAIN, ERR_NODE, false, CHOICE_CHECKPOINT},
        {FINDING_FAIL, ERR_GPU, true, CHOICE_REPLACE},
        {FINDING_FAIL, ERR_NODE, false, CHOICE_REPLACE},
        {FINDING_DRAIN, ERR_REQUEST, true, CHOICE_STOP},
        {FINDING_FAIL, ERR_REQUEST, false, CHOICE_STOP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_str(finding_choice_names[decide_finding(rows[i].severity,
                                                   rows[i].class,
                                                   rows[i].can_replace)],
               finding_choice_names[rows[i].want],
               finding_severity_names[rows[i].severity]);
}

static void test_decide(void)
{
    static const struct {
        const char *name;
        enum cause cause;
        struct means means;
        enum action want;
    } rows[] = {
        {"done", CAUSE_DONE, {.budget = 0}, ACTION_FINISH},
        {"node dead, spare", CAUSE_NODE_DEAD,
         {.node_out = true, .spares = 1, .budget = 3}, ACTION_REPLACE},
        {"node silent, no spare", CAUSE_NODE_SILENT,
         {.node_out = true, .budget = 3, .can_requeue = true},
         ACTION_REQUEUE},
        {"node dead, no spare, elastic", CAUSE_NODE_DEAD,
         {.node_out = true, .budget = 3, .can_requeue = true, .elastic = true},
         ACTION_SHRINK},
        {"node dead, no spare, salloc", CAUSE_NODE_DEAD,
         {.node_out = true, .budget = 3}, ACTION_STOP},
        {"a spare died", CAUSE_NODE_DEAD,
         {.node_out = false, .spares = 1, .budget = 3}, ACTION_CONTINUE},
        {"unfit while training, spare", CAUSE_NODE_UNFIT,
         {.node_out = true, .spares = 2, .budget = 1}, ACTION_REPLACE},
        {"rank crash", CAUSE_RANK_CRASH,
         {.node_out = true, .spares = 1, .budget = 1}, ACTION_RELAUNCH},
        {"rank crash, budget gone", CAUSE_RANK_CRASH, {.node_out = true},
         ACTION_STOP},
        {"rank crash again without progress", CAUSE_RANK_CRASH,
         {.node_out = true, .budget = 9, .repeated = true}, ACTION_STOP},
        {"user error", CAUSE_USER, {.spares = 3, .budget = 9}, ACTION_STOP},
        {"no valid checkpoint", CAUSE_NO_CKPT, {.budget = 9}, ACTION_STOP},
        {"stall, spare", CAUSE_STALL,
         {.node_out = true, .spares = 1, .budget = 9}, ACTION_REPLACE},
        {"stall, no spare", CAUSE_STALL, {.node_out = true, .budget = 9},
         ACTION_RELAUNCH},
        {"wire-up, budget gone", CAUSE_WIREUP, {.budget = 0},
         ACTION_RELAUNCH},
        {"wire-up, too often", CAUSE_WIREUP,
         {.wireups = 5, .can_requeue = true}, ACTION_REQUEUE},
        {"saved at the limit", CAUSE_SAVED,
         {.save_asked = true, .can_requeue = true}, ACTION_REQUEUE},
        {"saved at the limit, salloc", CAUSE_SAVED, {.save_asked = true},
         ACTION_STOP},
        {"saved by Slurm's TERM", CAUSE_SAVED, {.can_requeue = true},
         ACTION_YIELD},
        {"the step cancelled, not the job", CAUSE_STEP_CANCELLED,
         {.budget = 1, .can_requeue = true}, ACTION_RELAUNCH},
        {"the step cancelled again and again", CAUSE_STEP_CANCELLED,
         {.budget = 1, .repeated = true}, ACTION_STOP},
        {"requeues without progress", CAUSE_NODE_DEAD,
         {.node_out = true, .budget = 9, .can_requeue = true,
          .requeues_idle = 8}, ACTION_STOP},
        {"cancelled", CAUSE_CANCELLED, {.spares = 1, .budget = 9},
         ACTION_YIELD},
        {"preempted costs nothing", CAUSE_PREEMPTED, {.repeated = true},
         ACTION_YIELD},
        {"loss", CAUSE_LOSS, {.budget = 2}, ACTION_ROLL_BACK},
        {"no spare, and too few nodes are left", CAUSE_NODE_DEAD,
         {.node_out = true, .budget = 1, .can_requeue = true,
          .starved = true}, ACTION_STOP},
        {"loss, budget gone", CAUSE_LOSS, {.budget = 0}, ACTION_STOP},
        {"saved, nobody asked, salloc", CAUSE_SAVED, {.budget = 1},
         ACTION_YIELD},
        {"saved, nobody asked, budget gone", CAUSE_SAVED, {.spares = 1},
         ACTION_YIELD},
        {"time limit", CAUSE_TIME_LIMIT, {.can_requeue = true},
         ACTION_REQUEUE},
        {"time limit, salloc", CAUSE_TIME_LIMIT, {.budget = 1}, ACTION_STOP},
        {"requeued by scontrol", CAUSE_REQUEUED, {.repeated = true},
         ACTION_YIELD},
        {"a spare fell silent", CAUSE_NODE_SILENT, {.spares = 1, .budget = 1},
         ACTION_CONTINUE},
        {"a spare is unfit", CAUSE_NODE_UNFIT, {.spares = 1}, ACTION_CONTINUE},
        {"node silent, spare", CAUSE_NODE_SILENT,
         {.node_out = true, .spares = 1, .budget = 1}, ACTION_REPLACE},
        {"node suspect, spare", CAUSE_NODE_SUSPECT,
         {.node_out = true, .spares = 1, .budget = 1}, ACTION_REPLACE},
        {"GPU, spare", CAUSE_GPU,
         {.node_out = true, .spares = 1, .budget = 1}, ACTION_REPLACE},
        {"node silent, elastic", CAUSE_NODE_SILENT,
         {.node_out = true, .budget = 1, .elastic = true}, ACTION_SHRINK},
        {"node dead, no spare", CAUSE_NODE_DEAD,
         {.node_out = true, .budget = 1, .can_requeue = true}, ACTION_REQUEUE},
        {"node unfit, no spare", CAUSE_NODE_UNFIT,
         {.node_out = true, .budget = 1, .can_requeue = true}, ACTION_REQUEUE},
        {"node suspect, no spare", CAUSE_NODE_SUSPECT,
         {.node_out = true, .budget = 1, .can_requeue = true}, ACTION_REQUEUE},
        {"GPU, no spare", CAUSE_GPU,
         {.node_out = true, .budget = 1, .can_requeue = true}, ACTION_REQUEUE},
        {"node silent, salloc", CAUSE_NODE_SILENT,
         {.node_out = true, .budget = 1}, ACTION_STOP},
        {"node unfit, salloc", CAUSE_NODE_UNFIT,
         {.node_out = true, .budget = 1}, ACTION_STOP},
        {"node suspect, salloc", CAUSE_NODE_SUSPECT,
         {.node_out = true, .budget = 1}, ACTION_STOP},
        {"GPU, salloc", CAUSE_GPU, {.node_out = true, .budget = 1},
         ACTION_STOP},
        {"wire-up, too often, salloc", CAUSE_WIREUP, {.wireups = 5},
         ACTION_STOP},
        {"rank killed", CAUSE_RANK_KILLED, {.node_out = true, .budget = 1},
         ACTION_RELAUNCH},
        {"killed for memory", CAUSE_OUT_OF_MEMORY,
         {.node_out = true, .budget = 1}, ACTION_RELAUNCH},
        {"killed for memory again", CAUSE_OUT_OF_MEMORY,
         {.node_out = true, .budget = 1, .repeated = true}, ACTION_STOP},
        {"rank error", CAUSE_RANK_ERROR, {.node_out = true, .budget = 1},
         ACTION_RELAUNCH},
        {"rank left", CAUSE_RANK_LEFT, {.node_out = true, .budget = 1},
         ACTION_RELAUNCH},
        {"peer lost", CAUSE_PEER, {.budget = 1}, ACTION_RELAUNCH},
        {"Slurm is away, again and again", CAUSE_SLURM_AWAY,
         {.budget = 0, .repeated = true}, ACTION_RELAUNCH},
        {"Slurm refuses too often", CAUSE_SLURM_AWAY,
         {.aways = 10, .can_requeue = true}, ACTION_REQUEUE},
        {"Slurm refuses too often, salloc", CAUSE_SLURM_AWAY, {.aways = 10},
         ACTION_STOP},
        {"launch", CAUSE_LAUNCH, {.budget = 1}, ACTION_RELAUNCH},
        {"supervisor lost, budget gone", CAUSE_SUPERVISOR, {.budget = 0},
         ACTION_RELAUNCH},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct diagnosis d = {.cause = rows[i].cause};
        struct decision decision;
        decide(&d, &rows[i].means, &decision);
        is_str(action_names[decision.action], action_names[rows[i].want],
               rows[i].name);
        ok(decision.why[0], "%s: why: %s", rows[i].name, decision.why);
    }
    for (int c = 1; c < CAUSE_N; c++) {
        struct diagnosis d = {.cause = (enum cause)c};
        struct means all = {.node_out = true, .spares = 1, .budget = 1,
                            .can_requeue = true};
        struct decision decision;
        decide(&d, &all, &decision);
        ok(strcmp(decision.why, "nobody knows better"), "%s has a row",
           cause_rows[c].name);
    }
}

static struct past_attempt past(double end_s, const char *signature,
                                int64_t ckpt, enum cause cause)
{
    struct past_attempt p = {.started = true, .judged = true, .counted = true,
                             .end_s = end_s, .ckpt_step = ckpt,
                             .cause = cause, .action = ACTION_RELAUNCH};
    snprintf(p.signature, sizeof p.signature, "%s", signature);
    return p;
}

static void test_budget(void)
{
    struct past_attempt p[4] = {past(1000, "a", 10, CAUSE_RANK_CRASH),
                                past(1010, "b", 10, CAUSE_NODE_DEAD)};
    struct history h = {.past = p, .n = 0};
    is_int(budget_left(&h, 5, 3600, 2000), 5, "nothing happened: all left");
    h.n = 2;
    is_int(budget_left(&h, 5, 3600, 1020), 3, "two failures take two");
    is_int(budget_left(&h, 5, 3600, 1010 + 3600), 4, "one comes back");
    is_int(budget_left(&h, 5, 3600, 1010 + 99 * 3600), 5, "never above all");
    is_int(budget_left(&h, 1, 3600, 1020), 0, "never below nothing");
    is_int(budget_left(&h, 5, 3600, 10), 3, "a clock set back gives nothing");
    p[1].counted = false;
    is_int(budget_left(&h, 5, 3600, 1020), 4, "preemption is free");
    p[1].counted = true;

    ok(budget_repeated(&h, "b", 10), "the same without a newer checkpoint");
    ok(!budget_repeated(&h, "b", 20), "with a newer one it is progress");
    ok(!budget_repeated(&h, "a", 10), "only the last failure counts");
    p[2] = past(1020, "x", 10, CAUSE_REQUEUED);
    p[2].counted = false;
    h.n = 3;
    ok(budget_repeated(&h, "b", 10), "what counts nothing is passed over");
    ok(!budget_repeated(&h, "", 10), "no signature, no repetition");

    for (int i = 0; i < 3; i++)
        p[i].action = ACTION_REQUEUE;
    is_int(budget_requeues_idle(&h, 10), 3, "requeues that gained nothing");
    is_int(budget_requeues_idle(&h, 11), 0, "with progress: none");
    p[2].cause = p[1].cause = CAUSE_WIREUP;
    is_int(budget_in_row(&h, CAUSE_WIREUP), 2, "wire-ups in a row");
}

int main(void)
{
    test_finding();
    test_decide();
    test_budget();
    return tap_done();
}
