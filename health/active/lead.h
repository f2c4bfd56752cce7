/* lead - the process that starts one worker a GPU, says what to try when, and
 * survives each of them; see lead.c. */
#ifndef KB_HEALTH_ACTIVE_LEAD_H
#define KB_HEALTH_ACTIVE_LEAD_H

#include "runner/base/err.h"

/* program: the path of this program; request: JSON (health/active.h). Lines to
 * out. 0, or -1 when the request is wrong. */
int lead_main(const char *program, const char *request, int out,
              struct err *err);

#endif
