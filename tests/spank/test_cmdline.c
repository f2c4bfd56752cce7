/* cmdline: what was asked of sbatch, by its words, its script, its
 * environment. A line of words is written here with '|' between them. */
#include "spank/cmdline.h"

#include <stdlib.h>

#include "tests/tap.h"

static struct asked *parse(const char *line)
{
    static struct asked asked;
    char words[1024];
    size_t n = strlen(line) + 1;
    memcpy(words, line, n);
    for (size_t i = 0; i < n; i++)
        if (words[i] == '|')
            words[i] = 0;
    memset(&asked, 0, sizeof asked);
    cmdline_parse(&asked, words, n);
    return &asked;
}

static const struct {
    const char *line;
    int key; /* -1: the script; -2: train */
    const char *value;
} rows[] = {
    {"sbatch|--llm-train=run.yaml|-N|3", ASKED_NODES, "3"},
    {"sbatch|-N3", ASKED_NODES, "3"},
    {"sbatch|--nodes=2-4", ASKED_NODES, "2-4"},
    {"sbatch|--nodes|8|job.sh", ASKED_NODES, "8"},
    {"sbatch|--nodes|8|job.sh", -1, "job.sh"},
    {"sbatch|-QN2", ASKED_NODES, "2"},
    {"sbatch|-N2|job.sh|-N9", ASKED_NODES, "2"},
    {"sbatch|-N2|-N5", ASKED_NODES, "5"},
    {"sbatch|-J|-N7|-N2", ASKED_NODES, "2"},
    {"sbatch|--requeue|-N2", ASKED_NODES, "2"},
    {"sbatch|--exclusive|-N2", ASKED_NODES, "2"},
    {"sbatch|--comment|-N9|job.sh", ASKED_NODES, ""},
    {"sbatch|--wait|job.sh", -1, "job.sh"},
    {"sbatch|--|-odd", -1, "-odd"},
    {"sbatch|-|x", -1, "-"},
    {"sbatch", -1, ""},
    {"sbatch|-N", ASKED_NODES, ""},
    {"srun|-K1|-n4|true", ASKED_NTASKS, "4"},
    {"srun|-n4|-lu|true", -1, "true"},
    {"sbatch|-x|node[1-3]", ASKED_EXCLUDE, "node[1-3]"},
    {"sbatch|--array=0-3", ASKED_ARRAY, "0-3"},
    {"sbatch|--llm-train|run.yaml", -2, "1"},
    {"sbatch|--llm-tra=run.yaml", -2, "1"},
    {"sbatch|--llm-t|run.yaml|job.sh", -1, "job.sh"},
    {"sbatch|--llm-=run.yaml", -2, ""},
    {"sbatch|--llm-trained=run.yaml", -2, ""},
    {"sbatch|job.sh|--llm-train=run.yaml", -2, ""},
};

static const struct {
    const char *line;
    struct asked_size want;
} sizes[] = {
    {"sbatch|-N2|--ntasks-per-node=8", {2, 8, 0, 0, 0, 0}},
    {"sbatch|-N2|-n8|-c4", {2, 4, 0, 4, 0, 0}},
    {"sbatch|-N3|-n8", {3, 0, 0, 0, 0, 0}},
    {"sbatch|-n8", {0, 0, 0, 0, 0, 0}},
    {"sbatch|-N2-4|-n8", {0, 0, 0, 0, 0, 0}},
    {"sbatch|-N2|--gpus-per-node=h100:8", {2, 0, 8, 0, 0, 0}},
    {"sbatch|-N2|--gpus=16", {2, 0, 8, 0, 0, 0}},
    {"sbatch|-N2|--gres=nvme:1,gpu:h100:4(S:0-1)", {2, 0, 4, 0, 0, 0}},
    {"sbatch|-N2|--gres=gpu", {2, 0, 1, 0, 0, 0}},
    {"sbatch|-N2|--gres=gpux:4", {2, 0, 0, 0, 0, 0}},
    {"sbatch|-t|90", {0, 0, 0, 0, 5400, 0}},
    {"sbatch|-t|1:30", {0, 0, 0, 0, 90, 0}},
    {"sbatch|-t|2:00:00", {0, 0, 0, 0, 7200, 0}},
    {"sbatch|-t|1-12", {0, 0, 0, 0, 129600, 0}},
    {"sbatch|-t|1-00:30", {0, 0, 0, 0, 88200, 0}},
    {"sbatch|-t|UNLIMITED", {0, 0, 0, 0, 0, 0}},
    {"sbatch|-N0|-t|5x", {0, 0, 0, 0, 0, 0}},
    {"sbatch|-N2|--mem=4G", {2, 0, 0, 0, 0, 0x1p32}},
    {"sbatch|-N2|--ntasks-per-node=2|--mem=4000", {2, 2, 0, 0, 0, 2097152000}},
    {"sbatch|-N2|--mem=512k", {2, 0, 0, 0, 0, 524288}},
    {"sbatch|-N2|--mem=0", {2, 0, 0, 0, 0, 0}},
    {"sbatch|-N2|--mem=4X", {2, 0, 0, 0, 0, 0}},
    {"sbatch|-N2|--gpus-per-node=8|--mem=4G", {2, 0, 8, 0, 0, 0}},
};

