/* klog - the kernel's log as lines with times: records of /dev/kmsg, or the
 * text that dmesg prints as a stand-in. Never waits for a line to come.
 */
#ifndef KB_HEALTH_KLOG_H
#define KB_HEALTH_KLOG_H

#include "health/source.h"

#define KLOG_LINE_BYTES 1024

struct klog_line {
    double up_s;                 /* seconds after boot; -1: not known */
    int64_t seq;                 /* the record's number; -1: not known */
    char text[KLOG_LINE_BYTES];  /* cut if longer */
};

/* One record or dmesg line, bytes long, without its line end; 0, or -1 for
 * what is none (a continuation, dictionary of a record). */
int klog_parse(const char *line, size_t bytes, struct klog_line *ret);
/* All lines to see, oldest first. 0, or -1 with errno: not readable. */
int klog_read(const struct source *source,
              void (*see)(const struct klog_line *line, void *arg), void *arg);


/* New lines as they come. */
struct klog_follow {
    int fd;
    bool is_file; /* the stand-in: looked at again and again */
    char part[KLOG_LINE_BYTES];
    size_t part_n;
};
/* From the log's end; 0, or -1 with errno. */
int klog_follow_open(const struct source *source, struct klog_follow *ret);
/* Waits for lines, at most timeout_s. How many came, or -1. */
int klog_follow_wait(struct klog_follow *follow, double timeout_s,
                     void (*see)(const struct klog_line *line, void *arg),
                     void *arg);

#endif
