/* lead - see lead.h. No CUDA here: whatever a GPU or its driver does, this
 * process sees it, says it, and goes on with the others.
 *
 * Workers are told one command at a time, each with a deadline: one that does
 * not answer is killed and said to hang; one that ends is said to have
 * crashed, unless it told why itself. Products and memory run on all GPUs at
 * once, as in a job; the host's copies one GPU after the other.
 */
#include "health/active/lead.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"

enum { GPUS_MAX = 32, LINE_BYTES = 8192, COMMAND_BYTES = 400 };

#define PAIR_BYTES "1073741824" /* of a GPU's memory that a sum needs */
/* Deadlines of what has no time of its own. */
#define START_S 12.0
#define SLACK_S 4.0
#define HOST_S 4.0
#define PEERS_S 8.0
#define REDUCE_S 14.0
#define REAP_S 0.5
#define WIREUP_S 12.0 /* of these, until all are there */
#define PAIR_END_S 6.0 /* of a pair's time for all but waiting */

struct hand {
    int index; /* of the GPU; -1: all of them (peers) */
    pid_t pid; /* 0: gone */
    int in, out;
    bool busy;
    char at[COMMAND_BYTES];
    double limit_s;
    char line[LINE_BYTES];
    size_t line_n;
};

struct lead {
    const char *program;
    char pci[GPUS_MAX][32];
    struct hand hand[GPUS_MAX];
    int n;
    char corrupt[32];
    double seconds, begin_s;
    int out;
    /* Another node to sum with: */
    bool pair;
    int pair_node, port;
    char address[256];
};

/* ---- What it says itself --------------------------------------------- */

static void say(const struct lead *lead, int gpu, const char *kind,
                json_t *value)
{
    json_object_set_new(value, "kind", json_string(kind));
    if (gpu >= 0)
        json_object_set_new(value, "gpu", json_integer(gpu));
    char *line = json_line(value);
    json_decref(value);
    if (!line)
        return;
    size_t n = strlen(line);
    line[n] = '\n';
    file_write_all(lead->out, line, n + 1);
    free(line);
}

static double end_s(const struct lead *lead)
{
    return lead->begin_s + lead->seconds;
}

/* ---- Workers --------------------------------------------------------- */

static void run_child(const struct lead *lead, const struct hand *hand,
                      const int in[2], const int out[2], pid_t parent)
{
    const char *argv[GPUS_MAX + 8] = {lead->program};
    char index[16];
    int n = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
        _exit(127);
    snprintf(index, sizeof index, "%d", hand->index);
    argv[n++] = hand->index < 0 ? "--peers" : "--worker";
    argv[n++] = lead->corrupt;
    if (hand->index >= 0) {
        argv[n++] = index;
        argv[n++] = lead->pci[hand->index];
        argv[n++] = lead->pair ? PAIR_BYTES : "0";
    }
    for (int i = 0; hand->index < 0 && i < lead->n; i++)
        argv[n++] = lead->hand[i].pid ? lead->pci[i] : "";
    execv(lead->program, (char *const *)argv);
    _exit(127);
}

/* Busy from the start: it answers once its GPU is open. */
static void start(struct lead *lead, struct hand *hand, int index,
                  const char *at, double limit_s)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    pid_t parent = getpid();
    *hand = (struct hand){.index = index, .in = -1, .out = -1};
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ||
        (hand->pid = fork()) < 0) {
        hand->pid = 0;
        say(lead, index, "crashed",
            json_pack("{s:s s:s}", "at", at, "how", strerror(errno)));
    } else if (!hand->pid) {
        run_child(lead, hand, in, out, parent);
    }
    if (in[0] >= 0) {
        close(in[0]);
        hand->in = in[1];
    }
    if (out[0] >= 0) {
        close(out[1]);
        hand->out = out[0];
    }
    str_copy(hand->at, sizeof hand->at, at);
    hand->busy = hand->pid != 0;
    hand->limit_s = limit_s;
}

static void drop(struct hand *hand)
{
    if (hand->in >= 0)
        close(hand->in);
    if (hand->out >= 0)
        close(hand->out);
    hand->in = hand->out = -1;
    hand->busy = false;
    hand->pid = 0;
}

/* It closed its side: 0 and 1 it has explained itself. */
static void end(const struct lead *lead, struct hand *hand)
{
    char how[64];
    int status = 0;
    /* Closed, and yet not gone after a moment: then it is not going to. */
    for (int i = 0; waitpid(hand->pid, &status, WNOHANG) == 0; i++) {
        if (i == 100)
            kill(hand->pid, SIGKILL);
        if (i == 200)
            break;
        clock_sleep_s(0.01);
    }
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(status));
    if (WIFSIGNALED(status) || WEXITSTATUS(status) > 1)
        say(lead, hand->index, "crashed",
            json_pack("{s:s s:s}", "at", hand->at, "how", how));
    drop(hand);
}

