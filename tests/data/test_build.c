/* Tests of runner/data/build.c, input.c and corpus.c. */
#include "runner/data/build.h"

#include <signal.h>
#include <sys/wait.h>

#include "runner/data/corpus.h"
#include "runner/data/input.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

struct seen {
    int bad_n;
    int64_t line[16];
    char why[16][160];
};

static void on_bad(void *ctx, const char *file, int64_t line, const char *why)
{
    struct seen *s = ctx;
    s->line[s->bad_n] = line;
    snprintf(s->why[s->bad_n++], sizeof *s->why, "%s", why);
}

static struct build build_of(const char *const *files, int files_n,
                             struct seen *seen)
{
    *seen = (struct seen){0};
    return (struct build){.tokenizer = "byte", .output = scratch("out"),
                          .key = "text", .files = files, .files_n = files_n,
                          .append_eod = true, .bad_max = 100,
                          .document_max_bytes = 1 << 16, .on_bad = on_bad,
                          .ctx = seen};
}

static int document_is(const struct tokens *t, int64_t d, const char *want)
{
    struct err err = ERR_INIT;
    struct tokenizer *tok = tokenizer_open("byte", &err);
    struct ids ids = IDS_INIT;
    struct sbuf text = SBUF_INIT;
    int same = !corpus_document(t, d, 0, 1000, 257, &ids, &err) &&
               !tokenizer_decode(tok, ids.data, ids.n, &text, &err) &&
               !strcmp(text.data, want);
    if (!same)
        printf("# document %lld: '%s'\n", (long long)d, text.data);
    ids_release(&ids);
    sbuf_release(&text);
    tokenizer_close(tok);
    return same;
}

static void test_jsonl(void)
{
    static const char lines[] = "{\"text\":\"one\"}\r\n"
                                "not json\n"
                                "\n"
                                "{\"text\":\"\"}\n"
                                "{\"body\":\"x\"}\n"
                                "{\"text\":\"\xff\"}\n"
                                "{\"text\":\"last\"}";
    struct err err = ERR_INIT;
    struct seen seen;
    struct build_counts counts;
    scratch_write(scratch("in.jsonl"), lines, sizeof lines - 1);
    const char *files[] = {scratch("in.jsonl")};
    struct build b = build_of(files, 1, &seen);
    ok(!build_run(&b, &counts, &err), "built");
    is_int(counts.documents, 3, "documents");
    is_int(counts.empty, 1, "empty ones");
    is_int(counts.bad, 3, "bad ones");
    is_int(counts.tokens, 3 + 1 + 4 + 1, "tokens");
    is_int(counts.taken_bytes, sizeof lines - 1, "bytes taken");
    ok(seen.bad_n == 3 && seen.line[0] == 2 && seen.line[1] == 5 &&
           seen.line[2] == 6, "bad lines by number");
    ok(strstr(seen.why[1], "no key") && strstr(seen.why[2], "not UTF-8"),
       "and reason");
    struct tokens *t = tokens_open(scratch("out"), &err);
    ok(t && document_is(t, 0, "one<|endoftext|>"), "the first document");
    ok(t && document_is(t, 1, ""), "an empty document has no tokens");
    ok(t && document_is(t, 2, "last<|endoftext|>"),
       "a last line without newline");
    struct corpus_facts facts;
    corpus_measure(t, &facts);
    ok(facts.empty == 1 && facts.shortest == 4 && facts.longest == 5 &&
           facts.bin[2] == 2, "its measure");
    int64_t most;
    ok(!corpus_verify(t, 257, &most, &err) && most == 256, "verified");
    ok(corpus_verify(t, 256, &most, &err) == -1 && strstr(err.msg, "256"),
       "a vocabulary too small is seen");
    struct ids ids = IDS_INIT;
    ok(!corpus_document(t, 0, 2, 5, 257, &ids, &err) && ids.n == 2 &&
           ids.data[0] == 'e', "a part of a document");
    err = ERR_INIT;
    ok(corpus_document(t, 3, 0, 5, 257, &ids, &err) == -1, "no document 3");
    ids_release(&ids);
    tokens_close(t);

    err = ERR_INIT;
    b = build_of(files, 1, &seen);
    b.replace_invalid = true;
    ok(!build_run(&b, &counts, &err) && counts.bad == 2 &&
           counts.documents == 4, "replaced instead of left out");
    err = ERR_INIT;
    b.replace_invalid = false;
    b.bad_max = 1;
    ok(build_run(&b, &counts, &err) == -1 && strstr(err.msg, "--max-bad"),
       "too many bad documents end the build");
    t = tokens_open(scratch("out"), &err);
    ok(t && tokens_documents(t) == 4, "and leave the old output");
    tokens_close(t);
}

