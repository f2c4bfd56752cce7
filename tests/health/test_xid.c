/* xid: every number of NVIDIA's catalogue (as published in 2025) leads to the
 * action that it should, and only real lines are read. */
#include "health/xid.h"

#include "tests/tap.h"

/* From the catalogue, by action, written apart from the table. */
static const struct {
    enum xid_action action;
    int xids[64]; /* 0 at the end */
} want[] = {
    {XID_APP, {8, 13, 31, 32, 39, 40, 41, 45, 60, 68, 69, 70, 71, 72, 73, 75,
               76, 77, 80, 82, 83, 84, 85, 86, 87, 88, 89, 94, 126, 127, 128, 129,
               130, 131, 132, 133, 134, 135}},
    {XID_IGNORE, {38, 43, 44, 63, 66, 67, 92, 93, 137, 141, 157, 160, 161, 162,
                  163, 164, 165}},
    {XID_RESET, {9, 12, 46, 48, 56, 57, 58, 61, 62, 65, 74, 81, 95, 109, 110,
                 119, 120, 136, 140, 143, 144, 145, 146, 147, 148, 149, 150,
                 155, 156, 158, 168, 169, 171, 172}},
    {XID_REBOOT, {79, 151, 167}},
    {XID_REPLACE, {64}},
    {XID_INSPECT, {54}},
    {XID_SUPPORT, {78, 121, 142, 159}},
    {XID_BY_TEXT, {154}},
};

/* What a number is as a finding, in a line and as the driver's event. */
static const enum finding_code finding_of[XID_ACTION_N] = {
    [XID_IGNORE] = F_GPU_XID_INFO,      [XID_APP] = F_GPU_XID_APP,
    [XID_RESET] = F_GPU_XID,            [XID_REBOOT] = F_GPU_XID_FATAL,
    [XID_REPLACE] = F_GPU_XID_FATAL,    [XID_INSPECT] = F_GPU_XID_UNKNOWN,
    [XID_SUPPORT] = F_GPU_XID_UNKNOWN,  [XID_BY_TEXT] = F_GPU_XID_UNKNOWN,
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

/* Such a line, and the driver's event of that number, mean the action. */
static int means(int xid, enum xid_action action)
{
    char text[128];
    struct xid_event line, event;
    bool by_text = action == XID_BY_TEXT; /* this text says nothing */
    snprintf(text, sizeof text, "NVRM: Xid (PCI:0000:3b:00): %d, x", xid);
    xid_from_number(xid, "0000:3b:00", false, &event);
    return !xid_parse(text, &line) && line.known && *line.what &&
           line.action == (by_text ? XID_SUPPORT : action) &&
           xid_finding(&line) == finding_of[action] && event.known &&
           event.action == (by_text ? XID_IGNORE : action) &&
           xid_finding(&event) ==
               (by_text ? F_GPU_XID_INFO : finding_of[action]);
}

static int times_wanted(int xid)
{
    int n = 0;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (const int *at = want[i].xids; *at; at++)
            n += *at == xid;
    return n;
}

/* Both ways: what is wanted is in the table, and no row is without a wish. */
static void check_catalogue(void)
{
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        for (const int *xid = want[i].xids; *xid; xid++)
            ok(means(*xid, want[i].action), "Xid %d: %s", *xid,
               xid_action_names[want[i].action]);
    for (int i = 0; i < xid_rows_n; i++) {
        is_int(times_wanted(xid_rows[i].xid), 1, "a row is wanted once");
        ok(!i || xid_rows[i - 1].xid < xid_rows[i].xid,
           "Xid %d is in its place", xid_rows[i].xid);
    }
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
