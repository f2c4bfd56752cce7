/* node_main - the watcher's loop; see node_main.h and node.h.
 *
 * Each turn: was this process itself stopped? the supervisor's messages; the
 * ranks; a prepare in progress; checks; has the supervisor's host gone?
 */
#include "runner/supervise/node_main.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/supervise/node.h"
#include "runner/supervise/node_quorum.h"

#define TURN_MS 100
#define GAP_S 2.0         /* a longer turn means that we did not run */
#define OLD_GONE_S 8.0    /* for ranks of older attempts to be gone */
#define PREFLIGHT_S 60.0
#define LINGER_S 120.0    /* without a supervisor and with no ranks left */

static volatile sig_atomic_t got_term;

static void on_term(int sig)
{
    (void)sig;
    got_term = 1;
}

static void say(void *ctx, json_t *message)
{
    struct node *node = ctx;
    link_send(&node->link, message);
}

/* ---- prepare: old ranks gone, folder made, preflight, ready ------------- */

static void ready(struct node *node, json_t *answer)
{
    json_object_set_new(answer, "type", json_string("ready"));
    json_object_set_new(answer, "attempt", json_integer(node->preparing));
    node->preparing = 0;
    link_send(&node->link, answer);
}

static void ready_not(struct node *node, const char *class, const char *why)
{
    ready(node, json_pack("{s:b, s:s, s:s}", "ok", 0, "class", class,
                          "message", why));
}

static void take_limits(struct node *node, const json_t *m)
{
    node->limits = (struct node_limits){
        .heartbeat_s = json_double_or(m, "heartbeat_s", 1),
        .silent_s = json_double_or(m, "silent_s", 6),
        .stall_min_s = json_double_or(m, "stall_min_s", 30),
        .stall_factor = json_double_or(m, "stall_factor", 3),
        .load_limit_s = json_double_or(m, "load_limit_s", 600),
        .wireup_limit_s = json_double_or(m, "wireup_limit_s", 60),
        .health_s = json_double_or(m, "health_s", 0),
        .nodes_n = (int)json_i64_or(m, "nodes", 0),
        .ranks_per_node = (int)json_i64_or(m, "ranks", 1),
        .gpus_per_node = (int)json_i64_or(m, "gpus", 0),
    };
    node->link.silent_s = node->limits.silent_s;
}

static void start_prepare(struct node *node, const json_t *m)
{
    struct err err = ERR_INIT;
    json_t *ignored = NULL;
    node->check.deadline = 0; /* an older one is not needed any more */
    node_child_poll(&node->check, node->now, &ignored, &err);
    json_decref(ignored);
    take_limits(node, m);
    node_ranks_close(&node->ranks);
    node->preparing = (int)json_i64_or(m, "attempt", 0);
    node->preflight_wanted = json_is_true(json_object_get(m, "preflight"));
    node->prepare_until = node->now + OLD_GONE_S;
}

static int open_ranks(struct node *node, int attempt, struct err *err)
{
    json_object_set_new(node->link.hello, "attempt", json_integer(attempt));
    return node_ranks_open(&node->ranks, node->job, attempt,
                           node->limits.ranks_per_node, err);
}

/* This watcher was started in the place of one that ended: ranks run. */
static void attach(struct node *node, const json_t *m)
{
    char what[96];
    struct err err = ERR_INIT;
    int attempt = (int)json_i64_or(m, "attempt", 0);
    take_limits(node, m);
    node_kill_older(node->job, attempt, what, sizeof what);
    if (open_ranks(node, attempt, &err))
        node->say(err.msg);
    else
        node_ranks_adopt(&node->ranks, node->now);
}

static void start_check(struct node *node)
{
    struct err err = ERR_INIT;
    if (node_child_start(&node->check, PREFLIGHT_S, node_check_run, node,
                         &err))
        ready_not(node, "node", err.msg);
}

static void prepare_turn(struct node *node)
{
    char what[96];
    struct err err = ERR_INIT;
    if (!node->preparing || node->check.pid || node->ranks.attempt)
        return;
    if (node_kill_older(node->job, node->preparing, what, sizeof what)) {
        if (node->now < node->prepare_until)
            return;
        strncat(what, ": killed, but not gone", sizeof what - strlen(what) - 1);
        ready_not(node, "node", what);
        return;
    }
    if (open_ranks(node, node->preparing, &err)) {
        ready_not(node, "node", err.msg);
        return;
    }
    if (node->preflight_wanted)
        start_check(node);
    else
        ready(node, json_pack("{s:b}", "ok", 1));
}

