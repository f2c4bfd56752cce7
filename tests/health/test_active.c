/* active: what koboshi-health-gpu says, held against what must be found. Each
 * row is the answer of a trial of healthy GPUs with lines taken out or put in.
 * The findings are caught here: look.c is not linked. */
#include "health/active.h"

#include <stdlib.h>

#include "health/site.h"
#include "runner/base/json.h"
#include "tests/tap.h"

static struct sbuf found, figures;

void findings_add(struct findings *f, enum finding_code code,
                  const char *subject, const char *fmt, ...)
{
    sbuf_printf(&found, "%s%s %s", found.len ? "; " : "", catalog[code].code,
                subject);
}

void findings_note(struct findings *f, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sbuf_printf(&figures, "[%s: ", name);
    sbuf_vprintf(&figures, fmt, ap);
    sbuf_puts(&figures, "]");
    va_end(ap);
}

void findings_figure(struct findings *f, const char *name, const char *subject,
                     const char *unit, double value)
{
    sbuf_printf(&figures, "(%s %s %g)", subject, name, value);
}

/* Of H200s; %d is the GPU. */
static const char *const healthy[] = {
    "{\"kind\":\"gpu\",\"gpu\":%d,\"pci\":\"0\",\"ordinal\":0}",
    "{\"kind\":\"product\",\"gpu\":%d,\"type\":\"bf16\",\"wrong\":0,"
    "\"differ\":0,\"runs\":800,\"bits\":\"aa\",\"tflops\":780}",
    "{\"kind\":\"product\",\"gpu\":%d,\"type\":\"fp8\",\"wrong\":0,"
    "\"differ\":0,\"runs\":800,\"bits\":\"bb\",\"tflops\":1400}",
    "{\"kind\":\"product\",\"gpu\":%d,\"type\":\"fp32\",\"wrong\":0,"
    "\"differ\":0,\"runs\":80,\"bits\":\"cc\",\"tflops\":52}",
    "{\"kind\":\"memory\",\"gpu\":%d,\"bytes\":1,\"wrong\":0,"
    "\"gb_per_s\":4300}",
    "{\"kind\":\"host\",\"gpu\":%d,\"in_gb_per_s\":55,\"out_gb_per_s\":55,"
    "\"wrong\":0}",
    "{\"kind\":\"reduce\",\"gpu\":%d,\"what\":\"node\",\"ranks\":4,"
    "\"gb_per_s\":350,\"wrong\":0}",
};
enum { HEALTHY_N = sizeof healthy / sizeof *healthy };

