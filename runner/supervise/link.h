/* link - a watcher's end of its connection to the supervisor.
 *
 * Never blocks. Connects to each of the supervisor's addresses in turn until
 * one answers and proves that it knows the secret; beats; tells when the
 * supervisor was last heard. A lost connection is made again at once.
 */
#ifndef KB_SUPERVISE_LINK_H
#define KB_SUPERVISE_LINK_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>

#include "runner/base/err.h"
#include "runner/supervise/wire.h"

#define LINK_ADDRESSES_MAX 4

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_PROVING, LINK_UP };

struct link {
    char address[LINK_ADDRESSES_MAX][128]; /* host, name or number */
    int addresses_n, turn, port;
    char secret[WIRE_SECRET_CHARS], node[WIRE_NAME_BYTES];
    enum link_state state;
    int fd;
    double since;      /* of this state */
    double heard_s;    /* last word of a proven supervisor; 0: never */
    double beat_s;     /* last beat sent */
    double silent_s;   /* a supervisor not heard for so long is lost; 0: no */
    char nonce_a[WIRE_NONCE_CHARS], nonce_b[WIRE_NONCE_CHARS];
    struct wire_in in;
    struct wire_out out;
    struct wire_out held; /* what is to be said when the link is up again */
    json_t *hello;     /* what else hello says; borrowed members, owned */
    int lost_n;        /* connections lost so far */
};

/* supervisor: "host:port"; other: one more host to try, or NULL. */
int link_init(struct link *link, const char *supervisor, const char *other,
              const char *secret, const char *node, struct err *err);
void link_release(struct link *link);
/* Fills the poll entry (fd -1: nothing to wait for now). */
void link_poll(const struct link *link, struct pollfd *ret);
/* What is to be done now: connect, prove, read, beat. Messages of a proven
 * supervisor go to on_message, which borrows them. */
void link_turn(struct link *link, double now, double heartbeat_s,
               void (*on_message)(void *ctx, const json_t *message), void *ctx);
/* Takes message; kept (bounded) while the link is not up. */
void link_send(struct link *link, json_t *message);
/* Nothing was heard while this process was stopped: start the clocks anew. */
void link_forgive(struct link *link, double now);

#endif
