/* sup_pump - what comes in, into the state. Judges nothing.
 */
#include "runner/supervise/sup.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"

/* ---- Ranks' records ----------------------------------------------------- */

static struct sup_rank *rank_of(struct sup *sup, const json_t *record)
{
    int64_t rank = json_i64_or(record, "rank", -1);
    return rank >= 0 && rank < sup->ranks_n ? &sup->ranks[rank] : NULL;
}

static void on_hello(struct sup *sup, int node, const json_t *record)
{
    struct sup_rank *rank = rank_of(sup, record);
    if (!rank || rank->hello)
        return;
    rank->hello = true;
    rank->node = node;
    rank->step = -1;
    sup->hellos_n++;
}

static void on_exit_told(struct sup *sup, int node, const json_t *record,
                         double now)
{
    struct sup_rank *rank = rank_of(sup, record);
    if (!rank || rank->told)
        return;
    if (!rank->ended)
        rank->seen_s = now;
    rank->ended = rank->told = true;
    rank->node = node;
    rank->code = (int)json_i64_or(record, "code", -1);
    rank->signal = (int)json_i64_or(record, "signal", 0);
    rank->step = json_i64_or(record, "step", -1);
    rank->oom = json_is_true(json_object_get(record, "oom"));
}

static int class_of(const char *name)
{
    for (int i = 0; i <= ERR_JOB; i++)
        if (!strcmp(err_class_name((enum err_class)i), name))
            return i;
    return ERR_RANK;
}

static void on_error(struct sup *sup, int node, const json_t *record)
{
    struct sup_rank *rank = rank_of(sup, record);
    if (!rank)
        return;
    rank->error_class = class_of(json_string_or(record, "class", ""));
    str_copy(rank->message, sizeof rank->message,
             json_string_or(record, "message", ""));
}

static void on_pruned(void *ctx, const char *name)
{
    story_event(ctx, KB_EV_CKPT_PRUNED, json_pack("{s:s}", "checkpoint", name));
}

/* The only writer of shared state acts on what the ranks found. */
static void on_checkpoint(struct sup *sup, enum kb_event event,
                          const json_t *record)
{
    struct err err = ERR_INIT;
    const char *name = json_string_or(record, "checkpoint", "");
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    int64_t step = json_i64_or(record, "step", -1);
    int rc = 0;
    if (event == KB_EV_CKPT_SAVED) {
        if (step > sup->ckpt_step)
            sup->ckpt_step = step;
        rc = catalog_prune(sup->run_dir, sup->attempt, sup->plan.ckpt_keep,
                           on_pruned, sup, &err);
    } else if (event == KB_EV_CKPT_REJECTED && *name) {
        const char *reason = json_string_or(record, "reason", "");
        rc = catalog_quarantine(sup->run_dir, name, reason, &err);
        if (!rc)
            story_event(sup, KB_EV_CKPT_QUARANTINED,
                        json_pack("{s:s, s:s}", "checkpoint", name, "reason",
                                  reason));
    } else if (event == KB_EV_CKPT_HEALTHY && *name) {
        rc = catalog_mark_healthy(sup->run_dir, name, step, &err);
    }
    if (rc)
        story_say(sup, "warning: %s", err.msg);
}

static void on_rank_record(struct sup *sup, int node, const json_t *record,
                           double now)
{
    int event = contract_event(json_string_or(record, "event", ""));
    if (event < 0 || json_i64_or(record, "attempt", -1) != sup->attempt)
        return;
    if (event == KB_EV_RANK_HELLO) {
        struct sup_rank *rank = rank_of(sup, record);
        if (rank && rank->hello)
            return; /* the trainer's, after its wrapper's */
        on_hello(sup, node, record);
    } else if (event == KB_EV_RANK_EXIT) {
        on_exit_told(sup, node, record, now);
    } else if (event == KB_EV_RANK_ERROR) {
        on_error(sup, node, record);
    } else if (event == KB_EV_CKPT_SAVED || event == KB_EV_CKPT_REJECTED ||
               event == KB_EV_CKPT_HEALTHY) {
        on_checkpoint(sup, (enum kb_event)event, record);
    } else if (event == KB_EV_DONE) {
        sup->done_told = true;
    }
    int64_t step = json_i64_or(record, "step", -1);
    if (step > sup->last_step)
        sup->last_step = step;
    story_rank_event(sup, node, record);
}

