/* history - JSON in memory and on disk; see history.h.
 *
 *   {"schema": 1, "boot": ID,
 *    "counters": {SUBJECT: {COUNTER: [VALUE, TIME]}},
 *    "events": [{"time", "subject", "what", "n"}, ...],   the oldest first
 *    "jobs": [{"job", "time", "codes": [CODE, ...]}, ...]}
 */
#include "health/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"

enum { FILE_BYTES = 1 << 20 };

struct history {
    json_t *counters, *events, *jobs;
    char boot[64];
};

struct history *history_create(const char *boot)
{
    struct history *history = calloc(1, sizeof *history);
    if (!history)
        return NULL;
    str_copy(history->boot, sizeof history->boot, boot);
    history->counters = json_object();
    history->events = json_array();
    history->jobs = json_array();
    return history;
}

void history_destroy(struct history *history)
{
    if (!history)
        return;
    json_decref(history->counters);
    json_decref(history->events);
    json_decref(history->jobs);
    free(history);
}

/* ---- Counters ----------------------------------------------------------- */

static json_t *counters_of(struct history *history, const char *subject)
{
    json_t *own = json_object_get(history->counters, subject);
    if (own || json_object_size(history->counters) >= HISTORY_COUNTS_MAX)
        return own;
    own = json_object();
    json_object_set_new(history->counters, subject, own);
    return own;
}

static void put_count(struct history *history, const char *subject,
                      const char *counter, int64_t value, double now_s)
{
    json_t *own = counters_of(history, subject);
    if (own && (json_object_get(own, counter) ||
                json_object_size(own) < HISTORY_COUNTS_MAX))
        json_object_set_new(own, counter,
                            json_pack("[I, f]", (json_int_t)value, now_s));
}

bool history_count(struct history *history, const char *subject,
                   const char *counter, int64_t value, double now_s,
                   struct growth *ret)
{
    json_t *pair =
        json_object_get(json_object_get(history->counters, subject), counter);
    json_t *was = json_array_get(pair, 0), *when = json_array_get(pair, 1);
    bool known = json_is_integer(was) && json_is_number(when) &&
                 json_number_value(when) <= now_s;
    if (known) {
        int64_t last = json_integer_value(was);
        ret->more = value >= last ? value - last : value;
        ret->minutes = (now_s - json_number_value(when)) / 60;
    }
    put_count(history, subject, counter, value, now_s);
    return known;
}

/* ---- Events ------------------------------------------------------------- */

static void forget_old(struct history *history, double now_s)
{
    while (json_array_size(history->events) > HISTORY_EVENTS_MAX ||
           (json_array_size(history->events) &&
            json_double_or(json_array_get(history->events, 0), "time", 0) <
                now_s - HISTORY_DAY_S))
        json_array_remove(history->events, 0);
}

static bool is_event(const json_t *event, const char *subject,
                     const char *what)
{
    return !strcmp(json_string_or(event, "subject", ""), subject) &&
           !strcmp(json_string_or(event, "what", ""), what);
}

int64_t history_events(const struct history *history, const char *subject,
                       const char *what, double now_s)
{
    size_t i;
    json_t *event;
    int64_t n = 0;
    json_array_foreach(history->events, i, event) {
        double time = json_double_or(event, "time", 0);
        int64_t more = json_i64_or(event, "n", 0);
        if (is_event(event, subject, what) && time > now_s - HISTORY_DAY_S &&
            time <= now_s && more > 0 && more < INT32_MAX)
            n += more;
    }
    return n;
}

int64_t history_event(struct history *history, const char *subject,
                      const char *what, int64_t n, double now_s)
{
    json_array_append_new(history->events,
                          json_pack("{s:f, s:s, s:s, s:I}", "time", now_s,
                                    "subject", subject, "what", what, "n",
                                    (json_int_t)n));
    forget_old(history, now_s);
    return history_events(history, subject, what, now_s);
}

/* ---- Jobs --------------------------------------------------------------- */

static void add_codes(json_t *list, const char *codes)
{
    while (*codes) {
        size_t i, n = strcspn(codes, ",");
        json_t *have;
        bool known = !n || n > 64;
        json_array_foreach(list, i, have)
            known = known || (strlen(json_string_value(have)) == n &&
                              !strncmp(json_string_value(have), codes, n));
        if (!known && json_array_size(list) < 16)
            json_array_append_new(list, json_stringn(codes, n));
        codes += n + (codes[n] == ',');
    }
}

