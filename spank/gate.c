/* gate - the health gate in prolog and epilog, as root, in a process of their
 * own in which no other hook of ours ran.
 *
 * Jobs that did not ask for it cost a look at one variable. For the others
 * koboshi-health runs as a child with a deadline and its report goes to a file
 * of root's that preflight reads: the gate never fails a prolog, for that
 * would hold the job and drain the node under Slurm's own words. A fresh report
 * is used again. A node with a drain or fail finding is drained (drain.h); what
 * could not be found out, hung or crashed never drains. Nothing here touches a
 * path that a user chose.
 */
#include "spank/context.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "health/finding.h"
#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/proc.h"
#include "runner/base/str.h"
#include "spank/drain.h"
#include "spank/say.h"
#include "spank/store.h"
#include "spank/suspect.h"

#define FRESH_S 60.0
#define ACTIVE_S 32.0 /* what --active takes more, at most */
#define SETTLED_FILE "klog.after" /* uptime of our last drain */
#define DRAINS_FILE "drains"      /* when we drained this node, a line each */
enum { REPORT_BYTES = 1 << 20, CODE_BYTES = 64, SUBJECT_BYTES = 100 };

struct gate {
    const struct args *args;
    uint32_t job;
    const char *node;
    const char *level; /* gate | full */
    bool active;       /* try the job's GPUs, too: full, before the job */
    char gpus[128];    /* they, as --gpus takes them; "": all of the node */
    int lent;          /* GPUs that there must be for these; 0: not known */
    uid_t uid;         /* the job's */
    bool over;         /* the epilog */
    char suspicions[SUSPECT_TEXT_BYTES]; /* of the job, "" for none */
    int store;
};

/* What a look came to. */
struct verdict {
    bool bad; /* drain or fail, said by a whole report */
    char code[CODE_BYTES];
    char subject[SUBJECT_BYTES];
};

/* ---- Who asked --------------------------------------------------------- */

/* Slurm's list of the job's GPUs, by their places on the node; what is none is
 * not passed on. */
static void read_gpus(struct gate *gate)
{
    const char *gpus = getenv("SLURM_JOB_GPUS");
    if (!gpus || gpus[strspn(gpus, "0123456789,-")])
        return;
    if (gate->active)
        str_copy(gate->gpus, sizeof gate->gpus, gpus);
    for (const char *p = gpus; *p; p += !!*p) {
        size_t n = strcspn(p, ",-");
        long place = n && n < 5 ? strtol(p, NULL, 10) : -1;
        if (place + 1 > gate->lent)
            gate->lent = (int)place + 1;
        p += n;
    }
}

/* Slurm puts the job control environment here as SPANK_NAME. */
static int read_job(const struct args *args, struct gate *ret)
{
    const char *config = getenv("SPANK_" KB_ENV_CONFIG);
    const char *planned = getenv("SPANK_" KB_ENV_GATE);
    const char *health = planned ? planned : getenv("SPANK_" KB_ENV_HEALTH);
    const char *job = getenv("SLURM_JOB_ID");
    const char *node = getenv("SLURMD_NODENAME");
    const char *user = getenv("SLURM_JOB_UID");
    int64_t id, uid = -1;
    if (!config || (health && !strcmp(health, "off")))
        return -1;
    if (!job || str_to_i64(job, &id) || id <= 0 || id > UINT32_MAX || !node) {
        say_log("gate: no SLURM_JOB_ID or SLURMD_NODENAME: not looked");
        return -1;
    }
    *ret = (struct gate){
        .args = args,
        .job = (uint32_t)id,
        .node = node,
        .level = health && !strcmp(health, "full") ? "full" : "gate",
        .uid = user && !str_to_i64(user, &uid) && uid >= 0 &&
                       uid < (uid_t)-1
                   ? (uid_t)uid
                   : (uid_t)-1,
        .store = -1,
    };
    return 0;
}

/* ---- The look ------------------------------------------------------------ */

/* A word of the verdict line, with only what a reason may hold. */
static void take_word(char *dst, size_t dst_bytes, const char *from, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n && len + 1 < dst_bytes; i++)
        dst[len++] = isalnum((unsigned char)from[i]) ||
                             strchr("-_./:@", from[i])
                         ? from[i]
                         : '_';
    dst[len] = 0;
}

/* "VERDICT CODE SUBJECT" on the last line of standard error, after an exit code
 * that says drain or fail; anything else is nothing bad. */
static void read_verdict(const struct proc_result *result,
                         struct verdict *ret)
{
    size_t len = result->err.len;
    const char *text = result->err.data;
    *ret = (struct verdict){0};
    while (len && text[len - 1] == '\n')
        len--;
    size_t begin = len;
    while (begin && text[begin - 1] != '\n')
        begin--;
    if (result->exit_code != HEALTH_EXIT_DRAIN &&
        result->exit_code != HEALTH_EXIT_FAIL)
        return;
    const char *end = text + len;
    const char *code = memchr(text + begin, ' ', len - begin);
    const char *blank =
        code ? memchr(code + 1, ' ', (size_t)(end - code - 1)) : NULL;
    if (!blank || blank == ++code)
        return;
    take_word(ret->code, sizeof ret->code, code, (size_t)(blank - code));
    take_word(ret->subject, sizeof ret->subject, blank + 1,
              (size_t)(end - blank - 1));
    ret->bad = true;
}

