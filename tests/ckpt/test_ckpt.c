/* Tests of runner/ckpt's public interface with a single rank: save, busy,
 * load, fall back, fences, and a disk that takes no more. */
#include "runner/ckpt/ckpt.h"

#include <signal.h>
#include <sys/resource.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/ckpt/catalog.h"
#include "tests/ckpt/lab.h"
#include "tests/tap.h"

static struct comm *comm;
static struct device *device;
static struct plan plan;
static char rejected[2000];

static void on_reject(void *ctx, const char *name, const char *reason)
{
    size_t at = strlen(rejected);
    snprintf(rejected + at, sizeof rejected - at, "%s: %s\n", name, reason);
}

/* Load the newest (or want) into fresh views. As ckpt_load; *ret_wrong. */
static int load(int attempt, int64_t want, int64_t *ret_step,
                json_t **ret_state, int64_t *ret_wrong, struct err *err)
{
    struct lab_rank rank;
    char name[64];
    lab_views(&rank, (struct lab_layout){1, 1}, 0);
    rejected[0] = 0;
    json_t *state = NULL;
    int rc = ckpt_load(comm, plan.run_dir, attempt, want, rank.views, rank.n,
                       device, on_reject, NULL, ret_step, name, &state, err);
    if (!rc)
        *ret_wrong = lab_wrong(&rank);
    if (!rc && ret_state)
        *ret_state = state;
    else
        json_decref(state);
    lab_free(&rank);
    return rc;
}

static void flip(const char *file, long at)
{
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", plan.run_dir, file);
    FILE *f = fopen(path, "r+b");
    if (!f)
        return;
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 16, f);
    fclose(f);
}

static void wait_news(struct ckpt *ckpt, struct ckpt_news *news)
{
    struct err err = ERR_INIT;
    ckpt_drain(ckpt, &err);
    ckpt_poll(ckpt, news);
}

static void test_round_trip(void)
{
    struct err err = ERR_INIT;
    struct ckpt_news news;
    struct lab_rank rank;
    int64_t step = -1, wrong = -1;
    json_t *state = NULL;

    is_int(load(1, -1, &step, NULL, &wrong, &err), 1, "nothing to load yet");
    lab_views(&rank, (struct lab_layout){1, 1}, 0);
    lab_write(&rank);
    struct ckpt *ckpt = ckpt_open(comm, &plan, device, rank.views, rank.n, 1,
                                  &err);
    if (!ok(ckpt, "opened"))
        printf("# %s\n", err.msg);
    json_t *said = json_pack("{s:f,s:[i,i]}", "loss", 0.1 + 0.2, "rng", 1, 2);
    ckpt_poll(ckpt, &news);
    is_int(news.what, CKPT_NONE, "no news yet");
    ok(!ckpt_save(ckpt, 10, said, true, &err), "saved step 10");
    wait_news(ckpt, &news);
    is_int(news.what, CKPT_SAVED, "it is committed");
    is_str(news.name, "step-0000000010.a0001", "under its name");
    is_int(ckpt_save(ckpt, 10, said, true, &err), 1, "the same step again: no");

    ok(!load(2, -1, &step, &state, &wrong, &err) && step == 10,
       "loaded step 10");
    is_int(wrong, 0, "every element of it");
    ok(json_equal(state, said), "and the state, to the last bit");
    json_decref(state);

    /* The snapshot is the step's, whatever happens to the views after. */
    lab_write(&rank);
    ok(!ckpt_save(ckpt, 20, said, true, &err), "saved step 20");
    for (int i = 0; i < rank.n; i++)
        memset(rank.views[i].ptr, 0xee, 8);
    wait_news(ckpt, &news);
    ok(!load(2, -1, &step, NULL, &wrong, &err) && step == 20 && !wrong,
       "the step's values were saved, not later ones");
    lab_write(&rank);
    int skipped = 0;
    for (int s = 21; s < 40; s++)
        skipped += ckpt_save(ckpt, s, said, false, &err) == 1;
    ok(skipped > 0, "a save that finds the last one at work is skipped");
    ckpt_close(ckpt);
    json_decref(said);
    lab_free(&rank);
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
}

