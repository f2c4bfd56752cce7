/* nvml: every call of the driver's library returning each documented error in
 * turn, before, during and after a read and while events are waited for: no
 * leak, nothing out of bounds (the sanitizers say so, they are built in), and
 * never more than what the other calls said is lost. Hangs and crashes are
 * t_nvml.t's and t_watch.t's, for they need processes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "health/gpu.h"
#include "health/nvml_abi.h"
#include "runner/base/clock.h"
#include "tests/tap.h"

#define NAME(name, symbol, older, args) #name,
static const char *const calls[] = {NVML_FUNCTIONS(NAME)};
#undef NAME
enum { CALLS_N = sizeof calls / sizeof *calls };

static const int codes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                            12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                            23, 24, 25, 26, 27, 28, 29, 999};
enum { CODES_N = sizeof codes / sizeof *codes };

static struct gpus gpus;
static int told_n;

static void told(void *arg, const char *call, int gpu)
{
    told_n += *call && gpu < GPUS_MAX && arg == &told_n;
}

/* Are the texts ended and the numbers in range, whatever came? */
static int is_whole(void)
{
    int good = gpus.n >= 0 && gpus.n <= GPUS_MAX && gpus.failure_n >= 0 &&
               gpus.failure_n <= GPU_FAILURES_MAX &&
               memchr(gpus.driver, 0, sizeof gpus.driver);
    for (int i = 0; i < gpus.n; i++) {
        const struct gpu *g = &gpus.gpu[i];
        good = good && memchr(g->name, 0, sizeof g->name) &&
               memchr(g->uuid, 0, sizeof g->uuid) &&
               memchr(g->pci, 0, sizeof g->pci) &&
               memchr(g->access, 0, sizeof g->access);
    }
    return good;
}

/* A whole life of the library; 0 if all went as it may. */
static int live(const char *call)
{
    struct nvml_teller teller = {told, &told_n};
    struct err err = ERR_INIT;
    struct nvml_xid xid = {0};
    int code, bad = 0;
    struct nvml *nvml = nvml_open(FAKE_LIBRARY, &teller, &code, &err);
    if (!nvml)
        return strcmp(call, "init") || !code || !*err.msg;
    nvml_read(nvml, true, -1, &gpus);
    bad += !is_whole();
    nvml_read(nvml, false, 3, &gpus);
    bad += !is_whole();
    if (!nvml_listen(nvml) && !strncmp(call, "event", 5))
        bad += nvml_wait(nvml, 1, &xid) > 0;
    nvml_close(nvml);
    return bad;
}

static bool is_of_node(const char *call)
{
    static const char *const node[] = {"init",         "shutdown",   "driver",
                                       "count",        "event_create",
                                       "event_wait",   "event_free"};
    for (size_t i = 0; i < sizeof node / sizeof *node; i++)
        if (!strcmp(node[i], call))
            return true;
    return false;
}

int main(void)
{
    char fault[96];
    double begin_s = clock_mono_s();
    setenv("FAKE_NVML", FAKE_RECORD, 1);
    unsetenv("FAKE_EVENTS");
    ok(CALLS_N > 40, "%d calls are known", CALLS_N);
    is_int(live("none"), 0, "without a fault");
    is_int(gpus.n, 8, "eight GPUs");
    ok(told_n > 100, "each call is told before it is made");
    for (int c = 0; c < CALLS_N; c++) {
        int bad = 0;
        for (int k = 0; k < CODES_N; k++) {
            snprintf(fault, sizeof fault, "%s %d %d", calls[c],
                     is_of_node(calls[c]) ? -1 : 3, codes[k]);
            setenv("FAKE_FAULT", fault, 1);
            bad += live(calls[c]);
        }
        is_int(bad, 0, calls[c]);
    }
    unsetenv("FAKE_FAULT");
    ok(!nvml_open("/nonexistent.so", NULL, &told_n, NULL), "no library");
    printf("# %d lives in %.1f s\n", CALLS_N * CODES_N,
           clock_mono_s() - begin_s);
    return tap_done();
}
