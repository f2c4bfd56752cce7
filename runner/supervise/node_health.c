/* node_health - a koboshi-health that watches; see node_health.h. */
#include "runner/supervise/node_health.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/supervise/program.h"

#define LINE_BYTES (16u << 10)
#define LINES_MAX 64     /* of one turn: a flood waits */
#define SILENT_S 120.0   /* it gives a sign of life each round */
#define AGAIN_S 30.0
#define AGAIN_MAX_S 1800.0

void node_health_init(struct node_health *health, const char *run_dir,
                      const char *node)
{
    *health = (struct node_health){.fd = -1};
    int n = snprintf(health->history, sizeof health->history,
                     "%s/" KB_HEALTH_DIR "/%s.json", run_dir, node);
    if (n < 0 || (size_t)n >= sizeof health->history)
        health->history[0] = 0;
}

static void child_main(const struct node_health *health, const char *path,
                       int out)
{
    char round[32], history[PATH_MAX + 16];
    sigset_t none;
    snprintf(round, sizeof round, "--watch=%g", health->round_s);
    snprintf(history, sizeof history, "--history=%s", health->history);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    dup2(out, 1);
    /* No rank and no watcher: who looks for those must not find it. */
    unsetenv(KB_ENV_SECRET);
    unsetenv(KB_ENV_ATTEMPT);
    execl(path, path, round, health->history[0] ? history : NULL,
          (char *)NULL);
    _exit(127);
}

static void start(struct node_health *health, double now)
{
    char path[PATH_MAX];
    int fds[2];
    health->again_s = now + AGAIN_S;
    if (program_find("koboshi-health", path, sizeof path, NULL) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
        return;
    health->pid = fork();
    if (health->pid == 0)
        child_main(health, path, fds[1]);
    close(fds[1]);
    if (health->pid < 0) {
        health->pid = 0;
        close(fds[0]);
        return;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    health->fd = fds[0];
    health->heard_s = now;
    wire_in_init(&health->in, LINE_BYTES);
}

/* The last one may still write its history when it is told nicely. */
static void stop(struct node_health *health, int sig)
{
    if (!health->pid)
        return;
    kill(-health->pid, sig);
    for (int i = 0; i < 100; i++) {
        if (i == 50)
            kill(-health->pid, SIGKILL);
        if (waitpid(health->pid, NULL, WNOHANG))
            break;
        clock_sleep_s(0.005);
    }
    close(health->fd);
    wire_in_release(&health->in);
    health->pid = 0;
    health->fd = -1;
}

void node_health_end(struct node_health *health)
{
    stop(health, SIGTERM);
}

static void start_later(struct node_health *health, double now)
{
    health->pause_s = health->pause_s ? health->pause_s * 2 : AGAIN_S;
    if (health->pause_s > AGAIN_MAX_S)
        health->pause_s = AGAIN_MAX_S;
    health->again_s = now + health->pause_s;
}

static void take_line(json_t *line, void (*send)(void *ctx, json_t *finding),
                      void *ctx)
{
    json_t *finding = json_object_get(line, "finding");
    if (!strcmp(json_string_or(line, "type", ""), "finding") &&
        json_is_object(finding))
        send(ctx, json_incref(finding));
}

void node_health_turn(struct node_health *health, double now, bool wanted,
                      void (*send)(void *ctx, json_t *finding), void *ctx,
                      void (*say)(const char *line))
{
    char how[96] = "", text[160];
    json_t *line = NULL;
    int got = 0;
    if (!wanted || health->round_s <= 0) {
        node_health_end(health);
        return;
    }
    if (!health->pid) {
        if (now >= health->again_s)
            start(health, now);
        return;
    }
    int rc = wire_in_read(&health->in, health->fd, how, sizeof how);
    for (int i = 0; i < LINES_MAX &&
                    (got = wire_in_next(&health->in, &line)) > 0; i++) {
        take_line(line, send, ctx);
        json_decref(line);
        health->heard_s = now;
    }
    bool mute = now - health->heard_s > SILENT_S + health->round_s;
    if (rc >= 0 && got >= 0 && !mute)
        return;
    snprintf(text, sizeof text, "node: the watch of the hardware %s; it is "
             "started anew", mute ? "fell silent" : got < 0 ? "wrote nonsense"
                                                            : "ended");
    say(text);
    stop(health, SIGKILL);
    start_later(health, now);
}

void node_health_forgive(struct node_health *health, double gap_s)
{
    health->heard_s += gap_s;
}