static void test_text(void)
{
    struct err err = ERR_INIT;
    struct seen seen;
    struct build_counts counts;
    static char big[1 << 17];
    memset(big, 'x', sizeof big);
    scratch_write(scratch("a.txt"), "a\nb\n", 4);
    scratch_write(scratch("big.txt"), big, sizeof big);
    scratch_write(scratch("none.txt"), "", 0);
    char a[PATH_MAX], c[PATH_MAX], n[PATH_MAX];
    strcpy(a, scratch("a.txt"));
    strcpy(c, scratch("big.txt"));
    strcpy(n, scratch("none.txt"));
    const char *files[] = {a, c, n, a};
    struct build b = build_of(files, 4, &seen);
    ok(!build_run(&b, &counts, &err) && counts.documents == 3 &&
           counts.empty == 1, "a document a file");
    ok(seen.bad_n == 1 && seen.line[0] == 0 &&
           strstr(seen.why[0], "longer than 65536"), "a file too long");
    struct tokens *t = tokens_open(scratch("out"), &err);
    ok(t && document_is(t, 2, "a\nb\n<|endoftext|>"), "newlines stay");
    tokens_close(t);
    b.append_eod = false;
    ok(!build_run(&b, &counts, &err) && counts.tokens == 8, "without ends");
    const char *none[] = {scratch("absent")};
    b = build_of(none, 1, &seen);
    ok(build_run(&b, &counts, &err) == -1 && err.class == ERR_REQUEST,
       "an absent file is the user's to fix");
    err = ERR_INIT;
    const char *folder[] = {"/tmp"};
    b = build_of(folder, 1, &seen);
    ok(build_run(&b, &counts, &err) == -1 && strstr(err.msg, "folder"),
       "a folder too");
}

/* Lines across the blocks of the reader, and a long one passed over. */
static void test_blocks(void)
{
    struct err err = ERR_INIT;
    char path[PATH_MAX];
    strcpy(path, scratch("lines"));
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 40000; i++)
        fprintf(f, "%d%0*d\n", i, i % 97 + 1, 0);
    for (int i = 0; i < 3 << 20; i++)
        fputc('y', f);
    fprintf(f, "\nlast");
    fclose(f);
    struct input *in = input_open(path, &err);
    struct text line = TEXT_INIT;
    int good = 1, got;
    for (int i = 0; i < 40000; i++) {
        char want[128];
        line.n = 0;
        got = input_line(in, 1 << 20, &line, &err);
        int n = snprintf(want, sizeof want, "%d%0*d", i, i % 97 + 1, 0);
        good &= got == INPUT_LINE && line.n == (size_t)n &&
                !memcmp(line.data, want, line.n);
    }
    ok(good, "lines across blocks");
    line.n = 0;
    is_int(input_line(in, 1 << 20, &line, &err), INPUT_LONG, "a long line");
    is_int(line.n, 0, "is passed over");
    is_int(input_line(in, 1 << 20, &line, &err), INPUT_LINE, "the last line");
    ok(line.n == 4 && !memcmp(line.data, "last", 4), "has its text");
    is_int(input_line(in, 1 << 20, &line, &err), INPUT_END, "the end");
    text_release(&line);
    input_close(in);
}

static uint64_t sum_of(const char *path)
{
    struct err err = ERR_INIT;
    size_t n;
    char *data = file_read(path, 64 << 20, &n, &err);
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; data && i < n; i++)
        sum = (sum ^ (unsigned char)data[i]) * 1099511628211u;
    free(data);
    return data ? sum : 0;
}

/* Several batches, bad lines among them. */
static void write_many(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 30000; i++)
        if (i % 997 == 500)
            fprintf(f, "{\"text\":%d}\n", i);
        else
            fprintf(f, "{\"text\":\"%d %0*d\"}\n", i, i % 300 + 1, 0);
    fclose(f);
}

static void test_workers(void)
{
    struct err err = ERR_INIT;
    struct seen seen;
    struct build_counts counts;
    uint64_t bin = 0, idx = 0;
    char path[PATH_MAX];
    strcpy(path, scratch("many.jsonl"));
    write_many(path);
    const char *files[] = {path, path};
    static const int workers[] = {0, 2, 7};
    for (int i = 0; i < 3; i++) {
        struct build b = build_of(files, 2, &seen);
        b.workers = workers[i];
        b.on_bad = NULL;
        ok(!build_run(&b, &counts, &err) && counts.documents == 59940 &&
               counts.bad == 60, "built by %d workers", workers[i]);
        uint64_t bin_now = sum_of(scratch("out.bin"));
        uint64_t idx_now = sum_of(scratch("out.idx"));
        ok(bin_now && idx_now && (!i || (bin == bin_now && idx == idx_now)),
           "the same bytes");
        bin = bin_now;
        idx = idx_now;
    }
    struct build b = build_of(files, 2, &seen);
    b.workers = 3;
    b.on_bad = NULL;
    b.bad_max = 10;
    ok(build_run(&b, &counts, &err) == -1 && counts.bad == 11,
       "bad documents are counted in order");
}