/* ---- Checks ------------------------------------------------------------- */

static void check_turn(struct node *node)
{
    struct err err = ERR_INIT;
    json_t *answer = NULL;
    if (node_child_poll(&node->check, node->now, &answer, &err)) {
        if (node->preparing && !answer)
            /* Not knowing is no reason to lose a node, except that a run
             * directory which hangs would hang the rank too. */
            ready_not(node, "node", err.msg);
        else if (node->preparing)
            ready(node, answer);
        else
            json_decref(answer);
    }
}

/* What the hardware says in mid-run; what it means is the supervisor's. */
static void send_finding(void *ctx, json_t *finding)
{
    struct node *node = ctx;
    link_send(&node->link,
              json_pack("{s:s, s:o}", "type", "finding", "finding", finding));
}

/* From the first preflight on, on spares too. */
static void health_turn(struct node *node)
{
    bool wanted = node->ranks.attempt && !node->preparing;
    node->health.round_s = node->limits.health_s;
    node_health_turn(&node->health, node->now,
                     wanted || node->health.pid, send_finding, node,
                     node->say);
}

/* A word for root's own check in the epilog, into the file that the prolog made
 * for this job; each once. Where there is none, nobody wants to know. */
static void suspect(struct node *node, const char *code)
{
    char path[128], line[64];
    int i = 0;
    while (i < KB_SUSPICION_N && strcmp(kb_suspicion_names[i], code))
        i++;
    if (i == KB_SUSPICION_N || node->suspected & 1u << i)
        return;
    node->suspected |= 1u << i;
    snprintf(path, sizeof path, KB_SUSPECT_FMT, (unsigned)node->job);
    int fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                  O_CLOEXEC);
    if (fd < 0)
        return;
    int n = snprintf(line, sizeof line, "%s\n", code);
    file_write_all(fd, line, (size_t)n);
    close(fd);
}

/* ---- What the supervisor says ------------------------------------------- */

static void on_message(void *ctx, const json_t *m)
{
    struct node *node = ctx;
    const char *type = json_string_or(m, "type", "");
    if (!strcmp(type, "prepare"))
        start_prepare(node, m);
    else if (!strcmp(type, "attach"))
        attach(node, m);
    else if (!strcmp(type, "report"))
        link_send(&node->link,
                  json_pack("{s:s, s:O, s:o}", "type", "beats", "id",
                            json_object_get(m, "id"), "ranks",
                            node_ranks_report(&node->ranks,
                                              &node->limits, node->now)));
    else if (!strcmp(type, "signal"))
        node_ranks_signal(&node->ranks, (int)json_i64_or(m, "signal", 0));
    else if (!strcmp(type, "suspect"))
        suspect(node, json_string_or(m, "code", ""));
    else if (!strcmp(type, "peers"))
        node_quorum_peers(node->quorum, m);
    else if (!strcmp(type, "bye"))
        node->bye = true;
}

static void writer_turn(struct node *node)
{
    int i = node_stall_writer(&node->ranks, &node->limits, node->now);
    if (i < 0 || node->link.state != LINK_UP)
        return;
    struct node_rank *rank = &node->ranks.rank[i];
    rank->writing_told_s = node->now;
    link_send(&node->link,
              json_pack("{s:s, s:i, s:i, s:I, s:f}", "type", "stall", "attempt",
                        node->ranks.attempt, "rank", rank->rank, "writing",
                        (json_int_t)rank->beat.ckpt_writing, "quiet_s",
                        node->now - rank->writing_s));
}

static void stall_turn(struct node *node)
{
    int i = node_stall_find(&node->ranks, &node->limits, node->now);
    if (i < 0 || node->link.state != LINK_UP)
        return;
    struct node_rank *rank = &node->ranks.rank[i];
    rank->told_s = node->now;
    int64_t phase = rank->beat.phase;
    bool known = phase >= 0 && phase < KB_PHASE_N &&
                 rank->beat.magic == KB_BEAT_MAGIC;
    link_send(&node->link,
              json_pack("{s:s, s:i, s:i, s:s, s:f, s:f}", "type", "stall",
                        "attempt", node->ranks.attempt, "rank", rank->rank,
                        "phase",
                        known ? kb_phase_names[phase] : kb_phase_names[0],
                        "quiet_s", node->now - rank->changed_s, "limit_s",
                        node_stall_limit(rank, &node->limits)));
}

