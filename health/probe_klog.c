/* probe_klog - what the kernel complained of.
 *
 * Lines older than the window, or settled by somebody (klog_after_s), are left
 * out. Patterns are held against the beginning of a line: the kernel prints
 * names of users' programs (15 letters at most, `NAME[PID]: segfault ...`), and
 * no user may get a node drained by choosing one. Devices that users bring
 * (loop, nbd) do not count. The same finding on the same subject is one, with
 * a count.
 */
#include "health/probe.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/klog.h"
#include "health/xid.h"
#include "runner/base/str.h"

enum { SEEN_MAX = 128 };

struct seen {
    enum finding_code code;
    char subject[64];
    char last[160];
    double last_s;
    int n;
};

struct state {
    double from_s; /* lines before are old */
    struct seen seen[SEEN_MAX];
    int seen_n;
};

/* ---- Whom a line is about: 0 and the name, -1: not such a line ------ */

static int about_node(const char *text, char *dst)
{
    str_copy(dst, 64, "node");
    return 0;
}

static bool is_users_disk(const char *name)
{
    static const char *const users[] = {"loop", "nbd", "zram", "ram",
                                        "sr",   "fd",  "rbd"};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (str_starts(name, users[i]))
            return true;
    return false;
}

/* The word behind `mark`, of letters that disks' names have. */
static int word_after(const char *text, const char *mark, char *dst)
{
    const char *p = strstr(text, mark);
    if (!p)
        return -1;
    p += strlen(mark);
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || (p[n] && strchr("-_.:!", p[n])))
        n++;
    while (n && p[n - 1] == ':')
        n--;
    if (!n || n >= 64)
        return -1;
    snprintf(dst, 64, "%.*s", (int)n, p);
    return 0;
}

static int about_disk(const char *text, char *dst)
{
    static const char *const marks[] = {", dev ", "(device ", "XFS (",
                                        "on dev "};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (!word_after(text, marks[i], dst))
            return is_users_disk(dst) ? -1 : 0;
    return -1;
}

static int about_pci(const char *text, char *dst)
{
    return word_after(text, " ", dst);
}

static int about_server(const char *text, char *dst)
{
    return word_after(text, "server ", dst);
}

/* ---- The patterns --------------------------------------------------- */

static const struct {
    const char *begin; /* longer than a program's name may be, or strict */
    const char *has;   /* somewhere behind; NULL: nothing more */
    enum finding_code code;
    int (*about)(const char *text, char *dst);
} patterns[] = {
    {"I/O error, dev ", ", sector ", F_KLOG_IO_ERROR, about_disk},
    {"blk_update_request: I/O error, dev ", NULL, F_KLOG_IO_ERROR, about_disk},
    {"blk_update_request: critical medium error, dev ", NULL, F_KLOG_IO_ERROR,
     about_disk},
    {"critical medium error, dev ", NULL, F_KLOG_IO_ERROR, about_disk},
    {"Buffer I/O error on dev ", NULL, F_KLOG_IO_ERROR, about_disk},
    {"EXT4-fs error (device ", NULL, F_KLOG_FS_ERROR, about_disk},
    {"EXT4-fs (", "Remounting filesystem read-only", F_KLOG_FS_ERROR,
     about_node},
    {"XFS (", "Corruption", F_KLOG_FS_ERROR, about_disk},
    {"XFS (", "metadata I/O error", F_KLOG_FS_ERROR, about_disk},
    {"BTRFS error (device ", NULL, F_KLOG_FS_ERROR, about_disk},
    {"watchdog: BUG: soft lockup - CPU#", NULL, F_KLOG_LOCKUP, about_node},
    {"NMI watchdog: Watchdog detected hard LOCKUP", NULL, F_KLOG_LOCKUP,
     about_node},
    {"watchdog: Watchdog detected hard LOCKUP", NULL, F_KLOG_LOCKUP,
     about_node},
    {"rcu: INFO: rcu_", "detected stalls on CPUs", F_KLOG_LOCKUP, about_node},
    {"INFO: task ", " blocked for more than ", F_KLOG_HUNG_TASK, about_node},
    {"mce: [Hardware Error]: ", "Machine Check Exception",
     F_KLOG_MACHINE_CHECK, about_node},
    {"mce: Uncorrected hardware memory error", NULL, F_KLOG_MACHINE_CHECK,
     about_node},
    {"[Hardware Error]: Uncorrected", NULL, F_KLOG_MACHINE_CHECK, about_node},
    {"[Hardware Error]: event severity: fatal", NULL, F_KLOG_MACHINE_CHECK,
     about_node},
    {"[Hardware Error]: event severity: recoverable", NULL,
     F_KLOG_MACHINE_CHECK, about_node},
    {"mce: [Hardware Error]: Machine check events logged", NULL,
     F_KLOG_HW_CORRECTED, about_node},
    {"[Hardware Error]: event severity: corrected", NULL, F_KLOG_HW_CORRECTED,
     about_node},
    {"Out of memory: Killed process ", NULL, F_KLOG_OOM, about_node},
    {"Memory cgroup out of memory: Killed process ", NULL, F_KLOG_OOM,
     about_node},
    {"BUG: unable to handle ", NULL, F_KLOG_OOPS, about_node},
    {"BUG: kernel NULL pointer dereference", NULL, F_KLOG_OOPS, about_node},
    {"kernel BUG at ", "/", F_KLOG_OOPS, about_node},
    {"pcieport ", "Uncorrected (Fatal)", F_KLOG_PCIE_FATAL, about_pci},
    {"pcieport ", "Uncorrectable (Fatal)", F_KLOG_PCIE_FATAL, about_pci},
    {"pcieport ", "orrected error", F_KLOG_PCIE_ERRORS, about_pci},
    {"nfs: server ", " not responding", F_KLOG_STORAGE_SILENT, about_server},
};

