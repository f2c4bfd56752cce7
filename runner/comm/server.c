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
#include "runner/base/str.h"
#include "runner/comm/proof.h"
#include "runner/comm/wire.h"

#define STRANGER_BYTES 64
#define STRANGER_S 5.0
#define STRANGERS_MAX 64
#define LINGER_S 5.0

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

/* ---- Replies ----------------------------------------------------------- */

static struct peer *peer_of(struct server *s, int rank)
{
    for (int i = 0; i < s->peers_n; i++)
        if (s->peers[i]->rank == rank)
            return s->peers[i];
    return NULL;
}

static void reply(struct server *s, int rank, uint32_t id,
                  enum wire_status status, const void *data, size_t bytes)
{
    struct peer *peer = peer_of(s, rank);
    struct frame f = {.type = WIRE_REPLY, .id = id, .status = status};
    if (peer)
        wire_send(&peer->wire, f, NULL, data, bytes);
}

static void reply_text(struct server *s, int rank, uint32_t id,
                       enum wire_status status, const char *text)
{
    reply(s, rank, id, status, text, strlen(text));
}

/* ---- Put and get ------------------------------------------------------- */

static struct item *find_item(struct server *s, int rank, const char *key)
{
    struct item *item = s->items;
    while (item && (item->rank != rank || strcmp(item->key, key)))
        item = item->next;
    return item;
}

/* Answer those who waited for this item. */
static void serve_getters(struct server *s, const struct item *item)
{
    for (struct getter **at = &s->getters; *at;) {
        struct getter *g = *at;
        if (g->from != item->rank || strcmp(g->key, item->key)) {
            at = &g->next;
            continue;
        }
        reply(s, g->rank, g->id, WIRE_OK, item->data, item->bytes);
        *at = g->next;
        free(g);
    }
}

static void take_put(struct server *s, struct peer *peer,
                     const struct frame *f, const char *key, const void *data)
{
    if (find_item(s, peer->rank, key)) {
        reply_text(s, peer->rank, f->id, WIRE_FAILED, "was already put");
        return;
    }
    struct item *item = calloc(1, sizeof *item + f->data_bytes);
    if (!item) {
        reply_text(s, peer->rank, f->id, WIRE_FAILED, "rank 0 has no memory");
        return;
    }
    item->rank = peer->rank;
    str_copy(item->key, sizeof item->key, key);
    item->bytes = f->data_bytes;
    memcpy(item->data, data, f->data_bytes);
    item->next = s->items;
    s->items = item;
    reply(s, peer->rank, f->id, WIRE_OK, NULL, 0);
    serve_getters(s, item);
}

static void take_get(struct server *s, struct peer *peer,
                     const struct frame *f, const char *key)
{
    const struct item *item = find_item(s, f->rank, key);
    if (item) {
        reply(s, peer->rank, f->id, WIRE_OK, item->data, item->bytes);
        return;
    }
    if (f->rank < 0 || f->rank >= s->size || s->gone[f->rank]) {
        reply_text(s, peer->rank, f->id, WIRE_PEER_LOST, "it is gone");
        return;
    }
    struct getter *g = calloc(1, sizeof *g);
    if (!g) {
        reply_text(s, peer->rank, f->id, WIRE_FAILED, "rank 0 has no memory");
        return;
    }
    g->rank = peer->rank;
    g->from = f->rank;
    g->id = f->id;
    str_copy(g->key, sizeof g->key, key);
    g->limit_ms = f->limit_ms;
    g->deadline_s = clock_mono_s() + f->limit_ms * 1e-3;
    g->next = s->getters;
    s->getters = g;
}

/* Getters whose time is over (lost < 0), or that wait for a lost rank. */
static void fail_getters(struct server *s, double now_s, int lost)
{
    for (struct getter **at = &s->getters; *at;) {
        struct getter *g = *at;
        bool late = lost < 0 && g->deadline_s <= now_s;
        if (!late && (lost < 0 || g->from != lost)) {
            at = &g->next;
            continue;
        }
        struct sbuf text = SBUF_INIT;
        if (late)
            sbuf_printf(&text, "it was not put within %.1f s%s",
                        g->limit_ms * 1e-3,
                        s->known[g->from] ? "" : ", and that rank never came");
        else
            sbuf_puts(&text, "it is gone");
        reply(s, g->rank, g->id, late ? WIRE_FAILED : WIRE_PEER_LOST,
              text.data, text.len);
        sbuf_release(&text);
        *at = g->next;
        free(g);
    }
}

/* ---- Gather ------------------------------------------------------------ */

static void meeting_destroy(struct meeting *m)
{
    if (!m)
        return;
    free(m->failed);
    free(m->ids);
    free(m->come);
    free(m->waits);
    free(m->data);
    free(m);
}

