/* tcp - the client half of control; see tcp.h.
 *
 * One request at a time. The server watches the limits, so that everyone gets
 * the same answer with names; the client waits a little longer and gives up by
 * itself only when rank 0 no longer answers. */
#include "runner/comm/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"
#include "runner/comm/proof.h"
#include "runner/comm/wire.h"

#define CONNECT_S 2.0
#define GRACE_S 3.0
#define RETRY_S 0.1

struct client {
    pthread_mutex_t lock;
    struct wire wire;
    struct server *server; /* rank 0's, or NULL */
    int rank, size;
    uint32_t id;
    int32_t gathers;
    int lost;              /* rank known to be gone, or -1; atomic */
};

void tcp_addr_text(const struct tcp_addr *addr, char *dst, size_t dst_bytes)
{
    char host[128], port[16];
    if (getnameinfo((const struct sockaddr *)&addr->addr, addr->bytes, host,
                    sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(dst, dst_bytes, "?");
    else
        snprintf(dst, dst_bytes, "%s:%s", host, port);
}

int tcp_listen(const struct tcp_addr *addr, struct err *err)
{
    char text[160];
    int on = 1, off = 0;
    int fd = socket(addr->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC |
                                              SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set_errno(err, "comm: cannot make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (addr->addr.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (const struct sockaddr *)&addr->addr, addr->bytes) ||
        listen(fd, 1024)) {
        tcp_addr_text(addr, text, sizeof text);
        err_set_errno(err, "comm: rank 0 cannot listen at %s", text);
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- Waiting for frames ------------------------------------------------ */

/* Note what the server says unasked. */
static void take_news(struct client *c, const struct frame *f)
{
    if (f->type == WIRE_LOST)
        __atomic_store_n(&c->lost, f->rank, __ATOMIC_RELAXED);
}

static void note_server_lost(struct client *c)
{
    if (__atomic_load_n(&c->lost, __ATOMIC_RELAXED) < 0)
        __atomic_store_n(&c->lost, 0, __ATOMIC_RELAXED);
}

/* Send what is queued, then wait for a frame of this type (and id). 1 came, 0
 * the deadline passed, -1 the connection broke. */
static int await(struct client *c, enum wire_type type, uint32_t id,
                 double deadline_s, struct frame *ret, const void **ret_data)
{
    bool broken = false;
    for (;;) {
        const char *key;
        int rc;
        while ((rc = wire_next(&c->wire, ret, &key, ret_data)) == 1) {
            if (ret->type == type && ret->id == id)
                return 1;
            take_news(c, ret);
        }
        if (broken || rc < 0 || wire_flush(&c->wire))
            return -1;
        double left_s = deadline_s - clock_mono_s();
        if (left_s <= 0)
            return 0;
        struct pollfd p = {.fd = c->wire.fd, .events = POLLIN};
        if (wire_pending(&c->wire))
            p.events |= POLLOUT;
        int ms = left_s > 1 ? 1000 : (int)(left_s * 1e3) + 1;
        if (poll(&p, 1, ms) < 0 && errno != EINTR)
            return -1;
        broken = (p.revents & (POLLIN | POLLHUP | POLLERR)) &&
                 wire_receive(&c->wire);
    }
}

/* ---- Joining ----------------------------------------------------------- */

static int connect_within(const struct tcp_addr *addr, double deadline_s)
{
    int fd = socket(addr->addr.ss_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (!connect(fd, (const struct sockaddr *)&addr->addr, addr->bytes))
        return fd;
    if (errno == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        double left_s = deadline_s - clock_mono_s();
        int why = ETIMEDOUT;
        socklen_t bytes = sizeof why;
        if (left_s > 0 && poll(&p, 1, (int)(left_s * 1e3) + 1) == 1)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes);
        if (!why)
            return fd;
        errno = why;
    }
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Prove ourselves on the connection. 0 welcome; -1 with *why filled. */
static int introduce(struct client *c, const unsigned char *secret,
                     double first_s, double deadline_s, struct sbuf *why)
{
    struct frame f;
    const void *data;
    unsigned char nonce[PROOF_NONCE_BYTES];
    int rc = await(c, WIRE_CHALLENGE, 0, first_s, &f, &data);
    if (rc != 1 || f.data_bytes != sizeof nonce) {
        sbuf_puts(why, "what answers there is not rank 0");
        return -1;
    }
    memcpy(nonce, data, sizeof nonce);
    uint64_t proof = proof_make(secret, nonce, c->rank, c->size);
    struct frame hello = {.type = WIRE_HELLO, .rank = c->rank,
                          .limit_ms = (uint32_t)c->size};
    wire_send(&c->wire, hello, NULL, &proof, sizeof proof);
    rc = await(c, WIRE_WELCOME, 0, deadline_s, &f, &data);
    if (rc == 1 && f.status == WIRE_OK)
        return 0;
    if (rc == 1)
        sbuf_printf(why, "rank 0 refuses rank %d: %.*s", c->rank,
                    (int)f.data_bytes, (const char *)data);
    else
        sbuf_puts(why, "rank 0 does not answer");
    return -1;
}

/* Try the addresses in turn until one is rank 0. */
static int find_rank0(struct client *c, const unsigned char *secret,
                      const struct tcp_addr *addrs, int addrs_n,
                      double deadline_s, struct err *err)
{
    struct sbuf why = SBUF_INIT; /* the last word that says something */
    char text[160] = "no address";
    double begin_s = clock_mono_s(), now_s = begin_s;
    for (int i = 0; now_s < deadline_s; i = (i + 1) % addrs_n) {
        double try_s = now_s + CONNECT_S;
        if (try_s > deadline_s)
            try_s = deadline_s;
        tcp_addr_text(&addrs[i], text, sizeof text);
        int fd = connect_within(&addrs[i], try_s);
        if (fd < 0 && !why.len) {
            sbuf_puts(&why, strerror(errno));
        } else if (fd >= 0) {
            wire_init(&c->wire, fd, SIZE_MAX / 4);
            sbuf_clear(&why);
            if (!introduce(c, secret, try_s, deadline_s, &why)) {
                sbuf_release(&why);
                return 0;
            }
            wire_release(&c->wire);
            c->lost = -1;
        }
        now_s = clock_mono_s();
        if (i == addrs_n - 1 && now_s < deadline_s)
            clock_sleep_s(RETRY_S);
    }
    err_set(err, "comm: rank %d cannot reach rank 0 at %s within %.1f s: %s",
            c->rank, text, now_s - begin_s, why.data);
    sbuf_release(&why);
    return -1;
}

/* ---- The table --------------------------------------------------------- */

/* Ask and wait. 0 with the answer's bytes in *ret_data (valid while locked). */
static int ask(struct client *c, struct frame f, const char *key,
               const void *data, size_t bytes, double limit_s,
               const void **ret_data, size_t *ret_bytes, struct err *err)
{
    struct frame answer;
    f.id = ++c->id;
    f.limit_ms = limit_s < 0 ? 0
                 : limit_s > 4e6 ? 4000000000u : (uint32_t)(limit_s * 1e3);
    if (wire_send(&c->wire, f, key, data, bytes))
        return err_set(err, "comm: out of memory for a control message");
    int rc = await(c, WIRE_REPLY, f.id, clock_mono_s() + limit_s + GRACE_S,
                   &answer, ret_data);
    if (rc < 0) {
        note_server_lost(c);
        return err_set(err, "comm: rank 0 is gone");
    }
    if (rc == 0)
        return err_set(err, "comm: rank 0 has not answered for %.1f s",
                       limit_s + GRACE_S);
    *ret_bytes = answer.data_bytes;
    if (answer.status != WIRE_OK)
        return err_set(err, "%.*s", (int)answer.data_bytes,
                       (const char *)*ret_data);
    return 0;
}

static int tcp_put(void *self, const char *key, const void *data, size_t bytes,
                   struct err *err)
{
    struct client *c = self;
    const void *answer;
    size_t answer_bytes;
    pthread_mutex_lock(&c->lock);
    int rc = ask(c, (struct frame){.type = WIRE_PUT}, key, data, bytes, 30,
                 &answer, &answer_bytes, err);
    pthread_mutex_unlock(&c->lock);
    return rc ? err_prefix(err, "comm: put of '%s'", key) : 0;
}

static int tcp_get(void *self, int rank, const char *key, void *data,
                   size_t bytes, double limit_s, struct err *err)
{
    struct client *c = self;
    const void *answer;
    size_t answer_bytes;
    pthread_mutex_lock(&c->lock);
    int rc = ask(c, (struct frame){.type = WIRE_GET, .rank = rank}, key, NULL,
                 0, limit_s, &answer, &answer_bytes, err);
    if (!rc && answer_bytes != bytes)
        rc = err_set(err, "it has %zu bytes, not %zu", answer_bytes, bytes);
    if (!rc)
        memcpy(data, answer, bytes);
    pthread_mutex_unlock(&c->lock);
    return rc ? err_prefix(err, "comm: get of '%s' from rank %d", key, rank)
              : 0;
}

static int tcp_gather(void *self, const void *mine, size_t bytes, void *all,
                      double limit_s, struct err *err)
{
    struct client *c = self;
    const void *answer;
    size_t answer_bytes;
    pthread_mutex_lock(&c->lock);
    struct frame f = {.type = WIRE_GATHER, .rank = ++c->gathers};
    int rc = ask(c, f, NULL, mine, bytes, limit_s, &answer, &answer_bytes,
                 err);
    if (!rc && answer_bytes != bytes * (size_t)c->size)
        rc = err_set(err, "rank 0 answered %zu bytes", answer_bytes);
    if (!rc && answer_bytes)
        memcpy(all, answer, answer_bytes);
    pthread_mutex_unlock(&c->lock);
    return rc ? err_prefix(err, "comm: meeting number %d of all ranks",
                           c->gathers)
              : 0;
}

static int tcp_lost(void *self)
{
    struct client *c = self;
    if (__atomic_load_n(&c->lost, __ATOMIC_RELAXED) < 0 &&
        !pthread_mutex_trylock(&c->lock)) {
        struct frame f;
        const char *key;
        const void *data;
        int over = wire_receive(&c->wire);
        while (wire_next(&c->wire, &f, &key, &data) == 1)
            take_news(c, &f);
        if (over)
            note_server_lost(c);
        pthread_mutex_unlock(&c->lock);
    }
    return __atomic_load_n(&c->lost, __ATOMIC_RELAXED);
}

static void tcp_close(void *self, bool orderly)
{
    struct client *c = self;
    if (orderly) {
        wire_send(&c->wire, (struct frame){.type = WIRE_BYE}, NULL, NULL, 0);
        wire_flush(&c->wire);
    }
    wire_release(&c->wire);
    server_stop(c->server, orderly);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static const struct control_ops tcp_ops = {
    .name = "tcp",
    .put = tcp_put,
    .get = tcp_get,
    .gather = tcp_gather,
    .lost = tcp_lost,
    .close = tcp_close,
};

int tcp_join(struct control *ret, const struct comm_place *place,
             const unsigned char secret[CONTROL_SECRET_BYTES],
             struct server *server, int own_fd, const struct tcp_addr *addrs,
             int addrs_n, double deadline_s, struct err *err)
{
    int rc;
    struct client *c = calloc(1, sizeof *c);
    if (!c) {
        if (own_fd >= 0)
            close(own_fd);
        server_stop(server, false);
        return err_set(err, "comm: out of memory");
    }
    pthread_mutex_init(&c->lock, NULL);
    c->server = server;
    c->rank = place->rank;
    c->size = place->size;
    c->lost = -1;
    c->wire.fd = -1;
    if (own_fd >= 0) {
        struct sbuf why = SBUF_INIT;
        wire_init(&c->wire, own_fd, SIZE_MAX / 4);
        rc = introduce(c, secret, deadline_s, deadline_s, &why);
        if (rc)
            err_set(err, "comm: rank 0's own control: %s", why.data);
        sbuf_release(&why);
    } else {
        rc = find_rank0(c, secret, addrs, addrs_n, deadline_s, err);
    }
    if (rc) {
        tcp_close(c, false);
        return -1;
    }
    *ret = (struct control){&tcp_ops, c};
    return 0;
}