/* ---- The loop ----------------------------------------------------------- */

/* A watcher that was itself stopped judges nobody by that time. */
static void gap_turn(struct node *node)
{
    double gap = node->now - node->last_turn;
    if (node->last_turn && gap > GAP_S) {
        link_forgive(&node->link, node->now);
        node_ranks_forgive(&node->ranks, gap);
        node_quorum_forgive(node->quorum, node->now);
        node->prepare_until += gap;
        node->check.deadline += node->check.pid ? gap : 0;
        node_health_forgive(&node->health, gap);
    }
    node->last_turn = node->now;
}

/* TERM comes with the end of the job: the ranks have it too and may save.
 * The watcher goes when they are gone. */
static bool is_over(const struct node *node)
{
    if (node->bye)
        return true;
    if (got_term && !node_ranks_alive(&node->ranks))
        return true;
    double heard = node->link.heard_s ? node->link.heard_s : node->start_s;
    return node->now - heard > LINGER_S && !node_ranks_alive(&node->ranks);
}

static void wait_for_news(struct node *node)
{
    struct pollfd fds[5 + NODE_RANKS_MAX + NODE_QUORUM_FDS];
    int n = 0;
    link_poll(&node->link, &fds[n++]);
    fds[n++] = (struct pollfd){.fd = node->ranks.attempt ? node->ranks.sock
                                                         : -1,
                               .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = node->check.pid ? node->check.fd : -1,
                               .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = node->health.fd, .events = POLLIN};
    for (int i = 0; i < node->ranks.n && node->ranks.attempt; i++) {
        const struct node_rank *rank = &node->ranks.rank[i];
        if (rank->known && !rank->exited)
            fds[n++] = (struct pollfd){.fd = rank->pidfd, .events = POLLIN};
    }
    n += node_quorum_poll(node->quorum, fds + n);
    poll(fds, (nfds_t)n, TURN_MS);
}

static int node_init(struct node *node, const struct node_facts *facts,
                     struct err *err)
{
    struct sigaction term = {.sa_handler = on_term};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &term, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGUSR1, &ignore, NULL);
    sigaction(SIGUSR2, &ignore, NULL);
    str_copy(node->name, sizeof node->name, facts->name);
    str_copy(node->run_dir, sizeof node->run_dir, facts->run_dir);
    str_copy(node->config, sizeof node->config, facts->config);
    node->job = facts->job;
    node->say = facts->say;
    node->ranks.sock = -1;
    node_health_init(&node->health, node->run_dir, node->name);
    node->limits = (struct node_limits){.heartbeat_s = 1, .silent_s = 6};
    node->now = node->start_s = clock_mono_s();
    if (link_init(&node->link, facts->supervisor, facts->launched_from,
                  facts->secret, facts->name, err))
        return -1;
    node->quorum = node_quorum_open(node, facts, err);
    if (!node->quorum)
        return -1;
    json_object_set_new(node->link.hello, "pid", json_integer(getpid()));
    json_object_set_new(node->link.hello, "peer_port",
                        json_integer(node_quorum_port(node->quorum)));
    return 0;
}

int node_main(const struct node_facts *facts, struct err *err)
{
    static struct node node;
    int rc = node_init(&node, facts, err);
    while (!rc && !is_over(&node)) {
        wait_for_news(&node);
        node.now = clock_mono_s();
        gap_turn(&node);
        link_turn(&node.link, node.now, node.limits.heartbeat_s, on_message,
                  &node);
        if (node.ranks.attempt)
            node_ranks_turn(&node.ranks, node.now, say, &node);
        stall_turn(&node);
        writer_turn(&node);
        prepare_turn(&node);
        check_turn(&node);
        health_turn(&node);
        node_quorum_turn(node.quorum, node.now);
    }
    node_health_end(&node.health);
    node_ranks_close(&node.ranks);
    node_quorum_close(node.quorum);
    link_release(&node.link);
    return rc;
}
