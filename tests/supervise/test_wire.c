/* Tests of runner/supervise/wire.c and station.c: proofs, framing, and what
 * strangers send. */
#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/supervise/link.h"
#include "runner/supervise/station.h"
#include "runner/supervise/wire.h"
#include "tests/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HALF "00112233445566778899aabbccddeeff"
#define SECRET HALF HALF

static void test_proof(void)
{
    char a[WIRE_PROOF_CHARS], b[WIRE_PROOF_CHARS];
    /* HMAC-SHA256(key, "1:r 1:a 1:b 1:n") by openssl dgst. */
    wire_proof("key", "r", "a", "b", "n", a, NULL);
    is_int(strlen(a), 64, "a proof is 64 digits");
    wire_proof("key", "r", "a", "b", "n", b, NULL);
    ok(wire_proof_equal(a, b), "the same gives the same");
    wire_proof("kez", "r", "a", "b", "n", b, NULL);
    ok(!wire_proof_equal(a, b), "another secret");
    wire_proof("key", "s", "a", "b", "n", b, NULL);
    ok(!wire_proof_equal(a, b), "another role");
    wire_proof("key", "r", "a 1", "b", "n", b, NULL);
    ok(!wire_proof_equal(a, b), "another nonce");
    wire_proof("key", "r", "a", "b", "n n", b, NULL);
    ok(!wire_proof_equal(a, b), "another name");
    ok(!wire_proof_equal(a, ""), "an empty proof proves nothing");
    char big[1000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    struct err err = ERR_INIT;
    is_int(wire_proof("key", "r", "a", "b", big, b, &err), -1,
           "a name too long is refused");
}

static void test_framing(void)
{
    int fd[2];
    struct wire_in in;
    struct wire_out out = {0};
    char how[64];
    json_t *m;
    socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
    wire_in_init(&in, 64);
    is_int(wire_in_read(&in, fd[0], how, sizeof how), 0, "nothing yet");
    wire_out_put(&out, json_pack("{s:i}", "a", 1));
    wire_out_put(&out, json_pack("{s:i}", "b", 2));
    is_int(wire_out_flush(&out, fd[1]), 0, "two go out");
    wire_in_read(&in, fd[0], how, sizeof how);
    is_int(wire_in_next(&in, &m), 1, "the first comes in");
    is_int(json_i64_or(m, "a", 0), 1, "whole");
    json_decref(m);
    is_int(wire_in_next(&in, &m), 1, "the second");
    json_decref(m);
    is_int(wire_in_next(&in, &m), 0, "no third");
    static const char *const bad[] = {"\n", "[1]\n", "{\"a\":1,\"a\":2}\n",
                                      "\xff\xfe\n", "{\"a\":\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ok(write(fd[1], bad[i], strlen(bad[i])) > 0, "bad line %zu sent", i);
        wire_in_read(&in, fd[0], how, sizeof how);
        is_int(wire_in_next(&in, &m), -1, "and refused");
    }
    char long_line[200];
    memset(long_line, 'x', sizeof long_line);
    ok(write(fd[1], long_line, sizeof long_line) > 0, "a line past the limit");
    wire_in_read(&in, fd[0], how, sizeof how);
    is_int(wire_in_next(&in, &m), -1, "is refused before its end");
    close(fd[1]);
    is_int(wire_in_read(&in, fd[0], how, sizeof how), -1, "and then closed");
    close(fd[0]);
    wire_in_release(&in);
    wire_out_release(&out);
}

/* ---- The station and its guests ----------------------------------------- */

static int dial(int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Is the connection ended by the other side within s? */
static int is_ended(int fd, double s)
{
    char buf[4096];
    double until = clock_mono_s() + s;
    while (clock_mono_s() < until) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 50) > 0 && recv(fd, buf, sizeof buf, 0) <= 0)
            return 1;
    }
    return 0;
}

static void on_message(void *ctx, const json_t *m)
{
    *(int64_t *)ctx = json_i64_or(m, "number", -1);
}

/* The next event within s, or 0. */
static int next_event(struct station *s, struct station_event *ev, double wait)
{
    struct pollfd p = {.fd = station_fd(s), .events = POLLIN};
    double until = clock_mono_s() + wait;
    while (clock_mono_s() < until) {
        if (station_take(s, ev))
            return 1;
        poll(&p, 1, 20);
    }
    return 0;
}

