/* Tests of the catalogue: what is listed, quarantined, marked, pruned. */
#include "runner/ckpt/catalog.h"

#include <limits.h>

#include "runner/base/json.h"
#include "tests/ckpt/lab.h"
#include "tests/tap.h"

static char run_dir[300];

static const char *path_of(const char *name)
{
    static char path[4][700];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", run_dir, name);
    return path[turn];
}

static void save(int64_t step, int attempt)
{
    struct err err = ERR_INIT;
    if (lab_save(run_dir, (struct lab_layout){2, 1}, step, attempt, 0, &err))
        printf("# %s\n", err.msg);
}

static void healthy(int64_t step, int attempt)
{
    struct err err = ERR_INIT;
    char name[64];
    snprintf(name, sizeof name, KB_CKPT_FMT, (long long)step, attempt);
    if (catalog_mark_healthy(run_dir, name, step + 5, &err))
        printf("# %s\n", err.msg);
}

/* "30h 20 10!" : steps, h healthy, ! with a problem, ? not committed. */
static const char *listed(int attempt)
{
    static char text[500];
    struct catalog c;
    struct err err = ERR_INIT;
    text[0] = 0;
    if (catalog_load(run_dir, attempt, &c, &err))
        return err.msg[0] ? strcpy(text, "error") : "error";
    for (int i = 0; i < c.n; i++) {
        const struct catalog_entry *e = &c.entries[i];
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%lld%s%s", i ? " " : "",
                 (long long)e->step, e->healthy ? "h" : "",
                 !e->committed ? "?" : *e->problem ? "!" : "");
    }
    catalog_release(&c);
    return text;
}

static char pruned[500];
static void on_prune(void *ctx, const char *name)
{
    size_t at = strlen(pruned);
    snprintf(pruned + at, sizeof pruned - at, "%d ", atoi(name + 5));
}

static void fresh(void)
{
    lab_remove(run_dir);
    mkdir(run_dir, 0700);
    pruned[0] = 0;
}

static void test_list(void)
{
    struct err err = ERR_INIT;
    struct catalog c;
    is_str(listed(0), "", "no folder: an empty catalogue");
    save(10, 1);
    save(30, 1);
    save(20, 1);
    save(20, 2);
    healthy(20, 1);
    mkdir(path_of("ckpt/step-0000000040.a0001"), 0700);
    mkdir(path_of("ckpt/step-40.a1"), 0700);
    mkdir(path_of("ckpt/something"), 0700);
    close(creat(path_of("ckpt/step-0000000050.a0001"), 0600));
    if (symlink("step-0000000010.a0001",
                path_of("ckpt/step-0000000060.a0001")))
        printf("# no link\n");
    is_str(listed(0), "40? 30 20 20h 10", "newest first, others not seen");
    ok(!catalog_load(run_dir, 0, &c, &err), "loaded");
    const struct catalog_entry *e = catalog_find(&c, 20);
    ok(e && e->attempt == 2 && e->bytes > 1000000 && e->wall_s > 1e9,
       "found by its step, the newer attempt's");
    ok(!catalog_find(&c, 21), "none of step 21");
    ok(catalog_find(&c, 40) && !catalog_find(&c, 40)->committed,
       "an uncommitted one is told as that");
    catalog_release(&c);
    is_int(catalog_mark_healthy(run_dir, "step-0000000040.a0001", 1, &err),
           -1, "an uncommitted one cannot be healthy");
    err = ERR_INIT;
    is_int(catalog_verify(run_dir, "../x", &err), -1, "names are checked");
    printf("# %s\n", err.msg);
}

static void test_quarantine(void)
{
    struct err err = ERR_INIT;
    char *reason;
    fresh();
    save(10, 1);
    save(20, 1);
    ok(!catalog_quarantine(run_dir, "step-0000000020.a0001", "a bad block",
                           &err),
       "quarantined");
    is_str(listed(0), "10", "and out of the catalogue");
    reason = file_read(path_of("ckpt/quarantine/step-0000000020.a0001.reason"),
                       100, NULL, &err);
    is_str(reason, "a bad block\n", "with the reason beside it");
    free(reason);
    save(20, 1);
    ok(!catalog_quarantine(run_dir, "step-0000000020.a0001", "again", &err) &&
           file_exists(path_of("ckpt/quarantine/step-0000000020.a0001.2")),
       "the same name once more");
    is_int(catalog_quarantine(run_dir, "step-0000000020.a0001", "x", &err),
           -1, "what is not there is an error");
}