/* ---- Watchers' messages ------------------------------------------------- */

static void on_ready(struct sup *sup, int i, const json_t *m)
{
    struct sup_node *node = &sup->nodes[i];
    if (!node->asked || json_i64_or(m, "attempt", -1) != sup->attempt)
        return;
    node->asked = false;
    node->ready = json_is_true(json_object_get(m, "ok"));
    const char *message = json_string_or(m, "message", "");
    json_t *findings = json_object_get(m, "findings");
    story_event(sup, KB_EV_PREFLIGHT,
                json_pack("{s:s, s:b, s:s, s:O?}", "node", node->name, "ok",
                          node->ready, "message", message, "findings",
                          findings));
    sup_keep_report(sup, i, json_object_get(m, "report"));
    if (!node->ready) {
        str_copy(node->bad_class, sizeof node->bad_class,
                 json_string_or(m, "class", "node"));
        sup_node_out(sup, i, message);
    }
}

static void on_beats(struct sup *sup, int i, const json_t *m)
{
    size_t k;
    json_t *beat;
    if (!sup->report || json_i64_or(m, "id", -1) != sup->report_id)
        return;
    sup->nodes[i].reported = true;
    json_array_foreach(json_object_get(m, "ranks"), k, beat) {
        json_t *copy = json_copy(beat);
        json_object_set_new(copy, "node", json_integer(i));
        json_array_append_new(sup->report, copy);
    }
}

static void on_gone(struct sup *sup, const json_t *m, double now)
{
    struct sup_rank *rank = rank_of(sup, m);
    if (!rank || rank->ended)
        return;
    rank->ended = true;
    rank->seen_s = now;
}

static void on_stall(struct sup *sup, int node, const json_t *m, double now)
{
    if (sup->stall_rank >= 0 || !sup->launched)
        return;
    sup->stall_rank = (int)json_i64_or(m, "rank", 0);
    sup->stall_s = now;
    sup->stall_node = node;
    sup->stall_quiet_s = json_double_or(m, "quiet_s", 0);
    sup->stall_writing = json_i64_or(m, "writing", -1);
    sup->stall_limit_s = json_double_or(m, "limit_s", 0);
    str_copy(sup->stall_phase, sizeof sup->stall_phase,
             json_string_or(m, "phase", ""));
}

static void on_message(struct sup *sup, const struct station_event *ev)
{
    const json_t *m = ev->message;
    const char *type = json_string_or(m, "type", "");
    int64_t attempt = json_i64_or(m, "attempt", sup->attempt);
    /* A node that was given up is not listened to, nor late words of an older
     * attempt. */
    if (sup->nodes[ev->node].bad || attempt != sup->attempt)
        return;
    if (!strcmp(type, "rank"))
        on_rank_record(sup, ev->node, json_object_get(m, "event"), ev->mono_s);
    else if (!strcmp(type, "ready"))
        on_ready(sup, ev->node, m);
    else if (!strcmp(type, "beats"))
        on_beats(sup, ev->node, m);
    else if (!strcmp(type, "gone"))
        on_gone(sup, m, ev->mono_s);
    else if (!strcmp(type, "stall"))
        on_stall(sup, ev->node, m, ev->mono_s);
    else if (!strcmp(type, "finding"))
        sup_on_finding(sup, ev->node, json_object_get(m, "finding"),
                       ev->mono_s);
}

/* ---- Connections -------------------------------------------------------- */

