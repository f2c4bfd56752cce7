/* sup_health - findings of the nodes' hardware in mid-run: what each means is
 * decided by its class (decide.h), in a second or two; and how the nodes differ
 * from each other, which is told once, at the start.
 */
#include "runner/supervise/sup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/proc.h"
#include "runner/base/str.h"
#include "runner/supervise/program.h"

#define SAVE_S 120.0 /* for a save that was asked for */
#define COMPARE_S 10.0
#define REPORT_BYTES (256u << 10)

/* ---- Findings come in -------------------------------------------------- */

static enum err_class class_of(const json_t *finding)
{
    const char *name = json_string_or(finding, "class", "");
    for (int i = 0; i <= ERR_JOB; i++)
        if (!strcmp(err_class_name((enum err_class)i), name))
            return (enum err_class)i;
    return ERR_NONE;
}

static enum finding_severity severity_of(const json_t *finding)
{
    const char *name = json_string_or(finding, "severity", "");
    for (int i = 0; i < FINDING_SEVERITY_N; i++)
        if (!strcmp(finding_severity_names[i], name))
            return (enum finding_severity)i;
    return FINDING_UNKNOWN;
}

void sup_on_finding(struct sup *sup, int i, const json_t *finding,
                    double seen_s)
{
    struct sup_node *node = &sup->nodes[i];
    const char *code = json_string_or(finding, "code", "?");
    const char *subject = json_string_or(finding, "subject", "?");
    const char *evidence = json_string_or(finding, "evidence", "");
    enum finding_severity severity = severity_of(finding);
    bool can_replace = sup_good_spares(sup) > 0 ||
                       (sup->job.batch && sup->job.requeue) ||
                       (sup->plan.elastic && sup_fewer_nodes(sup, node->name));
    enum finding_choice choice =
        decide_finding(severity, class_of(finding), can_replace);
    story_event(sup, KB_EV_FINDING,
                json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f}", "node",
                          node->name, "code", code, "subject", subject,
                          "severity", finding_severity_names[severity],
                          "message", json_string_or(finding, "message", ""),
                          "evidence", evidence, "choice",
                          finding_choice_names[choice], "decided_s",
                          clock_mono_s() - seen_s));
    if (severity != FINDING_INFO)
        story_say(sup, "%s: %s: %s %s: %s (%s)", node->name,
                  finding_severity_names[severity], code, subject,
                  json_string_or(finding, "message", ""), evidence);
    if (choice <= node->choice)
        return;
    node->choice = choice;
    node->choice_s = seen_s;
    snprintf(node->found, sizeof node->found, "%s (%s): %s: %s", code, subject,
             json_string_or(finding, "message", ""), evidence);
}

/* ---- What follows ------------------------------------------------------ */

static int blame(struct sup *sup, int i, struct diagnosis *ret)
{
    struct sup_node *node = &sup->nodes[i];
    classify_node(CAUSE_NODE_UNFIT, node->name, 0, node->found, ret);
    ret->seen_s = node->choice_s;
    sup->unfit_node = -1;
    return 1;
}

/* The node to be judged next: the worst, and of these the first. */
static int worst_node(const struct sup *sup)
{
    int worst = -1;
    for (int i = 0; i < sup->nodes_n; i++) {
        const struct sup_node *node = &sup->nodes[i];
        if (!node->bad && node->choice > CHOICE_IGNORE &&
            (worst < 0 || node->choice > sup->nodes[worst].choice))
            worst = i;
    }
    return worst;
}

/* A node that may go on for a while still trains: save first, lose nothing. */
static void ask_to_save(struct sup *sup, int i)
{
    if (sup->save_asked)
        return;
    sup->unfit_node = i;
    story_say(sup, "%s is unfit (%s); asking the ranks to save and stop",
              sup->nodes[i].name, sup->nodes[i].found);
    act_ask_save(sup);
    sup->save_until_s = clock_mono_s() + SAVE_S;
}

