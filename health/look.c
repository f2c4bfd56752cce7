/* look - run every probe in a child of its own, at once; see health.h and
 * child.h. What a probe remembers is saved by one more child at the end.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health/child.h"
#include "health/health.h"
#include "health/look_history.h"
#include "health/report.h"
#include "health/site.h"
#include "runner/base/clock.h"

#define PAIRS_PORT 29371
#define REAP_S 0.3 /* how long a killed child is waited for, all together */

struct worker {
    struct child child;
    const char *name; /* of the probe */
    double slow_s;
    struct health_probe *told;
    struct looking *looking;
};

/* One look. */
struct looking {
    struct look look;
    struct health_report *report;
    struct history *seen; /* NULL: nothing is remembered */
    double slow_s;
    struct worker worker[HEALTH_PROBES_MAX + 1];
    int worker_n;
};

/* Those that load the node run after the others, one after the other. */
static const enum probe_when stages[] = {PROBE_ALWAYS, PROBE_ACTIVE,
                                         PROBE_PAIRS};
enum { STAGES_N = sizeof stages / sizeof *stages };

static bool is_wanted(const struct probe *probe, const struct look *look,
                      enum probe_when stage)
{
    enum probe_when own = probe->when < PROBE_ACTIVE ? PROBE_ALWAYS
                                                     : probe->when;
    if ((probe->full_only && !look->full) || own != stage)
        return false;
    if (stage == PROBE_ACTIVE)
        return look->active;
    if (stage == PROBE_PAIRS)
        return look->pairs != NULL;
    return probe->when == PROBE_ALWAYS ||
           (probe->when == PROBE_USER) == look->user;
}

static void add_finding(struct looking *looking, enum finding_code code,
                        const char *subject, const char *evidence)
{
    report_add(looking->report, looking->look.site, code, subject, evidence);
}

static void take_record(void *ctx, const struct record *record)
{
    struct worker *worker = ctx;
    struct looking *looking = worker->looking;
    struct health_report *report = looking->report;
    switch (record->kind) {
    case RECORD_FINDING:
        add_finding(looking, (enum finding_code)record->code, record->name,
                    record->text);
        worker->told->status = HEALTH_FOUND;
        break;
    case RECORD_SKIP:
        worker->told->status = HEALTH_SKIPPED;
        str_copy(worker->told->why, sizeof worker->told->why, record->text);
        break;
    case RECORD_NOTE:
        report_note(report, record->name, record->text);
        break;
    case RECORD_FIGURE:
        report_figure(report, record->name, record->text, record->unit,
                      record->value);
        break;
    case RECORD_GPU:
        report_gpu(report, record->text);
        break;
    case RECORD_COUNT:
    case RECORD_EVENT:
        if (looking->seen)
            look_history_take(looking->seen, record, report->time_s);
        break;
    default:
        break;
    }
}

/* A crash counts as one; a clean end leaves the status as it is. */
static void judge_end(struct worker *worker, int status)
{
    struct health_probe *told = worker->told;
    told->seconds = clock_mono_s() - worker->child.begin_s;
    char how[160];
    child_end_text(&worker->child, status, how, sizeof how);
    if (told->status == HEALTH_HUNG || !*how)
        return;
    told->status = HEALTH_CRASHED;
    str_copy(told->why, sizeof told->why, how);
    add_finding(worker->looking, F_PROBE_CRASHED, worker->name, how);
}

static void stop_hung(struct worker *worker)
{
    char evidence[160];
    struct child *child = &worker->child;
    child_kill(child);
    worker->told->status = HEALTH_HUNG;
    worker->told->seconds = clock_mono_s() - child->begin_s;
    snprintf(evidence, sizeof evidence, "longer than %.3g s%s",
             child->limit_s - child->begin_s, child->at);
    add_finding(worker->looking, F_PROBE_HUNG, worker->name, evidence);
}

/* Until every child has closed its pipe or was stopped. */
static void watch(struct worker *workers, int n)
{
    struct pollfd polled[HEALTH_PROBES_MAX + 1];
    int which[HEALTH_PROBES_MAX + 1];
    for (;;) {
        int polled_n = 0;
        double now = clock_mono_s(), next = now + 60;
        for (int i = 0; i < n; i++) {
            struct child *child = &workers[i].child;
            if (child->fd >= 0 && now >= child->limit_s)
                stop_hung(&workers[i]);
            if (child->fd < 0)
                continue;
            if (child->limit_s < next)
                next = child->limit_s;
            which[polled_n] = i;
            polled[polled_n++] = (struct pollfd){child->fd, POLLIN, 0};
        }
        if (!polled_n)
            return;
        if (poll(polled, (nfds_t)polled_n, (int)((next - now) * 1000) + 1) <= 0)
            continue;
        for (int i = 0; i < polled_n; i++)
            if (polled[i].revents)
                child_read(&workers[which[i]].child, take_record,
                           &workers[which[i]]);
    }
}

static void reap_all(struct worker *workers, int n)
{
    double until = clock_mono_s() + REAP_S;
    for (;;) {
        int left = 0, status;
        for (int i = 0; i < n; i++) {
            if (workers[i].child.pid && child_reap(&workers[i].child, &status))
                judge_end(&workers[i], status);
            left += workers[i].child.pid != 0;
        }
        if (!left || clock_mono_s() >= until)
            return;
        clock_sleep_s(0.002);
    }
}

