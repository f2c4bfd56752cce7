/* xid - NVIDIA's Xid numbers, one row each: what happened and what to do.
 *
 * Lines as `NVRM: Xid (PCI:0000:3b:00): 79, pid=...` come in the kernel's log.
 * A text of the driver's own (154) is obeyed as it says.
 */
#ifndef KB_HEALTH_XID_H
#define KB_HEALTH_XID_H

#include <stdbool.h>
#include <stddef.h>

#include "health/catalog.h"

enum xid_action {
    XID_IGNORE,   /* for the record, or told by a field of its own */
    XID_APP,      /* the program is at fault, the GPU goes on */
    XID_RESET,    /* reset the GPU before the next job */
    XID_REBOOT,   /* the node needs a reboot */
    XID_REPLACE,  /* the GPU is to be replaced */
    XID_INSPECT,  /* somebody must look at power, seat, cables */
    XID_SUPPORT,  /* update the software or ask NVIDIA */
    XID_BY_TEXT,  /* the line itself says which */
    XID_ACTION_N
};
extern const char *const xid_action_names[XID_ACTION_N];

/* Those that mean something together; klog_judge.c. */
enum {
    XID_GRAPHICS = 13,
    XID_PAGE_FAULT = 31,
    XID_DOUBLE_BIT = 48,
    XID_REMAPPED = 63,
    XID_REMAP_FAILED = 64,
};

struct xid_row {
    int xid;
    enum xid_action action;
    const char *what;
};
extern const struct xid_row xid_rows[];
extern const int xid_rows_n;

struct xid_event {
    int xid;
    bool is_switch;   /* an SXid of an NVSwitch */
    char device[32];  /* PCI address as the line has it */
    enum xid_action action;
    const char *what; /* "" if not in the table */
    bool known;
};

/* -1: the text is no Xid or SXid line, from its first letter on. */
int xid_parse(const char *text, struct xid_event *ret);
/* The event of a number alone, as the driver's events give it; what a line's
 * text would say is left to the GPU's fields. has_fields: the driver has the
 * one of the recovery action. */
void xid_from_number(int xid, const char *device, bool has_fields,
                     struct xid_event *ret);
/* The finding that an event is. */
enum finding_code xid_finding(const struct xid_event *event);

#endif