static void remember(struct state *state, enum finding_code code,
                     const char *subject, const char *evidence,
                     const struct klog_line *line)
{
    struct seen *seen = NULL;
    for (int i = 0; i < state->seen_n && !seen; i++)
        if (state->seen[i].code == code &&
            !strcmp(state->seen[i].subject, subject))
            seen = &state->seen[i];
    if (!seen) {
        if (state->seen_n == SEEN_MAX)
            return;
        seen = &state->seen[state->seen_n++];
        *seen = (struct seen){.code = code};
        str_copy(seen->subject, sizeof seen->subject, subject);
    }
    seen->n++;
    seen->last_s = line->up_s;
    str_copy(seen->last, sizeof seen->last, evidence);
}

/* A firmware's record number in front: "{12}[Hardware Error]: ...". */
static const char *skip_number(const char *text)
{
    if (*text != '{')
        return text;
    size_t n = strspn(text + 1, "0123456789");
    return n && text[n + 1] == '}' ? text + n + 2 : text;
}

static void see_line(const struct klog_line *line, void *arg)
{
    struct state *state = arg;
    const char *text = skip_number(line->text);
    struct xid_event event;
    char subject[64], evidence[160];
    if (line->up_s >= 0 && line->up_s <= state->from_s)
        return;
    if (!xid_parse(text, &event)) {
        snprintf(evidence, sizeof evidence, "%s %d: %s; %s",
                 event.is_switch ? "SXid" : "Xid", event.xid,
                 event.known ? event.what : "not in the table",
                 xid_action_names[event.action]);
        remember(state, xid_finding(&event), event.device, evidence, line);
        return;
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        size_t begin_n = strlen(patterns[i].begin);
        if (strncmp(text, patterns[i].begin, begin_n) ||
            (patterns[i].has && !strstr(text + begin_n, patterns[i].has)))
            continue;
        if (!patterns[i].about(text, subject))
            remember(state, patterns[i].code, subject, text, line);
        return;
    }
}

static double uptime_s(const struct source *source)
{
    char text[64];
    double up_s;
    if (source_read(source, text, sizeof text, "/proc/uptime") ||
        sscanf(text, "%lf", &up_s) != 1)
        return 0;
    return up_s;
}

void probe_klog(const struct look *look, struct findings *findings)
{
    static struct state state;
    state.from_s = uptime_s(&look->source) - conf_real(look->site,
                                                       "klog.window");
    if (state.from_s < look->klog_after_s)
        state.from_s = look->klog_after_s;
    if (klog_read(&look->source, see_line, &state)) {
        if (errno == ENOENT && !source_is_live(&look->source))
            findings_skip(findings, "not recorded");
        else
            findings_add(findings, F_KLOG_UNREADABLE, "node", "%s",
                         strerror(errno));
        return;
    }
    for (int i = 0; i < state.seen_n; i++) {
        const struct seen *seen = &state.seen[i];
        findings_add(findings, seen->code, seen->subject,
                     "%d times, last %.0f s after boot: %s", seen->n,
                     seen->last_s, seen->last);
    }
}
