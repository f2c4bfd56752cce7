/* Fuzz target: what the supervisor's port takes, from a stranger and from a
 * watcher that has proved itself. Behind the input stands a line that is no
 * message, so that the supervisor ends the connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runner/base/json.h"
#include "runner/supervise/station.h"
#include "runner/supervise/wire.h"
#include "tests/fuzz/driver.h"

static const char secret[] = "secret";
static const char *const nodes[] = {"n1"};
static struct station *station;

/* To another loopback address each time: a long run has more connections than
 * one address has ports. */
static int dial(void)
{
    static unsigned dialed;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)station_port(station)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK +
                                                    dialed++ % 200)};
    struct timeval limit = {.tv_sec = 20};
    int at_once = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
        perror("dial");
        abort();
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

/* A fuzzer's alarms end a call that has a time limit. */
static ssize_t hear(int fd, char *data, size_t bytes)
{
    ssize_t n;
    do
        n = recv(fd, data, bytes, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

static json_t *line(int fd)
{
    char text[1024];
    size_t n = 0;
    while (n < sizeof text && hear(fd, text + n, 1) == 1)
        if (text[n++] == '\n')
            return json_loadb(text, n, 0, NULL);
    perror("hear");
    abort();
}

static void prove(int fd)
{
    static const char nonce[] = "00112233445566778899aabbccddeeff";
    char proof[WIRE_PROOF_CHARS];
    json_t *challenge = line(fd);
    if (strlen(nonce) != WIRE_NONCE_CHARS - 1 ||
        wire_proof(secret, "watcher", json_string_or(challenge, "nonce", ""),
                   nonce, nodes[0], proof, NULL))
        abort();
    dprintf(fd, "{\"type\":\"hello\",\"node\":\"%s\",\"nonce\":\"%s\","
            "\"proof\":\"%s\"}\n", nodes[0], nonce, proof);
    json_decref(challenge);
    json_decref(line(fd));
}

/* Everything until the supervisor hangs up; a reset leaves no port waiting. */
static void pour(int fd, const uint8_t *data, size_t bytes)
{
    char answer[4096];
    struct linger now = {.l_onoff = 1};
    for (size_t at = 0; at < bytes;) {
        ssize_t n = send(fd, data + at, bytes - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    send(fd, "\nx\n", 3, MSG_NOSIGNAL);
    ssize_t n;
    while ((n = hear(fd, answer, sizeof answer)) > 0)
        ;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        abort(); /* it did not hang up */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/* What was seen: of a stranger nothing, of a watcher its up and its end. */
static int take(bool until_lost)
{
    struct station_event event;
    int seen = 0;
    for (int tries = 0; tries < 20000; tries++) {
        while (station_take(station, &event)) {
            bool lost = event.what == STATION_LOST;
            if (event.what == STATION_MESSAGE && !json_is_object(event.message))
                abort();
            if (event.what != STATION_GAP)
                seen++;
            json_decref(event.message);
            if (lost)
                return seen;
        }
        if (!until_lost)
            return seen;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err = ERR_INIT;
    if (!station)
        station = station_open(secret, nodes, 1, 3600, &err);
    if (!station)
        abort();
    int fd = dial();
    pour(fd, data, bytes);
    if (take(false))
        abort(); /* a stranger is nobody */
    fd = dial();
    prove(fd);
    pour(fd, data, bytes);
    if (take(true) < 2)
        abort();
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    driver_run_folder(CORPUS, 400);
    station_close(station);
    return tap_done();
}
#endif