static bool is_report(const struct proc_result *result)
{
    return (result->exit_code == HEALTH_EXIT_FIT ||
            result->exit_code == HEALTH_EXIT_DRAIN ||
            result->exit_code == HEALTH_EXIT_FAIL) &&
           result->out.len > 2 && result->out.len < REPORT_BYTES &&
           result->out.data[0] == '{';
}

/* A report of the same form that says only why there is none. */
static void make_unknown(struct sbuf *report, const struct gate *gate,
                         const char *why)
{
    char plain[200];
    take_word(plain, sizeof plain, why, strlen(why));
    sbuf_clear(report);
    sbuf_printf(report,
                "{\"schema\":1,\"host\":\"\",\"time\":%.3f,\"level\":\"%s\","
                "\"verdict\":\"unknown\",\"findings\":[{\"code\":"
                "\"gate-unknown\",\"subject\":\"node\",\"severity\":"
                "\"unknown\",\"class\":\"none\",\"message\":\"the health gate "
                "could not look\",\"advice\":\"see slurmd's log\","
                "\"evidence\":\"%s\"}]}\n",
                clock_wall_s(), gate->level, plain);
}

/* Run koboshi-health; the report, or one that says unknown. */
static void look(const struct gate *gate, struct sbuf *report,
                 struct verdict *verdict)
{
    char path[PATH_MAX], after[48] = "--klog-after=0", how[64];
    char gpus[sizeof gate->gpus + 8], lent[32], history[PATH_MAX + 32];
    char job[32], suspect[sizeof gate->suspicions + 16];
    struct proc_result result = {0};
    struct err err = ERR_INIT;
    size_t bytes;
    char *settled = store_read(gate->store, SETTLED_FILE, 0, &bytes);
    if (settled)
        settled[strcspn(settled, "\n")] = 0;
    if (settled && *settled && strlen(settled) < 24 &&
        !settled[strspn(settled, "0123456789.")])
        snprintf(after, sizeof after, "--klog-after=%s", settled);
    free(settled);
    snprintf(gpus, sizeof gpus, "--gpus=%s", gate->gpus);
    snprintf(lent, sizeof lent, "--lent=%d", gate->lent);
    snprintf(job, sizeof job, "--job=%u", (unsigned)gate->job);
    snprintf(suspect, sizeof suspect, "--suspect=%s", gate->suspicions);
    int len = snprintf(history, sizeof history, "--history=%s/health.json",
                       gate->args->state_dir);
    bool remembers = len > 0 && (size_t)len < sizeof history;
    const char *argv[16] = {path, "--json", "--verdict", "--level",
                            gate->level, after};
    const struct {
        bool wanted;
        const char *word;
    } more[] = {
        {remembers, history},
        {gate->lent > 0, lent},
        {remembers && gate->over, job},
        {remembers && gate->over && *gate->suspicions, suspect},
        {gate->active, "--active"},
        {gate->active && *gate->gpus, gpus},
    };
    for (size_t i = 0, n = 6; i < sizeof more / sizeof *more; i++)
        if (more[i].wanted)
            argv[n++] = more[i].word;
    const char *envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                          NULL};
    struct proc_spec spec = {
        .argv = argv,
        .envp = envp,
        .deadline_s = gate->args->health_timeout_s +
                      (gate->active ? ACTIVE_S : 0),
        .term_grace_s = 0.2,
        .out_max_bytes = REPORT_BYTES,
    };
    *verdict = (struct verdict){0};
    if (file_join(path, sizeof path, gate->args->bindir, "koboshi-health",
                  &err) ||
        proc_run(&spec, &result, &err)) {
        make_unknown(report, gate, err.msg);
    } else if (!is_report(&result)) {
        proc_result_text(&result, how, sizeof how);
        err_set(&err, "gate: koboshi-health %s", how);
        make_unknown(report, gate, how);
    } else {
        sbuf_add(report, result.out.data, result.out.len);
        read_verdict(&result, verdict);
    }
    if (err.class)
        say_log("job %u: %s", (unsigned)gate->job, err.msg);
    proc_result_release(&result);
}

/* ---- What follows ----------------------------------------------------- */

static void remember_settled(const struct gate *gate)
{
    char text[64];
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now))
        return;
    snprintf(text, sizeof text, "%lld.%03ld", (long long)now.tv_sec,
             now.tv_nsec / 1000000);
    store_write(gate->store, SETTLED_FILE, text, strlen(text), NULL);
}

/* Drains of this node within the hour, whoever resumed it since: Slurm tells
 * only of nodes that are still out. Adds one if it is done. */
