/* sup_nodes - watchers up, nodes prepared, roles chosen; lost connections.
 *
 * A closed connection says less than it seems: the watcher may have died alone.
 * slurmd's port is tried, not at once (a host that dies closes its sockets one
 * after the other): if slurmd answers, a new watcher is started there, and the
 * trying goes on until it is up; if it does not for PROBE_S, the node is dead
 * or of no use. A silent one needs no probe.
 */
#include "runner/supervise/sup.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/supervise/launch.h"

#define WATCHERS_UP_S 30.0   /* for the first of them to come */
#define WATCHERS_MORE_S 10.0 /* for another, once some came */
#define WATCHERS_TRIES 3
#define WATCHERS_LOG_BYTES ((size_t)4 << 20)
#define READY_S 75.0         /* its own deadlines are shorter */
#define PROBE_AGAIN_S 0.5
#define PROBE_S 1.5
#define REWATCH_S 8.0

void sup_node_out(struct sup *sup, int i, const char *why)
{
    struct sup_node *node = &sup->nodes[i];
    if (!sup->launched && !node->bad)
        story_say(sup, "%s is left out: %s", node->name, why);
    act_dismiss(sup, i);
    node->bad = true;
    node->ready = node->asked = node->up = false;
    node->role = ROLE_OUT;
    if (why != node->why)
        str_copy(node->why, sizeof node->why, why);
    if (node->probe_fd >= 0)
        close(node->probe_fd);
    node->probe_fd = -1;
    node->lost_s = node->rewatch_s = node->answered_s = 0;
}

int sup_good_spares(const struct sup *sup)
{
    int n = 0;
    for (int i = 0; i < sup->nodes_n; i++)
        n += sup->nodes[i].role == ROLE_SPARE && sup->nodes[i].ready;
    return n;
}

/* ---- Watchers ----------------------------------------------------------- */

static int start_watchers(struct sup *sup, struct err *err)
{
    const char **names = calloc((size_t)sup->nodes_n + 1, sizeof *names);
    const char **out = calloc((size_t)sup->nodes_n + 1, sizeof *out);
    char log[PATH_MAX];
    struct launch launch = {
        .nodes = names, .exclude = out, .attempt = sup->attempt,
        .run_dir = sup->run_dir,
        .environment = sup->facts.environment, .output = log,
        .secret = sup->secret, .supervisor = sup->address,
        .resume = sup_resume_mode(sup),
    };
    int rc = -1;
    if (!names || !out) {
        err_set(err, "supervise: out of memory");
        goto out;
    }
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].bad)
            out[launch.exclude_n++] = sup->nodes[i].name;
        else if (!sup->nodes[i].up)
            names[launch.nodes_n++] = sup->nodes[i].name;
    if (attempt_path(sup->run_dir, sup->attempt,
                     KB_ATTEMPT_LOGS_DIR "/watchers.log", log, sizeof log, err))
        goto out;
    sup->watchers = (struct child){.pid = launch_start(&launch, true, err)};
    rc = sup->watchers.pid < 0 ? -1 : 0;
out:
    free(names);
    free(out);
    return rc;
}

static bool all_up(const struct sup *sup)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (!sup->nodes[i].bad && !sup->nodes[i].up)
            return false;
    return true;
}

static int up_n(const struct sup *sup)
{
    int n = 0;
    for (int i = 0; i < sup->nodes_n; i++)
        n += sup->nodes[i].up;
    return n;
}

static void await_watchers(struct sup *sup)
{
    double until = clock_mono_s() + WATCHERS_UP_S;
    for (int n = up_n(sup), more; !all_up(sup) && clock_mono_s() < until &&
                                  !sup->term_seen && !sup->watchers.ended;
         n = more) {
        sup_pump(sup, 0.1);
        more = up_n(sup);
        if (more > n)
            until = clock_mono_s() + WATCHERS_MORE_S;
    }
    for (double wait = clock_mono_s() + 1;
         sup->watchers.ended && clock_mono_s() < wait;)
        sup_pump(sup, 0.1);
}

/* srun ends all watchers when a single node cannot launch its one, and names
 * it: the others are not to blame. How many were named. */
static int leave_out_named(struct sup *sup)
{
    char log[PATH_MAX], mark[300];
    int n = 0;
    char *text = attempt_path(sup->run_dir, sup->attempt,
                              KB_ATTEMPT_LOGS_DIR "/watchers.log", log,
                              sizeof log, NULL)
                     ? NULL
                     : file_read(log, WATCHERS_LOG_BYTES, NULL, NULL);
    for (int i = 0; text && i < sup->nodes_n; i++) {
        snprintf(mark, sizeof mark, "failed on node %s:", sup->nodes[i].name);
        if (sup->nodes[i].bad || sup->nodes[i].up || !strstr(text, mark))
            continue;
        sup_node_out(sup, i, "Slurm could not launch its watcher");
        n++;
    }
    free(text);
    return n;
}

