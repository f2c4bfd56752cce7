/* look_history - what probes and looks remember; see probe.h and history.h.
 *
 * The file is read by the probe that needs it and written by a child of its
 * own at the end, for the disk or file server behind it may hang.
 */
#include "health/look_history.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"

/* This process's own, read when first used. A watch has one without a file
 * too: it sees itself what grows. */
static struct history *own;

static struct history *open_own(const struct look *look,
                                struct findings *findings)
{
    char boot[64] = "";
    struct err err = ERR_INIT;
    if (own || !(look->history || look->watch_s > 0))
        return own;
    if (!look->history) {
        own = history_create("");
        return own;
    }
    findings_at(findings, "reading %s", look->history);
    source_read(&look->source, boot, sizeof boot,
                "/proc/sys/kernel/random/boot_id");
    own = history_create(boot);
    if (own && history_load(own, look->history, &err))
        findings_add(findings, F_HISTORY_BROKEN, "node", "%s", err.msg);
    return own;
}

static double now_of(const struct look *look)
{
    double now_s;
    return source_now(&look->source, &now_s) ? clock_wall_s() : now_s;
}

bool look_grown(const struct look *look, struct findings *findings,
                const char *subject, const char *counter, int64_t value,
                struct growth *ret)
{
    struct history *history = open_own(look, findings);
    if (!history)
        return false;
    findings_count(findings, subject, "%s %lld", counter, (long long)value);
    return history_count(history, subject, counter, value, now_of(look), ret);
}

int64_t look_happened(const struct look *look, struct findings *findings,
                      const char *subject, const char *what, int64_t n)
{
    struct history *history = open_own(look, findings);
    if (!history)
        return n;
    findings_event(findings, subject, "%s %lld", what, (long long)n);
    return history_event(history, subject, what, n, now_of(look));
}

/* ---- In the parent -------------------------------------------------- */

int look_history_take(struct history *seen, const struct record *record,
                      double now_s)
{
    char what[64];
    long long n;
    struct growth growth;
    if (sscanf(record->text, "%63s %lld", what, &n) != 2)
        return -1;
    if (record->kind == RECORD_COUNT)
        history_count(seen, record->name, what, n, now_s, &growth);
    else
        history_event(seen, record->name, what, n, now_s);
    return 0;
}

/* What a save needs; the child has it from its parent by fork. */
static struct {
    const struct history *seen;
    long job;
    const char *codes;
} to_save;

static void save(const struct look *look, struct findings *findings)
{
    char lemon[200], folder[PATH_MAX], *slash;
    struct err err = ERR_INIT;
    struct history *history = open_own(look, findings);
    if (!history)
        return;
    history_merge(history, to_save.seen);
    if (to_save.job) {
        history_job(history, to_save.job, to_save.codes, now_of(look));
        if (history_is_lemon(history, lemon, sizeof lemon))
            findings_add(findings, F_NODE_LEMON, "node", "%s", lemon);
    }
    findings_at(findings, "writing %s", look->history);
    if (str_copy(folder, sizeof folder, look->history) &&
        (slash = strrchr(folder, '/')) && slash > folder) {
        *slash = 0;
        mkdir(folder, 0700); /* a run's is its user's alone */
    }
    if (history_save(history, look->history, &err))
        findings_add(findings, F_HISTORY_BROKEN, "node", "%s", err.msg);
}

int look_history_save(struct child *child, const struct look *look,
                      const struct history *seen, long job, const char *codes,
                      struct err *err)
{
    to_save.seen = seen;
    to_save.job = job;
    to_save.codes = codes;
    return child_start(child, save, look, LOOK_HISTORY_SAVE_S, err);
}
