/* watch - look again and again while a job runs; see health_watch in health.h.
 *
 * Three children that live on: the GPUs' (driver's events, and a round each
 * watch_s), the kernel log's, and one for what else may break in mid-run. Each
 * says by when it will speak again; one that does not is killed, which is a
 * finding of its own, and started anew after a while. What they tell is told on
 * once. Growth and events are saved by a child now and then.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health/child.h"
#include "health/health.h"
#include "health/look_history.h"
#include "health/report.h"
#include "health/site.h"
#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"

#define FIRST_S 15.0     /* for a child's first word */
#define HOST_MORE_S 10.0 /* a round's own time */
#define AGAIN_S 60.0     /* a hung or crashed child is started anew then, */
#define AGAIN_MAX_S 600.0 /* and twice as late each time */
#define SAVE_EACH_S 300.0
enum { TOLD_MAX = 512 };

static void watch_host(const struct look *look, struct findings *findings)
{
    for (;;) {
        for (int i = 0; i < probes_n; i++) {
            if (!probes[i].in_watch)
                continue;
            findings_at(findings, "%s", probes[i].name);
            probes[i].run(look, findings);
        }
        findings_round(findings, "%g", look->watch_s + HOST_MORE_S);
        clock_sleep_s(look->watch_s);
    }
}

static const struct {
    const char *name;
    void (*run)(const struct look *look, struct findings *findings);
} watches[] = {
    {"gpu", watch_gpu},
    {"klog", watch_klog},
    {"host", watch_host},
};
enum { WATCHES_N = sizeof watches / sizeof *watches };

struct watched {
    struct child child;
    const char *name;
    struct watcher *watcher;
    double again_s; /* when it is started anew; 0: not */
    double pause_s;
    bool killed;
};

struct watcher {
    struct look look;
    int fd;
    bool unread; /* nobody takes our lines any more */
    double slow_s;
    struct watched watched[WATCHES_N];
    struct history *seen; /* NULL: nothing is remembered */
    struct child saving;
    double save_s;
    struct {
        enum finding_code code;
        char subject[96];
    } told[TOLD_MAX];
    int told_n;
};

static volatile sig_atomic_t ended;

static void on_term(int sig)
{
    (void)sig;
    ended = 1;
}

/* ---- What is told ----------------------------------------------------- */

static void write_line(struct watcher *watcher, json_t *value)
{
    char *line = value ? json_line(value) : NULL;
    size_t n = line ? strlen(line) : 0;
    if (line) {
        line[n] = '\n'; /* over the end: it is counted */
        if (file_write_all(watcher->fd, line, n + 1))
            watcher->unread = true;
    }
    free(line);
    json_decref(value);
}

static bool was_told(struct watcher *watcher, enum finding_code code,
                     const char *subject)
{
    for (int i = 0; i < watcher->told_n; i++)
        if (watcher->told[i].code == code &&
            !strcmp(watcher->told[i].subject, subject))
            return true;
    if (watcher->told_n == TOLD_MAX)
        return true;
    watcher->told[watcher->told_n].code = code;
    str_copy(watcher->told[watcher->told_n++].subject,
             sizeof watcher->told->subject, subject);
    return false;
}

static void tell(struct watcher *watcher, enum finding_code code,
                 const char *subject, const char *evidence)
{
    struct finding finding;
    if (was_told(watcher, code, subject))
        return;
    catalog_fill(&finding, code, subject, evidence);
    finding.severity = site_severity(watcher->look.site, code);
    write_line(watcher, json_pack("{s:s, s:f, s:o}", "type", "finding", "time",
                                  clock_wall_s(), "finding",
                                  health_finding_json(&finding)));
}

static void take(void *ctx, const struct record *record)
{
    struct watched *watched = ctx;
    struct watcher *watcher = watched->watcher;
    double seconds;
    switch (record->kind) {
    case RECORD_FINDING:
        tell(watcher, (enum finding_code)record->code, record->name,
             record->text);
        break;
    case RECORD_ROUND:
        if (sscanf(record->text, "%lf", &seconds) == 1 && seconds > 0 &&
            seconds < 1e6) {
            watched->child.limit_s =
                clock_mono_s() + seconds * watcher->slow_s;
            write_line(watcher, json_pack("{s:s, s:s}", "type", "round",
                                          "watch", watched->name));
        }
        break;
    case RECORD_COUNT:
    case RECORD_EVENT:
        if (watcher->seen)
            look_history_take(watcher->seen, record, clock_wall_s());
        break;
    default:
        break;
    }
}

/* ---- Children ----------------------------------------------------------- */

static void start(struct watcher *watcher, int i)
{
    struct watched *watched = &watcher->watched[i];
    watched->name = watches[i].name;
    watched->watcher = watcher;
    watched->again_s = 0;
    watched->killed = false;
    if (child_start(&watched->child, watches[i].run, &watcher->look,
                    FIRST_S * watcher->slow_s, NULL))
        watched->again_s = clock_mono_s() + AGAIN_S;
}

static void start_later(struct watched *watched, double now)
{
    watched->pause_s = watched->pause_s ? watched->pause_s * 2 : AGAIN_S;
    if (watched->pause_s > AGAIN_MAX_S)
        watched->pause_s = AGAIN_MAX_S;
    watched->again_s = now + watched->pause_s;
}

