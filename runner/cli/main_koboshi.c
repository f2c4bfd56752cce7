/* koboshi - one front with verbs. A verb is a row here and a file of its
 * name. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "runner/base/contract.h"
#include "runner/base/log.h"
#include "runner/cli/verbs.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *doc;
} verbs[] = {
    {"data", verb_data, "token files from text, and a look into them"},
};

static void print_usage(FILE *to)
{
    fprintf(to, "usage: koboshi VERB [options]   (koboshi VERB --help)\n\n");
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].doc);
}

int main(int argc, char **argv)
{
    log_init("koboshi", -1);
    if (argc < 2) {
        print_usage(stderr);
        return KB_EXIT_REQUEST;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_usage(stdout);
        return KB_EXIT_DONE;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("koboshi %s\n", PACKAGE_VERSION);
        return KB_EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(argv[1], verbs[i].name))
            return verbs[i].run(argc - 1, argv + 1);
    log_error("no verb '%s'; see koboshi --help", argv[1]);
    return KB_EXIT_REQUEST;
}
