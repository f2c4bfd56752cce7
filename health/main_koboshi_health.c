/* main_koboshi_health - koboshi-health: look at a node, print, exit with what
 * it means. Run by prolog and epilog, the node watcher, cron, Slurm's
 * HealthCheckProgram (with nothing in its environment) and people. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "health/health.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/log.h"

int main(int argc, char **argv)
{
    struct health_options options;
    struct sbuf out = SBUF_INIT, verdict = SBUF_INIT;
    struct err err = ERR_INIT;
    int code = HEALTH_EXIT_FAILED;
    log_init("koboshi-health", -1);
    if (health_parse(argc, argv, &options, &err)) {
        log_error("%s", err.msg);
        return HEALTH_EXIT_USAGE;
    }
    options.request.cuda_visible = getenv("CUDA_VISIBLE_DEVICES");
    options.request.cuda_order = getenv("CUDA_DEVICE_ORDER");
    if (!options.request.self)
        options.request.self = getenv("SLURMD_NODENAME");
    options.request.secret = getenv(KB_ENV_SECRET);
    if (options.help) {
        health_help("koboshi-health", &out);
        code = HEALTH_EXIT_FIT;
    } else if (health_run(&options, &out, &verdict, &code, &err)) {
        log_error("%s", err.msg);
        code = err.class == ERR_REQUEST ? HEALTH_EXIT_USAGE
                                        : HEALTH_EXIT_FAILED;
    }
    if (file_write_all(STDOUT_FILENO, out.data, out.len))
        code = HEALTH_EXIT_FAILED;
    if (options.verdict && verdict.len)
        fputs(verdict.data, stderr);
    sbuf_release(&out);
    sbuf_release(&verdict);
    return code;
}
