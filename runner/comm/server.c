/* server - rank 0's half of control; see server.h. */
#include "runner/comm/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/comm/server_private.h"

#define STRANGER_BYTES 64
#define STRANGER_S 5.0
#define STRANGERS_MAX 64
#define LINGER_S 5.0

/* ---- Connections ------------------------------------------------------- */

static void peer_drop(struct server *s, int i)
{
    struct peer *peer = s->peers[i];
    int rank = peer->rank;
    bool lost = rank >= 0 && !peer->bye;
    wire_release(&peer->wire);
    free(peer);
    s->peers[i] = s->peers[--s->peers_n];
    if (!lost)
        return;
    s->gone[rank] = true;
    struct frame f = {.type = WIRE_LOST, .rank = rank};
    for (int k = 0; k < s->peers_n; k++)
        if (s->peers[k]->rank >= 0)
            wire_send(&s->peers[k]->wire, f, NULL, NULL, 0);
    requests_fail(s, 0, rank);
}

/* A new connection: challenge it. Strangers beyond the limit push out the
 * oldest one. */
static int peer_add(struct server *s, int fd)
{
    int strangers = 0, oldest = -1;
    for (int i = 0; i < s->peers_n; i++) {
        if (s->peers[i]->rank >= 0)
            continue;
        strangers++;
        if (oldest < 0 || s->peers[i]->since_s < s->peers[oldest]->since_s)
            oldest = i;
    }
    if (strangers >= STRANGERS_MAX)
        peer_drop(s, oldest);
    if (s->peers_n == s->peers_cap) {
        int cap = s->peers_cap ? 2 * s->peers_cap : 16;
        struct peer **more = realloc(s->peers, (size_t)cap * sizeof *more);
        if (!more)
            goto fail;
        s->peers = more;
        s->peers_cap = cap;
    }
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        goto fail;
    peer->rank = -1;
    peer->since_s = clock_mono_s();
    if (getrandom(peer->nonce, sizeof peer->nonce, 0) !=
        (ssize_t)sizeof peer->nonce) {
        free(peer);
        goto fail;
    }
    wire_init(&peer->wire, fd, STRANGER_BYTES);
    struct frame f = {.type = WIRE_CHALLENGE};
    wire_send(&peer->wire, f, NULL, peer->nonce, sizeof peer->nonce);
    s->peers[s->peers_n++] = peer;
    return 0;
fail:
    close(fd);
    return -1;
}

/* Is this stranger who it says it is. -1: drop it. */
static int take_hello(struct server *s, struct peer *peer,
                      const struct frame *f, const void *data)
{
    uint64_t proof;
    if (f->type != WIRE_HELLO || f->data_bytes != sizeof proof)
        return -1;
    memcpy(&proof, data, sizeof proof);
    int size = (int)f->limit_ms;
    const char *why = NULL;
    if (proof != proof_make(s->secret, peer->nonce, f->rank, size))
        why = "it does not know this attempt's secret";
    else if (size != s->size)
        why = "its number of ranks is not rank 0's";
    else if (f->rank < 0 || f->rank >= s->size)
        why = "it is not one of the ranks";
    else if (s->known[f->rank])
        why = "another process already is that rank";
    struct frame answer = {.type = WIRE_WELCOME,
                           .status = why ? WIRE_FAILED : WIRE_OK};
    wire_send(&peer->wire, answer, NULL, why, why ? strlen(why) : 0);
    if (why) {
        wire_flush(&peer->wire);
        return -1;
    }
    peer->rank = f->rank;
    peer->wire.body_max = CONTROL_KEY_BYTES + CONTROL_DATA_BYTES;
    s->known[f->rank] = true;
    return 0;
}

static int take_frame(struct server *s, struct peer *peer,
                      const struct frame *f, const char *raw_key,
                      const void *data)
{
    char key[CONTROL_KEY_BYTES];
    if (peer->rank < 0)
        return take_hello(s, peer, f, data);
    if (f->key_bytes >= sizeof key || f->data_bytes > CONTROL_DATA_BYTES)
        return -1;
    memcpy(key, raw_key, f->key_bytes);
    key[f->key_bytes] = 0;
    switch (f->type) {
    case WIRE_PUT:
        request_put(s, peer, f, key, data);
        return 0;
    case WIRE_GET:
        request_get(s, peer, f, key);
        return 0;
    case WIRE_GATHER:
        request_gather(s, peer, f, data);
        return 0;
    case WIRE_BYE:
        peer->bye = true;
        return 0;
    default:
        return -1;
    }
}

/* Read and answer one connection. -1: it is over. */
static int peer_serve(struct server *s, struct peer *peer)
{
    struct frame f;
    const char *key;
    const void *data;
    int over = wire_receive(&peer->wire), more;
    while ((more = wire_next(&peer->wire, &f, &key, &data)) == 1)
        if (take_frame(s, peer, &f, key, data))
            return -1;
    return over || more < 0 ? -1 : 0;
}

/* ---- The thread -------------------------------------------------------- */

