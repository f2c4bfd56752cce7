/* Fuzz target: what comes in on a connection between supervisor and watcher,
 * before and after the proof. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/json.h"
#include "runner/supervise/link.h"
#include "tests/fuzz/driver.h"

static void on_message(void *ctx, const json_t *message)
{
    if (!json_is_object(message))
        abort();
    ++*(int *)ctx;
}

/* A watcher in the given state gets all of it. */
static void fuzz_link(const uint8_t *data, size_t bytes, enum link_state state)
{
    struct link link;
    struct err err = ERR_INIT;
    int fd[2], n = 0;
    if (link_init(&link, "localhost:1", NULL, "secret", "node", &err) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd))
        abort();
    link.fd = fd[0];
    link.state = state;
    link.since = link.heard_s = 1;
    for (size_t at = 0, sent; at < bytes && link.fd >= 0; at += sent) {
        size_t piece = bytes - at < 4000 ? bytes - at : 4000;
        ssize_t got = send(fd[1], data + at, piece, MSG_NOSIGNAL);
        sent = got > 0 ? (size_t)got : piece;
        link_turn(&link, 1.1, 1000, on_message, &n);
    }
    if (state == LINK_PROVING && (link.state == LINK_UP || n))
        abort(); /* nobody proves a secret by chance */
    close(fd[1]);
    link_release(&link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_link(data, bytes, LINK_PROVING);
    fuzz_link(data, bytes, LINK_UP);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    static const char *const seeds[] = {
        "{\"type\":\"challenge\",\"nonce\":"
        "\"00112233445566778899aabbccddeeff\"}\n"
        "{\"type\":\"welcome\",\"proof\":\"00\"}\n",
        "{\"type\":\"beat\"}\n{\"type\":\"prepare\",\"attempt\":3,"
        "\"ranks\":8,\"heartbeat_s\":1.0}\n",
        "{\"type\":\"peers\",\"host\":\"n1\",\"peers\":[{\"node\":\"n1\","
        "\"address\":\"10.0.0.1\",\"port\":1}]}\n",
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        driver_run("wire", seeds[i], strlen(seeds[i]), 3000);
    return tap_done();
}
#endif
