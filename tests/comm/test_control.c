/* Tests of control over TCP: ranks are processes wired by the environment, on
 * loopback. Each rank runs a role and ends with 0 when all was as it should. */
#include "runner/comm/comm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/comm/tables.h"
#include "tests/tap.h"

#define RANKS 4

typedef int (*role_f)(struct control *control, int rank);

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) ||
        getsockname(fd, (struct sockaddr *)&at, &bytes))
        _exit(99);
    close(fd);
    return ntohs(at.sin_port);
}

/* Start ranks first .. last; each opens and plays. The exit statuses. */
static void play(int first, int last, double limit_s, role_f role,
                 int status[RANKS])
{
    pid_t pids[RANKS] = {0};
    for (int r = first; r <= last; r++) {
        fflush(stdout);
        pids[r] = fork();
        if (pids[r])
            continue;
        alarm(30);
        struct err err = ERR_INIT;
        struct control control;
        struct comm_place place = {.rank = r, .size = RANKS, .how = "env"};
        if (control_env_open(&control, &place, clock_mono_s() + limit_s,
                             &err)) {
            printf("# rank %d: %s\n", r, err.msg);
            fflush(stdout);
            _exit(16);
        }
        int rc = role(&control, r);
        fflush(stdout);
        _exit(rc);
    }
    for (int r = first; r <= last; r++) {
        int s;
        waitpid(pids[r], &s, 0);
        status[r] = WIFEXITED(s) ? WEXITSTATUS(s) : 100 + WTERMSIG(s);
    }
}

static int meet(struct control *c, double limit_s, struct err *err)
{
    char nothing[1] = {0};
    return c->ops->gather(c->self, nothing, 0, nothing, limit_s, err);
}

/* Everyone puts, gets from the next, gathers; an orderly end. */
static int role_talk(struct control *c, int rank)
{
    struct err err = ERR_INIT;
    int32_t mine = rank * 10, got = -1, all[RANKS];
    if (rank == 2)
        clock_sleep_s(0.3); /* its getter waits */
    if (c->ops->put(c->self, "number", &mine, sizeof mine, &err) ||
        c->ops->get(c->self, (rank + 1) % RANKS, "number", &got, sizeof got,
                    5, &err) ||
        got != (rank + 1) % RANKS * 10)
        return 1;
    for (int round = 0; round < 50; round++) {
        mine = rank + round;
        if (c->ops->gather(c->self, &mine, sizeof mine, all, 5, &err))
            return 2;
        for (int r = 0; r < RANKS; r++)
            if (all[r] != r + round)
                return 3;
    }
    if (meet(c, 5, &err))
        return 4;
    c->ops->close(c->self, true);
    return 0;
}

static int role_large(struct control *c, int rank)
{
    struct err err = ERR_INIT;
    static unsigned char mine[CONTROL_DATA_BYTES], all[RANKS][sizeof mine];
    memset(mine, rank + 1, sizeof mine);
    if (c->ops->gather(c->self, mine, sizeof mine, all, 10, &err))
        return 1;
    for (int r = 0; r < RANKS; r++)
        if (all[r][0] != r + 1 || all[r][sizeof mine - 1] != r + 1)
            return 2;
    c->ops->close(c->self, true);
    return 0;
}

/* Rank 3 does not come to the second meeting; all others learn its name. */
static int role_late(struct control *c, int rank)
{
    struct err err = ERR_INIT, other = ERR_INIT;
    char byte;
    if (meet(c, 5, &err))
        return 1;
    if (rank == 3) {
        clock_sleep_s(1.5);
        return meet(c, 5, &err) ? 0 : 2; /* it is told too */
    }
    double begin_s = clock_mono_s();
    if (!meet(c, 0.5, &err))
        return 3;
    if (clock_mono_s() - begin_s > 1.2)
        return 4;
    if (!strstr(err.msg, "rank 3 did not come within 0.5 s")) {
        printf("# %s\n", err.msg);
        return 5;
    }
    if (!c->ops->get(c->self, 3, "nothing", &byte, 1, 0.2, &other))
        return 6;
    if (c->ops->lost(c->self) >= 0)
        return 7;
    clock_sleep_s(2);
    return 0;
}

/* Rank 1 dies while the others wait for it: they know at once. */
static int role_death(struct control *c, int rank)
{
    struct err err = ERR_INIT;
    if (meet(c, 5, &err))
        return 1;
    if (rank == 1) {
        clock_sleep_s(0.3);
        _exit(77);
    }
    double begin_s = clock_mono_s();
    if (!meet(c, 20, &err) || clock_mono_s() - begin_s > 3)
        return 2;
    if (!strstr(err.msg, "rank 1 is gone")) {
        printf("# %s\n", err.msg);
        return 3;
    }
    int lost = c->ops->lost(c->self);
    clock_sleep_s(1);
    return lost == 1 ? 0 : 4;
}

