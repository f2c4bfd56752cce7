/* report - a report is filled; private to health. What does not fit is
 * dropped, findings are counted then. */
#ifndef KB_HEALTH_REPORT_H
#define KB_HEALTH_REPORT_H

#include "health/health.h"
#include "health/probe.h"

/* With the severity that the site gives it. */
void report_add(struct health_report *report, const struct conf *site,
                enum finding_code code, const char *subject,
                const char *evidence);
void report_note(struct health_report *report, const char *name,
                 const char *value);
/* What is no number is left out. */
void report_figure(struct health_report *report, const char *name,
                   const char *subject, const char *unit, double value);
/* text as of findings_gpu. */
void report_gpu(struct health_report *report, const char *text);

/* A request opened: source and site; look_close in any case. */
int look_open(struct look *ret, const struct health_request *request,
              struct err *err);
void look_close(struct look *look);

#endif
