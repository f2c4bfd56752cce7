/* wire - frames over a stream socket; see wire.h. */
#include "runner/comm/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536

/* A peer whose node died in silence is noticed after about half a minute. */
static void keep_alive(int fd)
{
    int on = 1, idle = 10, every = 5, count = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void wire_init(struct wire *wire, int fd, size_t body_max)
{
    *wire = (struct wire){.fd = fd, .body_max = body_max};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    keep_alive(fd); /* fails harmlessly on a socket pair */
}

void wire_release(struct wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    free(wire->in);
    free(wire->out);
    *wire = (struct wire){.fd = -1};
}

/* Room for `more` bytes after n. */
static int grow(unsigned char **buf, size_t *cap, size_t n, size_t more)
{
    if (n + more <= *cap)
        return 0;
    size_t want = *cap ? *cap : 4096;
    while (want < n + more)
        want *= 2;
    unsigned char *bigger = realloc(*buf, want);
    if (!bigger)
        return -1;
    *buf = bigger;
    *cap = want;
    return 0;
}

/* Give up the frames that wire_next handed out. */
static void drop_taken(struct wire *wire)
{
    if (!wire->in_taken)
        return;
    wire->in_n -= wire->in_taken;
    memmove(wire->in, wire->in + wire->in_taken, wire->in_n);
    wire->in_taken = 0;
}

int wire_receive(struct wire *wire)
{
    if (wire->fd < 0)
        return -1;
    drop_taken(wire);
    for (;;) {
        /* Never more ahead than one largest frame: the sender waits. */
        if (wire->in_n > wire->body_max + sizeof(struct frame))
            return 0;
        if (grow(&wire->in, &wire->in_cap, wire->in_n, READ_BYTES))
            return -1;
        ssize_t n = recv(wire->fd, wire->in + wire->in_n, READ_BYTES, 0);
        if (n > 0)
            wire->in_n += (size_t)n;
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        else
            return -1;
    }
}

int wire_next(struct wire *wire, struct frame *ret, const char **ret_key,
              const void **ret_data)
{
    drop_taken(wire);
    if (wire->in_n < sizeof *ret)
        return 0;
    memcpy(ret, wire->in, sizeof *ret);
    size_t body = (size_t)ret->key_bytes + ret->data_bytes;
    if (ret->magic != WIRE_MAGIC || body > wire->body_max)
        return -1;
    if (wire->in_n < sizeof *ret + body)
        return 0;
    *ret_key = (const char *)wire->in + sizeof *ret;
    *ret_data = wire->in + sizeof *ret + ret->key_bytes;
    wire->in_taken = sizeof *ret + body;
    return 1;
}

int wire_send(struct wire *wire, struct frame frame, const char *key,
              const void *data, size_t data_bytes)
{
    frame.magic = WIRE_MAGIC;
    frame.key_bytes = key ? (uint32_t)strlen(key) : 0;
    frame.data_bytes = (uint32_t)data_bytes;
    size_t more = sizeof frame + frame.key_bytes + data_bytes;
    if (grow(&wire->out, &wire->out_cap, wire->out_n, more))
        return -1;
    unsigned char *at = wire->out + wire->out_n;
    memcpy(at, &frame, sizeof frame);
    if (frame.key_bytes)
        memcpy(at + sizeof frame, key, frame.key_bytes);
    if (data_bytes)
        memcpy(at + sizeof frame + frame.key_bytes, data, data_bytes);
    wire->out_n += more;
    return 0;
}

int wire_flush(struct wire *wire)
{
    if (wire->fd < 0)
        return -1;
    while (wire->out_at < wire->out_n) {
        ssize_t n = send(wire->fd, wire->out + wire->out_at,
                         wire->out_n - wire->out_at, MSG_NOSIGNAL);
        if (n > 0)
            wire->out_at += (size_t)n;
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        else
            return -1;
    }
    wire->out_n = wire->out_at = 0;
    return 0;
}

bool wire_pending(const struct wire *wire)
{
    return wire->out_at < wire->out_n;
}