static const struct row {
    const char *name;
    int gpus;
    const char *without; /* lines that have this are left out; NULL: none */
    const char *with;    /* lines put in; NULL: none */
    const char *site;    /* NULL: the defaults */
    const char *want;
} rows[] = {
    {"healthy", 4, NULL, NULL, NULL, ""},
    {"one", 1, NULL, NULL, NULL, ""},
    {"a wrong product", 4, "\"gpu\":2,\"type\":\"bf16\"",
     "{\"kind\":\"product\",\"gpu\":2,\"type\":\"bf16\",\"wrong\":1,\"row\":3,"
     "\"first\":7,\"want\":\"0x40000000\",\"got\":\"0x40400000\","
     "\"wrong_rows\":1,\"differ\":1,\"runs\":800,\"bits\":\"aa\","
     "\"tflops\":780}",
     NULL, "gpu-product-wrong u2"},
    {"runs differ", 4, "\"gpu\":2,\"type\":\"fp8\"",
     "{\"kind\":\"product\",\"gpu\":2,\"type\":\"fp8\",\"wrong\":0,"
     "\"differ\":3,\"runs\":800,\"bits\":\"bb\",\"tflops\":1400}",
     NULL, "gpu-product-differs u2"},
    {"one of four has other bits", 4, "\"gpu\":0,\"type\":\"fp32\"",
     "{\"kind\":\"product\",\"gpu\":0,\"type\":\"fp32\",\"wrong\":0,"
     "\"differ\":0,\"runs\":80,\"bits\":\"dd\",\"tflops\":52}",
     NULL, "gpu-product-differs u0"},
    {"two disagree: neither can be trusted", 2, "\"gpu\":0,\"type\":\"fp32\"",
     "{\"kind\":\"product\",\"gpu\":0,\"type\":\"fp32\",\"wrong\":0,"
     "\"differ\":0,\"runs\":80,\"bits\":\"dd\",\"tflops\":52}",
     NULL, "gpu-product-differs u1; gpu-product-differs u0"},
    {"memory", 2, "\"memory\",\"gpu\":1",
     "{\"kind\":\"memory\",\"gpu\":1,\"bytes\":1,\"wrong\":2,\"first\":5,"
     "\"want\":\"0x5\",\"got\":\"0x7\",\"gb_per_s\":4300}",
     NULL, "gpu-memory-wrong u1"},
    {"host", 2, "\"host\",\"gpu\":1",
     "{\"kind\":\"host\",\"gpu\":1,\"wrong\":2,\"first\":5,\"want\":\"0x5\","
     "\"got\":\"0x7\",\"in_gb_per_s\":55,\"out_gb_per_s\":55}",
     NULL, "gpu-host-wrong u1"},
    {"peer", 2, NULL,
     "{\"kind\":\"peer\",\"gpu\":0,\"to\":1,\"access\":true,\"wrong\":1,"
     "\"first\":0,\"want\":\"0x5\",\"got\":\"0x7\",\"gb_per_s\":380}",
     NULL, "gpu-peer-wrong u0"},
    {"reduce", 2, "\"reduce\",\"gpu\":0",
     "{\"kind\":\"reduce\",\"gpu\":0,\"what\":\"node\",\"wrong\":1,"
     "\"gb_per_s\":350}",
     NULL, "gpu-reduce-wrong u0"},
    {"reduce fails", 1, "reduce",
     "{\"kind\":\"reduce\",\"gpu\":0,\"what\":\"node\",\"error\":\"x\"}", NULL,
     "gpu-reduce-fails u0"},
    {"slow products", 1, "\"type\":\"bf16\"",
     "{\"kind\":\"product\",\"gpu\":0,\"type\":\"bf16\",\"wrong\":0,"
     "\"differ\":0,\"runs\":9,\"bits\":\"aa\",\"tflops\":400}",
     NULL, "gpu-slow-product u0"},
    {"the site expects less", 1, "\"type\":\"bf16\"",
     "{\"kind\":\"product\",\"gpu\":0,\"type\":\"bf16\",\"wrong\":0,"
     "\"differ\":0,\"runs\":9,\"bits\":\"aa\",\"tflops\":400}",
     "active: {bf16_tflops: 300}", ""},
    {"the site expects more", 1, NULL, NULL,
     "active: {fp32_tflops: 60, memory_gb_per_s: 4400, host_in_gb_per_s: 56}",
     "gpu-slow-product u0; gpu-slow-memory u0; gpu-slow-host u0"},
    {"slow memory", 1, "\"memory\"",
     "{\"kind\":\"memory\",\"gpu\":0,\"wrong\":0,\"gb_per_s\":2000}", NULL,
     "gpu-slow-memory u0"},
    {"slow host, one way", 1, "\"host\"",
     "{\"kind\":\"host\",\"gpu\":0,\"wrong\":0,\"in_gb_per_s\":55,"
     "\"out_gb_per_s\":12}",
     NULL, "gpu-slow-host u0"},
    {"slow peer", 2, NULL,
     "{\"kind\":\"peer\",\"gpu\":0,\"to\":1,\"access\":true,\"wrong\":0,"
     "\"gb_per_s\":380}\n"
     "{\"kind\":\"peer\",\"gpu\":1,\"to\":0,\"access\":true,\"wrong\":0,"
     "\"gb_per_s\":80}",
     NULL, "gpu-slow-peer u1"},
    {"slow reduce", 1, "reduce",
     "{\"kind\":\"reduce\",\"gpu\":0,\"what\":\"node\",\"gb_per_s\":90,"
     "\"wrong\":0}",
     NULL, "gpu-slow-reduce u0"},
    {"slower than the others, over the floor", 4, "\"gpu\":3,\"type\":\"bf16\"",
     "{\"kind\":\"product\",\"gpu\":3,\"type\":\"bf16\",\"wrong\":0,"
     "\"differ\":0,\"runs\":9,\"bits\":\"aa\",\"tflops\":650}",
     NULL, "gpu-slower u3"},
    {"and as the site sees it", 4, "\"gpu\":3,\"type\":\"bf16\"",
     "{\"kind\":\"product\",\"gpu\":3,\"type\":\"bf16\",\"wrong\":0,"
     "\"differ\":0,\"runs\":9,\"bits\":\"aa\",\"tflops\":650}",
     "active: {share_percent: 80}", ""},
    {"two are no median", 2, "\"gpu\":1,\"type\":\"bf16\"",
     "{\"kind\":\"product\",\"gpu\":1,\"type\":\"bf16\",\"wrong\":0,"
     "\"differ\":0,\"runs\":9,\"bits\":\"aa\",\"tflops\":650}",
     NULL, ""},
    {"nobody reaches anybody: cards without links", 2, NULL,
     "{\"kind\":\"peer\",\"gpu\":0,\"to\":1,\"access\":false,\"wrong\":0,"
     "\"gb_per_s\":20}",
     NULL, ""},
    {"one is cut off", 3, NULL,
     "{\"kind\":\"peer\",\"gpu\":0,\"to\":1,\"access\":true,\"wrong\":0,"
     "\"gb_per_s\":380}\n"
     "{\"kind\":\"peer\",\"gpu\":0,\"to\":2,\"access\":false,\"wrong\":0,"
     "\"gb_per_s\":20}",
     NULL, "gpu-peer-cut u0"},
    {"ECC", 1, "\"memory\"",
     "{\"kind\":\"fault\",\"gpu\":0,\"at\":\"memory 3\",\"call\":\"x\","
     "\"code\":214,\"text\":\"cudaErrorECCUncorrectable\"}",
     NULL, "gpu-fault u0"},
    {"no driver is no fault of the GPU", 1, "\"memory\"",
     "{\"kind\":\"fault\",\"gpu\":0,\"at\":\"start\",\"call\":\"x\","
     "\"code\":35,\"text\":\"cudaErrorInsufficientDriver\"}",
     NULL, "active-unknown u0"},
    {"hung", 2, "\"memory\",\"gpu\":1",
     "{\"kind\":\"hung\",\"gpu\":1,\"at\":\"memory 3\"}", NULL,
     "active-unknown u1"},
    {"crashed", 2, "\"memory\",\"gpu\":1",
     "{\"kind\":\"crashed\",\"gpu\":1,\"at\":\"host\",\"how\":\"signal 11\"}",
     NULL, "active-unknown u1"},
    {"no time left", 2, "\"host\"",
     "{\"kind\":\"late\",\"gpu\":0,\"what\":\"host\"}\n"
     "{\"kind\":\"late\",\"gpu\":1,\"what\":\"host\"}",
     NULL, "active-unknown u0; active-unknown u1"},
    {"of the node: the peers' process", 2, NULL,
     "{\"kind\":\"hung\",\"at\":\"peers\"}", NULL, "active-unknown node"},
    {"skipped as a whole", 1, "gpu",
     "{\"kind\":\"skip\",\"gpu\":0,\"what\":\"all\",\"why\":\"no room\"}", NULL,
     ""},
    {"skipped in part: no fp8", 1, "fp8",
     "{\"kind\":\"skip\",\"gpu\":0,\"what\":\"fp8\",\"why\":\"x\"}", NULL, ""},
    {"something is missing", 1, "\"host\"", NULL, NULL, "active-unknown u0"},
    {"no end", 1, "end", NULL, NULL, "active-unknown node"},
    {"nothing at all", 1, "kind", NULL, NULL,
     "active-unknown node; active-unknown u0"},
    {"a GPU that was not asked for", 1, NULL,
     "{\"kind\":\"memory\",\"gpu\":1,\"wrong\":9,\"gb_per_s\":1}", NULL,
     "active-unknown node"},
    {"numbers that wrap around", 1, NULL,
     "{\"kind\":\"memory\",\"gpu\":4294967296,\"wrong\":9,\"gb_per_s\":1}",
     NULL, "active-unknown node"},
    {"no number", 1, NULL,
     "{\"kind\":\"memory\",\"gpu\":0,\"wrong\":\"9\",\"gb_per_s\":1}", NULL,
     "active-unknown node"},
    {"a negative figure", 1, NULL,
     "{\"kind\":\"memory\",\"gpu\":0,\"wrong\":0,\"gb_per_s\":-1}", NULL,
     "active-unknown node"},
    {"no JSON", 1, NULL, "Segmentation fault", NULL, "active-unknown node"},
    {"half a line", 1, NULL, "{\"kind\":\"memo", NULL, "active-unknown node"},
    {"another kind", 1, NULL, "{\"kind\":\"dance\",\"gpu\":0}", NULL,
     "active-unknown node"},
    {"no object", 1, NULL, "[1]\n7\nnull", NULL, "active-unknown node"},
};

