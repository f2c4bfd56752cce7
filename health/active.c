/* active - the request and the answer of koboshi-health-gpu; see active.h. */
#include "health/active.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/json.h"

enum { LINE_BYTES = 8192 };

char *active_request(const struct active *active, double seconds,
                     const char *corrupt, const struct active_pair *pair)
{
    json_t *gpus = json_array();
    for (int i = 0; i < active->gpu_n; i++)
        json_array_append_new(gpus,
                              json_pack("{s:s}", "pci", active->gpu[i].pci));
    json_t *value = json_pack("{s:o s:f s:s}", "gpus", gpus, "seconds",
                              seconds, "corrupt", corrupt);
    if (value && pair)
        json_object_set_new(value, "pair",
                            json_pack("{s:i s:s s:i s:s}", "node", pair->node,
                                      "address", pair->address, "port",
                                      pair->port, "secret", pair->secret));
    char *text = value ? json_line(value) : NULL;
    json_decref(value);
    return text;
}

static int find_kind(const char *name)
{
    static const char *const names[ACTIVE_KIND_N] = {
        [ACTIVE_GPU] = "gpu",         [ACTIVE_PRODUCT] = "product",
        [ACTIVE_MEMORY] = "memory",   [ACTIVE_HOST] = "host",
        [ACTIVE_PEER] = "peer",       [ACTIVE_REDUCE] = "reduce",
        [ACTIVE_SKIP] = "skip",       [ACTIVE_FAULT] = "fault",
        [ACTIVE_HUNG] = "hung",       [ACTIVE_CRASHED] = "crashed",
        [ACTIVE_LATE] = "late",       [ACTIVE_END] = "end",
    };
    for (int i = 0; i < ACTIVE_KIND_N; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

/* Letters that cannot hurt a report. */
static void plain(char *dst, size_t dst_bytes, const char *text)
{
    str_copy(dst, dst_bytes, text);
    for (unsigned char *p = (unsigned char *)dst; *p; p++)
        if (*p < 32 || *p >= 127)
            *p = '?';
}

/* A figure: positive and of a possible size. */
static int read_figure(const json_t *line, const char *key, double *ret)
{
    *ret = json_double_or(line, key, NAN);
    return isfinite(*ret) && *ret > 0 && *ret < 1e9 ? 0 : -1;
}

static int read_count(const json_t *line, const char *key, int64_t *ret)
{
    *ret = json_i64_or(line, key, -1);
    return *ret >= 0 ? 0 : -1;
}

/* A place in the request; -1: absent. */
static int read_place(const json_t *line, const char *key, int n, int *ret)
{
    int64_t place = json_i64_or(line, key, -1);
    *ret = (int)(place < n ? place : -1);
    return place >= -1 && place < n ? 0 : -1;
}

/* ---- One kind each: 0, or -1 when the line is none ---------------------- */

/* Bits of floats, where they are such: for people. */
static void show_bits(const json_t *line, const char *key, bool is_float,
                      char *dst, size_t dst_bytes)
{
    const char *text = json_string_or(line, key, "?");
    uint64_t bits = strtoull(text, NULL, 16);
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    if (is_float)
        snprintf(dst, dst_bytes, "%.9g", (double)value);
    else
        snprintf(dst, dst_bytes, "0x%016llx", (unsigned long long)bits);
}

static int read_product(const json_t *line, struct active_line *ret)
{
    const char *type = json_string_or(line, "type", "");
    char want[32], got[32];
    int figure;
    for (figure = GPU_FIGURE_BF16; figure <= GPU_FIGURE_FP32; figure++)
        if (!strcmp(gpu_figure_names[figure], type))
            break;
    if (figure > GPU_FIGURE_FP32 || read_count(line, "wrong", &ret->wrong) ||
        read_count(line, "differ", &ret->differ) ||
        read_count(line, "runs", &ret->runs) ||
        read_figure(line, "tflops", &ret->value))
        return -1;
    ret->figure = (enum gpu_figure)figure;
    plain(ret->bits, sizeof ret->bits, json_string_or(line, "bits", ""));
    show_bits(line, "want", true, want, sizeof want);
    show_bits(line, "got", true, got, sizeof got);
    snprintf(ret->text, sizeof ret->text,
             "row %lld column %lld is %s, not %s; %lld rows wrong",
             (long long)json_i64_or(line, "row", -1),
             (long long)json_i64_or(line, "first", -1), got, want,
             (long long)json_i64_or(line, "wrong_rows", -1));
    return *ret->bits ? 0 : -1;
}

static int read_cells(const json_t *line, struct active_line *ret)
{
    char want[32], got[32];
    if (read_count(line, "wrong", &ret->wrong))
        return -1;
    show_bits(line, "want", false, want, sizeof want);
    show_bits(line, "got", false, got, sizeof got);
    snprintf(ret->text, sizeof ret->text,
             "%lld words, the first at byte 0x%llx: %s, not %s",
             (long long)ret->wrong,
             (unsigned long long)json_i64_or(line, "first", 0) * 8, got,
             want);
    return 0;
}

static int read_memory(const json_t *line, struct active_line *ret)
{
    return read_cells(line, ret) ||
                   read_figure(line, "gb_per_s", &ret->value)
               ? -1
               : 0;
}

static int read_host(const json_t *line, struct active_line *ret)
{
    return read_cells(line, ret) ||
                   read_figure(line, "in_gb_per_s", &ret->value) ||
                   read_figure(line, "out_gb_per_s", &ret->other)
               ? -1
               : 0;
}

static int read_peer(const json_t *line, struct active_line *ret)
{
    ret->access = json_is_true(json_object_get(line, "access"));
    return read_cells(line, ret) ||
                   read_figure(line, "gb_per_s", &ret->value)
               ? -1
               : 0;
}

/* With an error it has no figure. */
static int read_reduce(const json_t *line, struct active_line *ret)
{
    const char *error = json_string_or(line, "error", NULL);
    char want[32], got[32];
    if (!error) {
        show_bits(line, "want", true, want, sizeof want);
        show_bits(line, "got", true, got, sizeof got);
        snprintf(ret->text, sizeof ret->text,
                 "of %lld numbers the first is number %lld: %s, not %s",
                 (long long)json_i64_or(line, "wrong", 0),
                 (long long)json_i64_or(line, "first", 0), got, want);
        return read_count(line, "wrong", &ret->wrong) ||
                       read_figure(line, "gb_per_s", &ret->value)
                   ? -1
                   : 0;
    }
    plain(ret->text, sizeof ret->text, error);
    ret->code = 1;
    return 0;
}

static int read_gpu(const json_t *line, struct active_line *ret)
{
    plain(ret->text, sizeof ret->text, json_string_or(line, "pci", ""));
    return read_count(line, "ordinal", &ret->ordinal);
}

static int read_skip(const json_t *line, struct active_line *ret)
{
    plain(ret->bits, sizeof ret->bits, json_string_or(line, "what", "?"));
    plain(ret->text, sizeof ret->text, json_string_or(line, "why", "?"));
    return 0;
}

static int read_fault(const json_t *line, struct active_line *ret)
{
    char text[200];
    snprintf(text, sizeof text, "%.40s, %.60s: %.60s",
             json_string_or(line, "at", "?"),
             json_string_or(line, "call", "?"),
             json_string_or(line, "text", "?"));
    plain(ret->text, sizeof ret->text, text);
    ret->code = json_i64_or(line, "code", -1);
    return 0;
}

/* hung, crashed, late */
static int read_gone(const json_t *line, struct active_line *ret)
{
    char text[200];
    const char *how = json_string_or(line, "how", NULL);
    snprintf(text, sizeof text, "%.60s%s%.60s",
             json_string_or(line, "at", json_string_or(line, "what", "?")),
             how ? ", " : "", how ? how : "");
    plain(ret->text, sizeof ret->text, text);
    return 0;
}

static int read_nothing(const json_t *line, struct active_line *ret)
{
    return 0;
}

static int read_line(const struct active *active, const json_t *line,
                     struct active_line *ret)
{
    static int (*const readers[ACTIVE_KIND_N])(const json_t *,
                                               struct active_line *) = {
        [ACTIVE_GPU] = read_gpu,       [ACTIVE_PRODUCT] = read_product,
        [ACTIVE_MEMORY] = read_memory, [ACTIVE_HOST] = read_host,
        [ACTIVE_PEER] = read_peer,     [ACTIVE_REDUCE] = read_reduce,
        [ACTIVE_SKIP] = read_skip,     [ACTIVE_FAULT] = read_fault,
        [ACTIVE_HUNG] = read_gone,     [ACTIVE_CRASHED] = read_gone,
        [ACTIVE_LATE] = read_gone,     [ACTIVE_END] = read_nothing,
    };
    int kind = find_kind(json_string_or(line, "kind", ""));
    if (kind < 0)
        return -1;
    *ret = (struct active_line){.kind = (enum active_kind)kind, .to = -1};
    if (read_place(line, "gpu", active->gpu_n, &ret->gpu) ||
        read_place(line, "to", active->gpu_n, &ret->to) ||
        (ret->gpu < 0 && kind <= ACTIVE_PEER) ||
        (ret->to < 0 && kind == ACTIVE_PEER))
        return -1;
    return readers[kind](line, ret);
}

void active_read(struct active *active, const char *text)
{
    char line[LINE_BYTES];
    while (*text) {
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s",
                 (int)(n < LINE_BYTES - 1 ? n : LINE_BYTES - 1), text);
        json_t *value = json_parse(line, "line", NULL);
        if (active->line_n < ACTIVE_LINES_MAX && json_is_object(value) &&
            !read_line(active, value, &active->line[active->line_n]))
            active->line_n++;
        else if (!active->garbage_n++)
            plain(active->garbage, sizeof active->garbage, line);
        json_decref(value);
        text += n + (text[n] == '\n');
    }
}
