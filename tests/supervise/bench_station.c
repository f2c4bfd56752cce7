/* bench_station - what 1,250 watchers of 8 ranks cost the supervisor's
 * listener: share of one core, and how soon a closed and a silent connection
 * are known. The watchers are one other process that speaks for all of them
 * through the watcher's own link.c, a heartbeat a second each, and each passes
 * on a record of its ranks now and then.
 *
 * usage: bench_station [WATCHERS [SECONDS]]
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/supervise/link.h"
#include "runner/supervise/station.h"

#define SILENT_S 8.0 /* the default of recovery.silent_limit */

static char secret[WIRE_SECRET_CHARS];

static void nothing(void *ctx, const json_t *message)
{
    (void)ctx;
    (void)message;
}

/* The watchers, until killed. SIGUSR1: the first closes, the second falls
 * silent. */
static volatile sig_atomic_t fault;

static void on_usr1(int sig)
{
    (void)sig;
    fault = 1;
}

static void watchers(int n, int port)
{
    struct link *links = calloc((size_t)n, sizeof *links);
    char name[32], address[64];
    struct err err = ERR_INIT;
    signal(SIGUSR1, on_usr1);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "n%d", i);
        if (link_init(&links[i], address, NULL, secret, name, &err))
            _exit(1);
    }
    for (long turn = 0;; turn++) {
        double now = clock_mono_s();
        if (fault == 1) {
            link_release(&links[0]);
            fault = 2;
        }
        for (int i = fault ? 2 : 0; i < n; i++) {
            if (turn % 100 == i % 100 && links[i].state == LINK_UP)
                link_send(&links[i],
                          json_pack("{s:s, s:{s:s, s:i, s:i}}", "type", "rank",
                                    "event", "event", "rank_hello", "rank",
                                    i * 8, "attempt", 1));
            link_turn(&links[i], now, 1.0, nothing, NULL);
        }
        clock_sleep_s(0.05);
    }
}

static double cpu_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_utime.tv_sec + (double)use.ru_utime.tv_usec / 1e6 +
           (double)use.ru_stime.tv_sec + (double)use.ru_stime.tv_usec / 1e6;
}

/* Takes events for s seconds; counts. Returns early when `until` is seen. */
static int take(struct station *s, double seconds, int until, int *ret_what)
{
    struct station_event ev;
    double end = clock_mono_s() + seconds;
    int n = 0;
    while (clock_mono_s() < end) {
        struct pollfd p = {.fd = station_fd(s), .events = POLLIN};
        poll(&p, 1, 100);
        while (station_take(s, &ev)) {
            json_decref(ev.message);
            ret_what[ev.what]++;
            n++;
            if (until >= 0 && ev.what == STATION_LOST && ev.node == until)
                return n;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1250, seen[4] = {0};
    double seconds = argc > 2 ? atof(argv[2]) : 10;
    struct err err = ERR_INIT;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    char (*text)[16] = calloc((size_t)n, sizeof *text);
    const char **names = calloc((size_t)n, sizeof *names);
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "n%d", i);
        names[i] = text[i];
    }
    wire_random_hex(secret, sizeof secret, &err);
    struct station *s = station_open(secret, names, n, SILENT_S, &err);
    if (!s) {
        fprintf(stderr, "bench_station: %s\n", err.msg);
        return 1;
    }
    pid_t child = fork();
    if (child == 0)
        watchers(n, station_port(s));
    double start = clock_mono_s();
    while (seen[STATION_UP] < n && clock_mono_s() - start < 30)
        take(s, 0.1, -1, seen);
    printf("%d watchers connected and proved in %.2f s\n", seen[STATION_UP],
           clock_mono_s() - start);
    double cpu = cpu_s();
    start = clock_mono_s();
    take(s, seconds, -1, seen);
    printf("share of one core: %.1f %% (%d records in %.0f s)\n",
           100 * (cpu_s() - cpu) / (clock_mono_s() - start),
           seen[STATION_MESSAGE], seconds);
    int lost = seen[STATION_LOST];
    kill(child, SIGUSR1);
    start = clock_mono_s();
    take(s, 5, 0, seen);
    printf("closed connection known after %.2f s\n", clock_mono_s() - start);
    take(s, 15, 1, seen);
    printf("silence known after %.2f s (limit %.0f s)\n",
           clock_mono_s() - start, SILENT_S);
    printf("false alarms: %d\n", lost);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    station_close(s);
    free(names);
    free(text);
    return lost != 0;
}
