/* verb_report - `koboshi report`: what became of a run. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/cli/verbs.h"
#include "runner/journal/chronicle.h"

static const char usage[] =
    "usage: koboshi report [--json] [--run-dir DIR | DIR]\n"
    "\n"
    "Each attempt of the run: what ended it and why, how long it took to see\n"
    "that, to decide and to train again (Slurm's part and Koboshi's apart),\n"
    "the steps lost, and the effective training time ratio. DIR is the run\n"
    "directory (the current one).\n";

static int print_report(const struct chronicle *report, bool as_json,
                        struct err *err)
{
    struct sbuf text = SBUF_INIT;
    if (as_json) {
        json_t *json = chronicle_json(report);
        char *dump = json ? json_dumps(json, JSON_INDENT(1) |
                                                 JSON_REAL_PRECISION(15))
                          : NULL;
        json_decref(json);
        if (!dump)
            return err_set(err, "journal: the report cannot be written as "
                                "JSON");
        sbuf_printf(&text, "%s\n", dump);
        free(dump);
    } else {
        chronicle_text(report, &text);
    }
    fputs(text.data, stdout);
    sbuf_release(&text);
    if (fflush(stdout) || ferror(stdout))
        return err_set_errno(err, "cannot write the report");
    return 0;
}

int verb_report(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"run-dir", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct err err = ERR_INIT;
    struct chronicle report;
    const char *run_dir = ".";
    bool as_json = false;
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (id == 'j')
            as_json = true;
        else if (id == 'r')
            run_dir = optarg;
        else {
            fputs(usage, id == 'h' ? stdout : stderr);
            return id == 'h' ? KB_EXIT_DONE : KB_EXIT_REQUEST;
        }
    }
    if (optind < argc)
        run_dir = argv[optind];
    int rc = chronicle_load(run_dir, clock_wall_s(), &report, &err);
    if (!rc) {
        rc = print_report(&report, as_json, &err);
        chronicle_release(&report);
    }
    if (!rc)
        return KB_EXIT_DONE;
    fprintf(stderr, "koboshi report: %s\n", err.msg);
    return contract_exit_code(&err);
}
