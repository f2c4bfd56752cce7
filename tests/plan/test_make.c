/* Tests of runner/plan: folders of cases. run.yaml and the site (lines of
 * NAME=NUMBER over a healthy one) are planned; what is said must be `expect`:
 * refusals and warnings, or warnings and the plan in words. */
#include "runner/base/file.h"
#include "runner/plan/plan.h"
#include "tests/tap.h"

#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- The site of a case ------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
    int bytes; /* 0: double */
} numbers[] = {
#define NUMBER(m) {#m, offsetof(struct site, m), sizeof(((struct site *)0)->m)}
    NUMBER(submit), NUMBER(nodes), NUMBER(spares), NUMBER(ranks_per_node),
    NUMBER(gpus_per_node), NUMBER(cores_per_rank), NUMBER(mem_per_rank_bytes),
    NUMBER(gpu_bytes),
    NUMBER(disk_free_bytes), NUMBER(ckpts_n), NUMBER(resume_missing),
    NUMBER(run_dir_writable), NUMBER(run_dir_known), NUMBER(array_job),
    NUMBER(slurmd_timeout_s), NUMBER(requeue_delay_s),
    NUMBER(max_batch_requeue), NUMBER(job_requeue), NUMBER(kill_wait_s),
    NUMBER(plugin_required), NUMBER(plugin_missing),
#undef NUMBER
    {"time_limit_s", offsetof(struct site, time_limit_s), 0},
};

static void site_good(struct site *site)
{
    memset(site, 0, sizeof *site);
    site->nodes = 2;
    site->spares = -1;
    site->cores_per_rank = 2;
    site->disk_free_bytes = 1LL << 40;
    site->run_dir_writable = site->run_dir_known = true;
    site->slurmd_timeout_s = site->requeue_delay_s = 60;
    site->max_batch_requeue = site->job_requeue = site->kill_wait_s = -1;
    for (int i = 0; i < PLAN_LIST_MAX; i++)
        site->train[i] = site->valid[i] = (struct site_file){
            .known = true, .exists = true, .sequences = 1000,
            .documents = 1000, .tokens = 1000000, .dtype_bytes = 2};
}

/* "train0.tokens=5", "valid1.exists=0" */
static bool file_number(struct site *site, const char *name, long long value)
{
    char which[8], field[32];
    int i;
    if (sscanf(name, "%5[a-z]%d.%31s", which, &i, field) != 3)
        return false;
    struct site_file *f = !strcmp(which, "train") ? &site->train[i]
                                                  : &site->valid[i];
    if (!strcmp(field, "tokens"))
        f->tokens = value;
    else if (!strcmp(field, "exists"))
        f->exists = value;
    else if (!strcmp(field, "known"))
        f->known = value;
    else if (!strcmp(field, "dtype_bytes"))
        f->dtype_bytes = (int)value;
    else if (!strcmp(field, "bad"))
        snprintf(f->problem, sizeof f->problem, "not a token file");
    else
        return false;
    return true;
}

static bool site_number(struct site *site, const char *name, long long value)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *to = (char *)site + numbers[i].offset;
        if (strcmp(numbers[i].name, name))
            continue;
        switch (numbers[i].bytes) {
        case 0: *(double *)to = (double)value; break;
        case 1: *(bool *)to = value; break;
        case 4: *(int *)to = (int)value; break;
        default: *(int64_t *)to = value; break;
        }
        return true;
    }
    return file_number(site, name, value);
}

static void site_read(struct site *site, const char *dir)
{
    char name[64];
    long long value;
    site_good(site);
    FILE *f = fopen("site", "r");
    while (f && fscanf(f, " %63[^=]=%lld", name, &value) == 2)
        ok(site_number(site, name, value), "%s: site has %s", dir, name);
    if (f)
        fclose(f);
}

/* ---- A case ------------------------------------------------------------- */

static struct site site;
static struct plan plan;
static struct plan_notes notes;

static void say(void *ctx, const char *message)
{
    sbuf_printf(ctx, "%s\n", message);
}

/* What `koboshi plan` would say of run.yaml here. */
static void plan_here(const char *dir, struct sbuf *got)
{
    struct err err = ERR_INIT;
    struct conf *conf = plan_conf_create(NULL);
    plan_conf_read(conf, "run.yaml", &err);
    plan_conf_finish(conf, "/base", &err);
    if (conf_mistakes(conf, say, got))
        goto out;
    err = ERR_INIT;
    int rc = plan_make(conf, &site, &plan, &notes, &err);
    for (int i = 0; i < notes.refusals_n; i++)
        sbuf_printf(got, "%s\n", notes.refusal[i]);
    for (int i = 0; i < notes.n; i++)
        sbuf_printf(got, "warning: %s\n", notes.text[i]);
    if (!rc)
        plan_print(&plan, got);
    else
        ok(err.class == ERR_REQUEST && notes.refusals_n &&
           !strcmp(err.msg, notes.refusal[0]),
           "%s: err is the first refusal", dir);
out:
    conf_destroy(conf);
}

static void check_case(const char *dir)
{
    char path[4096];
    struct sbuf got = SBUF_INIT;
    snprintf(path, sizeof path, "%s/plan/cases/%s", TESTS_DIR, dir);
    if (chdir(path)) {
        ok(0, "%s: cannot enter", dir);
        return;
    }
    site_read(&site, dir);
    plan_here(dir, &got);
    if (getenv("TESTS_WRITE"))
        file_replace("expect", got.data, got.len, 0644, NULL);
    char *want = file_read("expect", 1 << 20, NULL, NULL);
    if (!ok(want && !strcmp(got.data, want), "%s", dir))
        printf("# got:\n%s# want:\n%s", got.data, want ? want : "(no file)");
    free(want);
    sbuf_release(&got);
}

static void test_cases(void)
{
    struct dirent **names;
    char path[4096];
    snprintf(path, sizeof path, "%s/plan/cases", TESTS_DIR);
    int n = scandir(path, &names, NULL, alphasort);
    ok(n > 10, "there are cases");
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            check_case(names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

int main(void)
{
    static const char *const scrub[] = {"KOBOSHI_SET", "KOBOSHI_SPARES",
                                        "KOBOSHI_HEALTH", "KOBOSHI_RESUME",
                                        "KOBOSHI_MAX_RESTARTS",
                                        "SLURM_ARRAY_TASK_ID"};
    for (size_t i = 0; i < sizeof scrub / sizeof *scrub; i++)
        unsetenv(scrub[i]);
    test_cases();
    return tap_done();
}
