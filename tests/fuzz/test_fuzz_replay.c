/* Fuzz target: the files of two attempts, as `koboshi report` and the next
 * supervisor read them. The input is cut at form feeds: journal, metrics,
 * start, status, verdict, claim of the first, then of the second. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/journal/chronicle.h"
#include "runner/journal/journal.h"
#include "runner/supervise/attempt.h"
#include "tests/fuzz/driver.h"

static const char *const names[] = {KB_JOURNAL,    KB_METRICS, KB_START_JSON,
                                    "status.json", "verdict.json",
                                    "claim.json"};
enum { NAMES_N = sizeof names / sizeof *names, ATTEMPTS_N = 2 };

static char dir[64];

static void path_of(int attempt, const char *name, char *ret)
{
    snprintf(ret, PATH_MAX, "%s/" KB_ATTEMPT_FMT "%s%s", dir, attempt,
             *name ? "/" : "", name);
}

static void clean_up(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        fprintf(stderr, "cannot remove %s\n", dir);
}

static void make_folders(void)
{
    char path[PATH_MAX];
    strcpy(dir, "/tmp/kb-fuzz-XXXXXX");
    if (!mkdtemp(dir) || atexit(clean_up))
        abort();
    snprintf(path, sizeof path, "%s/" KB_ATTEMPTS_DIR, dir);
    if (mkdir(path, 0700))
        abort();
    for (int a = 1; a <= ATTEMPTS_N; a++) {
        path_of(a, "", path);
        if (mkdir(path, 0700))
            abort();
    }
}

/* A piece that is empty is a file that is not there. */
static void write_files(const uint8_t *data, size_t bytes)
{
    for (int i = 0; i < NAMES_N * ATTEMPTS_N; i++) {
        char path[PATH_MAX];
        const uint8_t *end = bytes ? memchr(data, '\f', bytes) : NULL;
        size_t n = end ? (size_t)(end - data) : bytes;
        path_of(1 + i / NAMES_N, names[i % NAMES_N], path);
        unlink(path);
        FILE *f = n ? fopen(path, "w") : NULL;
        if (f) {
            fwrite(data, 1, n, f);
            fclose(f);
        }
        bytes -= n + !!end;
        data += n + !!end;
    }
}

static int count(void *ctx, int attempt, const json_t *record)
{
    if (!json_is_object(record) || attempt < 1 || attempt > ATTEMPTS_N)
        abort();
    ++*(int *)ctx;
    return 0;
}

static void tell(void)
{
    struct err err = ERR_INIT;
    struct chronicle run;
    struct sbuf out = SBUF_INIT;
    if (chronicle_load(dir, 1.8e9, &run, &err))
        abort(); /* bad files are passed over */
    chronicle_text(&run, &out);
    chronicle_status_text(&run, 1.8e9, &out);
    json_t *json = chronicle_json(&run);
    char *text = json ? json_dumps(json, 0) : NULL;
    if (!text)
        abort();
    free(text);
    json_decref(json);
    sbuf_release(&out);
    chronicle_release(&run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err = ERR_INIT;
    struct history history = {0};
    int n = 0;
    if (!dir[0])
        make_folders();
    write_files(data, bytes);
    if (journal_read(dir, KB_JOURNAL, count, &n, &err))
        abort();
    tell();
    if (!history_load(dir, &history, &err))
        for (int i = 0; i < history.n; i++)
            if (!memchr(history.past[i].node, 0, sizeof history.past[i].node))
                abort();
    history_release(&history);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 400);
    return tap_done();
}
#endif
