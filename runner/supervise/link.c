/* link - the watcher's connection; see link.h. */
#include "runner/supervise/link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"

#define CONNECT_S 2.0
#define AGAIN_S 0.5   /* between two tries */

int link_init(struct link *link, const char *supervisor, const char *other,
              const char *secret, const char *node, struct err *err)
{
    *link = (struct link){.fd = -1};
    const char *colon = strrchr(supervisor, ':');
    int64_t port;
    if (!colon || str_to_i64(colon + 1, &port) || port < 1 || port > 65535)
        return err_set(err, "link: the supervisor's address is no HOST:PORT: "
                            "'%s'", supervisor);
    link->port = (int)port;
    snprintf(link->address[link->addresses_n++], sizeof link->address[0],
             "%.*s", (int)(colon - supervisor), supervisor);
    if (other && *other)
        snprintf(link->address[link->addresses_n++], sizeof link->address[0],
                 "%s", other);
    if (!str_copy(link->secret, sizeof link->secret, secret) ||
        !str_copy(link->node, sizeof link->node, node))
        return err_set(err, "link: secret or node name too long");
    wire_in_init(&link->in, WIRE_LINE_BYTES);
    link->hello = json_object();
    return 0;
}

static void down(struct link *link, double now)
{
    if (link->state == LINK_UP)
        link->lost_n++;
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->state = LINK_DOWN;
    link->since = now;
    wire_in_release(&link->in);
    wire_out_release(&link->out);
}

void link_release(struct link *link)
{
    down(link, 0);
    wire_out_release(&link->held);
    json_decref(link->hello);
    link->hello = NULL;
}

void link_poll(const struct link *link, struct pollfd *ret)
{
    *ret = (struct pollfd){.fd = link->fd, .events = POLLIN};
    if (link->state == LINK_CONNECTING || link->out.len)
        ret->events |= POLLOUT;
}

static void start_connect(struct link *link, double now)
{
    const char *host = link->address[link->turn++ % link->addresses_n];
    char port[16];
    struct addrinfo *found = NULL,
                    hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
    snprintf(port, sizeof port, "%d", link->port);
    link->since = now;
    if (getaddrinfo(host, port, &hints, &found) || !found)
        return;
    link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd >= 0) {
        int one = 1;
        setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(link->fd, found->ai_addr, found->ai_addrlen) &&
            errno != EINPROGRESS)
            down(link, now);
        else
            link->state = LINK_CONNECTING;
    }
    freeaddrinfo(found);
}

static void check_connect(struct link *link, double now)
{
    struct pollfd p = {.fd = link->fd, .events = POLLOUT};
    int failed = 0;
    socklen_t len = sizeof failed;
    if (poll(&p, 1, 0) == 0) {
        if (now - link->since > CONNECT_S)
            down(link, now);
        return;
    }
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failed, &len) || failed) {
        down(link, now);
        return;
    }
    link->state = LINK_PROVING;
    link->since = now;
    link->nonce_a[0] = 0;
}

/* The supervisor's challenge, then its own proof. */
static int prove(struct link *link, const json_t *message, double now)
{
    const char *type = json_string_or(message, "type", "");
    char proof[WIRE_PROOF_CHARS];
    if (!strcmp(type, "challenge") && !link->nonce_a[0]) {
        if (!str_copy(link->nonce_a, sizeof link->nonce_a,
                      json_string_or(message, "nonce", "")) ||
            wire_random_hex(link->nonce_b, sizeof link->nonce_b, NULL) ||
            wire_proof(link->secret, "watcher", link->nonce_a, link->nonce_b,
                       link->node, proof, NULL))
            return -1;
        json_t *hello = json_copy(link->hello);
        json_object_update_new(hello, json_pack("{s:s, s:s, s:s, s:s}", "type",
                                            "hello", "node", link->node,
                                            "nonce", link->nonce_b, "proof",
                                            proof));
        return wire_out_put(&link->out, hello);
    }
    if (!strcmp(type, "welcome") && link->nonce_a[0]) {
        if (wire_proof(link->secret, "supervisor", link->nonce_a,
                       link->nonce_b, link->node, proof, NULL) ||
            !wire_proof_equal(proof, json_string_or(message, "proof", "")))
            return -1;
        link->state = LINK_UP;
        link->since = link->heard_s = now;
        link->beat_s = 0;
        wire_out_release(&link->out);
        link->out = link->held;
        link->held = (struct wire_out){0};
        return 0;
    }
    return -1;
}

static int read_all(struct link *link, double now,
                    void (*on_message)(void *, const json_t *), void *ctx)
{
    char how[64];
    int got, whole;
    json_t *message;
    do {
        got = wire_in_read(&link->in, link->fd, how, sizeof how);
        while ((whole = wire_in_next(&link->in, &message)) != 0) {
            if (whole < 0)
                return -1;
            int rc = 0;
            if (link->state == LINK_PROVING) {
                rc = prove(link, message, now);
            } else {
                link->heard_s = now;
                if (strcmp(json_string_or(message, "type", ""), "beat"))
                    on_message(ctx, message);
            }
            json_decref(message);
            if (rc || link->fd < 0)
                return -1;
        }
    } while (got > 0);
    return got;
}

void link_turn(struct link *link, double now, double heartbeat_s,
               void (*on_message)(void *ctx, const json_t *message), void *ctx)
{
    if (link->state == LINK_DOWN &&
        (!link->since || now - link->since > AGAIN_S))
        start_connect(link, now);
    if (link->state == LINK_CONNECTING)
        check_connect(link, now);
    if (link->state < LINK_PROVING)
        return;
    if (read_all(link, now, on_message, ctx) < 0 ||
        (link->state == LINK_PROVING && now - link->since > CONNECT_S)) {
        down(link, now);
        return;
    }
    if (link->state == LINK_UP && now - link->beat_s >= heartbeat_s) {
        link->beat_s = now;
        link_send(link, json_pack("{s:s}", "type", "beat"));
    }
    bool silent = link->state == LINK_UP && link->silent_s > 0 &&
                  now - link->heard_s > link->silent_s;
    if (silent || wire_out_flush(&link->out, link->fd))
        down(link, now);
}

void link_send(struct link *link, json_t *message)
{
    wire_out_put(link->state == LINK_UP ? &link->out : &link->held, message);
}

void link_forgive(struct link *link, double now)
{
    if (link->heard_s)
        link->heard_s = now;
    link->since = now;
}