static void test_fall_back(void)
{
    struct err err = ERR_INIT;
    struct lab_layout three = {3, 1}, six = {3, 2};
    int64_t step = 0, wrong = 0;
    lab_save(plan.run_dir, three, 100, 1, 0, &err);
    lab_save(plan.run_dir, six, 200, 1, 50000, &err);
    lab_save(plan.run_dir, three, 300, 1, 0, &err);
    ok(!err.class && !load(2, -1, &step, NULL, &wrong, &err) && step == 300 &&
           !wrong,
       "three ranks' checkpoint loads in one");
    flip("ckpt/step-0000000300.a0001/shard-00001-000.safetensors", 900000);
    ok(!load(2, -1, &step, NULL, &wrong, &err) && step == 200 && !wrong,
       "a flipped bit: the next older one");
    ok(strstr(rejected, "step-0000000300.a0001: rank 0: ") &&
           strstr(rejected, "shard-00001-000.safetensors") &&
           strstr(rejected, "xxh3") && strstr(rejected, "byte 0"),
       "with file, offset, expected and got");
    printf("# %s", rejected);
    ok(!load(2, 100, &step, NULL, &wrong, &err) && step == 100,
       "an older one by its step");
    is_int(load(2, 150, &step, NULL, &wrong, &err), -1, "none of step 150");
    is_int(err.class, ERR_REQUEST, "which is the user's mistake");

    char path[4600];
    snprintf(path, sizeof path,
             "%s/ckpt/step-0000000200.a0001/shard-00005-000.safetensors",
             plan.run_dir);
    ok(!truncate(path, 5000), "cut short");
    ok(!load(2, -1, &step, NULL, &wrong, &err) && step == 100,
       "and further back");
    snprintf(path, sizeof path, "%s/ckpt/step-0000000100.a0001/manifest.json",
             plan.run_dir);
    flip("ckpt/step-0000000100.a0001/manifest.json", 700);
    err = ERR_INIT;
    is_int(load(2, -1, &step, NULL, &wrong, &err), -1, "all three are bad");
    is_int(err.class, ERR_STEP, "which never starts from step 0");
    printf("# %s\n", err.msg);
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
}

static void start_as(int attempt, const char *accepted, const char *resume)
{
    char path[4600], name[64];
    struct err err = ERR_INIT;
    snprintf(name, sizeof name, KB_ATTEMPT_FMT, attempt);
    snprintf(path, sizeof path, "%s/%s", plan.run_dir, name);
    file_make_dirs(path, 0700, &err);
    json_t *start = accepted ? json_pack("{s:[s]}", "checkpoints", accepted)
                             : json_pack("{s:[]}", "checkpoints");
    json_object_set_new(start, "resume", json_string(resume));
    snprintf(path, sizeof path, "%s/%s/start.json", plan.run_dir, name);
    json_save_path(start, path, 0600, &err);
    json_decref(start);
}

static void start_attempt(int attempt, const char *accepted)
{
    start_as(attempt, accepted, "auto");
}

static void test_fences(void)
{
    struct err err = ERR_INIT;
    struct lab_layout two = {2, 1};
    int64_t step = 0, wrong = 0;
    start_attempt(1, NULL);
    lab_save(plan.run_dir, two, 100, 1, 0, &err);
    start_attempt(2, "step-0000000100.a0001");
    is_int(lab_save(plan.run_dir, two, 200, 1, 0, &err), -1,
           "attempt 1 sees that 2 began, and commits nothing");
    printf("# %s\n", err.msg);
    err = ERR_INIT;
    /* One that did not look: committed all the same. */
    char away[4600], back[4600];
    snprintf(away, sizeof away, "%s/attempts/0002", plan.run_dir);
    snprintf(back, sizeof back, "%s/hidden", plan.run_dir);
    rename(away, back);
    ok(!lab_save(plan.run_dir, two, 300, 1, 0, &err), "a late commit");
    rename(back, away);
    ok(!load(2, -1, &step, NULL, &wrong, &err) && step == 100,
       "is not what attempt 2 loads");
    ok(strstr(rejected, "step-0000000300.a0001: attempt 2 began without it"),
       "it is told why");
    ok(!load(1, -1, &step, NULL, &wrong, &err) && step == 300,
       "attempt 1 itself knows no later fence");
    lab_save(plan.run_dir, two, 150, 2, 0, &err);
    ok(!load(0, -1, &step, NULL, &wrong, &err) && step == 150,
       "attempt 2's own is good");
    start_attempt(3, "step-0000000100.a0001");
    ok(!load(3, -1, &step, NULL, &wrong, &err) && step == 100,
       "until attempt 3 did not accept it: a roll back");
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
}

/* What an attempt refused is in quarantine when the next one looks. */
static void test_lost(void)
{
    struct err err = ERR_INIT;
    const char *name = "step-0000000100.a0001";
    int64_t step = 0, wrong = 0;
    start_attempt(1, NULL);
    lab_save(plan.run_dir, (struct lab_layout){1, 1}, 100, 1, 0, &err);
    start_attempt(2, NULL);
    catalog_quarantine(plan.run_dir, name, "late", &err);
    start_attempt(3, NULL);
    is_int(load(3, -1, &step, NULL, &wrong, &err), 1,
           "a late commit in quarantine was never counted on");
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);

    start_attempt(1, NULL);
    lab_save(plan.run_dir, (struct lab_layout){1, 1}, 100, 1, 0, &err);
    start_attempt(2, name);
    catalog_quarantine(plan.run_dir, name, "bad", &err);
    start_attempt(3, NULL);
    is_int(load(3, -1, &step, NULL, &wrong, &err), -1,
           "the only one is in quarantine since the last attempt");
    is_int(err.class, ERR_STEP, "which never starts from step 0 either");
    ok(strstr(err.msg, "quarantine") && strstr(err.msg, "fresh"),
       "and says where it is and how to begin again");
    printf("# %s\n", err.msg);
    err = ERR_INIT;
    start_as(4, NULL, "fresh");
    is_int(load(4, -1, &step, NULL, &wrong, &err), 1, "fresh begins again");
    start_attempt(5, NULL);
    is_int(load(5, -1, &step, NULL, &wrong, &err), 1,
           "and those after it go on from there");
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
}