static int drains_lately(const struct gate *gate, bool done)
{
    char out[1024];
    size_t bytes = 0, used = 0;
    int n = 0;
    double now = clock_wall_s();
    char *text = store_read(gate->store, DRAINS_FILE, 0, &bytes);
    for (const char *p = text; p && *p && used + 64 < sizeof out;) {
        double when = strtod(p, NULL);
        if (when > now - 3600 && when <= now) {
            n++;
            used += (size_t)snprintf(out + used, sizeof out - used, "%.0f\n",
                                     when);
        }
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    free(text);
    if (done) {
        used += (size_t)snprintf(out + used, sizeof out - used, "%.0f\n", now);
        store_write(gate->store, DRAINS_FILE, out, used, NULL);
    }
    return n;
}

static void act(const struct gate *gate, const struct verdict *verdict)
{
    enum drain_verdict why = DRAIN_TOO_FAST;
    struct err err = ERR_INIT;
    if (!gate->args->may_drain) {
        say_log("job %u: %s %s: not drained: may_drain=no", gate->job,
                verdict->code, verdict->subject);
        return;
    }
    int rc = drains_lately(gate, false) >= gate->args->drains_per_hour
                 ? 0
                 : drain_node(gate->args, gate->node, verdict->code,
                              verdict->subject, &why, &err);
    if (rc > 0) {
        drains_lately(gate, true);
        remember_settled(gate);
        say_log("job %u: drained: %s %s", gate->job, verdict->code,
                verdict->subject);
    } else {
        say_log("job %u: %s %s: not drained: %s", gate->job, verdict->code,
                verdict->subject, rc ? err.msg : drain_verdict_text(why));
    }
}

static void write_report(const struct gate *gate, const char *name,
                         const char *text, size_t bytes)
{
    struct err err = ERR_INIT;
    if (store_write(gate->store, name, text, bytes, &err))
        say_log("job %u: %s", gate->job, err.msg);
}

/* A look, or a fresh one of before, into *report. */
static void look_or_reuse(const struct gate *gate, struct sbuf *report)
{
    char last[32];
    struct verdict verdict;
    size_t bytes = 0;
    snprintf(last, sizeof last, "last.%s.json", gate->level);
    char *fresh = *gate->gpus || *gate->suspicions /* not of this job's */
                      ? NULL
                      : store_read(gate->store, last, FRESH_S, &bytes);
    if (fresh) {
        sbuf_add(report, fresh, bytes);
        free(fresh);
        return;
    }
    look(gate, report, &verdict);
    if (!report->failed)
        write_report(gate, last, report->data, report->len);
    if (verdict.bad)
        act(gate, &verdict);
}

void gate_prolog(const struct args *args)
{
    struct gate gate;
    struct sbuf report = SBUF_INIT;
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    if (read_job(args, &gate))
        return;
    gate.active = !strcmp(gate.level, "full");
    read_gpus(&gate);
    gate.store = store_open(args->gate_dir, &err);
    if (gate.store < 0) {
        say_log("job %u: %s", gate.job, err.msg);
        return;
    }
    if (gate.uid != (uid_t)-1 &&
        suspect_make(gate.store, gate.job, gate.uid, &err))
        say_log("job %u: %s", gate.job, err.msg);
    look_or_reuse(&gate, &report);
    snprintf(path, sizeof path, KB_GATE_FMT, (unsigned)gate.job);
    if (!report.failed)
        write_report(&gate, strrchr(path, '/') + 1, report.data, report.len);
    sbuf_release(&report);
    close(gate.store);
}

/* What the job suspects makes this look closer, and drains nothing. */
static void hear_suspicions(struct gate *gate)
{
    if (gate->uid == (uid_t)-1)
        return;
    suspect_take(gate->store, gate->job, gate->uid, gate->suspicions);
    if (!*gate->suspicions)
        return;
    bool looks = suspect_may_look(gate->store, clock_wall_s());
    say_log("job %u suspects this node: %s%s", (unsigned)gate->job,
            gate->suspicions, looks ? "; looking closer"
                                    : "; not looked closer again so soon");
    if (!looks) {
        gate->suspicions[0] = 0;
        return;
    }
    gate->level = "full";
    gate->active = strstr(gate->suspicions,
                          kb_suspicion_names[KB_SUSPECT_GPU]) ||
                   strstr(gate->suspicions,
                          kb_suspicion_names[KB_SUSPECT_HANG]);
}

/* What the job left behind; its verdict is of no use any more. */
void gate_epilog(const struct args *args)
{
    struct gate gate;
    struct sbuf report = SBUF_INIT;
    char path[PATH_MAX];
    if (read_job(args, &gate))
        return;
    gate.store = store_open(args->gate_dir, NULL);
    if (gate.store < 0)
        return;
    gate.over = true;
    hear_suspicions(&gate);
    read_gpus(&gate);
    look_or_reuse(&gate, &report);
    snprintf(path, sizeof path, KB_GATE_FMT, (unsigned)gate.job);
    store_remove(gate.store, strrchr(path, '/') + 1);
    sbuf_release(&report);
    close(gate.store);
}
