/* attempt - the attempts of a run on disk; see attempt.h. */
#include "runner/supervise/attempt.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"

#define RECORD_BYTES (4u << 20)
#define ATTEMPTS_MAX 100000

int attempt_path(const char *run_dir, int number, const char *name, char *dst,
                 size_t dst_bytes, struct err *err)
{
    char folder[32];
    snprintf(folder, sizeof folder, KB_ATTEMPT_FMT, number);
    int n = snprintf(dst, dst_bytes, "%s/%s%s%s", run_dir, folder,
                     *name ? "/" : "", name);
    if (n < 0 || (size_t)n >= dst_bytes)
        return err_set(err, "attempt: path too long: '%s/%s/%s'", run_dir,
                       folder, name);
    return 0;
}

/* ---- History ------------------------------------------------------------ */

static enum cause cause_of_name(const char *name)
{
    for (int i = 0; i < CAUSE_N; i++)
        if (!strcmp(cause_rows[i].name, name))
            return (enum cause)i;
    return CAUSE_NONE;
}

static int action_of_name(const char *name)
{
    for (int i = 0; i < ACTION_N; i++)
        if (!strcmp(action_names[i], name))
            return i;
    return -1;
}

static json_t *load(const char *run_dir, int number, const char *name)
{
    char path[PATH_MAX];
    if (attempt_path(run_dir, number, name, path, sizeof path, NULL))
        return NULL;
    json_t *record = json_load_path(path, RECORD_BYTES, NULL);
    if (json_is_object(record))
        return record;
    json_decref(record);
    return NULL;
}

/* An unreadable record is an attempt of which nothing is known. */
static void past_load(const char *run_dir, struct past_attempt *p)
{
    json_t *start = load(run_dir, p->number, KB_START_JSON);
    json_t *verdict = load(run_dir, p->number, KB_VERDICT);
    json_t *claim = load(run_dir, p->number, KB_CLAIM_JSON);
    const json_t *whose = start ? start : claim;
    p->claimed = claim != NULL;
    p->started = start != NULL;
    p->judged = verdict != NULL;
    p->job = (uint32_t)json_i64_or(whose, "job", 0);
    p->restart_count = (int)json_i64_or(whose, "restart_count", -1);
    p->start_s = json_double_or(start, "time", 0);
    p->end_s = json_double_or(verdict, "time", 0);
    p->counted = json_is_true(json_object_get(verdict, "counted"));
    p->node_out = json_is_true(json_object_get(verdict, "node_out"));
    p->ckpt_step = json_i64_or(verdict, "checkpoint_step", -1);
    p->cause = cause_of_name(json_string_or(verdict, "cause", ""));
    p->action = action_of_name(json_string_or(verdict, "action", ""));
    str_copy(p->node, sizeof p->node, json_string_or(verdict, "node", ""));
    str_copy(p->signature, sizeof p->signature,
             json_string_or(verdict, "signature", ""));
    json_decref(claim);
    json_decref(start);
    json_decref(verdict);
}

static int by_number(const void *a, const void *b)
{
    const struct past_attempt *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

int history_load(const char *run_dir, struct history *ret, struct err *err)
{
    char path[PATH_MAX];
    struct history h = {0};
    if (file_join(path, sizeof path, run_dir, KB_ATTEMPTS_DIR, err))
        return -1;
    DIR *dir = opendir(path);
    if (!dir && errno == ENOENT) {
        *ret = h;
        return 0;
    }
    if (!dir)
        return err_set_errno(err, "attempt: cannot read '%s'", path);
    struct dirent *entry;
    while ((entry = readdir(dir)) && h.n < ATTEMPTS_MAX) {
        int64_t number;
        if (str_to_i64(entry->d_name, &number) || number < 1 ||
            number > INT_MAX)
            continue;
        struct past_attempt *past =
            realloc(h.past, (size_t)(h.n + 1) * sizeof *past);
        if (!past) {
            closedir(dir);
            history_release(&h);
            return err_set(err, "attempt: out of memory");
        }
        h.past = past;
        h.past[h.n++] = (struct past_attempt){.number = (int)number};
    }
    closedir(dir);
    if (h.n)
        qsort(h.past, (size_t)h.n, sizeof *h.past, by_number);
    for (int i = 0; i < h.n; i++)
        past_load(run_dir, &h.past[i]);
    h.newest = h.n ? h.past[h.n - 1].number : 0;
    *ret = h;
    return 0;
}

void history_release(struct history *history)
{
    free(history->past);
    *history = (struct history){0};
}

/* ---- This attempt ------------------------------------------------------- */

static json_t *names_json(const char *const *names, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(names[i]));
    return list;
}