void history_job(struct history *history, long job, const char *codes,
                 double now_s)
{
    json_t *last = json_array_get(history->jobs,
                                  json_array_size(history->jobs) - 1);
    if (json_i64_or(last, "job", -1) != job ||
        !json_is_array(json_object_get(last, "codes"))) {
        last = json_pack("{s:I, s:f, s:[]}", "job", (json_int_t)job, "time",
                         now_s, "codes");
        json_array_append_new(history->jobs, last);
    }
    add_codes(json_object_get(last, "codes"), codes);
    while (json_array_size(history->jobs) > HISTORY_JOBS_MAX)
        json_array_remove(history->jobs, 0);
}

/* Chooses a code of each of the last jobs so that all differ. */
static bool choose(const struct history *history, const char **chosen, int n)
{
    size_t i, at = json_array_size(history->jobs) - HISTORY_LEMON_JOBS;
    json_t *code;
    if (n == HISTORY_LEMON_JOBS)
        return true;
    const json_t *job = json_array_get(history->jobs, at + (size_t)n);
    json_array_foreach(json_object_get(job, "codes"), i, code) {
        bool taken = false;
        chosen[n] = json_string_value(code);
        for (int k = 0; k < n; k++)
            taken = taken || !strcmp(chosen[k], chosen[n]);
        if (!taken && choose(history, chosen, n + 1))
            return true;
    }
    return false;
}

bool history_is_lemon(const struct history *history, char *dst,
                      size_t dst_bytes)
{
    const char *chosen[HISTORY_LEMON_JOBS];
    if (json_array_size(history->jobs) < HISTORY_LEMON_JOBS ||
        !choose(history, chosen, 0))
        return false;
    snprintf(dst, dst_bytes, "%.60s, %.60s, %.60s", chosen[0], chosen[1],
             chosen[2]);
    return true;
}

/* ---- The file ----------------------------------------------------------- */

static int take_counters(struct history *history, const json_t *counters)
{
    const char *subject, *counter;
    json_t *own, *pair;
    json_object_foreach((json_t *)counters, subject, own)
        json_object_foreach(own, counter, pair) {
            const json_t *value = json_array_get(pair, 0);
            const json_t *time = json_array_get(pair, 1);
            if (!json_is_integer(value) || !json_is_number(time))
                return -1;
            put_count(history, subject, counter, json_integer_value(value),
                      json_number_value(time));
        }
    return 0;
}

static int take_events(struct history *history, const json_t *events)
{
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) {
        if (!json_is_number(json_object_get(event, "time")) ||
            !json_is_string(json_object_get(event, "subject")) ||
            !json_is_string(json_object_get(event, "what")))
            return -1;
        if (i < HISTORY_EVENTS_MAX)
            json_array_append(history->events, event);
    }
    return 0;
}

static void take_jobs(struct history *history, const json_t *jobs)
{
    size_t i, k;
    json_t *job, *code;
    json_array_foreach(jobs, i, job) {
        struct sbuf codes = SBUF_INIT;
        json_array_foreach(json_object_get(job, "codes"), k, code)
            if (json_is_string(code))
                sbuf_printf(&codes, "%s%s", k ? "," : "",
                            json_string_value(code));
        history_job(history, (long)json_i64_or(job, "job", 0), codes.data,
                    json_double_or(job, "time", 0));
        sbuf_release(&codes);
    }
}

static int take_root(struct history *history, const json_t *root)
{
    bool same = !*history->boot ||
                !strcmp(json_string_or(root, "boot", ""), history->boot);
    if (json_i64_or(root, "schema", 0) != 1 ||
        (same &&
         take_counters(history, json_object_get(root, "counters"))) ||
        take_events(history, json_object_get(root, "events")))
        return -1;
    take_jobs(history, json_object_get(root, "jobs"));
    return 0;
}

int history_parse(struct history *history, const char *text, const char *what,
                  struct err *err)
{
    json_t *root = json_parse(text, what, err);
    if (!root)
        return -1;
    int rc = take_root(history, root);
    json_decref(root);
    return rc ? err_set(err, "health: history is damaged: '%s'; remove it",
                        what)
              : 0;
}

int history_load(struct history *history, const char *path, struct err *err)
{
    if (!file_exists(path))
        return 0;
    char *text = file_read(path, FILE_BYTES, NULL, err);
    int rc = text ? history_parse(history, text, path, err) : -1;
    free(text);
    return rc;
}

int history_save(const struct history *history, const char *path,
                 struct err *err)
{
    json_t *root = json_pack("{s:i, s:s, s:O, s:O, s:O}", "schema", 1, "boot",
                             history->boot, "counters", history->counters,
                             "events", history->events, "jobs", history->jobs);
    int rc = root ? json_save_path(root, path, 0600, err)
                  : err_set(err, "health: out of memory");
    json_decref(root);
    return rc;
}

int history_merge(struct history *history, const struct history *from)
{
    take_jobs(history, from->jobs);
    return take_counters(history, from->counters) ||
                   take_events(history, from->events)
               ? -1
               : 0;
}