static struct active active;
static double power = 1; /* of the limit that the GPUs have */

static void set_gpus(int n, const char *name)
{
    active = (struct active){.gpu_n = n};
    for (int i = 0; i < n; i++) {
        active.gpu[i].index = i;
        active.gpu[i].power = power;
        snprintf(active.gpu[i].who, sizeof active.gpu[i].who, "u%d", i);
        str_copy(active.gpu[i].name, sizeof active.gpu[i].name, name);
        snprintf(active.gpu[i].pci, sizeof active.gpu[i].pci, "0:%d:0.0", i);
    }
}

static void add_line(struct sbuf *text, const char *line, const char *without)
{
    if (!without || !strstr(line, without))
        sbuf_printf(text, "%s\n", line);
}

static void make_answer(const struct row *row, struct sbuf *text)
{
    for (int gpu = 0; gpu < row->gpus; gpu++)
        for (int i = 0; i < HEALTHY_N; i++) {
            char line[400];
            const char *at = strstr(healthy[i], "%d");
            snprintf(line, sizeof line, "%.*s%d%s", (int)(at - healthy[i]),
                     healthy[i], gpu, at + 2);
            if (row->gpus > 1 || !strstr(line, "reduce"))
                add_line(text, line, row->without);
        }
    if (row->with)
        sbuf_printf(text, "%s\n", row->with);
    add_line(text, "{\"kind\":\"end\",\"seconds\":12}", row->without);
}

