/* Fuzz target: what ranks tell their watcher, datagrams (a line of the input
 * each) and beats (the bytes behind a form feed). */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runner/supervise/node.h"
#include "tests/fuzz/driver.h"

enum { RANKS_N = 2 };

/* What goes on to the supervisor is something to print. */
static void on_send(void *ctx, json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);
    if (!json_is_object(message) || !text)
        abort();
    free(text);
    json_decref(message);
    ++*(int *)ctx;
}

static void send_lines(const struct node_ranks *r, const uint8_t *data,
                       size_t bytes)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || snprintf(to.sun_path, sizeof to.sun_path, "%s/watch.sock",
                           r->dir) >= (int)sizeof to.sun_path)
        abort();
    while (bytes) {
        const uint8_t *end = memchr(data, '\n', bytes);
        size_t n = end ? (size_t)(end - data) : bytes;
        sendto(fd, data, n, 0, (struct sockaddr *)&to, sizeof to);
        data += n + !!end;
        bytes -= n + !!end;
    }
    close(fd);
}

/* The magic is right, so that the rest is looked at. */
static void write_beats(const struct node_ranks *r, const uint8_t *data,
                        size_t bytes)
{
    for (int i = 0; i < r->n && bytes; i++) {
        struct kb_beat beat = {.magic = KB_BEAT_MAGIC, .attempt = 1};
        size_t skip = sizeof beat.magic, n = sizeof beat - skip;
        n = n < bytes ? n : bytes;
        memcpy((char *)&beat + skip, data, n);
        if (pwrite(r->rank[i].beat_fd, &beat, sizeof beat, 0) !=
            (ssize_t)sizeof beat)
            abort();
        data += n;
        bytes -= n;
    }
}

static void look(struct node_ranks *r, double now)
{
    static const struct node_limits limits = {
        .heartbeat_s = 1, .silent_s = 10, .stall_min_s = 30, .stall_factor = 3,
        .load_limit_s = 600, .wireup_limit_s = 600};
    int n = 0;
    node_ranks_turn(r, now, on_send, &n);
    json_t *report = node_ranks_report(r, &limits, now);
    if (!json_is_array(report))
        abort();
    json_decref(report);
    int stalled = node_stall_find(r, &limits, now);
    int writer = node_stall_writer(r, &limits, now);
    if (stalled < -1 || stalled >= r->n || writer < -1 || writer >= r->n)
        abort();
    for (int i = 0; i < r->n; i++)
        if (r->rank[i].known && r->rank[i].pid <= 1)
            abort(); /* a signal to it would go to a group, or to init */
    node_ranks_alive(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct node_ranks r;
    struct err err = ERR_INIT;
    const uint8_t *beats = bytes ? memchr(data, '\f', bytes) : NULL;
    size_t lines = beats ? (size_t)(beats - data) : bytes;
    memset(&r, 0, sizeof r);
    if (node_ranks_open(&r, 1000000000L + getpid(), 1, RANKS_N, &err))
        abort();
    if (beats)
        write_beats(&r, beats + 1, bytes - lines - 1);
    node_ranks_adopt(&r, 1);
    send_lines(&r, data, lines);
    look(&r, 2);
    look(&r, 1000);
    node_ranks_close(&r);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 1000);
    return tap_done();
}
#endif
