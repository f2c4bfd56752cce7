/* server_private - what the two files of the server share: server.c has the
 * connections and the thread, requests.c what ranks ask for. All of it is the
 * thread's alone. */
#ifndef KB_COMM_SERVER_PRIVATE_H
#define KB_COMM_SERVER_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/comm/proof.h"
#include "runner/comm/wire.h"

struct peer {
    struct wire wire;
    int rank;       /* -1: a stranger */
    double since_s;
    bool bye;
    unsigned char nonce[PROOF_NONCE_BYTES];
};
struct item { /* what a rank put */
    struct item *next;
    int rank;
    char key[CONTROL_KEY_BYTES];
    size_t bytes;
    unsigned char data[];
};
struct getter { /* who waits for an item */
    struct getter *next;
    int rank, from;
    uint32_t id;
    char key[CONTROL_KEY_BYTES];
    double deadline_s;
    uint32_t limit_ms;
};
struct meeting { /* one gather */
    struct meeting *next;
    int32_t number;
    size_t bytes;
    int come_n;
    double deadline_s;
    uint32_t limit_ms;
    char *failed;          /* why, for those who come later; or NULL */
    enum wire_status status;
    uint32_t *ids;         /* [size] request id of who came and waits */
    bool *come, *waits;    /* [size] */
    unsigned char *data;   /* [size * bytes] */
};
struct server {
    int size, listen_fd, wake[2];
    bool stop, orderly;    /* under lock */
    pthread_mutex_t lock;
    pthread_t thread;
    unsigned char secret[CONTROL_SECRET_BYTES];
    struct peer **peers;
    int peers_n, peers_cap;
    bool *gone, *known;    /* [size] */
    struct item *items;
    struct getter *getters;
    struct meeting *meetings;
};

/* requests.c: what a proved rank asks; key is NUL-ended and fits. */
void request_put(struct server *s, struct peer *peer, const struct frame *f,
                 const char *key, const void *data);
void request_get(struct server *s, struct peer *peer, const struct frame *f,
                 const char *key);
void request_gather(struct server *s, struct peer *peer,
                    const struct frame *f, const void *data);
/* Answer those whose time is over (lost -1), or who wait for a lost rank. */
void requests_fail(struct server *s, double now_s, int lost);
/* When the next one's time is over; not after until_s. */
double requests_deadline(const struct server *s, double until_s);
void requests_release(struct server *s);

#endif