static void test_packed(void)
{
    struct err err = ERR_INIT;
    struct seen seen;
    struct build_counts counts;
    char path[PATH_MAX], command[3 * PATH_MAX];
    strcpy(path, scratch("many.jsonl"));
    snprintf(command, sizeof command, "gzip -k '%s' && head -c 3000 '%s.gz' "
             "> '%s' && cp '%s' '%s'", path, path, scratch("cut.jsonl.gz"),
             path, scratch("not.gz"));
    if (system(command))
        abort();
    char packed[PATH_MAX + 8];
    snprintf(packed, sizeof packed, "%s.gz", path);
    const char *files[] = {packed};
    struct build b = build_of(files, 1, &seen);
    b.on_bad = NULL;
    ok(!build_run(&b, &counts, &err) && counts.documents == 29970,
       "a .jsonl.gz is unpacked");
    is_int(counts.taken_bytes, counts.total_bytes, "progress is the file's");
    const char *bad[] = {"cut.jsonl.gz", "not.gz"};
    for (int i = 0; i < 2; i++) {
        char name[PATH_MAX];
        strcpy(name, scratch(bad[i]));
        files[0] = name;
        b = build_of(files, 1, &seen);
        b.on_bad = NULL;
        err = ERR_INIT;
        ok(build_run(&b, &counts, &err) == -1 &&
               strstr(err.msg, "gzip failed"), "broken: %s", bad[i]);
    }
}

/* ---- A killed build ------------------------------------------------------ */

/* The child dies when this many bytes were taken. */
struct killer {
    int64_t at_bytes;
    char note[160];
};

static void die_there(void *ctx, const struct build_counts *counts)
{
    struct killer *k = ctx;
    if (counts->documents && counts->taken_bytes > k->at_bytes)
        raise(SIGKILL);
}

static void on_note(void *ctx, const char *what)
{
    struct killer *k = ctx;
    snprintf(k->note, sizeof k->note, "%s", what);
}

static void write_long(const char *path, int lines, int packed)
{
    char command[PATH_MAX + 64];
    FILE *f = fopen(path, "w");
    for (int i = 0; i < lines; i++)
        fprintf(f, i % 50 ? "{\"text\": \"line %d %0*d\"}\n" : "bad %d%0*d\n",
                i, i % 300, i);
    fclose(f);
    snprintf(command, sizeof command, "gzip -1f '%s'", path);
    if (packed && system(command))
        abort();
}

static int run_killed(const struct build *build, int64_t at_bytes)
{
    struct build_counts counts;
    struct err err = ERR_INIT;
    struct killer killer = {.at_bytes = at_bytes};
    pid_t pid = fork();
    if (!pid) {
        struct build b = *build;
        b.ctx = &killer;
        b.on_progress = die_there;
        b.progress_each_s = 1e-9;
        build_run(&b, &counts, &err);
        _exit(0);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

static void test_killed(void)
{
    struct err err = ERR_INIT;
    struct seen seen;
    struct killer killer = {0};
    struct build_counts whole, counts;
    write_long(scratch("a.jsonl"), 20000, 0);
    write_long(scratch("b.jsonl"), 20000, 1);
    write_long(scratch("c.txt"), 9000, 0);
    char a[PATH_MAX], z[PATH_MAX], c[PATH_MAX], out[PATH_MAX];
    strcpy(a, scratch("a.jsonl"));
    strcpy(z, scratch("b.jsonl.gz"));
    strcpy(c, scratch("c.txt"));
    strcpy(out, scratch("killed"));
    const char *files[] = {a, c, z, a};
    struct build b = build_of(files, 4, &seen);
    b.on_bad = NULL;
    b.bad_max = 100000;
    b.document_max_bytes = 64 << 20;
    b.workers = 2;
    b.output = scratch("whole");
    ok(!build_run(&b, &whole, &err), "a build that nobody kills");
    b.output = out;
    b.on_note = on_note;
    b.ctx = &killer;
    ok(run_killed(&b, 2000000), "one killed in the first file");
    ok(run_killed(&b, 5500000), "again in a packed one");
    ok(!build_run(&b, &counts, &err) &&
           strstr(killer.note, "going on where a build that was killed"),
       "the third goes on: %s", killer.note);
    ok(counts.documents == whole.documents && counts.tokens == whole.tokens &&
           counts.bad == whole.bad && counts.text_bytes == whole.text_bytes &&
           counts.taken_bytes == whole.taken_bytes &&
           counts.resumed_bytes > 2000000,
       "and counts all, %lld bytes not again", (long long)counts.resumed_bytes);
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command,
             "cmp %s.bin %s.bin && cmp %s.idx %s.idx && ! ls %s.*.part "
             "%s.build 2>/dev/null", out, scratch("whole"), out,
             scratch("whole"), out, out);
    ok(!system(command), "with the same output and nothing beside it");
    ok(run_killed(&b, 2000000), "killed once more");
    b.append_eod = !b.append_eod;
    ok(!build_run(&b, &counts, &err) && !counts.resumed_bytes &&
           strstr(killer.note, "thrown away"),
       "with another option it starts anew: %s", killer.note);
}

int main(void)
{
    test_jsonl();
    test_text();
    test_blocks();
    test_workers();
    test_packed();
    test_killed();
    return tap_done();
}