static struct meeting *meeting_of(struct server *s, int32_t number,
                                  size_t bytes)
{
    struct meeting *m = s->meetings;
    while (m && m->number != number)
        m = m->next;
    if (m)
        return m;
    size_t size = (size_t)s->size;
    m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->number = number;
    m->bytes = bytes;
    m->deadline_s = 1e300;
    m->ids = calloc(size, sizeof *m->ids);
    m->come = calloc(size, sizeof *m->come);
    m->waits = calloc(size, sizeof *m->waits);
    m->data = malloc(size * bytes + 1);
    if (!m->ids || !m->come || !m->waits || !m->data) {
        meeting_destroy(m);
        return NULL;
    }
    m->next = s->meetings;
    s->meetings = m;
    return m;
}

/* Answer all who wait in the meeting; forget it once all have come. */
static void meeting_answer(struct server *s, struct meeting *m)
{
    for (int r = 0; r < s->size; r++) {
        if (!m->waits[r])
            continue;
        m->waits[r] = false;
        if (m->failed)
            reply_text(s, r, m->ids[r], m->status, m->failed);
        else
            reply(s, r, m->ids[r], WIRE_OK, m->data,
                  m->bytes * (size_t)s->size);
    }
    if (m->come_n < s->size)
        return;
    for (struct meeting **at = &s->meetings; *at; at = &(*at)->next) {
        if (*at == m) {
            *at = m->next;
            break;
        }
    }
    meeting_destroy(m);
}

/* "ranks 3, 7" of those who did not come, the first few. */
static void name_missing(const struct server *s, const struct meeting *m,
                         struct sbuf *text)
{
    int missing = s->size - m->come_n, named = 0;
    sbuf_puts(text, missing == 1 ? "rank" : "ranks");
    for (int r = 0; r < s->size && named < 8; r++) {
        if (m->come[r])
            continue;
        sbuf_printf(text, "%s %d", named++ ? "," : "", r);
    }
    if (missing > named)
        sbuf_printf(text, " and %d more", missing - named);
}

static void meeting_fail(struct server *s, struct meeting *m, int lost)
{
    struct sbuf text = SBUF_INIT;
    if (lost >= 0) {
        sbuf_printf(&text, "rank %d is gone", lost);
    } else {
        name_missing(s, m, &text);
        sbuf_printf(&text, " did not come within %.1f s", m->limit_ms * 1e-3);
    }
    m->failed = sbuf_take(&text);
    m->status = lost >= 0 ? WIRE_PEER_LOST : WIRE_FAILED;
    m->deadline_s = 1e300;
    if (m->failed)
        meeting_answer(s, m);
}

static void take_gather(struct server *s, struct peer *peer,
                        const struct frame *f, const void *data)
{
    int rank = peer->rank;
    struct meeting *m = meeting_of(s, f->rank, f->data_bytes);
    if (!m || m->come[rank] || m->bytes != f->data_bytes) {
        reply_text(s, rank, f->id, WIRE_FAILED,
                   m ? "the ranks do not call the same: sizes or order differ"
                     : "rank 0 has no memory");
        return;
    }
    m->come[rank] = m->waits[rank] = true;
    m->come_n++;
    m->ids[rank] = f->id;
    memcpy(m->data + m->bytes * (size_t)rank, data, m->bytes);
    double deadline_s = clock_mono_s() + f->limit_ms * 1e-3;
    if (!m->failed && deadline_s < m->deadline_s) {
        m->deadline_s = deadline_s;
        m->limit_ms = f->limit_ms;
    }
    if (m->failed || m->come_n == s->size) {
        meeting_answer(s, m);
        return;
    }
    for (int r = 0; r < s->size; r++) {
        if (s->gone[r] && !m->come[r]) {
            meeting_fail(s, m, r);
            return;
        }
    }
}

static void fail_meetings(struct server *s, double now_s, int lost)
{
    struct meeting *next;
    for (struct meeting *m = s->meetings; m; m = next) {
        next = m->next;
        if (m->failed)
            continue;
        if (lost >= 0 ? !m->come[lost] : m->deadline_s <= now_s)
            meeting_fail(s, m, lost);
    }
}

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
    fail_getters(s, 0, rank);
    fail_meetings(s, 0, rank);
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
        take_put(s, peer, f, key, data);
        return 0;
    case WIRE_GET:
        take_get(s, peer, f, key);
        return 0;
    case WIRE_GATHER:
        take_gather(s, peer, f, data);
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
    double until_s = now_s + 1;
    for (const struct getter *g = s->getters; g; g = g->next)
        if (g->deadline_s < until_s)
            until_s = g->deadline_s;
    for (const struct meeting *m = s->meetings; m; m = m->next)
        if (m->deadline_s < until_s)
            until_s = m->deadline_s;
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
        fail_getters(s, now_s, -1);
        fail_meetings(s, now_s, -1);
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
    while (s->items) {
        struct item *next = s->items->next;
        free(s->items);
        s->items = next;
    }
    while (s->getters) {
        struct getter *next = s->getters->next;
        free(s->getters);
        s->getters = next;
    }
    while (s->meetings) {
        struct meeting *next = s->meetings->next;
        meeting_destroy(s->meetings);
        s->meetings = next;
    }
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
