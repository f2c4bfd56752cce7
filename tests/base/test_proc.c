/* Tests of runner/base/proc.c: real children, good and bad ones. */
#include "runner/base/clock.h"
#include "runner/base/proc.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run a shell line with these limits; 0 when it ran. */
static int run_sh(const char *line, double deadline_s, double grace_s,
                  struct proc_result *ret)
{
    const char *argv[] = {"/bin/sh", "-c", line, NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = deadline_s,
                             .term_grace_s = grace_s, .out_max_bytes = 1000};
    struct err err = ERR_INIT;
    return proc_run(&spec, ret, &err);
}

static void test_ends(void)
{
    struct proc_result r;
    char text[80];
    is_int(run_sh("echo out; echo err >&2; exit 3", 10, 1, &r), 0, "it ran");
    is_int(r.exit_code, 3, "exit code");
    is_str(r.out.data, "out\n", "stdout");
    is_str(r.err.data, "err\n", "stderr apart");
    is_str(proc_result_text(&r, text, sizeof text), "exited with 3", "text");
    proc_result_release(&r);

    run_sh("kill -SEGV $$", 10, 1, &r);
    is_int(r.signal, SIGSEGV, "signal");
    is_int(r.exit_code, -1, "no exit code with a signal");
    is_str(proc_result_text(&r, text, sizeof text), "was killed by signal 11",
           "text of a signal");
    proc_result_release(&r);

    const char *argv[] = {"/bin/cat", NULL};
    struct proc_spec spec = {.argv = argv, .stdin_text = "hello",
                             .deadline_s = 10, .out_max_bytes = 1000};
    ok(!proc_run(&spec, &r, NULL) && !strcmp(r.out.data, "hello"),
       "standard input arrives, then ends");
    proc_result_release(&r);

    const char *both[] = {"/bin/sh", "-c", "echo a; echo b >&2; echo c", NULL};
    spec = (struct proc_spec){.argv = both, .deadline_s = 10,
                              .merge_stderr = true, .out_max_bytes = 1000};
    ok(!proc_run(&spec, &r, NULL) && !strcmp(r.out.data, "a\nb\nc\n"),
       "merged output keeps its order");
    proc_result_release(&r);

    const char *env[] = {"A=1", NULL}, *show[] = {"/usr/bin/env", NULL};
    spec = (struct proc_spec){.argv = show, .envp = env, .deadline_s = 10,
                              .out_max_bytes = 1000};
    ok(!proc_run(&spec, &r, NULL) && !strcmp(r.out.data, "A=1\n"),
       "only the environment given");
    proc_result_release(&r);
}

static void test_cannot_start(void)
{
    const char *argv[] = {"/nowhere/program", NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = 5};
    struct proc_result r;
    struct err err = ERR_INIT;
    is_int(proc_run(&spec, &r, &err), -1, "a missing program cannot start");
    is_str(err.msg,
           "proc: cannot run '/nowhere/program': No such file or directory",
           "and its message says so");
    is_int(err.sys_errno, ENOENT, "with errno");
    const char *none[] = {NULL};
    spec.argv = none;
    is_int(proc_run(&spec, &r, NULL), -1, "an empty argv is refused");
    ok(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
       "no child is left");
}

static void test_deadline(void)
{
    struct proc_result r;
    char text[80];
    double begin = clock_mono_s();
    is_int(run_sh("sleep 60", 0.2, 1, &r), 0, "a slow child runs");
    double took = clock_mono_s() - begin;
    ok(r.timed_out && !r.left && took >= 0.2 && took < 1,
       "ended by TERM at its deadline (%.2f s)", took);
    ok(str_starts(proc_result_text(&r, text, sizeof text), "took longer"),
       "text of a deadline");
    proc_result_release(&r);

    begin = clock_mono_s();
    run_sh("trap '' TERM; echo up; while :; do sleep 0.1; done", 0.3, 0.3, &r);
    took = clock_mono_s() - begin;
    ok(r.timed_out && r.signal == SIGKILL && took >= 0.6 && took < 1.6,
       "one that ignores TERM is killed after the grace (%.2f s)", took);
    is_str(r.out.data, "up\n", "what it had written is there");
    proc_result_release(&r);

    begin = clock_mono_s();
    run_sh("kill -STOP $$", 0.3, 0.3, &r);
    took = clock_mono_s() - begin;
    ok(r.timed_out && !r.left && took < 1.5, "a stopped one ends too");
    proc_result_release(&r);
}

