/* active_judge - what the lines of koboshi-health-gpu mean; see active.h. Pure.
 *
 * What is computed wrong is a fault of the GPU, whoever looks. What is slow is
 * held against the model's row or the site's floor, and against the other GPUs
 * of the node. What hung, crashed, is missing or is no line is unknown.
 */
#include "health/active.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    const struct active *active;
    const struct conf *site;
    struct findings *findings;
};

static const char *who(const struct judge *j, int gpu)
{
    return gpu < 0 ? "node" : j->active->gpu[gpu].who;
}

/* ---- Wrong ----------------------------------------------------------- */

/* The bits that more than half of the GPUs give for this type; NULL: no such
 * bits. *ret_n: how many GPUs gave any. */
static const char *usual_bits(const struct judge *j, enum gpu_figure type,
                              int *ret_n)
{
    const char *usual = NULL;
    int total = 0, most = 0;
    for (int i = 0; i < j->active->line_n; i++) {
        const struct active_line *a = &j->active->line[i];
        int n = 0;
        if (a->kind != ACTIVE_PRODUCT || a->figure != type)
            continue;
        total++;
        for (int k = 0; k < j->active->line_n; k++) {
            const struct active_line *b = &j->active->line[k];
            n += b->kind == ACTIVE_PRODUCT && b->figure == type &&
                 !strcmp(a->bits, b->bits);
        }
        if (n > most) {
            most = n;
            usual = a->bits;
        }
    }
    *ret_n = total;
    return 2 * most > total ? usual : NULL;
}

static void judge_product(const struct judge *j, const struct active_line *line)
{
    const char *type = gpu_figure_names[line->figure];
    int gpus = 0;
    const char *usual = usual_bits(j, line->figure, &gpus);
    if (line->wrong)
        findings_add(j->findings, F_GPU_PRODUCT_WRONG, who(j, line->gpu),
                     "%s: %s; %lld of %lld runs differ", type, line->text,
                     (long long)line->differ, (long long)line->runs);
    else if (line->differ)
        findings_add(j->findings, F_GPU_PRODUCT_DIFFERS, who(j, line->gpu),
                     "%s: %lld of %lld runs gave other bits than the first",
                     type, (long long)line->differ, (long long)line->runs);
    else if (!usual || strcmp(usual, line->bits))
        findings_add(j->findings, F_GPU_PRODUCT_DIFFERS, who(j, line->gpu),
                     "%s: not the bits of the other %d GPUs", type, gpus - 1);
}

static const struct wrong_row {
    enum active_kind kind;
    enum finding_code code;
} wrongs[] = {
    {ACTIVE_MEMORY, F_GPU_MEMORY_WRONG},
    {ACTIVE_HOST, F_GPU_HOST_WRONG},
    {ACTIVE_PEER, F_GPU_PEER_WRONG},
    {ACTIVE_REDUCE, F_GPU_REDUCE_WRONG},
};

static void judge_wrong(const struct judge *j, const struct active_line *line)
{
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
        if (line->kind == wrongs[i].kind && line->wrong)
            findings_add(j->findings, wrongs[i].code, who(j, line->gpu),
                         "%s%s%s", line->text, line->to >= 0 ? "; to " : "",
                         line->to >= 0 ? who(j, line->to) : "");
    if (line->kind == ACTIVE_REDUCE && line->code)
        findings_add(j->findings, F_GPU_REDUCE_FAILS, who(j, line->gpu), "%s",
                     line->text);
}

/* ---- Faults and what is not known ---------------------------------------- */

/* CUDA's errors that our own programs cannot bring about: the hardware's. */
static bool is_hardware(int64_t code)
{
    static const int codes[] = {
        214, /* ECC uncorrectable */
        220, /* NVLink uncorrectable */
        700, 714, 715, 716, 717, 718, 719, /* a kernel went astray */
        721, /* contained memory error */
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code)
            return true;
    return false;
}

static void judge_gone(const struct judge *j, const struct active_line *line)
{
    static const char *const how[ACTIVE_KIND_N] = {
        [ACTIVE_HUNG] = "did not answer in time",
        [ACTIVE_CRASHED] = "ended early",
        [ACTIVE_LATE] = "no time was left"};
    if (line->kind == ACTIVE_FAULT)
        findings_add(j->findings,
                     is_hardware(line->code) ? F_GPU_FAULT : F_ACTIVE_UNKNOWN,
                     who(j, line->gpu), "CUDA %lld at %s",
                     (long long)line->code, line->text);
    else if (how[line->kind])
        findings_add(j->findings, F_ACTIVE_UNKNOWN, who(j, line->gpu),
                     "%s: %s", how[line->kind], line->text);
}