static void test_prune(void)
{
    struct err err = ERR_INIT;
    fresh();
    for (int i = 1; i <= 7; i++)
        save(i * 10, 1);
    healthy(10, 1);
    healthy(20, 1);
    healthy(30, 1);
    ok(!catalog_prune(run_dir, 1, 2, on_prune, NULL, &err), "pruned");
    is_str(listed(0), "70 60 30h 20h",
           "the newest two, and two that are known to be healthy");
    is_str(pruned, "50 40 10 ", "each told");
    healthy(60, 1);
    healthy(70, 1);
    catalog_prune(run_dir, 1, 1, on_prune, NULL, &err);
    is_str(listed(0), "70h 60h", "never below two");

    /* Unfinished ones: of older attempts, and older than a later commit. */
    mkdir(path_of("ckpt/step-0000000065.a0001"), 0700);
    mkdir(path_of("ckpt/step-0000000080.a0001"), 0700);
    close(creat(path_of("ckpt/step-0000000080.a0001/shard-00000-000."
                        "safetensors.tmp"), 0600));
    catalog_prune(run_dir, 1, 2, NULL, NULL, &err);
    is_str(listed(0), "80? 70h 60h", "the one that may be at work stays");
    catalog_prune(run_dir, 2, 2, NULL, NULL, &err);
    is_str(listed(0), "70h 60h", "until a newer attempt prunes");

    /* A file that is not ours keeps its folder, not its checkpoint. */
    save(80, 2);
    save(90, 2);
    close(creat(path_of("ckpt/step-0000000060.a0001/notes"), 0600));
    catalog_prune(run_dir, 2, 2, NULL, NULL, &err);
    ok(file_exists(path_of("ckpt/step-0000000060.a0001/notes")) == true,
       "a user's file is not deleted");

    /* A damaged one is evidence: pruning leaves it to the quarantine. */
    fresh();
    for (int i = 1; i <= 4; i++)
        save(i * 10, 1);
    if (truncate(path_of("ckpt/step-0000000040.a0001/"
                         "shard-00000-000.safetensors"), 10))
        printf("# cannot cut\n");
    catalog_prune(run_dir, 1, 2, NULL, NULL, &err);
    is_str(listed(0), "40! 30 20", "and counts for nothing");
}

static void test_digest(void)
{
    struct err err = ERR_INIT;
    char a[33] = "", b[33] = "", c[33] = "";
    fresh();
    save(10, 1);
    lab_save(run_dir, (struct lab_layout){3, 2}, 20, 2, 70000, &err);
    ok(!catalog_digest(run_dir, "step-0000000010.a0001", a, &err) &&
           !catalog_digest(run_dir, "step-0000000020.a0002", b, &err),
       "digests");
    is_str(a, b, "know no layout, step or attempt");
    const char *file = path_of("ckpt/step-0000000020.a0002/"
                               "shard-00003-000.safetensors");
    int fd = open(file, O_RDWR);
    ok(fd >= 0 && pwrite(fd, "xy", 2, 5000) == 2, "a changed byte");
    close(fd);
    is_int(catalog_digest(run_dir, "step-0000000020.a0002", c, &err), -1,
           "has no digest");
    json_t *v = catalog_describe(run_dir, "step-0000000010.a0001", &err);
    ok(v && json_array_size(json_object_get(v, "tensors")) == LAB_TENSORS &&
           json_i64_or(json_object_get(v, "state"), "consumed", 0) == 77,
       "described");
    json_decref(v);
}

int main(void)
{
    snprintf(run_dir, sizeof run_dir, "%s", lab_run_dir());
    test_list();
    test_quarantine();
    test_prune();
    test_digest();
    lab_remove(run_dir);
    return tap_done();
}
