/* sup_notice - incidents told to notify.webhook, a line each. One row an
 * event: its word and the fields that make the line. Routine is not told.
 */
#include "runner/supervise/sup.h"

#include <string.h>

#include "runner/base/str.h"

#define CLOSE_WAIT_S 3.0 /* the last words of a job that ends */

static const struct {
    enum kb_event event;
    const char *word, *fields[3];
    int from_attempt; /* told from this attempt of the run on */
} rows[] = {
    {KB_EV_DIAGNOSIS, "failure", {"subject", "cause", "evidence"}, 1},
    {KB_EV_ACTION, "action", {"action", "spare", "why"}, 1},
    {KB_EV_FIRST_STEP, "trains again", {"step"}, 2},
    {KB_EV_CKPT_QUARANTINED, "damaged", {"checkpoint", "reason"}, 1},
    {KB_EV_REQUEUE, "requeued without", {"exclude"}, 1},
    {KB_EV_STOP, "stopped", {"message", "why", "remedy"}, 1},
    {KB_EV_DONE, "done", {"step"}, 1},
};

static void add_field(struct sbuf *text, const json_t *value)
{
    const char *word = json_string_value(value);
    if (word && *word)
        sbuf_printf(text, ": %s", word);
    else if (json_is_integer(value))
        sbuf_printf(text, ": %lld", (long long)json_integer_value(value));
}

/* The end of a run that is done is told by the event done alone. */
static bool is_routine(const json_t *fields)
{
    const char *cause = json_string_value(json_object_get(fields, "cause"));
    const char *action = json_string_value(json_object_get(fields, "action"));
    return (cause && !strcmp(cause, "done")) ||
           (action && !strcmp(action, "finish"));
}

void sup_notice_event(struct sup *sup, enum kb_event event,
                      const json_t *fields)
{
    struct sbuf text = SBUF_INIT;
    size_t i = 0;
    while (i < sizeof rows / sizeof *rows && rows[i].event != event)
        i++;
    if (!sup->notice || i == sizeof rows / sizeof *rows ||
        sup->attempt < rows[i].from_attempt || is_routine(fields))
        return;
    sbuf_printf(&text, "%s, job %ld, attempt %d: %s", sup->plan.name,
                sup->facts.job, sup->attempt, rows[i].word);
    for (int f = 0; f < 3 && rows[i].fields[f]; f++)
        add_field(&text, json_object_get(fields, rows[i].fields[f]));
    json_t *record = json_copy((json_t *)fields);
    if (record) {
        json_object_set_new(record, "event",
                            json_string(kb_event_names[event]));
        json_object_set_new(record, "run", json_string(sup->plan.name));
        json_object_set_new(record, "job", json_integer(sup->facts.job));
        json_object_set_new(record, "attempt", json_integer(sup->attempt));
    }
    notice_send(sup->notice, text.data, record);
    json_decref(record);
    sbuf_release(&text);
    notice_pump(sup->notice);
}

void sup_notice_open(struct sup *sup)
{
    struct err err = ERR_INIT;
    if (!*sup->plan.webhook)
        return;
    sup->notice =
        notice_open(sup->plan.webhook, sup->plan.webhook_token, &err);
    if (!sup->notice)
        story_say(sup, "warning: no notices: %s", err.msg);
}

void sup_notice_close(struct sup *sup)
{
    if (!sup->notice)
        return;
    if (notice_dropped(sup->notice) || *notice_problem(sup->notice))
        story_say(sup, "warning: %d notices were not delivered, %d wait; %s",
                  notice_dropped(sup->notice), notice_waiting(sup->notice),
                  notice_problem(sup->notice));
    notice_close(sup->notice, CLOSE_WAIT_S);
    sup->notice = NULL;
}
