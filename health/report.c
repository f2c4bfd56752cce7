/* report - a look's result for machines and for people; see health.h. */
#include <stdio.h>
#include <string.h>

#include "health/health.h"
#include "runner/base/clock.h"

static const char *const status_names[] = {
    [HEALTH_OK] = "ok",
    [HEALTH_FOUND] = "found",
    [HEALTH_SKIPPED] = "skipped",
    [HEALTH_HUNG] = "hung",
    [HEALTH_CRASHED] = "crashed",
};

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

static json_t *finding_json(const struct finding *finding)
{
    return json_pack("{s:s s:o s:s s:s s:s s:s s:s s:o}", "code",
                     finding->code,
                     "subject", text_value(finding->subject), "severity",
                     finding_severity_names[finding->severity], "class",
                     err_class_name(finding->class), "action",
                     finding_action_names[finding->action], "message",
                     finding->message, "advice", finding->advice, "evidence",
                     text_value(finding->evidence));
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

json_t *health_json(const struct health_report *report)
{
    json_t *findings = json_array(), *probes = json_array();
    json_t *notes = json_object(), *figures = json_array();
    for (int i = 0; i < report->finding_n; i++)
        json_array_append_new(findings, finding_json(&report->finding[i]));
    for (int i = 0; i < report->probe_n; i++)
        json_array_append_new(probes, probe_json(&report->probe[i]));
    for (int i = 0; i < report->note_n; i++)
        json_object_set_new(notes, report->note[i].name,
                            text_value(report->note[i].value));
    for (int i = 0; i < report->figure_n; i++)
        json_array_append_new(figures, figure_json(&report->figure[i]));
    return json_pack(
        "{s:i s:s s:f s:f s:s s:b s:s s:i s:o s:o s:o s:o}", "schema", 1,
        "host", report->host, "time", report->time_s, "seconds",
        report->seconds, "level", report->full ? "full" : "gate", "user",
        report->user, "verdict", health_verdict(report), "dropped",
        report->dropped_n, "findings", findings, "notes", notes, "figures",
        figures, "probes", probes);
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
