/* story - what happens, in lines for people and records for the journal.
 * A line says how many seconds after the supervisor's start it was.
 */
#include "runner/supervise/sup.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"

void story_say(struct sup *sup, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    int n = snprintf(text, sizeof text, "[%.1f s] ",
                     clock_mono_s() - sup->start_s);
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    sup->facts.say(text);
}

void story_event(struct sup *sup, enum kb_event event, json_t *fields)
{
    static double told;
    struct err err = ERR_INIT;
    sup_notice_event(sup, event, fields);
    if (!sup->journal)
        json_decref(fields);
    else if (journal_event(sup->journal, event, fields, &err) &&
             clock_mono_s() - told > 60) {
        told = clock_mono_s();
        story_say(sup, "warning: %s", err.msg);
    }
}

json_t *story_names(const struct sup *sup, enum node_role role)
{
    json_t *list = json_array();
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].role == role)
            json_array_append_new(list, json_string(sup->nodes[i].name));
    return list;
}

/* ---- Records of ranks --------------------------------------------------- */

void story_rank_event(struct sup *sup, int node, const json_t *record)
{
    int event = contract_event(json_string_or(record, "event", ""));
    if (event < 0)
        return;
    json_t *copy = json_copy((json_t *)record);
    json_object_del(copy, "event");
    json_object_del(copy, "attempt");
    json_object_set_new(copy, "node", json_string(sup->nodes[node].name));
    story_event(sup, (enum kb_event)event, copy);

    long long step = (long long)json_i64_or(record, "step", -1);
    long long rank = (long long)json_i64_or(record, "rank", -1);
    const char *name = sup->nodes[node].name;
    const char *ckpt = json_string_or(record, "checkpoint", "");
    const char *why = json_string_or(record, "why", "");
    const char *reason = json_string_or(record, "reason", "");
    switch (event) {
    case KB_EV_RESUME:
        if (step > 0)
            story_say(sup, "goes on from step %lld, %s%s%s", step, ckpt,
                      *why ? ": " : "", why);
        else
            story_say(sup, "begins at step 0%s%s", *why ? ": " : "", why);
        break;
    case KB_EV_FIRST_STEP:
        story_say(sup, "first step of attempt %d done: step %lld, %.1f s "
                       "after the launch", sup->attempt, step,
                  clock_mono_s() - sup->launch_s);
        break;
    case KB_EV_CKPT_REJECTED:
        story_say(sup, "checkpoint %s is not taken: %s", ckpt, reason);
        break;
    case KB_EV_RANK_ERROR:
        story_say(sup, "rank %lld on %s says: %s", rank, name,
                  json_string_or(record, "message", ""));
        break;
    case KB_EV_GUARD:
        story_say(sup, "guard: step %lld: %s", step,
                  json_string_or(record, "what", ""));
        break;
    default:
        break;
    }
}

/* ---- The ranks' own output, passed on to the job's ---------------------- */

void story_log_tail(struct sup *sup)
{
    char buf[65536];
    if (sup->log_fd < 0)
        sup->log_fd = open(sup->log_path, O_RDONLY | O_CLOEXEC);
    if (sup->log_fd < 0)
        return;
    ssize_t n;
    while ((n = pread(sup->log_fd, buf, sizeof buf, sup->log_at)) > 0) {
        file_write_all(STDOUT_FILENO, buf, (size_t)n);
        sup->log_at += n;
        if (n < (ssize_t)sizeof buf)
            break;
    }
}
