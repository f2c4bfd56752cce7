/* child - a probe in a process of its own, and what it tells through a pipe.
 *
 * A child writes records of one size and ends with _exit. What it wrote before
 * it hung or crashed counts; half a record does not, and nothing in one is
 * trusted to be in range. One that SIGKILL does not end at once (it sleeps in a
 * driver) is left behind.
 */
#ifndef KB_HEALTH_CHILD_H
#define KB_HEALTH_CHILD_H

#include <sys/types.h>

#include "health/probe.h"

enum record_kind {
    RECORD_FINDING, /* code, subject, evidence */
    RECORD_SKIP,    /* why */
    RECORD_NOTE,    /* name, value */
    RECORD_FIGURE,  /* name, subject in text, unit, value */
    RECORD_AT,      /* what is tried now */
    RECORD_GPU,     /* one line of struct health_gpu */
    RECORD_COUNT,   /* subject, "COUNTER VALUE" */
    RECORD_EVENT,   /* subject, "CODE N": for the history */
    RECORD_ROUND,   /* a watch's round is over; "SECONDS" to the next word */
};

/* Through the pipe; smaller than PIPE_BUF, so written whole. */
struct record {
    int kind;
    int code; /* enum finding_code */
    double value;
    char unit[16];
    char name[96];
    char text[256];
};

struct child {
    pid_t pid; /* 0: ended and reaped */
    int fd;    /* -1: at its end */
    double begin_s, limit_s;
    char at[96]; /* ", at WHAT" it said it tries */
    char part[sizeof(struct record)]; /* of the record that is coming */
    size_t part_n;
};

/* Runs `run` in a child; limit_s is its deadline from now. */
int child_start(struct child *child,
                void (*run)(const struct look *look, struct findings *),
                const struct look *look, double limit_s, struct err *err);
/* Takes what is there; at its end fd becomes -1. RECORD_AT is kept in `at`. */
void child_read(struct child *child,
                void (*take)(void *ctx, const struct record *record),
                void *ctx);
/* SIGKILL, and no more is read. It is still to be reaped. */
void child_kill(struct child *child);
/* True when it is gone: *ret_status as of waitpid, -1 if it is not known. */
bool child_reap(struct child *child, int *ret_status);
/* "signal 9, at X" | "exit code 3", "" for a clean end. */
void child_end_text(const struct child *child, int status, char *dst,
                    size_t dst_bytes);

#endif