static void check_row(const struct row *row)
{
    struct sbuf text = SBUF_INIT;
    struct err err = ERR_INIT;
    struct conf *site = site_open("/dev/null", &err);
    if (row->site && (conf_read_text(site, row->site, "site", &err) ||
                      conf_check(site, &err)))
        ok(false, "site: %s", err.msg);
    sbuf_clear(&found);
    sbuf_clear(&figures);
    set_gpus(row->gpus, "NVIDIA H200");
    make_answer(row, &text);
    active_read(&active, text.data);
    active_judge(&active, site, NULL);
    is_str(found.data, row->want, row->name);
    sbuf_release(&text);
    conf_destroy(site);
}

static void check_request(void)
{
    set_gpus(2, "x");
    struct active_pair pair = {1, "node3", 4711, "ab"};
    char *text = active_request(&active, 7.5, "bf16", &pair);
    json_t *value = json_parse(text, "request", NULL);
    is_int(json_array_size(json_object_get(value, "gpus")), 2, "GPUs asked");
    is_str(json_string_or(json_array_get(json_object_get(value, "gpus"), 1),
                          "pci", ""),
           "0:1:0.0", "by their PCI addresses");
    ok(json_double_or(value, "seconds", 0) > 7.4, "with a time");
    is_int(json_i64_or(json_object_get(value, "pair"), "port", 0), 4711,
           "and a partner");
    json_decref(value);
    free(text);
}

int main(void)
{
    found = figures = SBUF_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
    power = 0.5;
    check_row(&(struct row){"at half the power half the products are enough",
                            1, "\"type\":\"bf16\"",
                            "{\"kind\":\"product\",\"gpu\":0,\"type\":\"bf16\","
                            "\"wrong\":0,\"differ\":0,\"runs\":9,"
                            "\"bits\":\"aa\",\"tflops\":400}",
                            NULL, ""});
    power = 1;
    check_row(&rows[0]);
    ok(strstr(figures.data, "(gpu 3 bf16 780)"), "figures are told");
    ok(strstr(figures.data, "[cuda ordinal of gpu 2: 0]"), "and ordinals");
    check_request();
    sbuf_release(&found);
    sbuf_release(&figures);
    return tap_done();
}
