/* lead: workers that answer, hang, crash, fail and babble, by a program of
 * this test's own in the place of koboshi-health-gpu. What the lead says is
 * held against rows. */
#include "health/active/lead.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "tests/tap.h"

/* $1 --worker, $2 the fault asked for, $3 index, $4 PCI address; or --peers
 * and all addresses. The fault is "WHAT" of GPU 1. */
static const char script[] =
    "#!/bin/bash\n"
    "if [ \"$1\" = --peers ]; then\n"
    "    echo \"{\\\"kind\\\":\\\"peers\\\",\\\"of\\\":\\\"${*:3}\\\"}\"\n"
    "    [ \"$2\" != peers-hang ] || exec sleep 100\n"
    "    exit 0\n"
    "fi\n"
    "say() { echo \"{\\\"kind\\\":\\\"$1\\\",\\\"gpu\\\":$index,"
    "\\\"line\\\":\\\"$2\\\"}\"; }\n"
    "index=$3\n"
    "[ $index = 1 ] && fault=$2\n"
    "[ \"$fault\" != skip ] || { say skip; exit 0; }\n"
    "[ \"$fault\" != start-crash ] || kill -SEGV $$\n"
    "[ \"$fault\" != start-hang ] || exec sleep 100\n"
    "say gpu $4-$5\n"
    "say done\n"
    "while read -r word rest; do\n"
    "    case $fault in\n"
    "    hang-$word) trap '' TERM; while :; do sleep 1; done ;;\n"
    "    crash-$word) kill -SEGV $$ ;;\n"
    "    exit-$word) exit 7 ;;\n"
    "    fault-$word) say fault; exit 1 ;;\n"
    "    babble-$word) head -c 100000 /dev/zero | tr '\\0' x; echo ;;\n"
    "    half-$word) printf '{\"kind\"' ; exit 0 ;;\n"
    "    esac\n"
    "    say answer \"$word $rest\"\n"
    "    say done\n"
    "done\n";

static char program[64], out_path[64];

static const struct row {
    const char *name, *request;
    const char *has[4], *lacks; /* in what is said; NULL: nothing */
    double at_least_s, at_most_s;
} rows[] = {
    {"two that answer", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],"
     "\"seconds\":20}",
     {"\"gpu\":1,\"line\":\"product fp32 1.00\"",
      "\"gpu\":0,\"line\":\"host \"", "\"of\":\"a b\"",
      "\"gpu\":1,\"line\":\"reduce 1 2 1 2 127.0.0.1 "},
     "hung", 0, 5},
    {"one alone has no peers and nobody to sum with",
     "{\"gpus\":[{\"pci\":\"a\"}],\"seconds\":20}",
     {"\"line\":\"memory 3.00\"", "\"kind\":\"end\""}, "reduce", 0, 5},
    {"one hangs: it is said, and the other goes on",
     "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],\"seconds\":1,"
     "\"corrupt\":\"hang-memory\"}",
     {"\"at\":\"memory 0.15\",\"gpu\":1,\"kind\":\"hung\"",
      "\"gpu\":0,\"line\":\"memory 0.15\"", "\"kind\":\"end\""},
     "crashed", 0.5, 6},
    {"one crashes", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"},"
     "{\"pci\":\"c\"}],\"seconds\":20,\"corrupt\":\"crash-host\"}",
     {"\"at\":\"host\",\"gpu\":1,\"how\":\"signal 11\"", "\"of\":\"a  c\"",
      "\"gpu\":2,\"line\":\"reduce 1 2 1 2 127.0.0.1 ", "\"kind\":\"end\""},
     "hung", 0, 6},
    {"one ends early", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],"
     "\"seconds\":20,\"corrupt\":\"exit-memory\"}",
     {"\"gpu\":1,\"how\":\"exit code 7\""}, "reduce", 0, 6},
    {"one says its fault itself", "{\"gpus\":[{\"pci\":\"a\"},"
     "{\"pci\":\"b\"}],\"seconds\":20,\"corrupt\":\"fault-product\"}",
     {"\"kind\":\"fault\",\"gpu\":1", "\"gpu\":0,\"line\":\"host"}, "crashed",
     0, 6},
    {"one is skipped", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],"
     "\"seconds\":20,\"corrupt\":\"skip\"}",
     {"\"kind\":\"skip\",\"gpu\":1", "\"gpu\":0,\"line\":\"host"}, "crashed",
     0, 6},
    {"one crashes at its start", "{\"gpus\":[{\"pci\":\"a\"},"
     "{\"pci\":\"b\"}],\"seconds\":20,\"corrupt\":\"start-crash\"}",
     {"\"at\":\"start\",\"gpu\":1,\"how\":\"signal 11\""}, "hung", 0, 6},
    {"one hangs at its start", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],"
     "\"seconds\":1,\"corrupt\":\"start-hang\"}",
     {"\"at\":\"start\",\"gpu\":1,\"kind\":\"hung\"", "\"kind\":\"end\""},
     NULL, 0.5, 4},
    {"one babbles: its line is cut", "{\"gpus\":[{\"pci\":\"a\"},"
     "{\"pci\":\"b\"}],\"seconds\":20,\"corrupt\":\"babble-memory\"}",
     {"xxxxxx", "\"gpu\":1,\"line\":\"memory"}, "hung", 0, 6},
    {"half a line is none", "{\"gpus\":[{\"pci\":\"a\"}, {\"pci\":\"b\"}],"
     "\"seconds\":20,\"corrupt\":\"half-memory\"}",
     {"\"kind\":\"end\""}, "{\"kind\"{", 0, 6},
    {"the peers hang", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],"
     "\"seconds\":1,\"corrupt\":\"peers-hang\"}",
     {"\"at\":\"peers\",\"kind\":\"hung\"", "\"kind\":\"late\"",
      "\"kind\":\"end\""}, NULL, 0.5, 6},
    {"with another node", "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],"
     "\"seconds\":20,\"pair\":{\"node\":1,\"address\":\"node3\","
     "\"port\":4711,\"secret\":\"00\"}}",
     {"\"gpu\":1,\"line\":\"reduce 3 4 1 2 node3 4711 pair 14.0\""}, "memory",
     0, 5},
    {"with another node, and one is broken here",
     "{\"gpus\":[{\"pci\":\"a\"},{\"pci\":\"b\"}],\"seconds\":20,"
     "\"corrupt\":\"start-crash\",\"pair\":{\"node\":1,\"address\":\"node3\","
     "\"port\":4711,\"secret\":\"00\"}}",
     {"\"error\":\"a GPU of this node failed before\""}, "answer", 0, 5},
};

