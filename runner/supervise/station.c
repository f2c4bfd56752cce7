/* station - the listener thread; see station.h for the rules. */
#include "runner/supervise/station.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/supervise/wire.h"

#define TICK_MS 200
#define STRANGER_S 5.0  /* to prove itself */
#define GAP_S 2.0       /* a longer tick means that we did not run */
#define STRANGERS_MAX 64
#define QUEUE_MAX 65536

struct conn {
    struct conn *next;
    int fd;
    int node;               /* -1: a stranger */
    double since, last_in;
    char nonce[WIRE_NONCE_CHARS];
    char how[64];
    struct wire_in in;
    struct wire_out out;
    bool dead, want_out;
};

struct queued {
    struct queued *next;
    struct station_event event;
};

struct station {
    char secret[WIRE_SECRET_CHARS];
    char **names;
    int names_n, strangers_n;
    double silent_s;
    int listen_fd, wake_fd, event_fd, epoll_fd, port;
    pthread_t thread;
    bool running, stop;
    pthread_mutex_t lock;   /* guards all below, and stop */
    struct conn *conns;
    struct conn **members;  /* by node, NULL: no connection */
    struct queued *head, *tail;
    int queued_n;
};

/* ---- Events out --------------------------------------------------------- */

static void queue(struct station *s, struct station_event event)
{
    struct queued *q = s->queued_n < QUEUE_MAX ? malloc(sizeof *q) : NULL;
    if (!q) {
        json_decref(event.message);
        return;
    }
    *q = (struct queued){.event = event};
    if (s->tail)
        s->tail->next = q;
    else
        s->head = q;
    s->tail = q;
    s->queued_n++;
    uint64_t one = 1;
    ssize_t ignored = write(s->event_fd, &one, sizeof one);
    (void)ignored;
}

int station_take(struct station *s, struct station_event *ret)
{
    pthread_mutex_lock(&s->lock);
    struct queued *q = s->head;
    if (q) {
        s->head = q->next;
        if (!s->head)
            s->tail = NULL;
        s->queued_n--;
    }
    if (!s->head) {
        uint64_t drained;
        ssize_t ignored = read(s->event_fd, &drained, sizeof drained);
        (void)ignored;
    }
    pthread_mutex_unlock(&s->lock);
    if (!q)
        return 0;
    *ret = q->event;
    free(q);
    return 1;
}

/* ---- One connection ----------------------------------------------------- */