static void check_words(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asked *asked = parse(rows[i].line);
        const char *got = rows[i].key == -1   ? asked->script
                          : rows[i].key == -2 ? (asked->train ? "1" : "")
                                              : asked->value[rows[i].key];
        is_str(got, rows[i].value, rows[i].line);
    }
}

static void check_sizes(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct asked_size *want = &sizes[i].want;
        struct asked_size got;
        cmdline_size(parse(sizes[i].line), &got);
        if (!ok(got.nodes == want->nodes &&
                    got.ranks_per_node == want->ranks_per_node &&
                    got.gpus_per_node == want->gpus_per_node &&
                    got.cores_per_rank == want->cores_per_rank &&
                    got.time_limit_s == want->time_limit_s &&
                    got.mem_per_rank_bytes == want->mem_per_rank_bytes,
                "sizes of %s", sizes[i].line))
            printf("# got %ld nodes %ld ranks %ld gpus %ld cores %g s %g "
                   "bytes\n", got.nodes, got.ranks_per_node,
                   got.gpus_per_node, got.cores_per_rank, got.time_limit_s,
                   got.mem_per_rank_bytes);
    }
}

static void check_script(void)
{
    struct asked *asked = parse("sbatch|-N5|job.sh");
    cmdline_parse_script(asked, "#!/bin/sh\n"
                                "# words\n"
                                "#SBATCH -N 2 --exclude=\"n1,n 2\" # note\n"
                                "\n"
                                "#SBATCHED --gpus=9\n"
                                "#SBATCH\t--ntasks-per-node='4'\n"
                                "echo\n"
                                "#SBATCH --array=1-3\n");
    is_str(asked->value[ASKED_NODES], "5", "the command line beats the script");
    is_str(asked->value[ASKED_EXCLUDE], "n1,n 2", "quotes");
    is_str(asked->value[ASKED_NTASKS_PER_NODE], "4", "tab and quotes");
    is_str(asked->value[ASKED_GPUS], "", "not an #SBATCH line");
    is_str(asked->value[ASKED_ARRAY], "", "after the first command");
}

static void check_env(void)
{
    struct asked *asked = parse("sbatch|--gpus=2");
    setenv("SBATCH_TIMELIMIT", "5", 1);
    setenv("SBATCH_GPUS", "7", 1);
    cmdline_parse_env(asked, "SBATCH");
    is_str(asked->value[ASKED_TIME], "5", "from the environment");
    is_str(asked->value[ASKED_GPUS], "2", "the command line beats it");
}

static void check_long(void)
{
    static char words[40000];
    static struct asked asked;
    memset(words, 'x', sizeof words);
    words[sizeof words - 1] = 0;
    memcpy(words, "sbatch\0--exclude=", 17);
    cmdline_parse(&asked, words, sizeof words);
    is_int(strlen(asked.value[ASKED_EXCLUDE]), ASKED_BYTES - 1, "cut");
    cmdline_parse(&asked, words, 0);
    ok(cmdline_is("/usr/bin/sbatch", 16, "sbatch"), "program by its name");
    ok(cmdline_is("/opt/sbatch.real", 17, "sbatch"), "one that was renamed");
    ok(!cmdline_is("sbatchx", 8, "sbatch"), "not any beginning");
    ok(!cmdline_is("xsbatch", 8, "sbatch"), "not by its end");
    ok(!cmdline_is("", 0, "sbatch"), "no words at all");
}

int main(void)
{
    check_words();
    check_sizes();
    check_script();
    check_env();
    check_long();
    return tap_done();
}
