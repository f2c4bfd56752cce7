/* xid: every number of NVIDIA's catalogue (as published in 2025) leads to the
 * action that it should, and only real lines are read. */
#include "health/xid.h"

#include "tests/tap.h"

/* From the catalogue, by action, written apart from the table. */
static const struct {
    enum xid_action action;
    int xids[64]; /* 0 at the end */
} want[] = {
    {XID_APP, {8, 13, 31, 32, 39, 40, 41, 45, 60, 68, 69, 70, 71, 72, 75, 76,
               77, 80, 82, 83, 84, 85, 86, 87, 88, 89, 94, 126, 127, 128, 129,
               130, 131, 132, 133, 134, 135}},
    {XID_IGNORE, {38, 43, 44, 63, 66, 67, 92, 93, 137, 141, 157, 160, 161, 162,
                  163, 164, 165}},
    {XID_RESET, {46, 48, 62, 74, 95, 109, 110, 119, 120, 136, 140, 143, 144,
                 145, 146, 147, 148, 149, 150, 155, 156, 158, 168, 169}},
    {XID_REBOOT, {79, 151, 167}},
    {XID_REPLACE, {64}},
    {XID_INSPECT, {54}},
    {XID_SUPPORT, {78, 121, 142, 159}},
};

static const struct {
    const char *text;
    enum xid_action action;
    const char *device;
} lines[] = {
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus",
     XID_REBOOT, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 "
     "(None) to 0x1 (GPU Reset Required)", XID_RESET, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 "
     "(None) to 0x2 (Node Reboot Required)", XID_REBOOT, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 "
     "(None) to 0x3 (Drain P2P)", XID_RESET, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 "
     "(None) to 0x4 (Drain and Reset)", XID_RESET, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 "
     "(GPU Reset Required) to 0x0 (None)", XID_IGNORE, "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 154, words of a later driver", XID_SUPPORT,
     "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 145, RLW Nonfatal XC0", XID_IGNORE,
     "0000:3b:00"},
    {"NVRM: Xid (PCI:0000:3b:00): 145, RLW Fatal XC0", XID_RESET,
     "0000:3b:00"},
    {"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30",
     XID_RESET, "0000:05:00.0"},
    {"nvidia-nvswitch12: SXid (PCI:0000:05:00.0): 22013, Non-fatal, Link 30",
     XID_IGNORE, "0000:05:00.0"},
};

static const char *const not_lines[] = {
    "", "NVRM: Xid ", "NVRM: Xid (PCI:", "NVRM: Xid (PCI:0000:3b:00)",
    "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (PCI:0000:3b:00): x",
    "NVRM: Xid (PCI:0000:3b:00): 79x", "NVRM: Xid (PCI:0000:3b:00): 79999999",
    "NVRM: Xid (PCI:0000:3b:00:11:22:33:44:55:66:77:88:99): 79, x",
    "NVRM: Xid (PCI:zz): 79, x", "xNVRM: Xid (PCI:0000:3b:00): 79, x",
    "nvidia-nvswitch: SXid (PCI:0000:05:00.0): 1, Fatal",
    "nvidia-nvswitch1: Xid (PCI:0000:05:00.0): 1, Fatal",
    "NVRM: GPU at PCI:0000:3b:00: GPU-1234"};

static void check_catalogue(void)
{
    char text[128];
    struct xid_event event;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (const int *xid = want[i].xids; *xid; xid++) {
            snprintf(text, sizeof text, "NVRM: Xid (PCI:0000:3b:00): %d, x",
                     *xid);
            ok(!xid_parse(text, &event) && event.known &&
                   event.action == want[i].action,
               "Xid %d: %s", *xid, xid_action_names[want[i].action]);
        }
    for (int i = 1; i < xid_rows_n; i++)
        ok(xid_rows[i - 1].xid < xid_rows[i].xid, "Xid %d is in its place",
           xid_rows[i].xid);
}

int main(void)
{
    struct xid_event event;
    check_catalogue();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ok(!xid_parse(lines[i].text, &event) &&
               event.action == lines[i].action &&
               !strcmp(event.device, lines[i].device),
           "%s", lines[i].text);
    for (size_t i = 0; i < sizeof not_lines / sizeof *not_lines; i++)
        ok(xid_parse(not_lines[i], &event) == -1, "not a line: '%s'",
           not_lines[i]);
    xid_parse("NVRM: Xid (PCI:0000:3b:00): 900, x", &event);
    is_int(xid_finding(&event), F_GPU_XID_UNKNOWN, "a number of the future");
    return tap_done();
}