/* Rank 0, where the server lives, dies. */
static int role_death0(struct control *c, int rank)
{
    struct err err = ERR_INIT;
    if (meet(c, 5, &err))
        return 1;
    if (rank == 0) {
        clock_sleep_s(0.2);
        _exit(77);
    }
    double begin_s = clock_mono_s();
    while (c->ops->lost(c->self) < 0 && clock_mono_s() - begin_s < 3)
        clock_sleep_s(0.02);
    if (c->ops->lost(c->self) != 0)
        return 2;
    return meet(c, 1, &err) ? 0 : 3;
}

static int role_open(struct control *c, int rank)
{
    return 0;
}

/* A stranger who sends what it likes to the port. */
static pid_t start_stranger(int port)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid)
        return pid;
    alarm(20);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    unsigned seed = 1;
    for (int i = 0; i < 300; i++) {
        char bytes[3000];
        int n = i % 3 == 0 ? 5 : (int)sizeof bytes;
        for (int k = 0; k < n; k++)
            bytes[k] = (char)rand_r(&seed);
        uint32_t magic = 0x3263626b, huge = 0xffffffff;
        if (i % 4 == 1) { /* a good magic, an impossible size */
            memcpy(bytes, &magic, 4);
            memcpy(bytes + 20, &huge, 4);
            memcpy(bytes + 24, &huge, 4);
        }
        if (i % 4 == 2) /* a plausible head that asks for a rank */
            memcpy(bytes, (uint32_t[]){magic, 2, 0, 1, RANKS, 0, 8}, 28);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(fd, (struct sockaddr *)&at, sizeof at))
            send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
        if (i % 5)
            close(fd); /* others stay open and silent */
        usleep(2000);
    }
    pause();
    _exit(0);
}

static void wire(const char *secret)
{
    char port[16];
    snprintf(port, sizeof port, "%d", free_port());
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    if (secret)
        setenv("KOBOSHI_SECRET", secret, 1);
    else
        unsetenv("KOBOSHI_SECRET");
}

static bool all_are(const int *status, int want)
{
    bool good = true;
    for (int r = 0; r < RANKS; r++) {
        if (status[r] != want)
            printf("# rank %d ended with %d\n", r, status[r]);
        good &= status[r] == want;
    }
    return good;
}

int main(void)
{
    static const char secret[] = "000102030405060708090a0b0c0d0e0f"
                                 "101112131415161718191a1b1c1d1e1f";
    int status[RANKS] = {0};
    wire(NULL);
    play(0, RANKS - 1, 10, role_talk, status);
    ok(all_are(status, 0), "four ranks put, get and gather");
    wire(secret);
    play(0, RANKS - 1, 10, role_talk, status);
    ok(all_are(status, 0), "the same with a secret");
    wire(secret);
    play(0, RANKS - 1, 10, role_large, status);
    ok(all_are(status, 0), "the largest message from everyone");
    wire(NULL);
    play(0, RANKS - 1, 10, role_late, status);
    ok(all_are(status, 0), "who does not come in time is named");
    wire(NULL);
    play(0, RANKS - 1, 10, role_death, status);
    is_int(status[1], 77, "rank 1 dies");
    status[1] = 0;
    ok(all_are(status, 0), "the others know at once, by name");
    wire(NULL);
    play(0, RANKS - 1, 10, role_death0, status);
    is_int(status[0], 77, "rank 0 dies");
    status[0] = 0;
    ok(all_are(status, 0), "its loss is seen without asking");

    wire(NULL);
    double begin_s = clock_mono_s();
    play(1, 1, 1, role_open, status);
    is_int(status[1], 16, "without rank 0 a rank gives up");
    ok(clock_mono_s() - begin_s < 3, "at its limit");

    wire(secret);
    pid_t stranger = start_stranger(atoi(getenv("MASTER_PORT")));
    play(0, RANKS - 1, 10, role_talk, status);
    ok(all_are(status, 0), "garbage on the port harms nobody");
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);

    /* A rank of another attempt: its secret is another one. */
    wire(secret);
    fflush(stdout);
    pid_t rank0 = fork();
    if (!rank0) {
        struct control control;
        struct comm_place place = {.size = RANKS, .how = "env"};
        alarm(20);
        if (!control_env_open(&control, &place, clock_mono_s() + 5, NULL))
            pause();
        _exit(1);
    }
    setenv("KOBOSHI_SECRET", "ff0102030405060708090a0b0c0d0e0f"
                             "101112131415161718191a1b1c1d1e1f", 1);
    play(2, 2, 1.5, role_open, status);
    is_int(status[2], 16, "a wrong secret is refused");
    setenv("KOBOSHI_SECRET", "abc", 1);
    play(2, 2, 1.5, role_open, status);
    is_int(status[2], 16, "a secret of the wrong form too");
    kill(rank0, SIGKILL);
    waitpid(rank0, NULL, 0);
    return tap_done();
}
