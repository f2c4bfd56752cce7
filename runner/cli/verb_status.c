/* verb_status - `koboshi status`: how a run is doing now. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/cli/verbs.h"
#include "runner/journal/chronicle.h"

static const char usage[] =
    "usage: koboshi status [--run-dir DIR | DIR]\n"
    "\n"
    "Step, loss, speed, time to finish, nodes, restarts and the last incident\n"
    "of a run. DIR is the run directory (the current one).\n";

int verb_status(int argc, char **argv)
{
    static const struct option options[] = {
        {"run-dir", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct err err = ERR_INIT;
    struct chronicle report;
    const char *run_dir = ".";
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (id != 'r') {
            fputs(usage, id == 'h' ? stdout : stderr);
            return id == 'h' ? KB_EXIT_DONE : KB_EXIT_REQUEST;
        }
        run_dir = optarg;
    }
    if (optind < argc)
        run_dir = argv[optind];
    double now_s = clock_wall_s();
    if (chronicle_load(run_dir, now_s, &report, &err)) {
        fprintf(stderr, "koboshi status: %s\n", err.msg);
        return contract_exit_code(&err);
    }
    struct sbuf text = SBUF_INIT;
    chronicle_status_text(&report, now_s, &text);
    fputs(text.data, stdout);
    sbuf_release(&text);
    chronicle_release(&report);
    return KB_EXIT_DONE;
}
