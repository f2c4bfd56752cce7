/* proc - a bounded child: its own process group, a deadline, capped output.
 *
 * The child is killed (SIGTERM, then SIGKILL to the group) at its deadline.
 * After SIGKILL at most PROC_REAP_S are waited; a child in uninterruptible
 * sleep is left behind and told in the result. Never blocks past
 * deadline + grace + PROC_REAP_S. Uses libc only, starts no thread and never
 * touches the caller's signal handlers: the Slurm plugin calls it.
 */
#ifndef KB_BASE_PROC_H
#define KB_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

#define PROC_REAP_S 1.0

struct proc_spec {
    const char *const *argv; /* argv[0] is a path, NULL at the end */
    const char *const *envp; /* NULL: the caller's environment */
    const char *stdin_text;  /* NULL: /dev/null */
    double deadline_s;       /* 0: no deadline */
    double term_grace_s;     /* between SIGTERM and SIGKILL */
    size_t out_max_bytes;    /* kept of stdout, and of stderr; rest dropped */
    bool merge_stderr;       /* stderr into out */
    uid_t uid;               /* with set_user: become this user first */
    gid_t gid;
    bool set_user;
};

struct proc_result {
    bool timed_out; /* the deadline passed and it was killed */
    bool left;      /* not gone after SIGKILL: left behind */
    int exit_code;  /* -1 unless it exited */
    int signal;     /* 0 unless a signal ended it */
    double wall_s;
    struct sbuf out; /* owned: proc_result_release */
    struct sbuf err;
};

/* 0 when the child ran (whatever came of it), -1 when it could not start. */
int proc_run(const struct proc_spec *spec, struct proc_result *ret,
             struct err *err);
void proc_result_release(struct proc_result *result);
/* Processors that this process may run on, at least 1. */
int proc_cores(void);
/* "exited with 3" | "was killed by signal 9" | "took longer than 5 s". */
const char *proc_result_text(const struct proc_result *result, char *buf,
                             size_t buf_bytes);

#endif