static void end_hung(struct watcher *watcher, struct watched *watched,
                     double now)
{
    char evidence[160];
    snprintf(evidence, sizeof evidence, "no word in time%s",
             watched->child.at);
    child_kill(&watched->child);
    watched->killed = true;
    tell(watcher, F_PROBE_HUNG, watched->name, evidence);
    start_later(watched, now);
}

/* One that ended by itself had nothing to watch, or crashed. One that does not
 * die is not started a second time. */
static void child_turn(struct watcher *watcher, int i, double now)
{
    struct watched *watched = &watcher->watched[i];
    char how[160];
    int status = -1;
    if (watched->child.fd >= 0 && now >= watched->child.limit_s)
        end_hung(watcher, watched, now);
    if (watched->child.fd < 0 && watched->child.pid &&
        child_reap(&watched->child, &status) && !watched->killed) {
        child_end_text(&watched->child, status, how, sizeof how);
        if (*how) {
            tell(watcher, F_PROBE_CRASHED, watched->name, how);
            start_later(watched, now);
        }
    }
    if (watched->again_s && now >= watched->again_s && !watched->child.pid)
        start(watcher, i);
}

static void ignore(void *ctx, const struct record *record)
{
    if (record->kind == RECORD_FINDING)
        tell(ctx, (enum finding_code)record->code, record->name, record->text);
}

static void save_turn(struct watcher *watcher, double now, bool last)
{
    struct child *child = &watcher->saving;
    int status;
    if (child->pid && child->fd >= 0)
        child_read(child, ignore, watcher);
    if (child->pid && now >= child->limit_s)
        child_kill(child);
    if (child->pid && !child_reap(child, &status))
        return;
    if (!watcher->seen || (now < watcher->save_s && !last))
        return;
    watcher->save_s = now + SAVE_EACH_S;
    if (look_history_save(child, &watcher->look, watcher->seen, 0, "", NULL))
        return;
    history_destroy(watcher->seen); /* the child has it */
    watcher->seen = history_create("");
}

static void wait_for_words(struct watcher *watcher, double now)
{
    struct pollfd polled[WATCHES_N + 2];
    double next = now + 60;
    for (int i = 0; i < WATCHES_N; i++) {
        const struct watched *w = &watcher->watched[i];
        polled[i] = (struct pollfd){w->child.fd, POLLIN, 0};
        if (w->child.fd >= 0 && w->child.limit_s < next)
            next = w->child.limit_s;
        if (w->child.fd < 0 && w->child.pid)
            next = now + 1; /* to be reaped */
        else if (w->again_s && w->again_s < next)
            next = w->again_s;
    }
    if (watcher->saving.pid)
        next = now + 1;
    polled[WATCHES_N] = (struct pollfd){watcher->saving.fd, POLLIN, 0};
    polled[WATCHES_N + 1] = (struct pollfd){watcher->fd, 0, 0}; /* a hang-up */
    if (poll(polled, WATCHES_N + 2,
             next > now ? (int)((next - now) * 1000) + 1 : 0) <= 0)
        return;
    if (polled[WATCHES_N + 1].revents & (POLLERR | POLLHUP))
        watcher->unread = true;
    for (int i = 0; i < WATCHES_N; i++)
        if (polled[i].revents)
            child_read(&watcher->watched[i].child, take,
                       &watcher->watched[i]);
}

static void end_all(struct watcher *watcher)
{
    int status;
    for (int i = 0; i < WATCHES_N; i++) {
        child_kill(&watcher->watched[i].child);
        for (int k = 0; k < 50 && !child_reap(&watcher->watched[i].child,
                                              &status); k++)
            clock_sleep_s(0.002);
    }
    save_turn(watcher, clock_mono_s(), true);
    for (double until = clock_mono_s() + 1;
         watcher->saving.pid && clock_mono_s() < until;) {
        child_read(&watcher->saving, ignore, watcher);
        if (!child_reap(&watcher->saving, &status))
            clock_sleep_s(0.005);
    }
}

int health_watch(const struct health_request *request, int fd,
                 struct err *err)
{
    static struct watcher watcher;
    struct sigaction term = {.sa_handler = on_term};
    struct sigaction pipe = {.sa_handler = SIG_IGN};
    watcher = (struct watcher){.fd = fd, .saving.fd = -1};
    int rc = look_open(&watcher.look, request, err);
    watcher.slow_s = request->slow_s > 0 ? request->slow_s : 1;
    if (rc)
        goto out;
    sigaction(SIGTERM, &term, NULL);
    sigaction(SIGPIPE, &pipe, NULL);
    watcher.seen = request->history ? history_create("") : NULL;
    watcher.save_s = clock_mono_s() + request->watch_s * 2;
    for (int i = 0; i < WATCHES_N; i++)
        start(&watcher, i);
    while (!ended && !watcher.unread) {
        wait_for_words(&watcher, clock_mono_s());
        double now = clock_mono_s();
        for (int i = 0; i < WATCHES_N; i++)
            child_turn(&watcher, i, now);
        save_turn(&watcher, now, false);
    }
    end_all(&watcher);
out:
    history_destroy(watcher.seen);
    look_close(&watcher.look);
    return rc;
}