static void stop_hung(const struct lead *lead, struct hand *hand)
{
    kill(hand->pid, SIGKILL);
    say(lead, hand->index, "hung", json_pack("{s:s}", "at", hand->at));
    drop(hand); /* in a driver it may stay for long: not waited for */
}

static void take_line(const struct lead *lead, struct hand *hand)
{
    hand->line[hand->line_n] = 0;
    if (strstr(hand->line, "\"kind\":\"done\"") ||
        strstr(hand->line, "\"kind\": \"done\"")) {
        hand->busy = false;
        return;
    }
    hand->line[hand->line_n++] = '\n';
    file_write_all(lead->out, hand->line, hand->line_n);
}

static void read_hand(const struct lead *lead, struct hand *hand)
{
    char bytes[4096];
    ssize_t n = read(hand->out, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        end(lead, hand);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            take_line(lead, hand);
            hand->line_n = 0;
        } else if (hand->line_n < LINE_BYTES - 2) {
            hand->line[hand->line_n++] = bytes[i];
        }
    }
}

/* Until nobody of these is busy. */
static void wait_for(const struct lead *lead, struct hand *hands, int n)
{
    for (;;) {
        struct pollfd polled[GPUS_MAX];
        int which[GPUS_MAX], polled_n = 0;
        double now = clock_mono_s(), next = now + 60;
        for (int i = 0; i < n; i++) {
            if (hands[i].busy && now >= hands[i].limit_s)
                stop_hung(lead, &hands[i]);
            if (!hands[i].busy)
                continue;
            next = hands[i].limit_s < next ? hands[i].limit_s : next;
            which[polled_n] = i;
            polled[polled_n++] = (struct pollfd){hands[i].out, POLLIN, 0};
        }
        if (!polled_n)
            return;
        if (poll(polled, (nfds_t)polled_n,
                 (int)((next - now) * 1000) + 1) <= 0)
            continue;
        for (int i = 0; i < polled_n; i++)
            if (polled[i].revents)
                read_hand(lead, &hands[which[i]]);
    }
}

static void tell(const struct lead *lead, struct hand *hand,
                 const char *command, double limit_s)
{
    char line[COMMAND_BYTES + 1];
    if (!hand->pid)
        return;
    str_copy(hand->at, sizeof hand->at, command);
    double now = clock_mono_s();
    hand->limit_s = now + limit_s < end_s(lead) ? now + limit_s : end_s(lead);
    if (now >= end_s(lead)) {
        say(lead, hand->index, "late", json_pack("{s:s}", "what", command));
        return;
    }
    snprintf(line, sizeof line, "%s\n", command);
    if (file_write_all(hand->in, line, strlen(line)))
        end(lead, hand);
    else
        hand->busy = true;
}

/* ---- What is tried --------------------------------------------------- */

static void try_all(struct lead *lead, double share, const char *command)
{
    char line[COMMAND_BYTES];
    double time_s = share * lead->seconds;
    snprintf(line, sizeof line, "%s %.2f", command, time_s);
    for (int i = 0; i < lead->n; i++)
        tell(lead, &lead->hand[i], line, time_s + SLACK_S);
    wait_for(lead, lead->hand, lead->n);
}

static void try_hosts(struct lead *lead)
{
    for (int i = 0; i < lead->n; i++) {
        tell(lead, &lead->hand[i], "host", HOST_S);
        wait_for(lead, &lead->hand[i], 1);
    }
}

static int alive(const struct lead *lead)
{
    int n = 0;
    for (int i = 0; i < lead->n; i++)
        n += lead->hand[i].pid != 0;
    return n;
}

/* One more process, with all GPUs. It ends by itself. */
static void try_peers(struct lead *lead)
{
    struct hand hand;
    double limit_s = clock_mono_s() + PEERS_S;
    if (alive(lead) < 2)
        return;
    if (limit_s > end_s(lead))
        limit_s = end_s(lead);
    start(lead, &hand, -1, "peers", limit_s);
    wait_for(lead, &hand, 1);
    if (hand.pid)
        end(lead, &hand);
}

/* A port of this host that nobody has now; 0: none. */
static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;
    if (fd < 0)
        return 0;
    if (!bind(fd, (struct sockaddr *)&at, sizeof at) &&
        !getsockname(fd, (struct sockaddr *)&at, &bytes))
        port = ntohs(at.sin_port);
    close(fd);
    return port;
}

