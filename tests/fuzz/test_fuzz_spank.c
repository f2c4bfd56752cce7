/* Fuzz target: what the plugin reads that users and Slurm write: command
 * lines, #SBATCH lines, node lists, what sinfo prints. */
#include <stdlib.h>
#include <string.h>

#include "spank/cmdline.h"
#include "spank/defaults.h"
#include "spank/drain.h"
#include "spank/hostlist.h"
#include "tests/fuzz/driver.h"

static bool ends(const char *text, size_t bytes)
{
    return memchr(text, 0, bytes) != NULL;
}

/* Words are as the kernel gives them: NUL after each. */
static void fuzz_cmdline(char *text, size_t bytes)
{
    static struct asked asked;
    struct asked_size size;
    memset(&asked, 0, sizeof asked);
    cmdline_parse_script(&asked, text);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '|')
            text[i] = 0;
    cmdline_parse(&asked, text, bytes + 1);
    cmdline_size(&asked, &size);
    for (int i = 0; i < ASKED_N; i++)
        if (!ends(asked.value[i], ASKED_BYTES))
            abort();
    if (!ends(asked.script, ASKED_BYTES) || size.nodes < 0 ||
        size.ranks_per_node < 0 || size.gpus_per_node < 0 ||
        size.cores_per_rank < 0)
        abort();
    defaults_set(text, bytes + 1, text);
    defaults_unset();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct args args = {.drains_percent = 5, .drains_per_hour = 2};
    char host[64], *text = malloc(bytes + 2);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = text[bytes + 1] = 0;
    if (!hostlist_first(text, host, sizeof host) &&
        (!*host || strpbrk(host, "[],")))
        abort();
    if ((int)drain_judge(text, "n1", 1.79e9, &args, false) < 0 ||
        (int)drain_judge(text, "n1", 1.79e9, &args, true) < 0)
        abort();
    fuzz_cmdline(text, bytes);
    free(text);
    return 0;
}

#ifndef KB_LIBFUZZER
static const char *const seeds[] = {
    "rack[0-3]node[10-12,14],other[001,003],x",
    "n1|idle|Unknown|none\nn2|drained|2026-01-31T11:50:00|koboshi: a b\n"
    "n3|down*|2026-01-31T11:50:00|x|y\n",
    "sbatch|--llm-train=run.yaml|-QN2|--gres=nvme:1,gpu:h100:4(S:0-1)|-t|"
    "1-12:30|--ntasks-per-node=8|-x|bad[1-2]|job.sh",
    "#!/bin/sh\n#SBATCH -N 2 --exclude=\"n1,n 2\" # note\n#SBATCH --gpus='16' "
    "-n8 --time 2:00:00 --no-kill\n\necho\n",
};

int main(void)
{
    int copies = getenv("KOBOSHI_TEST_LONG") ? 50000 : 2000;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        driver_run("seed", seeds[i], strlen(seeds[i]), copies);
    return tap_done();
}
#endif