/* A node that died unseen before the job began takes the srun of all watchers
 * down with it: those that came up are started again without it. */
static int raise_watchers(struct sup *sup, struct err *err)
{
    for (int tries = 0; tries < WATCHERS_TRIES; tries++) {
        if (start_watchers(sup, err))
            return -1;
        await_watchers(sup);
        if (all_up(sup) || sup->term_seen)
            return 0;
        if (sup->watchers.ended && leave_out_named(sup))
            continue;
        for (int i = 0; i < sup->nodes_n; i++)
            if (!sup->nodes[i].bad && !sup->nodes[i].seen)
                sup_node_out(sup, i, "its watcher did not come up");
        if (all_up(sup))
            return 0;
    }
    for (int i = 0; i < sup->nodes_n; i++)
        if (!sup->nodes[i].bad && !sup->nodes[i].up)
            sup_node_out(sup, i, "its watcher does not stay up");
    return 0;
}

/* Who they are to ask when they do not hear this supervisor any more. */
static void introduce_peers(struct sup *sup)
{
    const struct sup_node *host = NULL;
    json_t *peers = json_array();
    for (int i = 0; i < sup->nodes_n; i++) {
        const struct sup_node *node = &sup->nodes[i];
        if (!strcmp(node->name, sup->facts.node_name))
            host = node;
        if (!node->bad)
            json_array_append_new(peers,
                                  json_pack("{s:s, s:s, s:i}", "node",
                                            node->name, "address",
                                            node->address, "port",
                                            node->peer_port));
    }
    for (int i = 0; host && i < sup->nodes_n; i++)
        if (sup->nodes[i].up)
            station_send(sup->station, i,
                         json_pack("{s:s, s:s, s:s, s:i, s:O}", "type",
                                   "peers", "host", host->name, "address",
                                   host->address, "slurmd_port",
                                   host->slurmd_port, "peers", peers));
    json_decref(peers);
}

/* ---- Prepare ------------------------------------------------------------ */

json_t *sup_prepare_message(const struct sup *sup, const char *type,
                           bool preflight)
{
    const struct plan *p = &sup->plan;
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
        "type", type, "attempt", sup->attempt, "nodes", sup->nodes_n,
        "ranks", sup->facts.ranks_per_node, "gpus", sup->facts.gpus_per_node,
        "preflight", preflight, "heartbeat_s", p->heartbeat_s, "silent_s",
        p->silent_s, "stall_min_s", p->stall_min_s, "stall_factor",
        p->stall_factor, "load_limit_s", p->load_limit_s, "wireup_limit_s",
        p->wireup_limit_s, "health_s",
        strcmp(p->health, "off") ? 30.0 : 0.0);
}

static bool any_asked(const struct sup *sup)
{
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].asked)
            return true;
    return false;
}

static void ask_all(struct sup *sup, bool preflight)
{
    for (int i = 0; i < sup->nodes_n; i++) {
        struct sup_node *node = &sup->nodes[i];
        node->ready = false;
        node->role = ROLE_OUT;
        node->asked = !node->bad &&
                      !station_send(sup->station, i,
                                    sup_prepare_message(sup, "prepare",
                                                        preflight));
    }
}

/* Who trains: the first good nodes in Slurm's order; the rest are spares. The
 * order is kept from attempt to attempt, so that a spare takes a place at the
 * end of the list only by Slurm's order; which data a rank sees does not
 * depend on it. */
static int choose_roles(struct sup *sup)
{
    int chosen = 0;
    for (int i = 0; i < sup->nodes_n; i++) {
        struct sup_node *node = &sup->nodes[i];
        if (!node->ready)
            node->role = ROLE_OUT;
        else if (chosen < sup->needed) {
            node->role = ROLE_TRAIN;
            chosen++;
        } else
            node->role = ROLE_SPARE;
        node->trained = node->role == ROLE_TRAIN;
    }
    return chosen;
}

/* What the user must mend: said by a node, or the same trouble with what all
 * nodes share on every one of them. */
static const struct sup_node *users_business(const struct sup *sup)
{
    int shared_n = 0;
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].bad && !strcmp(sup->nodes[i].bad_class, "request"))
            return &sup->nodes[i];
        else
            shared_n += sup->nodes[i].bad &&
                        !strcmp(sup->nodes[i].bad_class, "shared");
    return shared_n == sup->nodes_n ? &sup->nodes[0] : NULL;
}

static void not_enough(struct sup *sup, struct diagnosis *ret)
{
    const struct sup_node *user = users_business(sup);
    if (user) {
        classify_plain(CAUSE_USER, "", user->why, ret);
        return;
    }
    for (int i = sup->nodes_n - 1; i >= 0; i--)
        if (sup->nodes[i].bad) {
            classify_node(CAUSE_NODE_UNFIT, sup->nodes[i].name, 0,
                          sup->nodes[i].why, ret);
            return;
        }
    classify_plain(CAUSE_LAUNCH, "", "not enough nodes", ret);
}

