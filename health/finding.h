/* finding - what a look at a node found, and what it says about the node.
 *
 * One table row a finding (catalog.c): code, subject kind, severity, class,
 * message, advice, action. Absent hardware is a skip. A probe that
 * hangs or times out is FINDING_UNKNOWN, never FINDING_FAIL. What a user can
 * cause is at most FINDING_WARN. Usable without any library.
 */
#ifndef KB_HEALTH_FINDING_H
#define KB_HEALTH_FINDING_H

#include "runner/base/err.h"

enum finding_severity {
    FINDING_INFO,    /* for the record */
    FINDING_WARN,    /* look at it; the job may run */
    FINDING_UNKNOWN, /* could not be found out */
    FINDING_DRAIN,   /* no new job here; a running one may save and go */
    FINDING_FAIL,    /* no job here, at once */
    FINDING_SEVERITY_N
};
extern const char *const finding_severity_names[FINDING_SEVERITY_N];

/* What would mend it; for people and for programs of a site. */
enum finding_action {
    FINDING_DO_NOTHING,
    FINDING_DO_RESTART_APP,
    FINDING_DO_RESET_GPU,
    FINDING_DO_REBOOT,
    FINDING_DO_DRAIN,   /* keep jobs away until somebody has looked */
    FINDING_DO_REPLACE, /* hardware */
    FINDING_DO_LOOK_CLOSER,
    FINDING_ACTION_N
};
extern const char *const finding_action_names[FINDING_ACTION_N];

struct finding {
    const char *code;        /* stable, e.g. "mem-free-low" */
    enum finding_severity severity;
    enum err_class class;    /* what is lost if it is true */
    enum finding_action action;
    char subject[96];        /* "node", GPU UUID, NIC, mount point */
    char message[256];
    char advice[256];
    char evidence[256];      /* what was read: value, limit, source */
};

/* What koboshi-health exits with, by the worst finding. Info, warn and unknown
 * are no reason to keep a job away. */
enum health_exit {
    HEALTH_EXIT_FIT = 0,
    HEALTH_EXIT_FAILED = 1, /* it could not look */
    HEALTH_EXIT_USAGE = 2,
    HEALTH_EXIT_DRAIN = 4,
    HEALTH_EXIT_FAIL = 5,
};

#endif
