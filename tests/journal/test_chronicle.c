/* Tests of runner/journal/chronicle*.c on recorded runs: a folder of
 * tests/journal/cases each, with expect.json beside the run's files. */
#include "runner/journal/chronicle.h"

#include <dirent.h>

#include "runner/base/json.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

static const double now_s = 1700000024.0;

static int same(const json_t *got, const json_t *want)
{
    if (json_is_number(want))
        return json_is_number(got) &&
               fabs(json_number_value(got) - json_number_value(want)) < 1e-6;
    return json_equal(got, want);
}

/* All members of want are in got. */
static void compare(const char *where, json_t *got, json_t *want)
{
    const char *key;
    json_t *value;
    json_object_foreach (want, key, value) {
        json_t *mine = json_object_get(got, key);
        char inner[64];
        snprintf(inner, sizeof inner, "%s %s", where, key);
        if (json_is_array(value) && !strcmp(key, "attempts")) {
            is_int(json_array_size(mine), json_array_size(value), inner);
            for (size_t i = 0; i < json_array_size(value); i++)
                compare(inner, json_array_get(mine, i),
                        json_array_get(value, i));
        } else if (!ok(same(mine, value), "%s", inner)) {
            char *a = mine ? json_dumps(mine, JSON_ENCODE_ANY) : NULL;
            char *b = json_dumps(value, JSON_ENCODE_ANY);
            printf("# got %s, want %s\n", a ? a : "nothing", b);
            free(a);
            free(b);
        }
    }
}

static void test_case(const char *name)
{
    struct err err = ERR_INIT;
    struct chronicle run;
    char dir[PATH_MAX], path[PATH_MAX];
    snprintf(dir, sizeof dir, TESTS_DIR "/journal/cases/%s", name);
    snprintf(path, sizeof path, "%.4000s/expect.json", dir);
    json_t *want = json_load_path(path, 1 << 20, &err);
    if (!ok(want && !chronicle_load(dir, now_s, &run, &err), "read %s", name))
        return;
    json_t *got = chronicle_json(&run);
    compare(name, got, want);
    struct sbuf text = SBUF_INIT;
    chronicle_text(&run, &text);
    ok(!text.failed && text.len > 100, "%s as text", name);
    sbuf_clear(&text);
    chronicle_status_text(&run, now_s, &text);
    ok(!text.failed && strstr(text.data, "incident"), "%s as status", name);
    sbuf_release(&text);
    json_decref(got);
    json_decref(want);
    chronicle_release(&run);
}

static int says(struct chronicle *run, int status, const char *words)
{
    struct sbuf text = SBUF_INIT;
    if (status)
        chronicle_status_text(run, now_s, &text);
    else
        chronicle_text(run, &text);
    int found = strstr(text.data, words) != NULL;
    if (!found)
        printf("# %s\n", text.data);
    sbuf_release(&text);
    return found;
}

static void test_words(void)
{
    struct err err = ERR_INIT;
    struct chronicle run;
    chronicle_load(TESTS_DIR "/journal/cases/recovered", now_s, &run, &err);
    static const char *const words[] = {
        "run demo: finished, step 60 of 60, 3 attempts",
        "attempt 2  2023-11-14T22:13:42", "nodes n1,n3",
        "ended    node_dead: node n2: its connection closed",
        "then     replace: a spare is at hand",
        "detect 3.0s, decide 0.2s, 14 steps lost",
        "refused  1 checkpoint: step-0000000020.a0001: shard-00001",
        "queue (Slurm) 1m00s", "ratio 0.250"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ok(says(&run, 0, words[i]), "report: %s", words[i]);
    ok(says(&run, 1, "incident  attempt 2"), "status: the last incident");
    chronicle_release(&run);
    chronicle_load(TESTS_DIR "/journal/cases/running", now_s, &run, &err);
    ok(says(&run, 1, "step      24 of 60, loss 3.7500, told 9.0s ago"),
       "status: step and loss");
    ok(says(&run, 1, "990.0 tokens/s, 99 % of the run's median, 18.0s to"),
       "status: speed");
    ok(says(&run, 1, "nodes     n1; 0 restarts"), "status: nodes");
    chronicle_release(&run);
    chronicle_load(TESTS_DIR "/journal/cases/running", now_s + 1000, &run,
                   &err);
    ok(run.state == CHRONICLE_SILENT && run.wall_s == 15,
       "a run without word is not called running");
    chronicle_release(&run);
    ok(chronicle_load(scratch("none"), now_s, &run, &err) == -1 &&
           err.class == ERR_REQUEST, "no run directory");
}

int main(void)
{
    DIR *dir = opendir(TESTS_DIR "/journal/cases");
    int cases_n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            test_case(e->d_name);
            cases_n++;
        }
    if (dir)
        closedir(dir);
    ok(cases_n >= 5, "cases found");
    test_words();
    return tap_done();
}
