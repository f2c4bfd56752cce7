/* proc - a bounded child; see proc.h.
 *
 * One poll loop watches the child's output and the clock; waitid() without
 * waiting tells when it is gone, so no SIGCHLD handler is needed. Standard
 * input is a file in memory, so that nothing is ever written to a pipe and no
 * SIGPIPE can reach the caller. A pipe that exec closes carries errno when the
 * program could not be run; it is polled like the others, because exec itself
 * may hang on a dead file server. When the child has ended, what is left of
 * its process group is killed before it is reaped, while the number of the
 * group cannot have been taken by another.
 */
#include "runner/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"

extern char **environ;

#define TICK_MAX_S 0.02 /* how late an exit may be seen that closes no pipe */

enum { PIPE_OUT, PIPE_ERR, PIPE_EXEC, PIPE_N };

struct child {
    pid_t pid;
    int fd[PIPE_N];  /* our ends; -1 once at their end */
    int exec_errno;  /* why the program could not be run; 0 so far */
    const char *exec_what;
};

/* What the child writes into PIPE_EXEC when it cannot become the program. */
struct exec_failure {
    int sys_errno;
    int stage;
};
static const char *const stages[] = {"cannot become the user for",
                                     "cannot wire the streams of",
                                     "cannot run"};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- The child's side: async-signal-safe calls only -------------------- */

static void close_from(int first)
{
#ifdef SYS_close_range
    if (!syscall(SYS_close_range, (unsigned)first, ~0u, 0u))
        return;
#endif
    struct rlimit limit;
    int last = 65536;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < 65536)
        last = (int)limit.rlim_cur;
    for (int fd = first; fd < last; fd++)
        close(fd);
}

static int become_user(const struct proc_spec *spec)
{
    if (!spec->set_user)
        return 0;
    if (getuid() == spec->uid && geteuid() == spec->uid &&
        getgid() == spec->gid)
        return 0;
    if (setgroups(1, &spec->gid) || setresgid(spec->gid, spec->gid, spec->gid))
        return -1;
    return setresuid(spec->uid, spec->uid, spec->uid);
}

/* fds[0..2] become the standard streams, fds[3] stays as 3 (closed by exec).
 * First all of them are moved above 3, so that none is written over. */
static int wire_streams(int fds[4])
{
    for (int i = 0; i < 4; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 10);
        if (fds[i] < 0)
            return -1;
    }
    for (int i = 0; i < 4; i++)
        if (dup2(fds[i], i) < 0)
            return -1;
    fds[3] = 3;
    return fcntl(3, F_SETFD, FD_CLOEXEC);
}

static void run_child(const struct proc_spec *spec, int fds[4])
{
    struct exec_failure failure = {0};
    setpgid(0, 0);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    failure.stage = 1;
    if (wire_streams(fds))
        goto fail;
    close_from(4);
    failure.stage = 0;
    if (become_user(spec))
        goto fail;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    failure.stage = 2;
    execve(spec->argv[0], (char *const *)spec->argv,
           spec->envp ? (char *const *)spec->envp : environ);
fail:
    failure.sys_errno = errno;
    if (write(fds[3], &failure, sizeof failure) < 0)
        _exit(126);
    _exit(127);
}

/* ---- The parent's side -------------------------------------------------- */

static int open_stdin(const char *text)
{
    if (!text)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("stdin", MFD_CLOEXEC);
    size_t len = strlen(text), done = 0;
    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            close_fd(&fd);
            break;
        }
        done += (size_t)n;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET))
        close_fd(&fd);
    return fd;
}

static int start(const struct proc_spec *spec, struct child *child,
                 struct err *err)
{
    int rc = -1;
    int in = -1, ends[PIPE_N][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    sigset_t all, before;

    in = open_stdin(spec->stdin_text);
    if (in < 0) {
        err_set_errno(err, "proc: cannot open the input of '%s'",
                      spec->argv[0]);
        goto out;
    }
    for (int i = 0; i < PIPE_N; i++)
        if (pipe2(ends[i], O_CLOEXEC) ||
            fcntl(ends[i][0], F_SETFL, O_NONBLOCK)) {
            err_set_errno(err, "proc: cannot make a pipe for '%s'",
                          spec->argv[0]);
            goto out;
        }
    /* No handler of the caller's may run in the child before exec. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    child->pid = fork();
    if (!child->pid) {
        int fds[4] = {in, ends[PIPE_OUT][1],
                      ends[spec->merge_stderr ? PIPE_OUT : PIPE_ERR][1],
                      ends[PIPE_EXEC][1]};
        run_child(spec, fds);
    }
    int fork_errno = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child->pid < 0) {
        errno = fork_errno;
        err_set_errno(err, "proc: cannot fork for '%s'", spec->argv[0]);
        goto out;
    }
    setpgid(child->pid, child->pid); /* both sides: whoever comes first */
    for (int i = 0; i < PIPE_N; i++) {
        child->fd[i] = ends[i][0];
        ends[i][0] = -1;
    }
    rc = 0;
out:
    close_fd(&in);
    for (int i = 0; i < PIPE_N; i++) {
        close_fd(&ends[i][0]);
        close_fd(&ends[i][1]);
    }
    return rc;
}

/* All that can be read now from one pipe; past `max` it is dropped. */
static void drain(struct child *child, int which, struct sbuf *to, size_t max)
{
    char buf[16384];
    for (int i = 0; i < 64 && child->fd[which] >= 0; i++) {
        ssize_t n = read(child->fd[which], buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close_fd(&child->fd[which]);
        } else if (which == PIPE_EXEC) {
            struct exec_failure failure;
            memcpy(&failure, buf, sizeof failure);
            child->exec_errno = failure.sys_errno;
            child->exec_what = stages[failure.stage];
        } else {
            size_t room = to->len < max ? max - to->len : 0;
            sbuf_add(to, buf, (size_t)n < room ? (size_t)n : room);
        }
    }
}

static void drain_all(struct child *child, const struct proc_spec *spec,
                      struct proc_result *result)
{
    drain(child, PIPE_EXEC, NULL, 0);
    drain(child, PIPE_OUT, &result->out, spec->out_max_bytes);
    drain(child, PIPE_ERR, &result->err, spec->out_max_bytes);
}

/* True once the child has ended, without reaping it. Another waiter of the
 * caller's may have taken it (ECHILD): ended too. */
static bool has_ended(const struct child *child)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT))
        return errno == ECHILD;
    return info.si_pid == child->pid;
}