static struct worker *new_worker(struct looking *looking, const char *name)
{
    struct health_report *report = looking->report;
    struct worker *worker = &looking->worker[looking->worker_n];
    worker->looking = looking;
    worker->name = name;
    worker->told = &report->probe[report->probe_n];
    worker->told->name = name;
    return worker;
}

static int run_probes(struct looking *looking, enum probe_when stage,
                      struct err *err)
{
    int rc = 0, before = looking->worker_n;
    fflush(NULL); /* a crashing child must not print it again */
    for (int i = 0; i < probes_n && !rc &&
                    looking->worker_n < HEALTH_PROBES_MAX - 1;
         i++) {
        if (!is_wanted(&probes[i], &looking->look, stage))
            continue;
        struct worker *worker = new_worker(looking, probes[i].name);
        rc = child_start(&worker->child, probes[i].run, &looking->look,
                         probes[i].deadline_s * looking->slow_s, err);
        looking->worker_n += !rc;
        looking->report->probe_n += !rc;
    }
    watch(looking->worker + before, looking->worker_n - before);
    reap_all(looking->worker + before, looking->worker_n - before);
    return rc;
}

/* Codes of what speaks against the node itself, and what the job suspects. */
static void bad_codes(const struct health_report *report,
                      const char *suspicions, struct sbuf *out)
{
    for (int i = 0; i < report->finding_n; i++) {
        const struct finding *f = &report->finding[i];
        if (f->severity == FINDING_DRAIN || f->severity == FINDING_FAIL)
            sbuf_printf(out, "%s%s", out->len ? "," : "", f->code);
    }
    if (suspicions && *suspicions)
        sbuf_printf(out, "%s%s", out->len ? "," : "", suspicions);
}

static void remember(struct looking *looking,
                     const struct health_request *request)
{
    struct sbuf codes = SBUF_INIT;
    if (!looking->seen)
        return;
    bad_codes(looking->report, request->suspicions, &codes);
    struct worker *worker = new_worker(looking, "history");
    if (!look_history_save(&worker->child, &looking->look, looking->seen,
                           request->job, codes.data, NULL)) {
        looking->report->probe_n++;
        watch(worker, 1);
        reap_all(worker, 1);
    }
    sbuf_release(&codes);
}

static int worse_first(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    if (x->severity != y->severity)
        return x->severity < y->severity ? 1 : -1;
    int by_code = strcmp(x->code, y->code);
    return by_code ? by_code : strcmp(x->subject, y->subject);
}

static int note_by_name(const void *a, const void *b)
{
    return strcmp(((const struct health_note *)a)->name,
                  ((const struct health_note *)b)->name);
}

static void finish(struct health_report *report)
{
    qsort(report->finding, (size_t)report->finding_n, sizeof *report->finding,
          worse_first);
    qsort(report->note, (size_t)report->note_n, sizeof *report->note,
          note_by_name);
    report->verdict =
        report->finding_n ? report->finding[0].severity : FINDING_INFO;
}

int health_look(const struct health_request *request,
                struct health_report *ret, struct err *err)
{
    struct looking *looking = calloc(1, sizeof *looking);
    double begin_s = clock_mono_s();
    int rc = -1;
    if (!looking)
        return err_set(err, "health: out of memory");
    *ret = (struct health_report){.full = request->full,
                                  .user = request->user};
    looking->report = ret;
    looking->slow_s = request->slow_s > 0 ? request->slow_s : 1;
    if (look_open(&looking->look, request, err))
        goto out;
    if (source_host(&looking->look.source, ret->host, sizeof ret->host))
        str_copy(ret->host, sizeof ret->host, "unknown");
    source_now(&looking->look.source, &ret->time_s);
    if (request->history)
        looking->seen = history_create("");
    rc = 0;
    for (int i = 0; i < STAGES_N && !rc; i++)
        rc = run_probes(looking, stages[i], err);
    remember(looking, request);
    finish(ret);
    ret->seconds = clock_mono_s() - begin_s;
out:
    look_close(&looking->look);
    history_destroy(looking->seen);
    free(looking);
    return rc;
}

static const char *recorded_text(const struct look *look, const char *name,
                                 int slot)
{
    static char text[2][256];
    return source_fact(&look->source, name, text[slot], sizeof text[slot])
               ? NULL
               : text[slot];
}

int look_open(struct look *ret, const struct health_request *request,
              struct err *err)
{
    *ret = (struct look){.full = request->full,
                         .user = request->user,
                         .run_dir = request->run_dir,
                         .nvml = request->nvml,
                         .klog_after_s = request->klog_after_s,
                         .history = request->history,
                         .active = request->active,
                         .gpus = request->gpus,
                         .trial = request->trial,
                         .corrupt = request->corrupt,
                         .pairs = request->pairs,
                         .self = request->self,
                         .secret = request->secret ? request->secret : "",
                         .port = request->port ? request->port : PAIRS_PORT,
                         .lent = request->lent,
                         .cuda_visible = request->cuda_visible,
                         .cuda_order = request->cuda_order,
                         .watch_s = request->watch_s};
    struct conf *site = site_open(request->expect, err);
    ret->site = site;
    if (!site)
        return -1;
    if (source_open(&ret->source, request->root ? request->root : "/", err))
        return -1;
    if (!source_is_live(&ret->source)) { /* the record's, not this process's */
        ret->cuda_visible = recorded_text(ret, "CUDA_VISIBLE_DEVICES", 0);
        ret->cuda_order = recorded_text(ret, "CUDA_DEVICE_ORDER", 1);
    }
    return 0;
}

void look_close(struct look *look)
{
    source_close(&look->source);
    conf_destroy((struct conf *)look->site);
}
