/* report - a look's result for machines and for people; see health.h. */
#include "health/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "health/health.h"
#include "health/site.h"
#include "runner/base/clock.h"

static const char *const status_names[] = {
    [HEALTH_OK] = "ok",
    [HEALTH_FOUND] = "found",
    [HEALTH_SKIPPED] = "skipped",
    [HEALTH_HUNG] = "hung",
    [HEALTH_CRASHED] = "crashed",
};

/* ---- What comes in --------------------------------------------------- */

void report_add(struct health_report *report, const struct conf *site,
                enum finding_code code, const char *subject,
                const char *evidence)
{
    for (int i = 0; i < report->finding_n; i++) /* by another probe, too */
        if (report->finding[i].code == catalog[code].code &&
            !strcmp(report->finding[i].subject, subject) &&
            !strcmp(report->finding[i].evidence, evidence))
            return;
    if (report->finding_n == HEALTH_FINDINGS_MAX) {
        report->dropped_n++;
        return;
    }
    struct finding *finding = &report->finding[report->finding_n++];
    catalog_fill(finding, code, subject, evidence);
    finding->severity = site_severity(site, code);
}

void report_note(struct health_report *report, const char *name,
                 const char *value)
{
    if (report->note_n == HEALTH_NOTES_MAX)
        return;
    struct health_note *note = &report->note[report->note_n++];
    str_copy(note->name, sizeof note->name, name);
    str_copy(note->value, sizeof note->value, value);
}

void report_figure(struct health_report *report, const char *name,
                   const char *subject, const char *unit, double value)
{
    if (!isfinite(value) || report->figure_n == HEALTH_FIGURES_MAX)
        return;
    struct health_figure *figure = &report->figure[report->figure_n++];
    str_copy(figure->name, sizeof figure->name, name);
    str_copy(figure->subject, sizeof figure->subject, subject);
    str_copy(figure->unit, sizeof figure->unit, unit);
    figure->value = value;
}

void report_gpu(struct health_report *report, const char *text)
{
    struct health_gpu gpu = {0};
    long long minor;
    int at = 0;
    if (report->gpu_n == HEALTH_GPUS_MAX ||
        sscanf(text, "%d %lld %d %95s %31s %n", &gpu.index, &minor, &gpu.cuda,
               gpu.uuid, gpu.pci, &at) != 5 ||
        !at)
        return;
    gpu.minor = minor;
    str_copy(gpu.name, sizeof gpu.name, text + at);
    report->gpu[report->gpu_n++] = gpu;
}

/* ---- What goes out ---------------------------------------------------- */

int health_exit_code(const struct health_report *report)
{
    return report->verdict == FINDING_FAIL    ? HEALTH_EXIT_FAIL
           : report->verdict == FINDING_DRAIN ? HEALTH_EXIT_DRAIN
                                              : HEALTH_EXIT_FIT;
}

const char *health_verdict(const struct health_report *report)
{
    return report->verdict == FINDING_INFO
               ? "ok"
               : finding_severity_names[report->verdict];
}

