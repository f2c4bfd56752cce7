/* Random damage to a run.yaml: reading and planning it must end, without a
 * crash (run it with --enable-developer), and a refusal has a message. The
 * numbers are the same in each run; more with FUZZ_N=100000. */
#include "runner/base/file.h"
#include "runner/plan/plan.h"
#include "tests/tap.h"

#include <stdlib.h>

static uint64_t state = 88172645463325252ULL;

static uint32_t random32(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static const char seed[] =
    "run: {dir: /r/%a, name: x}\n"
    "model: &m\n  preset: llama-nano\n  heads: 4\n  qk_norm: true\n"
    "data:\n  train: [0.5 /a, 0.5 /b]\n  split: \"9,1,0\"\n"
    "train: {steps: 1e3, global_batch: 16, micro_batch: 4, seq_len: 64}\n"
    "optim: {lr: 3e-4, warmup_steps: 1_0}\n"
    "checkpoint: {interval: 5, shard_size: 4G}\n"
    "recovery: {spares: 1, refill: 1h30m, elastic: on}\n"
    "notify: {webhook: \"https://h/\\x41\", webhook_token: s}\n";

static const char *const words[] = {
    "*m", "&m ", "!!int ", "<<: *m", "~", "99999999999999999999", "-1", "0",
    "1e308", "nan", "[", "]", "{", "}", ": ", "\n", "  ", "\t", "\"", "'", "#",
    "|\n", ">-\n", "---\n", "...\n", "model", ".layers: 2\n", "2147483647",
    "16777216", "gpt3-7b", "fp64", "\xff", "\xc3", ","};

/* One to four changes: a byte, a cut, a word, a repeated piece. */
static void damage(char *text, size_t cap)
{
    for (uint32_t times = 1 + random32() % 3; times; times--) {
        size_t n = strlen(text), at = n ? random32() % n : 0;
        const char *word = words[random32() % (sizeof words / sizeof *words)];
        size_t w = strlen(word), cut = random32() % 12;
        switch (random32() % 4) {
        case 0:
            if (n)
                text[at] = (char)(32 + random32() % 95);
            break;
        case 1:
            if (at + cut < n)
                memmove(text + at, text + at + cut, n - at - cut + 1);
            break;
        case 2:
            if (n + w + 1 < cap) {
                memmove(text + at + w, text + at, n - at + 1);
                memcpy(text + at, word, w);
            }
            break;
        default:
            if (n + cut + 1 < cap && at + cut < n)
                memmove(text + at + cut, text + at, n - at + 1);
        }
    }
}

static struct site site;
static struct plan plan;
static struct plan_notes notes;
static int read_n, planned_n, silent_n;

static void one(const char *text)
{
    struct err err = ERR_INIT;
    struct sbuf out = SBUF_INIT;
    struct conf *conf = plan_conf_create(NULL);
    int rc = conf_read_text(conf, text, "fuzz", &err);
    if (!rc)
        rc = plan_conf_finish(conf, "/base", &err);
    if (!rc) {
        read_n++;
        rc = plan_make(conf, &site, &plan, &notes, &err);
    }
    if (!rc) {
        planned_n++;
        plan_print(&plan, &out);
    }
    conf_dump(conf, &out);
    if ((rc != 0) != (err.class != ERR_NONE) || (rc && !*err.msg))
        silent_n++;
    sbuf_release(&out);
    conf_destroy(conf);
}

int main(void)
{
    const char *times = getenv("FUZZ_N");
    long n = times ? strtol(times, NULL, 10) : 5000;
    char text[4096];
    unsetenv("SLURM_ARRAY_TASK_ID");
    site.nodes = 3;
    site.spares = -1;
    site.run_dir_known = site.run_dir_writable = site.array_job = true;
    site.disk_free_bytes = 1LL << 40;
    site.mem_per_rank_bytes = 1LL << 33;
    for (int i = 0; i < PLAN_LIST_MAX; i++)
        site.train[i] = site.valid[i] = (struct site_file){
            .known = true, .exists = true, .tokens = 1 << 20,
            .dtype_bytes = 2};
    one(seed);
    is_int(planned_n, 1, "the undamaged text is a plan");
    for (long i = 0; i < n; i++) {
        strcpy(text, seed);
        damage(text, sizeof text);
        one(text);
    }
    is_int(silent_n, 0, "each failure has a message, each success none");
    ok(read_n > n / 20 && planned_n > 1 && planned_n < n,
       "some damage is read (%d) and planned (%d)", read_n, planned_n);
    return tap_done();
}