static bool is_told(const struct judge *j, int gpu)
{
    bool product = false, memory = false, host = false;
    for (int i = 0; i < j->active->line_n; i++) {
        const struct active_line *line = &j->active->line[i];
        if (line->gpu != gpu)
            continue;
        product |= line->kind == ACTIVE_PRODUCT;
        memory |= line->kind == ACTIVE_MEMORY;
        host |= line->kind == ACTIVE_HOST;
        if ((line->kind >= ACTIVE_FAULT && line->kind <= ACTIVE_LATE) ||
            (line->kind == ACTIVE_SKIP && !strcmp(line->bits, "all")))
            return true;
    }
    return product && memory && host;
}

static void judge_missing(const struct judge *j)
{
    const struct active *active = j->active;
    bool ended = false;
    for (int i = 0; i < active->line_n; i++)
        ended |= active->line[i].kind == ACTIVE_END;
    if (active->garbage_n)
        findings_add(j->findings, F_ACTIVE_UNKNOWN, "node",
                     "%d lines are not understood: %s", active->garbage_n,
                     active->garbage);
    if (!ended)
        findings_add(j->findings, F_ACTIVE_UNKNOWN, "node",
                     "the trial did not come to its end");
    for (int i = 0; i < active->gpu_n; i++)
        if (!is_told(j, i))
            findings_add(j->findings, F_ACTIVE_UNKNOWN, who(j, i),
                         "not all of it was tried");
}

/* ---- Slow --------------------------------------------------------------- */

static const struct slow_row {
    enum gpu_figure figure;
    enum finding_code code;
    const char *key; /* of the site's floor */
} slows[GPU_FIGURE_N] = {
    {GPU_FIGURE_BF16, F_GPU_SLOW_PRODUCT, "active.bf16_tflops"},
    {GPU_FIGURE_FP8, F_GPU_SLOW_PRODUCT, "active.fp8_tflops"},
    {GPU_FIGURE_FP32, F_GPU_SLOW_PRODUCT, "active.fp32_tflops"},
    {GPU_FIGURE_MEMORY, F_GPU_SLOW_MEMORY, "active.memory_gb_per_s"},
    {GPU_FIGURE_HOST_IN, F_GPU_SLOW_HOST, "active.host_in_gb_per_s"},
    {GPU_FIGURE_HOST_OUT, F_GPU_SLOW_HOST, "active.host_out_gb_per_s"},
    {GPU_FIGURE_PEER, F_GPU_SLOW_PEER, "active.peer_gb_per_s"},
    {GPU_FIGURE_REDUCE, F_GPU_SLOW_REDUCE, "active.reduce_gb_per_s"},
};

