/* node_child - a child with a deadline; see node_child.h. */
#include "runner/supervise/node_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"

static void child_main(int fd, json_t *(*work)(void *), void *ctx)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    json_t *answer = work(ctx);
    char *line = answer ? json_line(answer) : NULL;
    if (line)
        file_write_all(fd, line, strlen(line));
    _exit(line ? 0 : 1);
}

int node_child_start(struct node_child *child, double deadline_s,
                     json_t *(*work)(void *ctx), void *ctx, struct err *err)
{
    int fds[2];
    if (child->pid)
        return err_set(err, "node: a check is still running");
    if (pipe2(fds, O_CLOEXEC))
        return err_set_errno(err, "node: cannot make a pipe");
    pid_t pid = fork();
    if (pid == 0)
        child_main(fds[1], work, ctx);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return err_set_errno(err, "node: cannot start a check");
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    child->pid = pid;
    child->fd = fds[0];
    child->len = 0;
    child->deadline = clock_mono_s() + deadline_s;
    return 0;
}

static void child_end(struct node_child *child, bool kill_it)
{
    if (kill_it)
        kill(-child->pid, SIGKILL);
    for (int i = 0; i < 50; i++) {
        if (waitpid(child->pid, NULL, WNOHANG))
            break;
        clock_sleep_s(0.002);
    }
    close(child->fd);
    child->pid = 0;
}

int node_child_poll(struct node_child *child, double now, json_t **ret,
                    struct err *err)
{
    if (!child->pid)
        return 0;
    ssize_t n = -1;
    while (child->len < sizeof child->text - 1 &&
           (n = read(child->fd, child->text + child->len,
                     sizeof child->text - 1 - child->len)) > 0)
        child->len += (size_t)n;
    bool full = child->len == sizeof child->text - 1;
    if (n < 0 && errno == EAGAIN && now < child->deadline && !full)
        return 0;
    bool late = n < 0 && errno == EAGAIN && !full;
    child_end(child, true);
    child->text[child->len] = 0;
    *ret = NULL;
    if (late)
        err_set(err, "node: the check did not end in time");
    else
        *ret = json_parse(child->text, "answer of the check", err);
    return 1;
}