static void conn_want(struct station *s, struct conn *c)
{
    bool want = c->out.len > 0;
    if (want == c->want_out || c->dead)
        return;
    c->want_out = want;
    struct epoll_event ev = {.events = EPOLLIN | (want ? EPOLLOUT : 0u),
                             .data.ptr = c};
    epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

static void conn_fail(struct station *s, struct conn *c, const char *how,
                      double now)
{
    if (c->dead)
        return;
    c->dead = true;
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    if (c->node < 0) {
        s->strangers_n--;
        return;
    }
    if (s->members[c->node] != c)
        return;
    s->members[c->node] = NULL;
    struct station_event event = {.what = STATION_LOST, .node = c->node,
                                  .mono_s = now, .quiet_s = now - c->last_in};
    snprintf(event.how, sizeof event.how, "%s", how);
    queue(s, event);
}

static void conn_put(struct station *s, struct conn *c, json_t *message,
                     double now)
{
    if (wire_out_put(&c->out, message) || wire_out_flush(&c->out, c->fd))
        conn_fail(s, c, "cannot send", now);
    else
        conn_want(s, c);
}

static void conn_accept(struct station *s, double now)
{
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct conn *c = s->strangers_n < s->names_n + STRANGERS_MAX
                         ? calloc(1, sizeof *c)
                         : NULL;
    if (!c || wire_random_hex(c->nonce, sizeof c->nonce, NULL)) {
        free(c);
        close(fd);
        return;
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->node = -1;
    c->since = c->last_in = now;
    wire_in_init(&c->in, WIRE_STRANGER_BYTES);
    c->next = s->conns;
    s->conns = c;
    s->strangers_n++;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
    conn_put(s, c, json_pack("{s:s, s:s}", "type", "challenge", "nonce",
                             c->nonce), now);
}

static int node_index(const struct station *s, const char *name)
{
    for (int i = 0; i < s->names_n; i++)
        if (!strcmp(s->names[i], name))
            return i;
    return -1;
}

/* A stranger's first and only message: hello with a proof. Takes message. */
static void conn_greet(struct station *s, struct conn *c, json_t *hello,
                       double now)
{
    const char *type = json_string_or(hello, "type", "");
    const char *name = json_string_or(hello, "node", "");
    const char *nonce = json_string_or(hello, "nonce", "");
    char want[WIRE_PROOF_CHARS], ours[WIRE_PROOF_CHARS];
    int node = node_index(s, name);
    bool good = !strcmp(type, "hello") && node >= 0 &&
                strlen(nonce) == WIRE_NONCE_CHARS - 1 &&
                !wire_proof(s->secret, "watcher", c->nonce, nonce, name, want,
                            NULL) &&
                wire_proof_equal(want, json_string_or(hello, "proof", "")) &&
                !wire_proof(s->secret, "supervisor", c->nonce, nonce, name,
                            ours, NULL);
    if (!good) {
        json_decref(hello);
        conn_fail(s, c, "no proof", now);
        return;
    }
    /* A newer connection of the same node wins over an old one. */
    if (s->members[node]) {
        struct conn *old = s->members[node];
        s->members[node] = NULL;
        conn_fail(s, old, "replaced", now);
    }
    c->node = node;
    s->strangers_n--;
    c->in.limit = WIRE_LINE_BYTES;
    s->members[node] = c;
    conn_put(s, c, json_pack("{s:s, s:s}", "type", "welcome", "proof", ours),
             now);
    queue(s, (struct station_event){.what = STATION_UP, .node = node,
                                    .mono_s = now, .message = hello});
}

static void conn_message(struct station *s, struct conn *c, json_t *message,
                         double now)
{
    c->last_in = now;
    if (c->node < 0) {
        conn_greet(s, c, message, now);
    } else if (!strcmp(json_string_or(message, "type", ""), "beat")) {
        json_decref(message);
        conn_put(s, c, json_pack("{s:s}", "type", "beat"), now);
    } else {
        queue(s, (struct station_event){.what = STATION_MESSAGE,
                                        .node = c->node, .mono_s = now,
                                        .message = message});
    }
}

static void conn_read(struct station *s, struct conn *c, double now)
{
    char how[64];
    for (int rounds = 0; !c->dead && rounds < 64; rounds++) {
        int got = wire_in_read(&c->in, c->fd, how, sizeof how);
        json_t *message;
        int whole;
        while (!c->dead && (whole = wire_in_next(&c->in, &message)))
            if (whole < 0)
                conn_fail(s, c, "bad message", now);
            else
                conn_message(s, c, message, now);
        if (got < 0)
            conn_fail(s, c, how, now);
        if (got <= 0)
            return;
    }
}

/* ---- The thread --------------------------------------------------------- */

static void check_deadlines(struct station *s, double now)
{
    for (struct conn *c = s->conns; c; c = c->next) {
        if (c->dead)
            continue;
        if (c->node < 0 ? now - c->since > STRANGER_S
                        : now - c->last_in > s->silent_s)
            conn_fail(s, c, "silent", now);
    }
}

static void sweep(struct station *s)
{
    for (struct conn **p = &s->conns; *p;) {
        struct conn *c = *p;
        if (!c->dead) {
            p = &c->next;
            continue;
        }
        *p = c->next;
        close(c->fd);
        wire_in_release(&c->in);
        wire_out_release(&c->out);
        free(c);
    }
}

static void after_gap(struct station *s, double gap, double now)
{
    for (struct conn *c = s->conns; c; c = c->next)
        c->last_in = c->since = now;
    queue(s, (struct station_event){.what = STATION_GAP, .mono_s = now,
                                    .seconds = gap});
}

static void *station_thread(void *arg)
{
    struct station *s = arg;
    struct epoll_event ready[64];
    double last = clock_mono_s();
    for (;;) {
        int n = epoll_wait(s->epoll_fd, ready, 64, TICK_MS);
        double now = clock_mono_s();
        pthread_mutex_lock(&s->lock);
        if (s->stop)
            break;
        if (now - last > GAP_S)
            after_gap(s, now - last, now);
        last = now;
        for (int i = 0; i < n; i++) {
            struct conn *c = ready[i].data.ptr;
            if (!c) {
                conn_accept(s, now);
            } else if ((void *)c == (void *)s) {
                uint64_t drained;
                ssize_t ignored = read(s->wake_fd, &drained, sizeof drained);
                (void)ignored;
            } else if (!c->dead) {
                if (ready[i].events & EPOLLOUT &&
                    wire_out_flush(&c->out, c->fd))
                    conn_fail(s, c, "cannot send", now);
                conn_read(s, c, now);
                conn_want(s, c);
            }
        }
        check_deadlines(s, now);
        sweep(s);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- The main thread's side --------------------------------------------- */

int station_send(struct station *s, int node, json_t *message)
{
    int rc = -1;
    pthread_mutex_lock(&s->lock);
    struct conn *c = s->members[node];
    if (c) {
        conn_put(s, c, message, clock_mono_s());
        rc = c->dead ? -1 : 0;
    } else {
        json_decref(message);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int station_port(const struct station *s)
{
    return s->port;
}

int station_fd(const struct station *s)
{
    return s->event_fd;
}

static int listen_any(struct station *s, struct err *err)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof addr;
    s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0);
    if (s->listen_fd < 0 ||
        bind(s->listen_fd, (struct sockaddr *)&addr, sizeof addr) ||
        listen(s->listen_fd, 1024) ||
        getsockname(s->listen_fd, (struct sockaddr *)&addr, &len))
        return err_set_errno(err, "station: cannot listen");
    s->port = ntohs(addr.sin_port);
    return 0;
}

static int watch_fd(struct station *s, int fd, void *tag)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = tag};
    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int start_thread(struct station *s)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&s->thread, NULL, station_thread, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->running = rc == 0;
    errno = rc;
    return rc ? -1 : 0;
}

struct station *station_open(const char *secret, const char *const *names,
                             int names_n, double silent_s, struct err *err)
{
    struct station *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(err, "station: out of memory");
        return NULL;
    }
    s->listen_fd = s->wake_fd = s->event_fd = s->epoll_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    snprintf(s->secret, sizeof s->secret, "%s", secret);
    s->silent_s = silent_s;
    s->names = calloc((size_t)names_n + 1, sizeof *s->names);
    s->members = calloc((size_t)names_n + 1, sizeof *s->members);
    if (!s->names || !s->members) {
        err_set(err, "station: out of memory");
        goto fail;
    }
    for (; s->names_n < names_n; s->names_n++)
        if (!(s->names[s->names_n] = strdup(names[s->names_n]))) {
            err_set(err, "station: out of memory");
            goto fail;
        }
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll_fd < 0 || s->wake_fd < 0 || s->event_fd < 0) {
        err_set_errno(err, "station: cannot make descriptors");
        goto fail;
    }
    if (listen_any(s, err))
        goto fail;
    if (watch_fd(s, s->listen_fd, NULL) || watch_fd(s, s->wake_fd, s) ||
        start_thread(s)) {
        err_set_errno(err, "station: cannot start the listener");
        goto fail;
    }
    return s;
fail:
    station_close(s);
    return NULL;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void station_close(struct station *s)
{
    if (!s)
        return;
    if (s->running) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        uint64_t one = 1;
        ssize_t ignored = write(s->wake_fd, &one, sizeof one);
        (void)ignored;
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    for (struct conn *c = s->conns; c; c = c->next)
        c->dead = true;
    sweep(s);
    struct station_event event;
    while (s->event_fd >= 0 && station_take(s, &event))
        json_decref(event.message);
    for (int i = 0; i < s->names_n; i++)
        free(s->names[i]);
    free(s->names);
    free(s->members);
    close_fd(s->listen_fd);
    close_fd(s->wake_fd);
    close_fd(s->event_fd);
    close_fd(s->epoll_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