/* Wait for output or the end until `until` (0: no limit). True: ended. */
static bool watch(struct child *child, const struct proc_spec *spec,
                  struct proc_result *result, double until)
{
    double tick = 0.001;
    for (;;) {
        drain_all(child, spec, result);
        if (has_ended(child))
            return true;
        double left = until > 0 ? until - clock_mono_s() : tick;
        if (left <= 0)
            return false;
        struct pollfd fds[PIPE_N];
        for (int i = 0; i < PIPE_N; i++)
            fds[i] = (struct pollfd){child->fd[i], POLLIN, 0};
        double wait_s = left < tick ? left : tick;
        int n = poll(fds, PIPE_N, (int)(wait_s * 1000) + 1);
        tick = n > 0 ? 0.001 : tick * 2 < TICK_MAX_S ? tick * 2 : TICK_MAX_S;
    }
}

/* Until the end or the deadline, then TERM, then KILL. */
static void bound(struct child *child, const struct proc_spec *spec,
                  struct proc_result *result, double begin)
{
    double until = spec->deadline_s > 0 ? begin + spec->deadline_s : 0;
    if (watch(child, spec, result, until))
        return;
    result->timed_out = true;
    kill(-child->pid, SIGTERM);
    kill(-child->pid, SIGCONT); /* a stopped child cannot die of TERM */
    if (spec->term_grace_s > 0 &&
        watch(child, spec, result, clock_mono_s() + spec->term_grace_s))
        return;
    kill(-child->pid, SIGKILL);
    result->left = !watch(child, spec, result, clock_mono_s() + PROC_REAP_S);
}

static void reap(struct child *child, struct proc_result *result)
{
    int status;
    siginfo_t info = {0};
    if (result->left || waitid(P_PID, (id_t)child->pid, &info,
                               WEXITED | WNOHANG | WNOWAIT))
        return; /* not ours any more: the number may be another's */
    kill(-child->pid, SIGKILL); /* what it left in its group */
    if (waitpid(child->pid, &status, WNOHANG) != child->pid)
        return;
    if (WIFEXITED(status))
        result->exit_code = WEXITSTATUS(status);
    else if (WIFSIGNALED(status))
        result->signal = WTERMSIG(status);
}

int proc_run(const struct proc_spec *spec, struct proc_result *ret,
             struct err *err)
{
    struct child child = {.pid = -1, .fd = {-1, -1, -1}};
    struct proc_result result = {.exit_code = -1, .out = SBUF_INIT,
                                 .err = SBUF_INIT};
    double begin = clock_mono_s();

    if (!spec->argv || !spec->argv[0])
        return err_set(err, "proc: no program to run");
    if (start(spec, &child, err))
        return -1;
    bound(&child, spec, &result, begin);
    reap(&child, &result);
    drain_all(&child, spec, &result);
    for (int i = 0; i < PIPE_N; i++)
        close_fd(&child.fd[i]);
    result.wall_s = clock_mono_s() - begin;
    if (child.exec_errno) {
        errno = child.exec_errno;
        err_set_errno(err, "proc: %s '%s'", child.exec_what, spec->argv[0]);
        proc_result_release(&result);
        return -1;
    }
    *ret = result;
    return 0;
}

void proc_result_release(struct proc_result *result)
{
    if (!result)
        return;
    sbuf_release(&result->out);
    sbuf_release(&result->err);
}

const char *proc_result_text(const struct proc_result *result, char *buf,
                             size_t buf_bytes)
{
    if (result->left)
        snprintf(buf, buf_bytes, "could not be killed after %.3g s",
                 result->wall_s);
    else if (result->timed_out)
        snprintf(buf, buf_bytes, "took longer than %.3g s", result->wall_s);
    else if (result->signal)
        snprintf(buf, buf_bytes, "was killed by signal %d", result->signal);
    else if (result->exit_code >= 0)
        snprintf(buf, buf_bytes, "exited with %d", result->exit_code);
    else
        snprintf(buf, buf_bytes, "ended with an unknown status");
    return buf;
}

int proc_cores(void)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (!sched_getaffinity(0, sizeof set, &set))
        return CPU_COUNT(&set);
    return online > 0 ? (int)online : 1; /* more than fit into a set */
}