/* Probes read bytes from anywhere; JSON takes only UTF-8. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char plain[512];
    snprintf(plain, sizeof plain, "%s", text);
    for (unsigned char *p = (unsigned char *)plain; *p; p++)
        if (*p >= 128)
            *p = '?';
    return json_string(plain);
}

json_t *health_finding_json(const struct finding *f)
{
    return json_pack("{s:s s:o s:s s:s s:s s:s s:s s:o}", "code", f->code,
                     "subject", text_value(f->subject), "severity",
                     finding_severity_names[f->severity], "class",
                     err_class_name(f->class), "action",
                     finding_action_names[f->action], "message", f->message,
                     "advice", f->advice, "evidence",
                     text_value(f->evidence));
}

static json_t *probe_json(const struct health_probe *probe)
{
    json_t *value =
        json_pack("{s:s s:s s:f}", "name", probe->name, "status",
                  status_names[probe->status], "seconds", probe->seconds);
    if (*probe->why)
        json_object_set_new(value, "why", text_value(probe->why));
    return value;
}

static json_t *figure_json(const struct health_figure *figure)
{
    return json_pack("{s:o s:o s:f s:s}", "name", text_value(figure->name),
                     "subject", text_value(figure->subject), "value",
                     figure->value, "unit", figure->unit);
}

static json_t *gpu_json(const struct health_gpu *gpu)
{
    return json_pack("{s:i s:I s:i s:o s:o s:o}", "index", gpu->index, "minor",
                     (json_int_t)gpu->minor, "cuda", gpu->cuda, "uuid",
                     text_value(gpu->uuid), "pci", text_value(gpu->pci),
                     "name", text_value(gpu->name));
}

json_t *health_json(const struct health_report *report)
{
    json_t *findings = json_array(), *ran = json_array();
    json_t *notes = json_object(), *gpus = json_array();
    json_t *figures = json_array();
    for (int i = 0; i < report->finding_n; i++)
        json_array_append_new(findings,
                              health_finding_json(&report->finding[i]));
    for (int i = 0; i < report->probe_n; i++)
        json_array_append_new(ran, probe_json(&report->probe[i]));
    for (int i = 0; i < report->note_n; i++)
        json_object_set_new(notes, report->note[i].name,
                            text_value(report->note[i].value));
    for (int i = 0; i < report->figure_n; i++)
        json_array_append_new(figures, figure_json(&report->figure[i]));
    for (int i = 0; i < report->gpu_n; i++)
        json_array_append_new(gpus, gpu_json(&report->gpu[i]));
    return json_pack(
        "{s:i s:s s:f s:f s:s s:b s:s s:i s:o s:o s:o s:o s:o}", "schema", 1,
        "host", report->host, "time", report->time_s, "seconds",
        report->seconds, "level", report->full ? "full" : "gate", "user",
        report->user, "verdict", health_verdict(report), "dropped",
        report->dropped_n, "findings", findings, "gpus", gpus, "notes", notes,
        "figures", figures, "probes", ran);
}

static void text_findings(const struct health_report *report,
                          struct sbuf *out)
{
    for (int i = 0; i < report->finding_n; i++) {
        const struct finding *f = &report->finding[i];
        sbuf_printf(out, "%-7s %s %s: %s", finding_severity_names[f->severity],
                    f->code, f->subject, f->message);
        if (*f->evidence)
            sbuf_printf(out, " (%s)", f->evidence);
        sbuf_printf(out, "\n        %s\n", f->advice);
    }
    if (report->dropped_n)
        sbuf_printf(out, "        and %d more\n", report->dropped_n);
}

static void text_probes(const struct health_report *report, struct sbuf *out)
{
    static const enum health_status shown[] = {
        HEALTH_OK, HEALTH_SKIPPED, HEALTH_HUNG, HEALTH_CRASHED};
    for (size_t s = 0; s < sizeof shown / sizeof *shown; s++) {
        int n = 0;
        for (int i = 0; i < report->probe_n; i++) {
            const struct health_probe *p = &report->probe[i];
            if (p->status != shown[s])
                continue;
            if (!n++)
                sbuf_printf(out, "%-8s", status_names[shown[s]]);
            sbuf_printf(out, "%s%s", n > 1 ? ", " : "", p->name);
            if (*p->why)
                sbuf_printf(out, " (%s)", p->why);
        }
        if (n)
            sbuf_puts(out, "\n");
    }
}

void health_text(const struct health_report *report, struct sbuf *out)
{
    char took[24];
    sbuf_printf(out, "%s: %s, level %s, %s\n", report->host,
                health_verdict(report), report->full ? "full" : "gate",
                clock_human(report->seconds, took, sizeof took));
    text_findings(report, out);
    for (int i = 0; i < report->note_n; i++)
        sbuf_printf(out, "note    %s: %s\n", report->note[i].name,
                    report->note[i].value);
    for (int i = 0; i < report->figure_n; i++) {
        const struct health_figure *f = &report->figure[i];
        if (!i || strcmp(f->subject, f[-1].subject))
            sbuf_printf(out, "%s%s: ", i ? "\n" : "", f->subject);
        else
            sbuf_puts(out, ", ");
        sbuf_printf(out, "%s %.4g %s", f->name, f->value, f->unit);
    }
    sbuf_puts(out, report->figure_n ? "\n" : "");
    text_probes(report, out);
}

/* Label values of Prometheus: backslash, quote and line end are escaped. */
static void add_label(struct sbuf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\\' || *p == '"')
            sbuf_add(out, "\\", 1);
        sbuf_add(out, *p == '\n' ? " " : p, 1);
    }
}

void health_prometheus(const struct health_report *report, struct sbuf *out)
{
    sbuf_puts(out, "# HELP koboshi_health_verdict Worst finding: 0 none or "
                   "info, 1 warn, 2 unknown, 3 drain, 4 fail.\n"
                   "# TYPE koboshi_health_verdict gauge\n");
    sbuf_printf(out, "koboshi_health_verdict %d\n", (int)report->verdict);
    sbuf_puts(out, "# HELP koboshi_health_time_seconds When it was looked.\n"
                   "# TYPE koboshi_health_time_seconds gauge\n");
    sbuf_printf(out, "koboshi_health_time_seconds %.3f\n", report->time_s);
    sbuf_puts(out, "# HELP koboshi_health_finding A finding that holds.\n"
                   "# TYPE koboshi_health_finding gauge\n");
    for (int i = 0; i < report->finding_n; i++) {
        const struct finding *f = &report->finding[i];
        /* The same code and subject twice would be one series twice. */
        if (i && !strcmp(f->code, f[-1].code) &&
            !strcmp(f->subject, f[-1].subject))
            continue;
        sbuf_printf(out, "koboshi_health_finding{code=\"%s\",severity=\"%s\","
                         "subject=\"", f->code,
                    finding_severity_names[f->severity]);
        add_label(out, f->subject);
        sbuf_puts(out, "\"} 1\n");
    }
    if (report->figure_n)
        sbuf_puts(out, "# HELP koboshi_health_figure What was measured.\n"
                       "# TYPE koboshi_health_figure gauge\n");
    for (int i = 0; i < report->figure_n; i++)
        sbuf_printf(out, "koboshi_health_figure{name=\"%s\",subject=\"%s\","
                         "unit=\"%s\"} %.6g\n", report->figure[i].name,
                    report->figure[i].subject, report->figure[i].unit,
                    report->figure[i].value);
    sbuf_puts(out, "# HELP koboshi_health_probe_seconds Time of a probe.\n"
                   "# TYPE koboshi_health_probe_seconds gauge\n");
    for (int i = 0; i < report->probe_n; i++)
        sbuf_printf(out, "koboshi_health_probe_seconds{probe=\"%s\"} %.4f\n",
                    report->probe[i].name, report->probe[i].seconds);
}
