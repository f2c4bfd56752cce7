/* look: probes that hang, crash, flood, lie and stop, beside good ones. The
 * table of probes is this test's own. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health/health.h"
#include "health/probe.h"
#include "runner/base/clock.h"
#include "tests/tap.h"

static void good(const struct look *look, struct findings *f)
{
    findings_note(f, "note", "a fact");
}

static void found(const struct look *look, struct findings *f)
{
    findings_add(f, F_LOAD_HIGH, "node", "load %d", 7);
    findings_add(f, F_MEM_ECC_UNCORRECTED, "mc0", "ue_count %d", 1);
}

static void skipped(const struct look *look, struct findings *f)
{
    findings_skip(f, "no %s", "hardware");
}

static void hung(const struct look *look, struct findings *f)
{
    findings_add(f, F_DISK_FULL, "/said-before-it-hung", "x");
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static void crashed(const struct look *look, struct findings *f)
{
    findings_add(f, F_DISK_FULL, "/said-before-it-crashed", "x");
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void ended(const struct look *look, struct findings *f)
{
    _exit(9);
}

static void flood(const struct look *look, struct findings *f)
{
    for (int i = 0; i < 2000; i++)
        findings_add(f, F_ZOMBIES, "flood", "%d", i);
}

/* The first member of struct findings is the pipe: a broken probe may write
 * anything there. */
static void lies(const struct look *look, struct findings *f)
{
    int fd = *(int *)(void *)f;
    char junk[5000];
    memset(junk, 0xff, sizeof junk);
    if (write(fd, junk, sizeof junk) < 0)
        _exit(1);
}

const struct probe probes[] = {
    {"good", good, 2, PROBE_ALWAYS, false, false},
    {"found", found, 2, PROBE_ALWAYS, false, false},
    {"skipped", skipped, 2, PROBE_ALWAYS, false, false},
    {"hung", hung, 0.3, PROBE_ALWAYS, false, false},
    {"crashed", crashed, 2, PROBE_ALWAYS, false, false},
    {"ended", ended, 2, PROBE_ALWAYS, false, false},
    {"flood", flood, 5, PROBE_USER, false, false},
    {"lies", lies, 2, PROBE_ALWAYS, false, false},
    {"root-only", good, 2, PROBE_ROOT, false, false},
    {"full-only", good, 2, PROBE_ALWAYS, true, false},
};
const int probes_n = sizeof probes / sizeof *probes;

/* The library's own are left out with its table. */
void watch_gpu(const struct look *look, struct findings *f)
{
}

void watch_klog(const struct look *look, struct findings *f)
{
}

static struct health_report report;

static const struct health_probe *probe_of(const char *name)
{
    for (int i = 0; i < report.probe_n; i++)
        if (!strcmp(report.probe[i].name, name))
            return &report.probe[i];
    return NULL;
}

static const struct finding *finding_of(const char *code, const char *subject)
{
    for (int i = 0; i < report.finding_n; i++)
        if (!strcmp(report.finding[i].code, code) &&
            !strcmp(report.finding[i].subject, subject))
            return &report.finding[i];
    return NULL;
}

static int open_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void check_status(const char *name, enum health_status want)
{
    const struct health_probe *probe = probe_of(name);
    ok(probe && probe->status == want, "probe %s: status %d", name, want);
}

int main(void)
{
    struct health_request request = {0};
    struct err err = ERR_INIT;
    int files = open_files();
    double begin_s = clock_mono_s();
    ok(!health_look(&request, &report, &err), "looked %s", err.msg);
    ok(clock_mono_s() - begin_s < 2, "all at once, and not held by the hung");
    is_int(open_files(), files, "no descriptor is left");
    ok(waitpid(-1, NULL, WNOHANG) < 0, "no child is left");
    check_status("good", HEALTH_OK);
    check_status("found", HEALTH_FOUND);
    check_status("skipped", HEALTH_SKIPPED);
    check_status("hung", HEALTH_HUNG);
    check_status("crashed", HEALTH_CRASHED);
    check_status("ended", HEALTH_CRASHED);
    check_status("lies", HEALTH_OK);
    check_status("root-only", HEALTH_OK);
    ok(!probe_of("flood") && !probe_of("full-only"), "not asked for, not run");
    is_str(probe_of("skipped")->why, "no hardware", "why it is skipped");
    ok(finding_of("probe-hung", "hung") && finding_of("probe-crashed", "ended"),
       "hangs and crashes are findings");
    ok(finding_of("probe-hung", "hung")->severity == FINDING_UNKNOWN,
       "of unknown meaning");
    ok(finding_of("disk-full", "/said-before-it-hung") &&
           finding_of("disk-full", "/said-before-it-crashed"),
       "what was said before counts");
    is_str(report.finding[0].code, "mem-ecc-uncorrected", "the worst first");
    is_int(health_exit_code(&report), HEALTH_EXIT_FAIL, "exit code");
    is_str(health_verdict(&report), "fail", "verdict");
    is_int(report.note_n, 1 + 1, "notes of good and root-only");

    json_t *value = health_json(&report);
    ok(json_is_object(value) &&
           json_array_size(json_object_get(value, "findings")) ==
               (size_t)report.finding_n,
       "JSON");
    json_decref(value);

    request.user = request.full = true;
    ok(!health_look(&request, &report, &err), "as a user, full");
    is_int(report.finding_n, HEALTH_FINDINGS_MAX, "a flood fills the report");
    ok(report.dropped_n > 1700, "and the rest is counted: %d",
       report.dropped_n);
    ok(probe_of("full-only") && !probe_of("root-only"), "by level and user");

    request.root = "/nonexistent";
    ok(health_look(&request, &report, &err) && err.class == ERR_REQUEST,
       "no such host: %s", err.msg);
    request.root = NULL;
    request.expect = "/nonexistent.yaml";
    err = ERR_INIT;
    ok(health_look(&request, &report, &err), "no such file: %s", err.msg);
    return tap_done();
}