/* Connections that were just lost: back, or given up. */
static int settle_lost(struct sup *sup)
{
    struct diagnosis lost;
    double until = clock_mono_s() + REWATCH_S + PROBE_S;
    while (!all_up(sup) && !sup->term_seen &&
           (clock_mono_s() < until || sup->cut)) {
        sup_pump(sup, 0.1);
        sup_lost_node(sup, &lost);
    }
    return 0;
}

int sup_prepare(struct sup *sup, struct diagnosis *ret, struct err *err)
{
    bool first = !sup->watchers.pid;
    if (first ? raise_watchers(sup, err) : settle_lost(sup))
        return -1;
    sup_leave_unfit_out(sup);
    introduce_peers(sup);
    ask_all(sup, first && strcmp(sup->plan.health, "off"));
    double until = clock_mono_s() + READY_S;
    while (any_asked(sup) && !sup->term_seen &&
           (clock_mono_s() < until || sup->cut)) {
        sup_pump(sup, 0.1);
        struct diagnosis lost;
        sup_lost_node(sup, &lost);
    }
    for (int i = 0; i < sup->nodes_n; i++)
        if (sup->nodes[i].asked && !sup->term_seen)
            sup_node_out(sup, i, "did not get ready in time");
    sup_compare_start(sup);
    if (choose_roles(sup) == sup->needed)
        return 0;
    not_enough(sup, ret);
    return 1;
}

/* ---- Lost connections --------------------------------------------------- */

static void start_probe(struct sup_node *node)
{
    char port[16];
    struct addrinfo *found = NULL,
                    hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
    snprintf(port, sizeof port, "%d", node->slurmd_port);
    if (getaddrinfo(node->address, port, &hints, &found) || !found)
        return;
    node->probe_fd =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (node->probe_fd >= 0)
        connect(node->probe_fd, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
}

/* Begins, looks at and ends probes. */
static void probe_turn(struct sup_node *node, double now)
{
    struct pollfd p = {.fd = node->probe_fd, .events = POLLOUT};
    int failed = 0;
    socklen_t len = sizeof failed;
    if (node->probe_fd < 0) {
        if (now < node->probe_s)
            return;
        node->probe_s = now;
        start_probe(node);
        return;
    }
    if (poll(&p, 1, 0) > 0) {
        getsockopt(node->probe_fd, SOL_SOCKET, SO_ERROR, &failed, &len);
        if (!failed)
            node->answered_s = now;
    } else if (now - node->probe_s < PROBE_S) {
        return;
    }
    close(node->probe_fd);
    node->probe_fd = -1;
    node->probe_s = now + PROBE_AGAIN_S;
}

static int give_up(struct sup *sup, int i, enum cause cause, const char *how,
                   struct diagnosis *ret)
{
    struct sup_node *node = &sup->nodes[i];
    classify_node(cause, node->name, node->quiet_s, how, ret);
    ret->seen_s = node->lost_s;
    sup_node_out(sup, i, how);
    return i;
}

static int look_at_lost(struct sup *sup, int i, double now,
                        struct diagnosis *ret)
{
    struct sup_node *node = &sup->nodes[i];
    char how[160];
    if (!strcmp(node->why, "silent")) {
        /* When all fall silent together, one of them is seen first. */
        double others = sup->plan.heartbeat_s < 1 ? sup->plan.heartbeat_s : 1;
        if (now - node->lost_s < others || sup_is_cut_off(sup, now))
            return -1;
        snprintf(how, sizeof how, "no word from its watcher for %.1f s",
                 node->quiet_s);
        return give_up(sup, i, CAUSE_NODE_SILENT, how, ret);
    }
    probe_turn(node, now);
    double mute = now - (node->answered_s ? node->answered_s : node->lost_s);
    if (mute > PROBE_S + (node->answered_s ? PROBE_AGAIN_S : 0))
        return give_up(sup, i, CAUSE_NODE_DEAD,
                       "its watcher's connection closed and the node does "
                       "not answer", ret);
    if (node->rewatch_s && now - node->rewatch_s > REWATCH_S)
        return give_up(sup, i, CAUSE_NODE_DEAD,
                       "its watcher ended, and a new one did not come up",
                       ret);
    if (node->answered_s && !node->rewatch_s) {
        struct err err = ERR_INIT;
        node->rewatch_s = now;
        story_say(sup, "%s: its watcher ended, the node answers; starting a "
                       "new one", node->name);
        if (act_rewatch(sup, i, &err))
            story_say(sup, "warning: %s", err.msg);
    }
    return -1;
}

int sup_lost_node(struct sup *sup, struct diagnosis *ret)
{
    double now = clock_mono_s();
    for (int i = 0; i < sup->nodes_n; i++) {
        struct sup_node *node = &sup->nodes[i];
        if (node->bad || node->up || !node->lost_s)
            continue;
        if (look_at_lost(sup, i, now, ret) >= 0)
            return i;
    }
    return -1;
}