int sup_look_at_health(struct sup *sup, struct diagnosis *ret)
{
    int i = worst_node(sup);
    struct sup_node *node = i < 0 ? NULL : &sup->nodes[i];
    if (!node)
        return 0;
    switch (node->choice) {
    case CHOICE_STOP:
        node->choice = CHOICE_IGNORE;
        classify_plain(CAUSE_USER, node->name, node->found, ret);
        ret->seen_s = node->choice_s;
        return 1;
    case CHOICE_REPLACE:
        return blame(sup, i, ret);
    case CHOICE_SAVE_REPLACE:
        if (node->role != ROLE_TRAIN)
            return blame(sup, i, ret);
        ask_to_save(sup, i);
        return 0;
    default:
        node->choice = CHOICE_IGNORE;
        if (node->role == ROLE_TRAIN) {
            story_say(sup, "nothing can take the place of %s; asking the ranks "
                           "for a checkpoint", node->name);
            act_ask_checkpoint(sup);
        }
        return 0;
    }
}

void sup_saved_for(struct sup *sup, struct diagnosis *d)
{
    if (sup->unfit_node >= 0 &&
        (d->cause == CAUSE_SAVED || d->cause == CAUSE_TIME_LIMIT))
        blame(sup, sup->unfit_node, d);
}

void sup_leave_unfit_out(struct sup *sup)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].choice >= CHOICE_SAVE_REPLACE && !sup->nodes[i].bad)
            sup_node_out(sup, i, sup->nodes[i].found);
}

/* ---- How nodes differ ------------------------------------------------------
 * Each node's preflight report is kept in the attempt; koboshi-health lays them
 * beside each other, as a child: the folder is on a file server. */

void sup_keep_report(struct sup *sup, int i, const json_t *report)
{
    char name[300], path[PATH_MAX];
    struct err err = ERR_INIT;
    if (!json_is_object(report))
        return;
    snprintf(name, sizeof name, KB_ATTEMPT_HEALTH_DIR "/%s.json",
             sup->nodes[i].name);
    json_t *own = json_copy((json_t *)report);
    json_object_set_new(own, "host", json_string(sup->nodes[i].name));
    if (attempt_path(sup->run_dir, sup->attempt, name, path, sizeof path,
                     &err) ||
        json_save_path(own, path, 0600, &err))
        story_say(sup, "warning: %s", err.msg);
    else
        sup->reports_n++;
    json_decref(own);
}

static json_t *run_compare(void *ctx)
{
    const struct sup *sup = ctx;
    char program[PATH_MAX], folder[PATH_MAX];
    struct proc_result result;
    if (program_find("koboshi-health", program, sizeof program, NULL) ||
        attempt_path(sup->run_dir, sup->attempt, KB_ATTEMPT_HEALTH_DIR, folder,
                     sizeof folder, NULL))
        return NULL;
    const char *argv[] = {program, "--compare", folder, NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = COMPARE_S,
                             .term_grace_s = 0.5,
                             .out_max_bytes = REPORT_BYTES / 4};
    if (proc_run(&spec, &result, NULL))
        return NULL;
    json_t *answer = result.exit_code ? NULL : json_pack("{s:s}", "table",
                                                         result.out.data);
    proc_result_release(&result);
    return answer;
}

void sup_compare_start(struct sup *sup)
{
    if (sup->reports_n > 1)
        node_child_start(&sup->comparing, COMPARE_S + 2, run_compare, sup,
                         NULL);
    sup->reports_n = 0;
}

/* Only what differs is said: findings were told node by node. */
void sup_compare_turn(struct sup *sup)
{
    json_t *answer = NULL;
    if (!node_child_poll(&sup->comparing, clock_mono_s(), &answer, NULL))
        return;
    const char *table = json_string_or(answer, "table", "");
    for (const char *p = table; *p;) {
        size_t n = strcspn(p, "\n");
        if (str_starts(p, "differs ") || str_starts(p, "slow "))
            story_say(sup, "nodes: %.*s", (int)(n < 900 ? n : 900), p);
        p += n + (p[n] == '\n');
    }
    json_decref(answer);
}
