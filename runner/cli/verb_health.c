/* verb_health - `koboshi health`: look at this node as koboshi-health does,
 * with the same options; koboshi-health is for programs, this is for people. */
#include <stdio.h>
#include <stdlib.h>

#include "health/health.h"
#include "runner/base/contract.h"
#include "runner/cli/verbs.h"

int verb_health(int argc, char **argv)
{
    struct health_options options;
    struct sbuf out = SBUF_INIT, verdict = SBUF_INIT;
    struct err err = ERR_INIT;
    int code = HEALTH_EXIT_FAILED;
    if (health_parse(argc, argv, &options, &err)) {
        fprintf(stderr, "koboshi health: %s\n", err.msg);
        return KB_EXIT_REQUEST;
    }
    options.request.cuda_visible = getenv("CUDA_VISIBLE_DEVICES");
    options.request.cuda_order = getenv("CUDA_DEVICE_ORDER");
    if (!options.request.self)
        options.request.self = getenv("SLURMD_NODENAME");
    options.request.secret = getenv(KB_ENV_SECRET);
    if (options.help) {
        health_help("koboshi health", &out);
        code = HEALTH_EXIT_FIT;
    } else if (health_run(&options, &out, &verdict, &code, &err)) {
        fprintf(stderr, "koboshi health: %s\n", err.msg);
        code = err.class == ERR_REQUEST ? HEALTH_EXIT_USAGE
                                        : HEALTH_EXIT_FAILED;
    }
    fputs(out.data, stdout);
    if (options.verdict)
        fputs(verdict.data, stderr);
    sbuf_release(&out);
    sbuf_release(&verdict);
    return code;
}