static const char *const wrong[] = {
    "",
    "{",
    "[]",
    "{\"gpus\":[{\"pci\":7}],\"seconds\":20}",
    "{\"gpus\":[{\"pci\":\"a\"}],\"seconds\":0}",
    "{\"gpus\":[{\"pci\":\"a\"}],\"seconds\":1e9}",
    "{\"gpus\":[],\"seconds\":20,\"pair\":{}}",
    "{\"gpus\":[],\"seconds\":20,\"pair\":{\"node\":2,\"address\":\"a\","
    "\"port\":1,\"secret\":\"\"}}",
    "{\"gpus\":[],\"seconds\":20,\"pair\":{\"node\":1,\"address\":\"a b\","
    "\"port\":1,\"secret\":\"\"}}",
    "{\"gpus\":[],\"seconds\":20,\"pair\":{\"node\":1,\"address\":\"a\","
    "\"port\":70000,\"secret\":\"\"}}",
};

static char *run(const char *request, int *ret_rc)
{
    struct err err = ERR_INIT;
    int out = open(out_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    *ret_rc = lead_main(program, request, out, &err);
    close(out);
    char *text = file_read(out_path, 1 << 22, NULL, NULL);
    return text ? text : strdup("");
}

static void check_row(const struct row *row)
{
    int rc, bad = 0;
    double begin_s = clock_mono_s();
    char *said = run(row->request, &rc);
    double took_s = clock_mono_s() - begin_s;
    bad += rc != 0;
    for (int i = 0; i < 4; i++)
        if (row->has[i] && !strstr(said, row->has[i])) {
            printf("# not said: %s\n", row->has[i]);
            bad++;
        }
    if (row->lacks && strstr(said, row->lacks)) {
        printf("# said: %s\n", row->lacks);
        bad++;
    }
    if (!ok(!bad, "%s", row->name))
        printf("# %.2000s\n", said);
    ok(took_s >= row->at_least_s && took_s < row->at_most_s + 3,
       "%s: in %.1f s", row->name, took_s);
    free(said);
}

int main(void)
{
    snprintf(program, sizeof program, "/tmp/test_lead.%d", (int)getpid());
    snprintf(out_path, sizeof out_path, "/tmp/test_lead.%d.out",
             (int)getpid());
    if (file_replace(program, script, strlen(script), 0700, NULL))
        return 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int rc;
        char *said = run(wrong[i], &rc);
        ok(rc && !*said, "refused: %s", wrong[i]);
        free(said);
    }
    ok(waitpid(-1, NULL, WNOHANG) <= 0, "no child is left to wait for");
    unlink(program);
    unlink(out_path);
    return tap_done();
}
