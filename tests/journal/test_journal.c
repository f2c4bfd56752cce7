/* Tests of runner/journal/journal.c, metrics.c and read.c. */
#include "runner/journal/journal.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "runner/journal/fields.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

static const char *run_dir(void)
{
    return scratch("run");
}

static void make_attempt(int attempt)
{
    struct err err = ERR_INIT;
    char name[64];
    snprintf(name, sizeof name, "run/attempts/%04d", attempt);
    if (file_make_dirs(scratch(name), 0700, &err))
        abort();
}

static struct metrics metrics_of(int64_t step)
{
    return (struct metrics){
        .step = step, .steps = 100, .consumed_samples = 8 * step,
        .consumed_tokens = 512 * step, .iteration_ms = 125.5,
        .tokens_per_s = 4096, .tokens_per_s_rank = 2048, .tflops_half = 1.5,
        .tflops_full = 2, .lr = 3e-4, .loss = 2.5, .grad_norm = 0.75,
        .z = NAN, .accuracy = NAN, .global_batch = 8, .eta_s = 3720,
        .valid_loss = NAN, .wall_s = 1700000000.5};
}

struct seen {
    int n;
    char text[16][64];
};

static int on_record(void *ctx, int attempt, const json_t *record)
{
    struct seen *s = ctx;
    const char *event = json_string_value(json_object_get(record, "event"));
    snprintf(s->text[s->n++], sizeof *s->text, "%d %s", attempt,
             event ? event : "?");
    return 0;
}

static void test_events(void)
{
    struct err err = ERR_INIT;
    make_attempt(1);
    make_attempt(2);
    make_attempt(10);
    for (int a = 1; a <= 10; a += a == 2 ? 8 : 1) {
        struct journal *j = journal_open(run_dir(), a, KB_JOURNAL, &err);
        ok(j && !journal_event(j, KB_EV_ATTEMPT_START,
                               json_pack("{s:i}", "job", 7), &err) &&
               !journal_event(j, KB_EV_DONE, NULL, &err),
           "events of attempt %d", a);
        journal_close(j);
    }
    struct seen seen = {0};
    ok(!journal_read(run_dir(), KB_JOURNAL, on_record, &seen, &err) &&
           seen.n == 6, "read merged");
    is_str(seen.text[0], "1 attempt_start", "the first");
    is_str(seen.text[5], "10 done", "attempts by number, not by name");
    ok(!journal_read(run_dir(), KB_METRICS, on_record, &seen, &err) &&
           seen.n == 6, "no metrics yet");
    struct stat st;
    char path[PATH_MAX];
    strcpy(path, scratch("run/attempts/0001/journal.jsonl"));
    ok(!stat(path, &st) && (st.st_mode & 0777) == 0600, "private");
    ok(!journal_open(run_dir(), 3, KB_JOURNAL, &err), "no attempt, no file");
    err = ERR_INIT;
    ok(journal_read(scratch("none"), KB_JOURNAL, on_record, &seen, &err) ==
               -1 && strstr(err.msg, "run directory"),
       "what is no run directory is told");
}

/* Half a line at the end, then a writer that goes on. */
static void test_torn(void)
{
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    make_attempt(4);
    strcpy(path, scratch("run/attempts/0004/journal.jsonl"));
    static const char torn[] = "{\"event\":\"launch\"}\n"
                               "garbage\n[1]\n{\"event\":\"sta";
    scratch_write(path, torn, sizeof torn - 1);
    struct seen seen = {0};
    journal_read_attempt(run_dir(), 4, KB_JOURNAL, on_record, &seen, &err);
    is_int(seen.n, 1, "torn and foreign lines are passed over");
    struct journal *j = journal_open(run_dir(), 4, KB_JOURNAL, &err);
    journal_event(j, KB_EV_STOP, NULL, &err);
    journal_close(j);
    seen = (struct seen){0};
    journal_read_attempt(run_dir(), 4, KB_JOURNAL, on_record, &seen, &err);
    ok(seen.n == 2 && !strcmp(seen.text[1], "4 stop"),
       "a record behind half a line is whole");
    static const char whole[] = "{\"event\":\"stop\"}";
    scratch_write(path, whole, sizeof whole - 1);
    seen = (struct seen){0};
    journal_read_attempt(run_dir(), 4, KB_JOURNAL, on_record, &seen, &err);
    is_int(seen.n, 0, "a line without its newline is not over yet");
}

/* A file size limit is the full disk that a test can have. */
static void test_full_disk(void)
{
    struct err err = ERR_INIT;
    struct rlimit old, small;
    make_attempt(5);
    struct journal *j = journal_open(run_dir(), 5, KB_JOURNAL, &err);
    journal_event(j, KB_EV_LAUNCH, NULL, &err);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){100, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = journal_event(j, KB_EV_STALL, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    ok(rc == -1 && strstr(err.msg, "a record is lost"), "a full disk is told");
    err = ERR_INIT;
    ok(!journal_event(j, KB_EV_DONE, NULL, &err), "and room again is used");
    journal_close(j);
    struct seen seen = {0};
    journal_read_attempt(run_dir(), 5, KB_JOURNAL, on_record, &seen, &err);
    ok(seen.n == 2 && !strcmp(seen.text[1], "5 done"),
       "the file is still lines");
}

static int keep(void *ctx, int attempt, const json_t *record)
{
    *(json_t **)ctx = json_deep_copy(record);
    return 0;
}

static void test_metrics(void)
{
    struct err err = ERR_INIT;
    struct metrics m = metrics_of(7);
    struct journal *j = journal_open(run_dir(), 10, KB_METRICS, &err);
    m.grad_norm = INFINITY;
    ok(!journal_metrics(j, &m, &err), "metrics");
    journal_close(j);
    json_t *got = NULL;
    journal_read_attempt(run_dir(), 10, KB_METRICS, keep, &got, &err);
    is_int(json_integer_value(json_object_get(got, "step")), 7, "step");
    is_int(json_integer_value(json_object_get(got, "consumed_tokens")), 3584,
           "consumed tokens");
    is_near(json_real_value(json_object_get(got, "lr")), 3e-4, 0, "lr");
    ok(json_is_null(json_object_get(got, "grad_norm")),
       "what JSON has no number for is null");
    ok(!json_object_get(got, "valid_loss"), "what was not measured is absent");
    ok(json_is_integer(json_object_get(got, "global_batch")), "an integer");
    json_decref(got);
}

static void test_line(void)
{
    char line[1024];
    struct metrics m = metrics_of(7);
    m.valid_loss = 2.25;
    m.skipped = 3;
    metrics_line(&m, line, sizeof line);
    static const char *const parts[] = {
        "iteration        7/     100", "consumed samples: 56 ",
        "consumed tokens: 3584 ", "(ms): 125.5 ", "tokens/s/rank: 2048.0 ",
        "TFLOP/s/rank: 2 (causal 1.5)", "learning rate: 3.000000E-04",
        "global batch size: 8 ", "lm loss: 2.500000E+00", "grad norm: 0.750",
        "skipped iterations: 3 ", "nan iterations: 0",
        "validation loss: 2.250000E+00", "time to finish: 1h02m"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ok(strstr(line, parts[i]), "line: %s", parts[i]);
    m.eta_s = NAN;
    metrics_line(&m, line, 40);
    is_int(strlen(line), 39, "a short buffer cuts the line");
}

int main(void)
{
    test_events();
    test_torn();
    test_full_disk();
    test_metrics();
    test_line();
    return tap_done();
}