static int poll_ms(const struct server *s, double now_s)
{
    double until_s = requests_deadline(s, now_s + 1);
    return until_s <= now_s ? 0 : (int)((until_s - now_s) * 1e3) + 1;
}

static struct pollfd *poll_list(struct server *s, struct pollfd **list,
                                int *cap)
{
    int need = s->peers_n + 2;
    if (need > *cap) {
        struct pollfd *more = realloc(*list, (size_t)need * 2 * sizeof *more);
        if (!more)
            return NULL;
        *list = more;
        *cap = need * 2;
    }
    (*list)[0] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
    (*list)[1] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    for (int i = 0; i < s->peers_n; i++) {
        short events = POLLIN;
        if (wire_pending(&s->peers[i]->wire))
            events |= POLLOUT;
        (*list)[i + 2] =
            (struct pollfd){.fd = s->peers[i]->wire.fd, .events = events};
    }
    return *list;
}

static bool is_over(struct server *s, double *linger_end_s)
{
    pthread_mutex_lock(&s->lock);
    bool stop = s->stop, orderly = s->orderly;
    pthread_mutex_unlock(&s->lock);
    if (!stop)
        return false;
    if (!orderly)
        return true;
    double now_s = clock_mono_s();
    if (*linger_end_s <= 0)
        *linger_end_s = now_s + LINGER_S;
    int here = 0;
    for (int i = 0; i < s->peers_n; i++)
        here += s->peers[i]->rank >= 0;
    return !here || now_s > *linger_end_s;
}

static void drop_old_strangers(struct server *s, double now_s)
{
    for (int i = s->peers_n - 1; i >= 0; i--)
        if (s->peers[i]->rank < 0 &&
            s->peers[i]->since_s + STRANGER_S < now_s)
            peer_drop(s, i);
}

static void *serve(void *p)
{
    struct server *s = p;
    struct pollfd *list = NULL;
    int cap = 0;
    double linger_end_s = 0;
    while (!is_over(s, &linger_end_s)) {
        int listed = s->peers_n;
        int ms = poll_ms(s, clock_mono_s());
        if (!poll_list(s, &list, &cap))
            break;
        if (linger_end_s > 0 && ms > 100)
            ms = 100;
        if (poll(list, (nfds_t)listed + 2, ms) < 0 && errno != EINTR)
            break;
        char drained[16];
        if (list[0].revents &&
            read(s->wake[0], drained, sizeof drained) < 0 && errno != EINTR)
            break;
        for (int i = listed - 1; i >= 0; i--)
            if (list[i + 2].revents && peer_serve(s, s->peers[i]))
                peer_drop(s, i);
        if (list[1].revents) {
            int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0)
                peer_add(s, fd);
            else if (errno == EMFILE || errno == ENFILE)
                clock_sleep_s(0.05);
        }
        double now_s = clock_mono_s();
        requests_fail(s, now_s, -1);
        drop_old_strangers(s, now_s);
        for (int i = s->peers_n - 1; i >= 0; i--)
            if (wire_flush(&s->peers[i]->wire))
                peer_drop(s, i);
    }
    free(list);
    return NULL;
}

static void server_destroy(struct server *s)
{
    for (int i = 0; i < s->peers_n; i++) {
        wire_release(&s->peers[i]->wire);
        free(s->peers[i]);
    }
    requests_release(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    for (int i = 0; i < 2; i++)
        if (s->wake[i] >= 0)
            close(s->wake[i]);
    pthread_mutex_destroy(&s->lock);
    free(s->peers);
    free(s->gone);
    free(s->known);
    free(s);
}

struct server *server_start(int size, int listen_fd,
                            const unsigned char secret[CONTROL_SECRET_BYTES],
                            int *ret_own_fd, struct err *err)
{
    int pair[2] = {-1, -1};
    struct server *s = calloc(1, sizeof *s);
    if (!s) {
        close(listen_fd);
        err_set(err, "comm: out of memory");
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->size = size;
    s->listen_fd = listen_fd;
    s->wake[0] = s->wake[1] = -1;
    memcpy(s->secret, secret, CONTROL_SECRET_BYTES);
    s->gone = calloc((size_t)size, sizeof *s->gone);
    s->known = calloc((size_t)size, sizeof *s->known);
    if (!s->gone || !s->known || pipe2(s->wake, O_CLOEXEC) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        err_set_errno(err, "comm: cannot make rank 0's control server");
        goto fail;
    }
    int adopted = pair[1];
    pair[1] = -1;
    if (peer_add(s, adopted) ||
        pthread_create(&s->thread, NULL, serve, s)) {
        err_set_errno(err, "comm: cannot start rank 0's control thread");
        goto fail;
    }
    *ret_own_fd = pair[0];
    return s;
fail:
    if (pair[0] >= 0)
        close(pair[0]);
    server_destroy(s);
    return NULL;
}

void server_stop(struct server *server, bool orderly)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stop = true;
    server->orderly = orderly;
    pthread_mutex_unlock(&server->lock);
    ssize_t ignored = write(server->wake[1], "x", 1);
    (void)ignored;
    pthread_join(server->thread, NULL);
    server_destroy(server);
}
