/* main_koboshi_health_gpu - koboshi-health-gpu: try the GPUs of this node, for
 * koboshi-health, which judges what comes out. A request as JSON on standard
 * input, lines of JSON on standard output (health/active.h). It starts itself
 * again as a worker of one GPU (--worker) and for copies between them
 * (--peers). Libraries print to standard output as they like: it is put aside
 * first. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health/active/gpu.h"
#include "health/active/lead.h"
#include "health/active/worker.h"
#include "runner/base/log.h"
#include "runner/base/str.h"

enum { REQUEST_BYTES = 1 << 16 };

/* Rings over the plain links: what is measured is each link, and nothing needs
 * the switches' multicast groups. The order of GPUs is the bus's. */
static void set_environment(void)
{
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
}

static int read_input(char *dst, size_t dst_bytes)
{
    size_t n = fread(dst, 1, dst_bytes - 1, stdin);
    dst[n] = 0;
    return n == dst_bytes - 1 ? -1 : 0;
}

static int lead(int out)
{
    static char request[REQUEST_BYTES], program[4096];
    struct err err = ERR_INIT;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0 || read_input(request, sizeof request)) {
        log_error("request too long, or this program has no path");
        return 2;
    }
    if (lead_main(program, request, out, &err)) {
        log_error("%s", err.msg);
        return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int64_t index, bytes;
    log_init("koboshi-health-gpu", -1);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 2;
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        dprintf(out, "usage: koboshi-health-gpu <request.json\n"
                     "For koboshi-health --active; see koboshi-health(8).\n");
        return 0;
    }
    set_environment();
    if (argc == 6 && !strcmp(argv[1], "--worker") &&
        !str_to_i64(argv[3], &index) && !str_to_i64(argv[5], &bytes))
        return worker_main((int)index, argv[4], bytes, argv[2], out);
    if (argc > 3 && !strcmp(argv[1], "--peers"))
        return peers_run((const char *const *)argv + 3, argc - 3, argv[2],
                         out)
                   ? 1
                   : 0;
    if (argc != 1) {
        log_error("unknown option: '%s'; see --help", argv[1]);
        return 2;
    }
    return lead(out);
}
