/* klog_judge - what the kernel complained of; see klog_judge.h.
 *
 * Patterns are held against the beginning of a line: the kernel prints
 * names of users' programs (15 letters at most, `NAME[PID]: segfault ...`), and
 * no user may get a node drained by choosing one. Devices that users bring
 * (loop, nbd) do not count. The same finding on the same subject is one, with
 * a count.
 */
#include "health/klog_judge.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/str.h"

#define BOOT_BACK_S 30.0 /* lines that much earlier: another boot's before */
#define BURST_S 60.0     /* one program's end is one, however many lines */

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

static void remember(struct klog_judge *judge, enum finding_code code,
                     const char *subject, const char *evidence, double up_s)
{
    struct klog_seen *seen = NULL;
    for (int i = 0; i < judge->seen_n && !seen; i++)
        if (judge->seen[i].code == code &&
            !strcmp(judge->seen[i].subject, subject))
            seen = &judge->seen[i];
    if (!seen) {
        if (judge->seen_n == KLOG_SEEN_MAX)
            return;
        seen = &judge->seen[judge->seen_n++];
        *seen = (struct klog_seen){.code = code};
        str_copy(seen->subject, sizeof seen->subject, subject);
    }
    seen->n++;
    seen->last_s = up_s;
    str_copy(seen->last, sizeof seen->last, evidence);
}

/* ---- Xids: what several of one GPU mean together ---------------------- */

static struct klog_gpu *gpu_of(struct klog_judge *judge, const char *device)
{
    for (int i = 0; i < judge->gpu_n; i++)
        if (!strcmp(judge->gpu[i].device, device))
            return &judge->gpu[i];
    if (judge->gpu_n == KLOG_GPUS_MAX)
        return NULL;
    struct klog_gpu *gpu = &judge->gpu[judge->gpu_n++];
    *gpu = (struct klog_gpu){.app_last_s = -BURST_S};
    str_copy(gpu->device, sizeof gpu->device, device);
    return gpu;
}

void klog_judge_xid(struct klog_judge *judge, const struct xid_event *event,
                    double up_s)
{
    char evidence[160];
    struct klog_gpu *gpu = event->is_switch ? NULL
                                            : gpu_of(judge, event->device);
    if (gpu && (event->xid == XID_GRAPHICS || event->xid == XID_PAGE_FAULT)) {
        gpu->app_n += up_s >= gpu->app_last_s + BURST_S;
        gpu->app_last_s = up_s;
    }
    if (gpu && event->xid == XID_DOUBLE_BIT) {
        gpu->double_bit_n++; /* what it means, those that follow say */
        return;
    }
    if (gpu && (event->xid == XID_REMAPPED || event->xid == XID_REMAP_FAILED))
        gpu->remapped = event->xid;
    snprintf(evidence, sizeof evidence, "%s %d: %s; %s",
             event->is_switch ? "SXid" : "Xid", event->xid,
             event->known ? event->what : "not in the table",
             xid_action_names[event->action]);
    remember(judge, xid_finding(event), event->device, evidence, up_s);
}

/* ---- Lines -------------------------------------------------------------- */

/* A firmware's record number in front: "{12}[Hardware Error]: ...". */
static const char *skip_number(const char *text)
{
    if (*text != '{')
        return text;
    size_t n = strspn(text + 1, "0123456789");
    return n && text[n + 1] == '}' ? text + n + 2 : text;
}

/* What an older boot wrote is nothing of this one's. */
static void notice_boot(struct klog_judge *judge, double up_s)
{
    if (up_s >= 0 && up_s < judge->last_s - BOOT_BACK_S)
        judge->seen_n = judge->gpu_n = 0;
    if (up_s >= 0)
        judge->last_s = up_s;
}

void klog_judge_line(const struct klog_line *line, void *arg)
{
    struct klog_judge *judge = arg;
    const char *text = skip_number(line->text);
    struct xid_event event;
    char subject[64];
    notice_boot(judge, line->up_s);
    if (line->up_s >= 0 && line->up_s <= judge->from_s)
        return;
    if (!xid_parse(text, &event)) {
        klog_judge_xid(judge, &event, line->up_s);
        return;
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        size_t begin_n = strlen(patterns[i].begin);
        if (strncmp(text, patterns[i].begin, begin_n) ||
            (patterns[i].has && !strstr(text + begin_n, patterns[i].has)))
            continue;
        if (!patterns[i].about(text, subject))
            remember(judge, patterns[i].code, subject, text, line->up_s);
        return;
    }
}

void klog_judge_tell(const struct klog_judge *judge, struct findings *findings)
{
    for (int i = 0; i < judge->seen_n; i++) {
        const struct klog_seen *seen = &judge->seen[i];
        findings_add(findings, seen->code, seen->subject,
                     "%d times, last %.0f s after boot: %s", seen->n,
                     seen->last_s, seen->last);
    }
    for (int i = 0; i < judge->gpu_n; i++) {
        const struct klog_gpu *gpu = &judge->gpu[i];
        if (gpu->app_n > 1)
            findings_add(findings, F_GPU_XID_REPEATED, gpu->device,
                         "Xid 13 or 31 at %d times", gpu->app_n);
        if (gpu->double_bit_n)
            findings_add(findings, F_GPU_XID, gpu->device,
                         gpu->remapped == XID_REMAP_FAILED
                             ? "Xid 48 and 64: no row could be remapped; "
                               "replace"
                         : gpu->remapped ? "Xid 48 and 63: a row is remapped "
                                           "by a reset"
                                         : "Xid 48 without 63 or 64: run the "
                                           "field diagnostics");
    }
}
