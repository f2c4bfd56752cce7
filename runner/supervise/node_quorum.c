/* node_quorum - the watchers' vote; see node_quorum.h for the rules.
 *
 * A round asks every peer once, each in a connection of its own with a
 * deadline; at most ASK_AT_ONCE at a time. A round that ends in a vote to
 * requeue is made a second time before anything is done.
 */
#include "runner/supervise/node_quorum.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/supervise/ctl.h"

#define ASK_AT_ONCE 8
#define ANSWER_AT_ONCE 8
#define ASK_S 2.0
#define ROUND_S 1.0     /* between two rounds */
#define MARGIN_S 2.0    /* past silent_s: a supervisor started again is heard */

struct peer {
    char node[256], address[256];
    int port;
    enum { ASK_NOT, ASK_RUNS, SAYS_LOST, SAYS_HEARD, NO_ANSWER } says;
};

/* One connection, asking or answering. */
struct talk {
    int fd, peer;         /* peer: index when asking, -1 when answering */
    double since;
    bool connected, sent, proved;
    char nonce_a[WIRE_NONCE_CHARS], nonce_b[WIRE_NONCE_CHARS];
    struct wire_in in;
    struct wire_out out;
};

struct node_quorum {
    const struct node *node;
    void (*say)(const char *line);
    char secret[WIRE_SECRET_CHARS];
    int restart_count, port, listen_fd;
    char host[256], host_address[256]; /* the supervisor's */
    int host_port;
    struct peer *peers;
    int peers_n, self, next;
    bool round;           /* one is being made */
    double round_s, probe_since;
    int agreed_n;         /* rounds in a row that voted to requeue */
    int probe_fd;
    bool probe_answers, done, ctl_ready;
    struct talk talks[ASK_AT_ONCE + ANSWER_AT_ONCE];
};

bool quorum_says_requeue(const struct quorum_view *v)
{
    if (v->heard_n || v->host_watcher || v->host_answers || !v->first)
        return false;
    if (v->electorate <= 1)
        return v->lost_n == 1 && v->slurm_silent;
    return 2 * v->lost_n > v->electorate;
}

/* ---- Sockets ------------------------------------------------------------ */

static int connect_to(const char *address, int port)
{
    char text[16];
    struct addrinfo *found = NULL,
                    hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
    snprintf(text, sizeof text, "%d", port);
    if (getaddrinfo(address, text, &hints, &found) || !found)
        return -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) &&
        errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* 1: connected; 0: not yet; -1: failed, *ret_errno says how. */
static int connect_state(int fd, int *ret_errno)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof *ret_errno;
    *ret_errno = 0;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, ret_errno, &len);
    return *ret_errno ? -1 : 1;
}

static void talk_end(struct talk *t)
{
    if (t->fd >= 0)
        close(t->fd);
    wire_in_release(&t->in);
    wire_out_release(&t->out);
    *t = (struct talk){.fd = -1, .peer = -1};
}

static struct talk *talk_free_one(struct node_quorum *q, int from, int n)
{
    for (int i = from; i < from + n; i++)
        if (q->talks[i].fd < 0)
            return &q->talks[i];
    return NULL;
}

static void talk_begin(struct talk *t, int fd, int peer, double now)
{
    *t = (struct talk){.fd = fd, .peer = peer, .since = now};
    wire_in_init(&t->in, WIRE_STRANGER_BYTES);
}

/* ---- Does this watcher itself hear the supervisor? ---------------------- */

static bool hears(const struct node_quorum *q, double now)
{
    const struct link *link = &q->node->link;
    double heard = link->heard_s ? link->heard_s : q->node->start_s;
    return now - heard < q->node->limits.silent_s + MARGIN_S;
}

/* ---- Answering ---------------------------------------------------------- */