static void test_other_model(void)
{
    struct err err = ERR_INIT;
    struct lab_rank rank;
    int64_t step;
    char name[64];
    json_t *state = NULL;
    lab_save(plan.run_dir, (struct lab_layout){1, 1}, 5, 1, 0, &err);
    lab_views(&rank, (struct lab_layout){1, 1}, 0);
    struct view *v = &rank.views[3];
    v->shape[0] = v->extent[0] = 96;
    is_int(ckpt_load(comm, plan.run_dir, 1, -1, rank.views, rank.n, device,
                     NULL, NULL, &step, name, &state, &err),
           -1, "another shape");
    is_int(err.class, ERR_REQUEST, "is the user's mistake");
    ok(strstr(err.msg, "model.norm.weight") && strstr(err.msg, "97"),
       "told with name and side");
    v->shape[0] = v->extent[0] = 97;
    v->dtype = DT_F64;
    err = ERR_INIT;
    is_int(ckpt_load(comm, plan.run_dir, 1, -1, rank.views, rank.n, device,
                     NULL, NULL, &step, name, &state, &err),
           -1, "another dtype");
    is_int(err.class, ERR_REQUEST, "too");
    lab_free(&rank);
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
}

/* A file may not grow past `bytes`: as on a full disk, without one. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void test_full_disk(void)
{
    struct err err = ERR_INIT;
    struct ckpt_news news;
    struct lab_rank rank;
    struct catalog c;
    lab_views(&rank, (struct lab_layout){1, 1}, 0);
    lab_write(&rank);
    struct ckpt *ckpt = ckpt_open(comm, &plan, device, rank.views, rank.n, 1,
                                  &err);
    limit_files(2000000);
    ok(!ckpt_save(ckpt, 1, NULL, true, &err), "a save on a full disk starts");
    wait_news(ckpt, &news);
    limit_files(RLIM_INFINITY);
    is_int(news.what, CKPT_FAILED, "and fails");
    ok(strstr(news.err.msg, "shard-00000-000.safetensors"), "by name");
    printf("# %s\n", news.err.msg);
    ok(!catalog_load(plan.run_dir, 1, &c, &err) && c.n == 0,
       "nothing of it is left");
    catalog_release(&c);
    ok(!ckpt_save(ckpt, 2, NULL, true, &err), "the next one");
    wait_news(ckpt, &news);
    is_int(news.what, CKPT_SAVED, "goes well again");
    ckpt_close(ckpt);
    lab_free(&rank);
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
    /* A rank that never reports: rank 0 gives up, and nothing is committed. */
    struct lab_layout one = {1, 1};
    struct layout layout;
    lab_views(&rank, one, 0);
    layout_build(rank.views, rank.n, 0, 0, &layout, &err);
    unsigned char *memory = calloc(1, (size_t)layout.memory_bytes);
    layout_put_headers(&layout, memory);
    struct writer w = {.size = 2, .attempt = 1, .layout = &layout,
                       .memory = memory, .step = 7, .wait_limit_s = 0.1,
                       .boxes = layout_boxes(&layout, rank.views)};
    snprintf(w.run_dir, sizeof w.run_dir, "%s", plan.run_dir);
    err = ERR_INIT;
    is_int(writer_save(&w, "step-0000000007.a0001", &err), -1,
           "a rank that does not report fails the save");
    ok(strstr(err.msg, "rank 1 did not report"), "by its number");
    ok(!catalog_load(plan.run_dir, 2, &c, &err) && c.n == 1 &&
           !c.entries[0].committed,
       "what is left is not committed");
    catalog_release(&c);
    json_decref(w.boxes);
    free(memory);
    layout_release(&layout);
    lab_free(&rank);
    lab_remove(plan.run_dir);
    mkdir(plan.run_dir, 0700);
}

int main(void)
{
    struct err err = ERR_INIT;
    struct comm_place place = {.size = 1, .local_size = 1, .how = "single"};
    struct comm_spec spec = {.data = 1, .tensor = 1, .pipeline = 1};
    comm = comm_open(&place, &spec, &err);
    device = device_create(DEVICE_CPU, 0, NULL, 0);
    snprintf(plan.run_dir, sizeof plan.run_dir, "%s", lab_run_dir());
    snprintf(plan.hash, sizeof plan.hash, "0123456789abcdef");
    test_round_trip();
    test_fall_back();
    test_fences();
    test_lost();
    test_other_model();
    test_full_disk();
    lab_remove(plan.run_dir);
    device_destroy(device);
    comm_close(comm);
    return tap_done();
}