/* Is the process whose number the child printed gone (or a zombie)? */
static bool gone(const char *text)
{
    long pid = strtol(text, NULL, 10);
    for (int i = 0; i < 50; i++, clock_sleep_s(0.02)) {
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        FILE *f = fopen(path, "r");
        if (!f)
            return true;
        if (!fgets(line, sizeof line, f))
            line[0] = 0;
        fclose(f);
        char *state = strrchr(line, ')');
        if (!state || state[2] == 'Z' || state[2] == 'X')
            return true;
    }
    return false;
}

static void test_group(void)
{
    struct proc_result r;
    double begin = clock_mono_s();
    run_sh("sleep 60 & echo $!; exit 0", 10, 1, &r);
    ok(r.exit_code == 0 && clock_mono_s() - begin < 2,
       "a grandchild that keeps the pipe does not hold us");
    ok(gone(r.out.data), "and is ended with its group");
    proc_result_release(&r);
    run_sh("sleep 60 & echo $!; wait", 0.3, 0.2, &r);
    ok(r.timed_out && gone(r.out.data), "a deadline ends the whole group");
    proc_result_release(&r);
}

static void test_output(void)
{
    struct proc_result r;
    is_int(run_sh("head -c 300000 /dev/zero | tr '\\0' x", 10, 1, &r), 0,
           "a talkative child");
    ok(r.out.len == 1000 && r.exit_code == 0,
       "is kept to its cap and not blocked");
    proc_result_release(&r);
    run_sh("yes", 0.2, 0.2, &r);
    ok(r.timed_out && r.out.len == 1000, "an endless one meets its deadline");
    proc_result_release(&r);
}

static int handled;
static void handler(int sig)
{
    handled = sig;
}

static void test_caller(void)
{
    struct proc_result r;
    struct sigaction before, after;
    signal(SIGUSR1, handler);
    sigset_t mask, now;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGCHLD, NULL, &before);
    run_sh("kill -USR2 $$; echo alive", 10, 1, &r);
    is_int(r.signal, SIGUSR2, "the child has no blocked signals");
    proc_result_release(&r);
    sigaction(SIGCHLD, NULL, &after);
    ok(before.sa_handler == after.sa_handler, "SIGCHLD is untouched");
    sigprocmask(SIG_SETMASK, NULL, &now);
    ok(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGTERM),
       "the caller's mask is as before");
    sigemptyset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);

    int fd = open("/dev/null", O_RDONLY);
    run_sh("ls /proc/self/fd | wc -l", 10, 1, &r);
    is_int(strtol(r.out.data, NULL, 10), 4, "no descriptor leaks");
    proc_result_release(&r);
    close(fd);

    int low[3];
    for (int i = 0; i < 3; i++)
        low[i] = fcntl(i, F_DUPFD, 20);
    close(0);
    run_sh("echo fine", 10, 1, &r);
    dup2(low[0], 0);
    is_str(r.out.data, "fine\n", "works with standard input closed");
    proc_result_release(&r);
    for (int i = 0; i < 3; i++)
        close(low[i]);

    signal(SIGCHLD, SIG_IGN);
    double begin = clock_mono_s();
    run_sh("exit 3", 10, 1, &r);
    ok(!r.timed_out && clock_mono_s() - begin < 2 && r.exit_code == -1,
       "a caller that ignores SIGCHLD is not held");
    proc_result_release(&r);
    signal(SIGCHLD, SIG_DFL);
    is_int(handled, 0, "no handler of the caller ran");
}

static void test_user(void)
{
    if (geteuid()) {
        ok(1, "# SKIP not root");
        return;
    }
    const char *argv[] = {"/bin/sh", "-c", "id -u; id -g; id -G", NULL};
    struct proc_spec spec = {.argv = argv, .deadline_s = 5,
                             .out_max_bytes = 100, .set_user = true,
                             .uid = 65534, .gid = 65534};
    struct proc_result r;
    ok(!proc_run(&spec, &r, NULL) &&
       !strcmp(r.out.data, "65534\n65534\n65534\n"),
       "runs as the user, without root's groups");
    proc_result_release(&r);
}

int main(void)
{
    test_ends();
    test_cannot_start();
    test_deadline();
    test_group();
    test_output();
    test_caller();
    test_user();
    return tap_done();
}
