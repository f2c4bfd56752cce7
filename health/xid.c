/* xid - the table of Xids and reading their lines; see xid.h. */
#include "health/xid.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"

const char *const xid_action_names[XID_ACTION_N] = {
    [XID_IGNORE] = "none",       [XID_APP] = "restart the program",
    [XID_RESET] = "reset GPU",   [XID_REBOOT] = "reboot",
    [XID_REPLACE] = "replace",   [XID_INSPECT] = "inspect",
    [XID_SUPPORT] = "software or support", [XID_BY_TEXT] = "as it says",
};

const struct xid_row xid_rows[] = {
    {8, XID_APP, "GPU stopped processing"},
    {9, XID_RESET, "driver error programming the GPU"},
    {12, XID_RESET, "driver error handling a GPU exception"},
    {13, XID_APP, "graphics engine exception"},
    {31, XID_APP, "memory page fault"},
    {32, XID_APP, "invalid or corrupted push buffer"},
    {38, XID_IGNORE, "driver firmware error"},
    {39, XID_APP, "copy engine exception"},
    {40, XID_APP, "copy engine exception"},
    {41, XID_APP, "copy engine exception"},
    {43, XID_IGNORE, "GPU stopped processing after another fault"},
    {44, XID_IGNORE, "graphics engine fault during context switch"},
    {45, XID_APP, "channels removed after another fault"},
    {46, XID_RESET, "GPU stopped processing"},
    {48, XID_RESET, "double-bit memory error"},
    {54, XID_INSPECT, "auxiliary power is not connected"},
    {56, XID_RESET, "display engine error"},
    {57, XID_RESET, "error programming the memory interface"},
    {58, XID_RESET, "unstable memory interface"},
    {60, XID_APP, "video processor exception"},
    {61, XID_RESET, "internal micro-controller stopped"},
    {62, XID_RESET, "internal micro-controller halt"},
    {63, XID_IGNORE, "memory row remapping or page retirement recorded"},
    {64, XID_REPLACE, "memory row remapping or page retirement failed"},
    {65, XID_RESET, "video processor exception"},
    {66, XID_IGNORE, "illegal access by driver"},
    {67, XID_IGNORE, "illegal access by driver"},
    {68, XID_APP, "video decoder exception"},
    {69, XID_APP, "graphics engine class error"},
    {70, XID_APP, "copy engine exception"},
    {71, XID_APP, "copy engine exception"},
    {72, XID_APP, "copy engine exception"},
    {73, XID_APP, "video encoder exception"},
    {74, XID_RESET, "NVLink error"},
    {75, XID_APP, "copy engine exception"},
    {76, XID_APP, "copy engine exception"},
    {77, XID_APP, "copy engine exception"},
    {78, XID_SUPPORT, "vGPU could not start"},
    {79, XID_REBOOT, "GPU has fallen off the bus"},
    {80, XID_APP, "corrupted data sent to the GPU"},
    {81, XID_RESET, "display subsystem error"},
    {82, XID_APP, "video encoder exception"},
    {83, XID_APP, "video encoder exception"},
    {84, XID_APP, "video encoder exception"},
    {85, XID_APP, "copy engine exception"},
    {86, XID_APP, "image engine exception"},
    {87, XID_APP, "copy engine exception"},
    {88, XID_APP, "video decoder exception"},
    {89, XID_APP, "video decoder exception"},
    {92, XID_IGNORE, "high rate of single-bit memory errors"},
    {93, XID_IGNORE, "non-fatal violation of provisioned InfoROM wear"},
    {94, XID_APP, "contained memory error"},
    {95, XID_RESET, "uncontained memory error"},
    {109, XID_RESET, "context switch timeout"},
    {110, XID_RESET, "security fault"},
    {119, XID_RESET, "timeout of a call to the GPU system processor"},
    {120, XID_RESET, "GPU system processor error"},
    {121, XID_SUPPORT, "chip-to-chip link corrected errors"},
    {126, XID_APP, "engine exception"},
    {127, XID_APP, "engine exception"},
    {128, XID_APP, "engine exception"},
    {129, XID_APP, "engine exception"},
    {130, XID_APP, "engine exception"},
    {131, XID_APP, "engine exception"},
    {132, XID_APP, "engine exception"},
    {133, XID_APP, "engine exception"},
    {134, XID_APP, "engine exception"},
    {135, XID_APP, "engine exception"},
    {136, XID_RESET, "link training failed"},
    {137, XID_IGNORE, "NVLink fault of a peer's privilege"},
    {140, XID_RESET, "unrecovered memory error"},
    {141, XID_IGNORE, "engine note"},
    {142, XID_SUPPORT, "engine fault"},
    {143, XID_RESET, "GPU initialisation failed"},
    {144, XID_RESET, "NVLink SAW error"},
    {145, XID_RESET, "NVLink RLW error"},
    {146, XID_RESET, "NVLink TLW error"},
    {147, XID_RESET, "NVLink TREX error"},
    {148, XID_RESET, "NVLink NVLPW error"},
    {149, XID_RESET, "NVLink NETIR error"},
    {150, XID_RESET, "NVLink MSE error"},
    {151, XID_REBOOT, "key rotation failed"},
    {154, XID_BY_TEXT, "recovery action changed"},
    {155, XID_RESET, "NVLink software-defined error"},
    {156, XID_RESET, "resource retirement event"},
    {157, XID_IGNORE, "resource retirement failure noted"},
    {158, XID_RESET, "fatal timeout of the GPU"},
    {159, XID_SUPPORT, "fault of a memory check"},
    {160, XID_IGNORE, "channel retirement event"},
    {161, XID_IGNORE, "channel retirement failure noted"},
    {162, XID_IGNORE, "power smoothing note"},
    {163, XID_IGNORE, "power smoothing note"},
    {164, XID_IGNORE, "power smoothing note"},
    {165, XID_IGNORE, "power smoothing note"},
    {167, XID_REBOOT, "fatal timeout on the PCI bus"},
    {168, XID_RESET, "errors in the write-protected region"},
    {169, XID_RESET, "internal micro-controller halt"},
    {171, XID_RESET, "detail of a double-bit memory error in DRAM"},
    {172, XID_RESET, "detail of a double-bit memory error in SRAM"},
};
const int xid_rows_n = sizeof xid_rows / sizeof *xid_rows;

