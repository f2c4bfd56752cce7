/* Fuzz target: what koboshi-health reads that others write: lines of the
 * kernel log, Xid lines in them, records of GPUs, a record's facts, the site's
 * file, the history. With the sanitizers in any build. */
#include <stdlib.h>
#include <string.h>

#include "health/active.h"
#include "health/gpu.h"
#include "health/history.h"
#include "health/klog_judge.h"
#include "health/site.h"
#include "health/xid.h"
#include "tests/fuzz/driver.h"

/* A probe's pipe that nobody reads. */
struct findings {
    int fd;
};

/* A judge holds what it holds, whatever comes. */
static void fuzz_judge(const struct klog_line *line, bool first)
{
    static struct klog_judge judge;
    struct findings nobody = {-1};
    if (first)
        judge = (struct klog_judge){0};
    klog_judge_line(line, &judge);
    if (judge.seen_n < 0 || judge.seen_n > KLOG_SEEN_MAX || judge.gpu_n < 0 ||
        judge.gpu_n > KLOG_GPUS_MAX)
        abort();
    for (int i = 0; i < judge.seen_n; i++)
        if (!memchr(judge.seen[i].subject, 0, sizeof judge.seen[i].subject) ||
            judge.seen[i].code >= F_CODE_N)
            abort();
    klog_judge_tell(&judge, &nobody);
}

static void fuzz_history(const char *text)
{
    struct history *h = history_create("b");
    char which[200];
    struct growth grown;
    struct err err = ERR_INIT;
    if (h && !history_parse(h, text, "input", &err)) {
        history_count(h, "g", "c", 7, 1e9, &grown);
        if (history_event(h, "p", "flap", 1, 1e9) < 1)
            abort();
        history_job(h, 4, "x,y", 1e9);
        history_is_lemon(h, which, sizeof which);
    }
    history_destroy(h);
}

static void fuzz_facts(char *text)
{
    struct source source = {.root = "/nonexistent", .facts = text};
    struct source_disk disk;
    struct source_time time;
    char host[64];
    double now;
    int64_t limit;
    source_disk(&source, "/tmp", &disk);
    source_time(&source, &time);
    source_now(&source, &now);
    source_limit(&source, "nofile", &limit);
    if (!source_host(&source, host, sizeof host) &&
        !memchr(host, 0, sizeof host))
        abort();
}

static void fuzz_klog(const char *text, size_t bytes)
{
    static struct klog_line line;
    struct xid_event event;
    for (size_t at = 0; at < bytes;) {
        size_t n = 0;
        while (at + n < bytes && text[at + n] != '\n')
            n++;
        if (!klog_parse(text + at, n, &line)) {
            fuzz_judge(&line, at == 0);
            if (!memchr(line.text, 0, sizeof line.text) || line.seq < -1)
                abort();
            if (!xid_parse(line.text, &event) &&
                ((int)xid_finding(&event) < 0 ||
                 xid_finding(&event) >= F_CODE_N || event.xid < 0))
                abort();
        }
        at += n + 1;
    }
}

static void fuzz_gpus(const char *text)
{
    static struct gpus gpus, again;
    struct sbuf out = SBUF_INIT;
    if (!gpus_parse(text, &gpus, NULL)) {
        if (gpus.n < 0 || gpus.n > GPUS_MAX ||
            gpus.failure_n > GPU_FAILURES_MAX)
            abort();
        gpus_write(&gpus, &out);
        if (gpus_parse(out.data, &again, NULL) || again.n != gpus.n)
            abort();
    }
    sbuf_release(&out);
}

/* Lines of the program that tries GPUs: nothing in them gets out of range. */
static void fuzz_active(const char *text)
{
    static struct active active;
    active = (struct active){.gpu_n = 2};
    active_read(&active, text);
    for (int i = 0; i < active.line_n; i++) {
        const struct active_line *line = &active.line[i];
        if (line->gpu < -1 || line->gpu >= 2 || line->to < -1 ||
            line->to >= 2 || line->wrong < 0 ||
            line->kind >= ACTIVE_KIND_N || !(line->value >= 0) ||
            !memchr(line->text, 0, sizeof line->text) ||
            !memchr(line->bits, 0, sizeof line->bits))
            abort();
    }
}

static void fuzz_site(const char *text)
{
    struct err err = ERR_INIT;
    struct conf *site = site_open("/dev/null", &err);
    if (site && !conf_read_text(site, text, "input", &err) &&
        !conf_check(site, &err))
        for (int i = 0; i < F_CODE_N; i++)
            if (site_severity(site, (enum finding_code)i) >=
                FINDING_SEVERITY_N)
                abort();
    conf_destroy(site);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    fuzz_klog(text, bytes);
    fuzz_gpus(text);
    fuzz_history(text);
    fuzz_facts(text);
    fuzz_active(text);
    if (bytes < 4096)
        fuzz_site(text);
    free(text);
    return 0;
}

#ifndef KB_LIBFUZZER
static const char *const seeds[] = {
    "[860000.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, fallen off the bus\n"
    "[860000.7] nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 20034, Fatal, x\n",
    "4,106,860000000006,-;pcieport 0000:00:02.0: AER: Corrected error\n"
    " SUBSYSTEM=pci\n6,107,860000000007,-;NVRM: Xid (PCI:0000:3b:00): 154, "
    "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
    "driver 570.1\ngpus 2\ngpu 0 name H200\ngpu 0 temperature 31\n"
    "gpu 1 lost 1\nfailure 1 ecc 999\n",
    "{\"kind\":\"gpu\",\"gpu\":0,\"pci\":\"0\",\"ordinal\":0}\n"
    "{\"kind\":\"product\",\"gpu\":1,\"type\":\"bf16\",\"wrong\":1,\"row\":3,"
    "\"first\":7,\"want\":\"0x40000000\",\"got\":\"0x40400000\",\"differ\":1,"
    "\"runs\":800,\"bits\":\"aa\",\"tflops\":780}\n"
    "{\"kind\":\"peer\",\"gpu\":0,\"to\":1,\"access\":true,\"wrong\":0,"
    "\"gb_per_s\":380.5}\n"
    "{\"kind\":\"fault\",\"gpu\":1,\"at\":\"x\",\"call\":\"y\",\"code\":214,"
    "\"text\":\"z\"}\n{\"kind\":\"end\",\"seconds\":1}\n",
    "expect: {cpus: 8, memory: 512G, interfaces: [eth0]}\n"
    "severity:\n  load-high: drain\n",
};

int main(void)
{
    int copies = getenv("KOBOSHI_TEST_LONG") ? 20000 : 1000;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        driver_run("seed", seeds[i], strlen(seeds[i]), copies);
    driver_run_folder(CORPUS, copies / 5);
    return tap_done();
}
#endif
