/* koboshi - one front with verbs. A verb is a row here and a file of its
 * name. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "runner/base/contract.h"
#include "runner/base/log.h"
#include "runner/base/str.h"
#include "runner/cli/verbs.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *doc;
} verbs[] = {
    {"plan", verb_plan, "check a run.yaml and show what it would do"},
    {"health", verb_health, "look at this node and say what is wrong"},
    {"status", verb_status, "how a run is doing now"},
    {"report", verb_report, "what became of a run"},
    {"data", verb_data, "token files from text, and a look into them"},
    {"ckpt", verb_ckpt, "a run's checkpoints: list, verify, export, ..."},
    {"generate", verb_generate, "continue a prompt with a trained model"},
};
#define VERBS_N ((int)(sizeof verbs / sizeof *verbs))

static void print_usage(FILE *to)
{
    fprintf(to, "usage: koboshi VERB [options]   (koboshi VERB --help)\n\n");
    for (int i = 0; i < VERBS_N; i++)
        fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].doc);
    fprintf(to, "  %-10s %s\n", "help", "this list, or a verb's own help");
}

static int no_verb(const char *name)
{
    int best = 0;
    for (int i = 1; i < VERBS_N; i++)
        if (str_distance(verbs[i].name, name) <
            str_distance(verbs[best].name, name))
            best = i;
    if (str_distance(verbs[best].name, name) <= 3)
        log_error("no verb '%s'; did you mean '%s'? see koboshi help", name,
                  verbs[best].name);
    else
        log_error("no verb '%s'; see koboshi help", name);
    return KB_EXIT_REQUEST;
}

static int run_verb(const char *name, int argc, char **argv)
{
    for (int i = 0; i < VERBS_N; i++)
        if (!strcmp(name, verbs[i].name))
            return verbs[i].run(argc, argv);
    return no_verb(name);
}

/* `koboshi help VERB` is `koboshi VERB --help`. */
static int help(int argc, char **argv)
{
    char help_word[] = "--help";
    char *words[] = {NULL, help_word, NULL};
    if (argc < 2) {
        print_usage(stdout);
        return KB_EXIT_DONE;
    }
    words[0] = argv[1];
    return run_verb(argv[1], 2, words);
}

int main(int argc, char **argv)
{
    log_init("koboshi", -1);
    if (argc < 2) {
        print_usage(stderr);
        return KB_EXIT_REQUEST;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--version")) {
        printf("koboshi %s\n", PACKAGE_VERSION);
        return KB_EXIT_DONE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        word = "help";
    int rc = !strcmp(word, "help") ? help(argc - 1, argv + 1)
                                   : run_verb(word, argc - 1, argv + 1);
    if (fflush(stdout) || ferror(stdout)) {
        log_error("cannot write to standard output");
        rc = rc ? rc : KB_EXIT_RANK;
    }
    return rc;
}