/* What the driver writes behind "to 0x1 (...)" of Xid 154. */
static const struct {
    const char *text;
    enum xid_action action;
} by_text[] = {
    {"(None)", XID_IGNORE},
    {"(GPU Reset Required)", XID_RESET},
    {"(Node Reboot Required)", XID_REBOOT},
    {"(Drain P2P)", XID_RESET},
    {"(Drain and Reset)", XID_RESET},
};

static enum xid_action action_by_text(const char *text)
{
    const char *to = strstr(text, " to ");
    for (size_t i = 0; i < sizeof by_text / sizeof *by_text; i++)
        if (to && strstr(to, by_text[i].text))
            return by_text[i].action;
    return XID_SUPPORT;
}

/* "(PCI:ADDRESS): NUMBER," at text; where it ends, or NULL. */
static const char *parse_place(const char *text, struct xid_event *ret)
{
    if (!str_starts(text, "(PCI:"))
        return NULL;
    text += 5;
    size_t n = strspn(text, "0123456789abcdefABCDEF:.");
    if (!n || n >= sizeof ret->device || !str_starts(text + n, "): "))
        return NULL;
    snprintf(ret->device, sizeof ret->device, "%.*s", (int)n, text);
    text += n + 3;
    n = strspn(text, "0123456789");
    if (!n || n > 6 || (text[n] != ',' && text[n]))
        return NULL;
    ret->xid = atoi(text);
    return text + n;
}

static int parse_switch(const char *text, struct xid_event *ret)
{
    text += strlen("nvidia-nvswitch");
    size_t n = strspn(text, "0123456789");
    if (!n || !str_starts(text + n, ": SXid "))
        return -1;
    const char *rest = parse_place(text + n + strlen(": SXid "), ret);
    if (!rest)
        return -1;
    ret->is_switch = true;
    bool fatal = str_starts(rest, ", Fatal");
    ret->action = fatal ? XID_RESET : XID_IGNORE;
    ret->what = fatal ? "fatal fault of an NVSwitch"
                      : "non-fatal fault of an NVSwitch";
    ret->known = true;
    return 0;
}

static void look_up(struct xid_event *ret)
{
    for (int i = 0; i < xid_rows_n; i++) {
        if (xid_rows[i].xid != ret->xid)
            continue;
        ret->action = xid_rows[i].action;
        ret->what = xid_rows[i].what;
        ret->known = true;
    }
}

/* NVLink's of newer GPUs: some are fatal and some not, as their text says. */
static bool is_by_severity(int xid)
{
    return xid >= 144 && xid <= 150;
}

void xid_from_number(int xid, const char *device, bool has_fields,
                     struct xid_event *ret)
{
    *ret = (struct xid_event){.what = "", .action = XID_SUPPORT, .xid = xid};
    str_copy(ret->device, sizeof ret->device, device);
    look_up(ret);
    if (ret->action == XID_BY_TEXT || (is_by_severity(xid) && has_fields))
        ret->action = XID_IGNORE;
}

int xid_parse(const char *text, struct xid_event *ret)
{
    *ret = (struct xid_event){.what = "", .action = XID_SUPPORT};
    if (str_starts(text, "nvidia-nvswitch"))
        return parse_switch(text, ret);
    if (!str_starts(text, "NVRM: Xid "))
        return -1;
    const char *rest = parse_place(text + strlen("NVRM: Xid "), ret);
    if (!rest)
        return -1;
    look_up(ret);
    if (ret->action == XID_BY_TEXT)
        ret->action = action_by_text(rest);
    if (is_by_severity(ret->xid) && strcasestr(rest, "nonfatal"))
        ret->action = XID_IGNORE;
    return 0;
}

enum finding_code xid_finding(const struct xid_event *event)
{
    if (event->is_switch)
        return event->action == XID_RESET ? F_NVSWITCH_SXID : F_GPU_XID_INFO;
    if (!event->known)
        return F_GPU_XID_UNKNOWN;
    switch (event->action) {
    case XID_IGNORE:
        return F_GPU_XID_INFO;
    case XID_APP:
        return F_GPU_XID_APP;
    case XID_RESET:
        return F_GPU_XID;
    case XID_REBOOT:
    case XID_REPLACE:
        return F_GPU_XID_FATAL;
    default:
        return F_GPU_XID_UNKNOWN;
    }
}