static void answer_accept(struct node_quorum *q, double now)
{
    int fd = accept4(q->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct talk *t = talk_free_one(q, ASK_AT_ONCE, ANSWER_AT_ONCE);
    if (!t) {
        close(fd);
        return;
    }
    talk_begin(t, fd, -1, now);
    if (wire_random_hex(t->nonce_a, sizeof t->nonce_a, NULL) ||
        wire_out_put(&t->out, json_pack("{s:s, s:s}", "type", "challenge",
                                        "nonce", t->nonce_a)))
        talk_end(t);
}

static int answer_one(struct node_quorum *q, struct talk *t, const json_t *m,
                      double now)
{
    const char *node = json_string_or(m, "node", "");
    const char *nonce = json_string_or(m, "nonce", "");
    char want[WIRE_PROOF_CHARS], ours[WIRE_PROOF_CHARS];
    const char *says = hears(q, now) ? "heard" : "lost";
    char name[WIRE_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%.200s.%s", q->node->name, says);
    if (strlen(nonce) != WIRE_NONCE_CHARS - 1 || strlen(node) > 255 ||
        wire_proof(q->secret, "asker", t->nonce_a, nonce, node, want, NULL) ||
        !wire_proof_equal(want, json_string_or(m, "proof", "")) ||
        wire_proof(q->secret, "peer", t->nonce_a, nonce, name, ours, NULL))
        return -1;
    return wire_out_put(&t->out, json_pack("{s:s, s:s}", "says", says, "proof",
                                           ours));
}

/* ---- Asking ------------------------------------------------------------- */

static int ask_one(struct node_quorum *q, struct talk *t, const json_t *m)
{
    char proof[WIRE_PROOF_CHARS], name[WIRE_NAME_BYTES + 16];
    struct peer *peer = &q->peers[t->peer];
    if (!t->sent) {
        if (strlen(json_string_or(m, "nonce", "")) != WIRE_NONCE_CHARS - 1 ||
            wire_random_hex(t->nonce_b, sizeof t->nonce_b, NULL))
            return -1;
        snprintf(t->nonce_a, sizeof t->nonce_a, "%s",
                 json_string_or(m, "nonce", ""));
        t->sent = true;
        if (wire_proof(q->secret, "asker", t->nonce_a, t->nonce_b,
                       q->node->name, proof, NULL))
            return -1;
        return wire_out_put(&t->out,
                            json_pack("{s:s, s:s, s:s}", "node", q->node->name,
                                      "nonce", t->nonce_b, "proof", proof));
    }
    const char *says = json_string_or(m, "says", "");
    snprintf(name, sizeof name, "%.200s.%s", peer->node, says);
    if (wire_proof(q->secret, "peer", t->nonce_a, t->nonce_b, name, proof,
                   NULL) ||
        !wire_proof_equal(proof, json_string_or(m, "proof", "")))
        return -1;
    peer->says = strcmp(says, "heard") ? SAYS_LOST : SAYS_HEARD;
    return 1; /* all is said */
}

static void talk_turn(struct node_quorum *q, struct talk *t, double now)
{
    char how[64];
    int failed, rc = 0;
    json_t *m;
    if (t->peer >= 0 && !t->connected) {
        int state = connect_state(t->fd, &failed);
        t->connected = state > 0;
        rc = state < 0 ? -1 : 0;
    } else {
        int got = wire_in_read(&t->in, t->fd, how, sizeof how);
        int whole = 0;
        while (!rc && (whole = wire_in_next(&t->in, &m)) > 0) {
            rc = t->peer >= 0 ? ask_one(q, t, m) : answer_one(q, t, m, now);
            json_decref(m);
        }
        if (whole < 0 || (got < 0 && rc != 1) ||
            wire_out_flush(&t->out, t->fd))
            rc = rc == 1 ? 1 : -1;
    }
    if (!rc && now - t->since < ASK_S)
        return;
    if (t->peer >= 0 && q->peers[t->peer].says == ASK_RUNS)
        q->peers[t->peer].says = NO_ANSWER;
    talk_end(t);
}

/* ---- A round ------------------------------------------------------------ */

static void round_begin(struct node_quorum *q, double now)
{
    q->round = true;
    q->round_s = q->probe_since = now;
    q->next = 0;
    for (int i = 0; i < q->peers_n; i++)
        q->peers[i].says = ASK_NOT;
    q->probe_answers = false;
    q->probe_fd = connect_to(q->host_address, q->host_port);
}

static void round_ask(struct node_quorum *q, double now)
{
    struct talk *t;
    while (q->next < q->peers_n &&
           (t = talk_free_one(q, 0, ASK_AT_ONCE))) {
        int i = q->next++;
        if (i == q->self)
            continue;
        int fd = connect_to(q->peers[i].address, q->peers[i].port);
        q->peers[i].says = fd < 0 ? NO_ANSWER : ASK_RUNS;
        if (fd >= 0)
            talk_begin(t, fd, i, now);
    }
}

/* True when the probe has its answer. */
static bool round_probe(struct node_quorum *q, double now)
{
    int failed;
    if (q->probe_fd < 0)
        return true;
    int state = connect_state(q->probe_fd, &failed);
    if (!state && now - q->probe_since < ASK_S)
        return false;
    q->probe_answers = state > 0 || failed == ECONNREFUSED;
    close(q->probe_fd);
    q->probe_fd = -1;
    return true;
}

static bool round_over(const struct node_quorum *q)
{
    for (int i = 0; i < q->peers_n; i++)
        if (i != q->self &&
            (q->peers[i].says == ASK_NOT || q->peers[i].says == ASK_RUNS))
            return false;
    return true;
}

static void round_count(const struct node_quorum *q, struct quorum_view *v)
{
    *v = (struct quorum_view){.lost_n = 1, .first = true,
                              .host_answers = q->probe_answers};
    for (int i = 0; i < q->peers_n; i++) {
        const struct peer *p = &q->peers[i];
        bool at_host = !strcmp(p->node, q->host);
        v->electorate += !at_host;
        if (i == q->self)
            continue;
        v->heard_n += p->says == SAYS_HEARD;
        v->host_watcher |= at_host && (p->says == SAYS_HEARD ||
                                       p->says == SAYS_LOST);
        if (p->says == SAYS_LOST && !at_host) {
            v->lost_n++;
            v->first &= i > q->self;
        }
    }
}

/* ---- The deed ----------------------------------------------------------- */

/* Slurm's library is not touched before it is needed. */
static bool ctl_ready(struct node_quorum *q)
{
    struct err err = ERR_INIT;
    if (!q->ctl_ready && ctl_check(&err))
        q->say(err.msg);
    else
        q->ctl_ready = true;
    return q->ctl_ready;
}

static bool slurm_silent(struct node_quorum *q)
{
    struct ctl_node host;
    return ctl_ready(q) && !ctl_load_node(q->host, &host, NULL) &&
           (host.down || host.silent);
}

/* Requeue first, exclude after: the order that Slurm accepts. */
static void requeue(struct node_quorum *q)
{
    struct err err = ERR_INIT;
    struct ctl_job job;
    if (!ctl_ready(q) ||
        ctl_load_job((uint32_t)q->node->job, &job, &err)) {
        q->say(err.msg);
        return; /* another round will ask again */
    }
    if (job.state != CTL_RUNNING || job.completing ||
        job.restart_count != q->restart_count) {
        q->say("the job was requeued or ended by another");
        q->done = true;
        goto out;
    }
    char text[400];
    snprintf(text, sizeof text, "the supervisor's host %s is lost, requeueing "
             "the job", q->host);
    q->say(text);
    if (ctl_requeue(job.id, &err)) {
        q->say(err.msg);
        q->done = err.class == ERR_REQUEST;
        goto out;
    }
    q->done = true;
    char list[4096];
    snprintf(list, sizeof list, "%s%s%s", job.exclude, *job.exclude ? "," : "",
             q->host);
    if (ctl_exclude(job.id, list, &err))
        q->say(err.msg);
out:
    ctl_job_release(&job);
}

static void round_end(struct node_quorum *q, double now)
{
    struct quorum_view view;
    round_count(q, &view);
    q->round = false;
    q->round_s = now;
    if (view.electorate <= 1 && !view.heard_n && !view.host_watcher &&
        !view.host_answers)
        view.slurm_silent = slurm_silent(q);
    q->agreed_n = quorum_says_requeue(&view) ? q->agreed_n + 1 : 0;
    if (q->agreed_n >= 2)
        requeue(q);
}

void node_quorum_turn(struct node_quorum *q, double now)
{
    answer_accept(q, now);
    for (size_t i = 0; i < sizeof q->talks / sizeof *q->talks; i++)
        if (q->talks[i].fd >= 0)
            talk_turn(q, &q->talks[i], now);
    if (!q->peers_n || q->self < 0 || q->done)
        return;
    if (q->round) {
        round_ask(q, now);
        if (round_probe(q, now) && round_over(q))
            round_end(q, now);
    } else if (hears(q, now)) {
        q->agreed_n = 0;
    } else if (now - q->round_s > ROUND_S) {
        round_begin(q, now);
    }
}

void node_quorum_forgive(struct node_quorum *q, double now)
{
    q->agreed_n = 0;
    q->round_s = q->probe_since = now;
    for (size_t i = 0; i < sizeof q->talks / sizeof *q->talks; i++)
        q->talks[i].since = now;
}

/* ---- Life --------------------------------------------------------------- */

void node_quorum_peers(struct node_quorum *q, const json_t *m)
{
    json_t *list = json_object_get(m, "peers"), *one;
    size_t n = json_array_size(list), i;
    struct peer *peers = calloc(n + 1, sizeof *peers);
    if (!peers || q->round) {
        free(peers); /* the next list will do */
        return;
    }
    free(q->peers);
    q->peers = peers;
    q->peers_n = (int)n;
    q->self = -1;
    json_array_foreach(list, i, one) {
        str_copy(peers[i].node, sizeof peers[i].node,
                 json_string_or(one, "node", ""));
        str_copy(peers[i].address, sizeof peers[i].address,
                 json_string_or(one, "address", ""));
        peers[i].port = (int)json_i64_or(one, "port", 0);
        if (!strcmp(peers[i].node, q->node->name))
            q->self = (int)i;
    }
    str_copy(q->host, sizeof q->host, json_string_or(m, "host", ""));
    str_copy(q->host_address, sizeof q->host_address,
             json_string_or(m, "address", ""));
    q->host_port = (int)json_i64_or(m, "slurmd_port", 0);
}

int node_quorum_poll(const struct node_quorum *q, struct pollfd *fds)
{
    int n = 0;
    fds[n++] = (struct pollfd){.fd = q->listen_fd, .events = POLLIN};
    for (size_t i = 0; i < sizeof q->talks / sizeof *q->talks; i++)
        if (q->talks[i].fd >= 0)
            fds[n++] = (struct pollfd){.fd = q->talks[i].fd, .events = POLLIN};
    return n;
}

int node_quorum_port(const struct node_quorum *q)
{
    return q->port;
}

struct node_quorum *node_quorum_open(const struct node *node,
                                     const struct node_facts *facts,
                                     struct err *err)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof addr;
    struct node_quorum *q = calloc(1, sizeof *q);
    if (!q) {
        err_set(err, "node: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < sizeof q->talks / sizeof *q->talks; i++)
        q->talks[i] = (struct talk){.fd = -1, .peer = -1};
    q->node = node;
    q->say = facts->say;
    q->self = q->probe_fd = -1;
    q->restart_count = facts->restart_count;
    str_copy(q->secret, sizeof q->secret, facts->secret);
    q->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0);
    if (q->listen_fd < 0 ||
        bind(q->listen_fd, (struct sockaddr *)&addr, sizeof addr) ||
        listen(q->listen_fd, 64) ||
        getsockname(q->listen_fd, (struct sockaddr *)&addr, &len)) {
        err_set_errno(err, "node: cannot listen for other watchers");
        node_quorum_close(q);
        return NULL;
    }
    q->port = ntohs(addr.sin_port);
    return q;
}

void node_quorum_close(struct node_quorum *q)
{
    if (!q)
        return;
    for (size_t i = 0; i < sizeof q->talks / sizeof *q->talks; i++)
        talk_end(&q->talks[i]);
    if (q->listen_fd >= 0)
        close(q->listen_fd);
    if (q->probe_fd >= 0)
        close(q->probe_fd);
    free(q->peers);
    free(q);
}