static int save(const char *run_dir, int number, const char *name,
                json_t *record, struct err *err)
{
    char path[PATH_MAX];
    int rc = record ? 0 : err_set(err, "attempt: cannot make a record");
    if (!rc)
        rc = attempt_path(run_dir, number, name, path, sizeof path, err);
    if (!rc)
        rc = json_save_path(record, path, 0600, err);
    json_decref(record);
    return rc;
}

static int make_folder(const char *run_dir, int number, const char *name,
                       struct err *err)
{
    char path[PATH_MAX];
    return attempt_path(run_dir, number, name, path, sizeof path, err) ||
                   file_make_dirs(path, 0700, err)
               ? -1
               : 0;
}

int attempt_begin(const char *run_dir, int at_least, uint32_t job,
                  int restart_count, int *ret_number, struct err *err)
{
    char path[PATH_MAX];
    if (file_join(path, sizeof path, run_dir, KB_ATTEMPTS_DIR, err) ||
        file_make_dirs(path, 0700, err))
        return -1;
    for (int number = at_least; number <= ATTEMPTS_MAX; number++) {
        if (attempt_path(run_dir, number, "", path, sizeof path, err))
            return -1;
        if (mkdir(path, 0700)) {
            if (errno == EEXIST)
                continue;
            return err_set_errno(err, "attempt: cannot make '%s'", path);
        }
        *ret_number = number;
        return save(run_dir, number, KB_CLAIM_JSON,
                    json_pack("{s:I, s:i}", "job", (json_int_t)job,
                              "restart_count", restart_count), err) ||
                       make_folder(run_dir, number, KB_ATTEMPT_LOGS_DIR, err) ||
                       make_folder(run_dir, number, KB_ATTEMPT_HEALTH_DIR, err)
                   ? -1
                   : 0;
    }
    return err_set(err, "attempt: more than %d attempts in '%s'", ATTEMPTS_MAX,
                   run_dir);
}

void attempt_withdraw(const char *run_dir, int number)
{
    static const char *const made[] = {KB_ATTEMPT_LOGS_DIR,
                                       KB_ATTEMPT_HEALTH_DIR, KB_CLAIM_JSON,
                                       ""};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (!attempt_path(run_dir, number, made[i], path, sizeof path, NULL))
            remove(path);
}

int attempt_start_write(const char *run_dir, int number,
                        const struct attempt_start *s, struct err *err)
{
    return save(run_dir, number, KB_START_JSON,
                json_pack("{s:i, s:I, s:i, s:s, s:o, s:o, s:o, s:f}", "attempt",
                          number, "job", (json_int_t)s->job, "restart_count",
                          s->restart_count, "resume", s->resume, "nodes",
                          names_json(s->nodes, s->nodes_n), "spares",
                          names_json(s->spares, s->spares_n), "checkpoints",
                          names_json(s->checkpoints, s->checkpoints_n), "time",
                          clock_wall_s()),
                err);
}

int attempt_verdict_write(const char *run_dir, int number, uint32_t job,
                          int restart_count, const struct diagnosis *d,
                          const struct decision *decision, int64_t ckpt_step,
                          struct err *err)
{
    bool node_out = d->node[0] && (decision->action == ACTION_REPLACE ||
                                   decision->action == ACTION_REQUEUE ||
                                   decision->action == ACTION_SHRINK);
    return save(
        run_dir, number, KB_VERDICT,
        json_pack("{s:i, s:I, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
                  "s:b, s:b, s:I, s:f}",
                  "attempt", number, "job", (json_int_t)job, "restart_count",
                  restart_count, "cause", cause_rows[d->cause].name, "class",
                  err_class_name(d->class), "subject", d->subject, "node",
                  d->node, "message", d->evidence, "signature", d->signature,
                  "action", action_names[decision->action], "why",
                  decision->why, "counted", cause_rows[d->cause].counted,
                  "node_out", node_out, "checkpoint_step",
                  (json_int_t)ckpt_step, "time", clock_wall_s()),
        err);
}