static void on_up(struct sup *sup, const struct station_event *ev)
{
    struct sup_node *node = &sup->nodes[ev->node];
    if (node->bad) {
        act_dismiss(sup, ev->node);
        return;
    }
    node->up = node->seen = true;
    node->lost_s = node->rewatch_s = node->answered_s = 0;
    if (node->probe_fd >= 0)
        close(node->probe_fd);
    node->probe_fd = -1;
    node->peer_port = (int)json_i64_or(ev->message, "peer_port", 0);
    if (sup->launched && node->ready &&
        json_i64_or(ev->message, "attempt", 0) != sup->attempt)
        station_send(sup->station, ev->node,
                     sup_prepare_message(sup, "attach", false));
    story_event(sup, KB_EV_WATCHER_UP, json_pack("{s:s}", "node", node->name));
}

static void on_lost(struct sup *sup, const struct station_event *ev)
{
    struct sup_node *node = &sup->nodes[ev->node];
    bool silent = !strcmp(ev->how, "silent");
    node->up = false;
    if (node->bad || sup->dismissed || !strcmp(ev->how, "replaced"))
        return;
    node->lost_s = ev->mono_s;
    node->probe_s = ev->mono_s + 0.3; /* sup_nodes.c says why */
    node->answered_s = node->rewatch_s = 0;
    node->quiet_s = ev->quiet_s;
    str_copy(node->why, sizeof node->why, silent ? "silent" : "closed");
    story_event(sup, KB_EV_WATCHER_LOST,
                json_pack("{s:s, s:s, s:s, s:f}", "node", node->name, "how",
                          silent ? "silent" : "closed", "cause", ev->how,
                          "seconds", ev->quiet_s));
}

/* Time in which this process did not run is nobody's fault. */
static void on_gap(struct sup *sup, const struct station_event *ev)
{
    story_say(sup, "was stopped for %.1f s (suspended?); clocks start anew",
              ev->seconds);
    if (sup->launch_s)
        sup->launch_s += ev->seconds;
    sup->save_until_s += sup->save_asked ? ev->seconds : 0;
    for (int i = 0; i < sup->nodes_n; i++) {
        struct sup_node *node = &sup->nodes[i];
        node->lost_s = node->lost_s ? ev->mono_s : 0;
        node->rewatch_s = node->rewatch_s ? ev->mono_s : 0;
        node->answered_s = node->answered_s ? ev->mono_s : 0;
    }
    struct ctl_job job;
    if (!ctl_load_job((uint32_t)sup->facts.job, &job, NULL)) {
        sup_set_end(sup, &job);
        ctl_job_release(&job);
    }
}

static void take_station(struct sup *sup)
{
    struct station_event ev;
    while (station_take(sup->station, &ev)) {
        switch (ev.what) {
        case STATION_UP:
            on_up(sup, &ev);
            break;
        case STATION_LOST:
            on_lost(sup, &ev);
            break;
        case STATION_MESSAGE:
            on_message(sup, &ev);
            break;
        case STATION_GAP:
            on_gap(sup, &ev);
            break;
        }
        json_decref(ev.message);
    }
}

/* ---- Signals and children ----------------------------------------------- */

static void child_ended(struct child *child, pid_t pid, int status)
{
    if (child->pid == pid) {
        child->ended = true;
        child->status = status;
    }
}

static void take_children(struct sup *sup)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        child_ended(&sup->train, pid, status);
        child_ended(&sup->watchers, pid, status);
        for (int i = 0; i < sup->old_n; i++)
            if (sup->old[i].pid == pid)
                sup->old[i] = sup->old[--sup->old_n];
    }
}

static void take_signals(struct sup *sup)
{
    struct signalfd_siginfo info;
    while (read(sup->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            sup->term_seen++;
        else if (info.ssi_signo == SIGUSR1)
            sup->usr1_seen++;
    }
}

void sup_pump(struct sup *sup, double wait_s)
{
    struct pollfd fds[] = {
        {.fd = station_fd(sup->station), .events = POLLIN},
        {.fd = sup->signal_fd, .events = POLLIN},
    };
    poll(fds, 2, (int)(wait_s * 1000));
    take_signals(sup);
    take_children(sup);
    take_station(sup);
    story_log_tail(sup);
    sup_status_turn(sup);
    sup_compare_turn(sup);
    if (sup->notice)
        notice_pump(sup->notice);
}