/* A GPU's figure: of several lines (peers) the least. 0: none. */
static double figure_of(const struct active *active, int gpu,
                        enum gpu_figure figure)
{
    static const enum active_kind kinds[GPU_FIGURE_N] = {
        ACTIVE_PRODUCT, ACTIVE_PRODUCT, ACTIVE_PRODUCT, ACTIVE_MEMORY,
        ACTIVE_HOST,    ACTIVE_HOST,    ACTIVE_PEER,    ACTIVE_REDUCE};
    double least = 0;
    for (int i = 0; i < active->line_n; i++) {
        const struct active_line *line = &active->line[i];
        if (line->gpu != gpu || line->kind != kinds[figure] ||
            (line->kind == ACTIVE_PRODUCT && line->figure != figure) ||
            (line->kind == ACTIVE_PEER && !line->access) || line->code)
            continue;
        double v = figure == GPU_FIGURE_HOST_OUT ? line->other : line->value;
        if (least <= 0 || v < least)
            least = v;
    }
    return least;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of the GPUs of the same model; 0 unless there are three of them. */
static double median(const struct judge *j, const char *name,
                     enum gpu_figure figure)
{
    double all[ACTIVE_GPUS_MAX];
    size_t n = 0;
    for (int i = 0; i < j->active->gpu_n; i++) {
        double v = strcmp(j->active->gpu[i].name, name)
                       ? 0
                       : figure_of(j->active, i, figure);
        if (v > 0)
            all[n++] = v;
    }
    qsort(all, n, sizeof *all, by_size);
    return n < 3 ? 0 : all[n / 2];
}

static void judge_figure(const struct judge *j, int gpu,
                         enum gpu_figure figure)
{
    const char *name = j->active->gpu[gpu].name;
    const char *unit = gpu_figure_unit(figure);
    double v = figure_of(j->active, gpu, figure);
    double low = conf_real(j->site, slows[figure].key);
    double usual = median(j, name, figure);
    double share = conf_real(j->site, "active.share_percent") / 100;
    char subject[32];
    if (v <= 0)
        return;
    snprintf(subject, sizeof subject, "gpu %d", j->active->gpu[gpu].index);
    findings_figure(j->findings, gpu_figure_names[figure], subject, unit, v);
    if (low <= 0)
        low = gpu_model_floor(gpu_model_find(name), figure) *
              (figure <= GPU_FIGURE_FP32 ? j->active->gpu[gpu].power : 1);
    if (v < low)
        findings_add(j->findings, slows[figure].code, who(j, gpu),
                     "%s %.4g %s, at least %.4g expected of %s",
                     gpu_figure_names[figure], v, unit, low, name);
    else if (v < usual * share)
        findings_add(j->findings, F_GPU_SLOWER, who(j, gpu),
                     "%s %.4g %s, the median of this node is %.4g",
                     gpu_figure_names[figure], v, unit, usual);
}

/* Who reaches whom: a pair that does not, where others do, is cut. */
static void judge_access(const struct judge *j)
{
    int reached = 0;
    for (int i = 0; i < j->active->line_n; i++)
        reached += j->active->line[i].kind == ACTIVE_PEER &&
                   j->active->line[i].access;
    for (int i = 0; i < j->active->line_n && reached; i++) {
        const struct active_line *line = &j->active->line[i];
        if (line->kind == ACTIVE_PEER && !line->access)
            findings_add(j->findings, F_GPU_PEER_CUT, who(j, line->gpu),
                         "no access to %s", who(j, line->to));
    }
}

/* ---- Notes ----------------------------------------------------------- */

static void note_peers(const struct judge *j, int gpu)
{
    struct sbuf row = SBUF_INIT;
    char name[32];
    int n = 0;
    for (int to = 0; to < j->active->gpu_n; to++) {
        const struct active_line *line = NULL;
        for (int i = 0; i < j->active->line_n; i++)
            if (j->active->line[i].kind == ACTIVE_PEER &&
                j->active->line[i].gpu == gpu && j->active->line[i].to == to)
                line = &j->active->line[i];
        n += line != NULL;
        if (line)
            sbuf_printf(&row, " %.0f%s", line->value,
                        line->access ? "" : " (no access)");
        else
            sbuf_puts(&row, " -");
    }
    snprintf(name, sizeof name, "peers of gpu %d", j->active->gpu[gpu].index);
    if (n)
        findings_note(j->findings, name, "GB/s to each:%s", row.data);
    sbuf_release(&row);
}

static void note_skips(const struct judge *j)
{
    char name[64];
    for (int i = 0; i < j->active->line_n; i++) {
        const struct active_line *line = &j->active->line[i];
        int index = line->gpu < 0 ? -1 : j->active->gpu[line->gpu].index;
        if (line->kind == ACTIVE_SKIP) {
            snprintf(name, sizeof name, "not tried on gpu %d: %.20s", index,
                     line->bits);
            findings_note(j->findings, name, "%s", line->text);
        } else if (line->kind == ACTIVE_GPU) {
            snprintf(name, sizeof name, "cuda ordinal of gpu %d", index);
            findings_note(j->findings, name, "%lld",
                          (long long)line->ordinal);
        }
    }
}

void active_judge(const struct active *active, const struct conf *site,
                  struct findings *findings)
{
    struct judge judge = {active, site, findings}, *j = &judge;
    for (int i = 0; i < active->line_n; i++) {
        const struct active_line *line = &active->line[i];
        if (line->kind == ACTIVE_PRODUCT)
            judge_product(j, line);
        judge_wrong(j, line);
        judge_gone(j, line);
    }
    for (int gpu = 0; gpu < active->gpu_n; gpu++) {
        for (int f = 0; f < GPU_FIGURE_N; f++)
            judge_figure(j, gpu, (enum gpu_figure)f);
        note_peers(j, gpu);
    }
    judge_access(j);
    judge_missing(j);
    note_skips(j);
}
