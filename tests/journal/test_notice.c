/* Tests of runner/journal/notice.c against a real HTTP server on loopback, a
 * child that answers as told and writes down what it got. */
#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "runner/journal/notice.h"
#include "tests/tap.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the server's child shares with the test. */
static struct shared {
    int answers[64]; /* status of each request; 0: close without a word */
    volatile int got_n;
    char got[64][4096];
} *shared;
static int port;
static pid_t server;

/* All of a request: headers, and the body that Content-Length promises. */
static void read_request(int fd, char *text, size_t bytes)
{
    size_t n = 0, want = bytes - 1;
    while (n < want) {
        ssize_t got = read(fd, text + n, want - n);
        if (got <= 0)
            break;
        n += (size_t)got;
        text[n] = 0;
        char *body = strstr(text, "\r\n\r\n");
        char *length = strstr(text, "Content-Length: ");
        if (body && length)
            want = (size_t)(body - text) + 4 +
                   (size_t)atoi(length + strlen("Content-Length: "));
    }
    text[n] = 0;
}

static void serve(int listener)
{
    for (int i = 0; i < 64; i++) {
        char answer[128];
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            _exit(1);
        read_request(fd, shared->got[i], sizeof shared->got[i]);
        int n = snprintf(answer, sizeof answer,
                         "HTTP/1.1 %d X\r\nContent-Length: 0\r\n"
                         "Connection: close\r\n\r\n", shared->answers[i]);
        if (shared->answers[i] && write(fd, answer, (size_t)n) < 0)
            _exit(1);
        close(fd);
        shared->got_n = i + 1;
    }
    _exit(0);
}

static void start_server(const int *answers, int answers_n)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < 64; i++)
        shared->answers[i] = i < answers_n ? answers[i] : 200;
    if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 16) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        exit(1);
    port = ntohs(at.sin_port);
    server = fork();
    if (!server)
        serve(fd);
    close(fd);
}

static void stop_server(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static struct notice *open_notice(const char *token)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/hook", port);
    return notice_open(url, token, NULL);
}

static void pump(struct notice *n, double limit_s)
{
    for (double end = clock_mono_s() + limit_s;
         notice_waiting(n) && clock_mono_s() < end;) {
        notice_pump(n);
        clock_sleep_s(0.01);
    }
}

static void test_delivery(void)
{
    start_server(NULL, 0);
    struct notice *n = open_notice("secret-token");
    json_t *record = json_pack("{s:s, s:i}", "event", "diagnosis", "attempt",
                               3);
    notice_send(n, "node \"n1\" died", record);
    json_decref(record);
    notice_send(n, "second", NULL);
    pump(n, 5);
    is_int(notice_delivered(n), 2, "two notices are delivered");
    is_int(shared->got_n, 2, "one request each");
    ok(strstr(shared->got[0], "POST /hook HTTP/1.1"), "a POST");
    ok(strstr(shared->got[0], "Authorization: Bearer secret-token"),
       "with the token");
    ok(strstr(shared->got[0], "{\"record\":{\"attempt\":3,\"event\":"
              "\"diagnosis\"},\"text\":\"node \\\"n1\\\" died\"}"),
       "and text and record");
    ok(strstr(shared->got[1], "{\"text\":\"second\"}"), "in order");
    is_str(notice_problem(n), "", "no problem");
    notice_close(n, 0);
    stop_server();
}

static void test_again(void)
{
    static const int answers[] = {503, 0, 200, 404, 200};
    start_server(answers, 5);
    struct notice *n = open_notice(NULL);
    notice_send(n, "one", NULL);
    pump(n, 0.5);
    is_int(notice_waiting(n), 1, "a busy server: it waits");
    is_str(notice_problem(n), "notice: the webhook answered 503", "and says");
    pump(n, 6);
    is_int(notice_delivered(n), 1, "the third try is taken");
    is_int(shared->got_n, 3, "after a closed connection too");
    notice_send(n, "two", NULL);
    notice_send(n, "three", NULL);
    pump(n, 5);
    is_int(notice_dropped(n), 1, "one that is refused is dropped");
    is_int(notice_delivered(n), 2, "the next is delivered");
    ok(!strstr(shared->got[0], "Authorization"), "no token, no header");
    notice_close(n, 0);
    stop_server();
}

static void test_never_waits(void)
{
    /* A server that accepts and says nothing: a stopped child. */
    start_server(NULL, 0);
    kill(server, SIGSTOP);
    struct notice *n = open_notice(NULL);
    double slowest = 0;
    for (int i = 0; i < 40; i++) {
        double begin = clock_mono_s();
        notice_send(n, "x", NULL);
        notice_pump(n);
        double took = clock_mono_s() - begin;
        slowest = took > slowest ? took : slowest;
    }
    ok(slowest < 0.2, "a dead server holds nobody up (%.3f s)", slowest);
    is_int(notice_waiting(n), 32, "the queue has an end");
    is_int(notice_dropped(n), 8, "past it the oldest are dropped");
    double begin = clock_mono_s();
    notice_close(n, 0.3);
    double took = clock_mono_s() - begin;
    ok(took >= 0.25 && took < 1.5, "closing waits as long as told (%.2f s)",
       took);
    stop_server();

    start_server(NULL, 0);
    n = open_notice(NULL);
    notice_send(n, "last words", NULL);
    notice_close(n, 5);
    is_int(shared->got_n, 1, "closing delivers what is queued");
    stop_server();
}

static void test_bad(void)
{
    struct err err = ERR_INIT;
    ok(!notice_open("ftp://x/y", NULL, &err) && err.class == ERR_REQUEST,
       "only http");
    err = ERR_INIT;
    ok(!notice_open("http://x/", "a\r\nX: y", &err), "no second header");
    ok(!strstr(err.msg, "X: y"), "and no token in the message");
    notice_close(NULL, 0);
    struct notice *n = notice_open("http://127.0.0.1:1/", NULL, NULL);
    notice_send(n, "\xff\xfe", NULL);
    is_int(notice_waiting(n), 1, "text that is not UTF-8 is told of");
    pump(n, 0.5);
    ok(strstr(notice_problem(n), "cannot reach") != NULL, "no server");
    notice_close(n, 0);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    unsetenv("http_proxy");
    test_delivery();
    test_again();
    test_never_waits();
    test_bad();
    return tap_done();
}
