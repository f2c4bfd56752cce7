/* rank_main - the wrapper around one rank; see rank_main.h. */
#include "runner/supervise/rank_main.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/json.h"

#define TELL_TRIES 20

/* Never waited for: a watcher that is not there costs the rank nothing. */
static void tell(const struct rank_facts *facts, json_t *fields)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char dir[PATH_MAX];
    json_object_set_new(fields, "rank", json_integer(facts->rank));
    json_object_set_new(fields, "local", json_integer(facts->local));
    json_object_set_new(fields, "attempt", json_integer(facts->attempt));
    char *line = json_line(fields);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!line || fd < 0 ||
        contract_node_dir(dir, sizeof dir, facts->job, facts->attempt, NULL) ||
        snprintf(addr.sun_path, sizeof addr.sun_path, "%s/watch.sock", dir) >=
            (int)sizeof addr.sun_path)
        goto out;
    for (int i = 0; i < TELL_TRIES; i++) {
        if (sendto(fd, line, strlen(line), 0, (struct sockaddr *)&addr,
                   sizeof addr) >= 0 || errno != EAGAIN)
            break;
        clock_sleep_s(0.01);
    }
out:
    if (fd >= 0)
        close(fd);
    free(line);
    json_decref(fields);
}

static void rank_exec(char **argv, pid_t wrapper)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != wrapper)
        _exit(KB_EXIT_RANK);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "koboshi-supervise: rank: cannot run '%s': %s\n",
            argv[0], strerror(errno));
    _exit(KB_EXIT_REQUEST);
}

int rank_main(const struct rank_facts *facts, char **argv, struct err *err)
{
    static const int for_the_rank[] = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT,
                                       SIGHUP, SIGQUIT};
    pid_t wrapper = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return err_set_errno(err, "rank: cannot start the rank");
    if (pid == 0)
        rank_exec(argv, wrapper);
    for (size_t i = 0; i < sizeof for_the_rank / sizeof *for_the_rank; i++)
        signal(for_the_rank[i], SIG_IGN);
    tell(facts, json_pack("{s:s, s:i}", "event",
                          kb_event_names[KB_EV_RANK_HELLO], "pid", (int)pid));

    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_set_errno(err, "rank: cannot wait for the rank");
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    tell(facts, json_pack("{s:s, s:i, s:i, s:i, s:b}", "event",
                          kb_event_names[KB_EV_RANK_EXIT], "pid", (int)pid,
                          "code", code, "signal", sig, "core",
                          sig && WCOREDUMP(status)));
    if (!sig)
        return code;
    /* End as the rank did, so that srun says so; without a second core. */
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL);
    kill(getpid(), sig);
    return 128 + sig;
}
