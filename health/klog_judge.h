/* klog_judge - findings from lines of the kernel's log and from Xids, as they
 * come. Private to health. Starts as zeroes.
 */
#ifndef KB_HEALTH_KLOG_JUDGE_H
#define KB_HEALTH_KLOG_JUDGE_H

#include "health/klog.h"
#include "health/probe.h"
#include "health/xid.h"

enum { KLOG_SEEN_MAX = 128, KLOG_GPUS_MAX = 64 };

struct klog_seen {
    enum finding_code code;
    char subject[64];
    char last[160];
    double last_s;
    int n;
};

struct klog_gpu {
    char device[32];
    int app_n;         /* times that a program was stopped with 13 or 31 */
    double app_last_s;
    int double_bit_n;  /* 48 */
    int remapped;      /* 63 or 64; 0: neither came */
};

struct klog_judge {
    double from_s; /* lines up to this uptime are old */
    double last_s;
    struct klog_seen seen[KLOG_SEEN_MAX];
    int seen_n;
    struct klog_gpu gpu[KLOG_GPUS_MAX];
    int gpu_n;
};

/* arg: the judge; as klog_read wants it. */
void klog_judge_line(const struct klog_line *line, void *arg);
void klog_judge_xid(struct klog_judge *judge, const struct xid_event *event,
                    double up_s);
/* All that was seen so far. */
void klog_judge_tell(const struct klog_judge *judge, struct findings *findings);

#endif