static void try_reduce(struct lead *lead)
{
    int local = alive(lead), nodes = lead->pair ? 2 : 1, rank = 0;
    int port = lead->pair ? lead->port : free_port();
    double wireup_s = lead->pair ? lead->seconds - PAIR_END_S : WIREUP_S;
    if (lead->pair && local < lead->n) {
        say(lead, -1, "reduce",
            json_pack("{s:s s:s}", "what", "pair", "error",
                      "a GPU of this node failed before"));
        return;
    }
    if (local * nodes < 2)
        return;
    for (int i = 0; i < lead->n; i++) {
        char line[COMMAND_BYTES];
        if (!lead->hand[i].pid)
            continue;
        snprintf(line, sizeof line, "reduce %d %d %d %d %s %d %s %.1f",
                 lead->pair_node * local + rank, local * nodes, rank, local,
                 lead->pair ? lead->address : "127.0.0.1", port,
                 lead->pair ? "pair" : "node", wireup_s);
        tell(lead, &lead->hand[i], line,
             lead->pair ? lead->seconds : REDUCE_S);
        rank++;
    }
    wait_for(lead, lead->hand, lead->n);
}

static void run(struct lead *lead)
{
    double limit_s = lead->begin_s + START_S;
    if (limit_s > end_s(lead))
        limit_s = end_s(lead);
    for (int i = 0; i < lead->n; i++)
        start(lead, &lead->hand[i], i, "start", limit_s);
    wait_for(lead, lead->hand, lead->n);
    if (!lead->pair) {
        try_all(lead, 0.05, "product bf16");
        try_all(lead, 0.05, "product fp8");
        try_all(lead, 0.05, "product fp32");
        try_all(lead, 0.15, "memory");
        try_hosts(lead);
        try_peers(lead);
    }
    try_reduce(lead);
    for (int i = 0; i < lead->n; i++)
        if (lead->hand[i].pid) {
            /* Its GPU is in order: no need to see it tidy up. */
            kill(lead->hand[i].pid, SIGKILL);
            drop(&lead->hand[i]);
        }
    /* Who sleeps in a driver is not waited for. */
    double until = clock_mono_s() + REAP_S;
    while (waitpid(-1, NULL, WNOHANG) >= 0 && clock_mono_s() < until)
        clock_sleep_s(0.005);
}

/* ---- The request ----------------------------------------------------- */

static int read_pair(struct lead *lead, const json_t *pair, struct err *err)
{
    const char *address, *secret;
    int64_t node, port;
    if (!pair)
        return 0;
    if (json_get_i64(pair, "node", &node, err) ||
        json_get_i64(pair, "port", &port, err) ||
        json_get_string(pair, "address", &address, err) ||
        json_get_string(pair, "secret", &secret, err))
        return -1;
    if (node < 0 || node > 1 || port < 1 || port > 65535 ||
        strlen(address) >= sizeof lead->address || strchr(address, ' '))
        return err_set_class(err, ERR_REQUEST,
                             "pair: node, port or address: out of range");
    lead->pair = true;
    lead->pair_node = (int)node;
    lead->port = (int)port;
    str_copy(lead->address, sizeof lead->address, address);
    setenv(KB_ENV_SECRET, secret, 1);
    return 0;
}

static int read_request(struct lead *lead, const json_t *request,
                        struct err *err)
{
    size_t i;
    json_t *gpu;
    if (!json_is_object(request))
        return err_set_class(err, ERR_REQUEST, "request: not an object");
    json_array_foreach(json_object_get(request, "gpus"), i, gpu) {
        const char *pci = json_string_or(gpu, "pci", "");
        if (lead->n == GPUS_MAX || !*pci ||
            !str_copy(lead->pci[lead->n++], sizeof *lead->pci, pci))
            return err_set_class(err, ERR_REQUEST, "gpus: %zu: not a PCI "
                                 "address, or too many", i);
    }
    lead->seconds = json_double_or(request, "seconds", 24);
    if (!(lead->seconds >= 1 && lead->seconds <= 3600))
        return err_set_class(err, ERR_REQUEST, "seconds: not 1 to 3600");
    str_copy(lead->corrupt, sizeof lead->corrupt,
             json_string_or(request, "corrupt", ""));
    return read_pair(lead, json_object_get(request, "pair"), err);
}

/* Ranks prove to each other that they are of this look. */
static void make_secret(void)
{
    unsigned char bytes[32];
    char text[2 * sizeof bytes + 1];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    setenv(KB_ENV_SECRET, text, 1);
}

int lead_main(const char *program, const char *request, int out,
              struct err *err)
{
    struct lead *lead = calloc(1, sizeof *lead);
    json_t *value = json_parse(request, "request", err);
    int rc = -1;
    if (!lead || !value)
        goto out;
    lead->program = program;
    lead->out = out;
    lead->begin_s = clock_mono_s();
    make_secret();
    if (read_request(lead, value, err))
        goto out;
    signal(SIGPIPE, SIG_IGN);
    run(lead);
    say(lead, -1, "end", json_pack("{s:f}", "seconds",
                                   clock_mono_s() - lead->begin_s));
    rc = 0;
out:
    json_decref(value);
    free(lead);
    return rc;
}