static int turn_until_up(struct link *link, double wait)
{
    double until = clock_mono_s() + wait;
    int64_t got = 0;
    while (clock_mono_s() < until && link->state != LINK_UP) {
        link_turn(link, clock_mono_s(), 0.1, on_message, &got);
        clock_sleep_s(0.01);
    }
    return link->state == LINK_UP;
}

static void test_strangers(struct station *s)
{
    struct station_event ev;
    static const char *const says[] = {
        "GET / HTTP/1.0\r\n\r\n", "{}\n", "\n", "{\"type\":\"beat\"}\n",
        "{\"type\":\"hello\",\"node\":\"n1\",\"nonce\":\"00\","
        "\"proof\":\"\"}\n",
        "{\"type\":\"hello\",\"node\":\"n1\",\"nonce\":"
        "\"00000000000000000000000000000000\",\"proof\":\"00\"}\n",
        "{\"type\":\"hello\",\"node\":\"nobody\",\"nonce\":"
        "\"00000000000000000000000000000000\",\"proof\":\"00\"}\n"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        int fd = dial(station_port(s));
        ok(send(fd, says[i], strlen(says[i]), MSG_NOSIGNAL) > 0,
           "stranger %zu speaks", i);
        ok(is_ended(fd, 2), "and is shown out");
        close(fd);
    }
    int fd = dial(station_port(s));
    char junk[8192];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)(i * 37 + 1);
    send(fd, junk, sizeof junk, MSG_NOSIGNAL);
    ok(is_ended(fd, 2), "8 KiB of anything too");
    close(fd);
    ok(!next_event(s, &ev, 0.1), "and nobody was told of any of them");
}

static void test_guest(struct station *s)
{
    struct link link, impostor;
    struct err err = ERR_INIT;
    struct station_event ev = {0};
    char address[64];
    int64_t got = 0;
    snprintf(address, sizeof address, "127.0.0.1:%d", station_port(s));
    link_init(&impostor, address, NULL, "wrong", "n1", &err);
    ok(!turn_until_up(&impostor, 1), "a wrong secret is not let in");
    link_release(&impostor);

    link_init(&link, address, NULL, SECRET, "n2", &err);
    ok(turn_until_up(&link, 3), "a watcher proves itself");
    ok(next_event(s, &ev, 2) && ev.what == STATION_UP && ev.node == 1,
       "the supervisor hears of it");
    json_decref(ev.message);
    link_send(&link, json_pack("{s:s, s:i}", "type", "x", "number", 7));
    link_turn(&link, clock_mono_s(), 0.1, on_message, &got);
    ok(next_event(s, &ev, 2) && ev.what == STATION_MESSAGE &&
           json_i64_or(ev.message, "number", 0) == 7, "a message arrives");
    json_decref(ev.message);
    is_int(station_send(s, 1, json_pack("{s:i}", "number", 9)), 0, "and back");
    for (int i = 0; i < 100 && got != 9; i++) {
        link_turn(&link, clock_mono_s(), 0.1, on_message, &got);
        clock_sleep_s(0.01);
    }
    is_int(got, 9, "the watcher has it");
    is_int(station_send(s, 0, json_pack("{s:i}", "number", 9)), -1,
           "nobody is there to send to");

    double start = clock_mono_s();
    ok(next_event(s, &ev, 4) && ev.what == STATION_LOST &&
           !strcmp(ev.how, "silent"), "a silent one is lost");
    ok(clock_mono_s() - start < 2, "within its limit of 1 s and a little");
    link_turn(&link, clock_mono_s(), 0.1, on_message, &got);
    ok(turn_until_up(&link, 3), "it may come back");
    ok(next_event(s, &ev, 2) && ev.what == STATION_UP, "and is known again");
    json_decref(ev.message);
    start = clock_mono_s();
    link_release(&link);
    ok(next_event(s, &ev, 2) && ev.what == STATION_LOST &&
           strcmp(ev.how, "silent"), "a closed connection is known");
    ok(clock_mono_s() - start < 0.5, "at once");
}

int main(void)
{
    static const char *const names[] = {"n1", "n2"};
    struct err err = ERR_INIT;
    test_proof();
    test_framing();
    struct station *s = station_open(SECRET, names, 2, 1.0, &err);
    if (!ok(s != NULL, "a station opens: %s", err.msg))
        return tap_done();
    test_strangers(s);
    test_guest(s);
    station_close(s);
    return tap_done();
}
