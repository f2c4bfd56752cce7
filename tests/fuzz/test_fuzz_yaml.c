/* Fuzz target: a run.yaml from its text to the plan. A refusal has a message;
 * what conf_dump writes can be read again. */
#include <stdlib.h>
#include <string.h>

#include "runner/plan/plan.h"
#include "tests/fuzz/driver.h"

static struct site *the_site(void)
{
    static struct site site;
    site.nodes = 3;
    site.spares = -1;
    site.run_dir_known = site.run_dir_writable = site.array_job = true;
    site.disk_free_bytes = 1LL << 40;
    site.mem_per_rank_bytes = 1LL << 33;
    for (int i = 0; i < PLAN_LIST_MAX; i++)
        site.train[i] = site.valid[i] = (struct site_file){
            .known = true, .exists = true, .tokens = 1 << 20,
            .dtype_bytes = 2};
    return &site;
}

static void check(int rc, const struct err *err)
{
    if (rc ? !err->msg[0] : err->class != ERR_NONE)
        abort(); /* refused, and nobody knows why */
}

static int read_text(struct conf *conf, const char *text)
{
    struct err err = ERR_INIT;
    int rc = conf_read_text(conf, text, "fuzz", &err);
    if (!rc)
        rc = plan_conf_finish(conf, "/base", &err);
    check(rc, &err);
    return rc;
}

static void again(const char *text)
{
    struct err err = ERR_INIT;
    struct conf *conf = plan_conf_create(NULL);
    if (conf_read_text(conf, text, "again", &err))
        abort();
    conf_destroy(conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct plan plan;
    static struct plan_notes notes;
    struct err err = ERR_INIT;
    struct sbuf out = SBUF_INIT;
    struct conf *conf = plan_conf_create(NULL);
    char *text = malloc(bytes + 1);
    if (!text || !conf)
        abort();
    memcpy(text, data, bytes);
    text[bytes] = 0;
    if (!read_text(conf, text)) {
        int rc = plan_make(conf, the_site(), &plan, &notes, &err);
        check(rc, &err);
        if (!rc)
            plan_print(&plan, &out);
        sbuf_release(&out);
        conf_dump(conf, &out);
        again(out.data ? out.data : "");
    }
    sbuf_release(&out);
    conf_destroy(conf);
    free(text);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    unsetenv("SLURM_ARRAY_TASK_ID");
    driver_run_folder(CORPUS, 1000);
    return tap_done();
}
#endif
