/* srun - the plugin in srun.
 *
 * An srun inside a job gets the job's options again from Slurm. Only what is
 * typed on its own command line is a request; the rest was checked at submit,
 * so that a launch by the supervisor starts no child here.
 *
 * On a node other than the batch script's the prolog runs for the first step
 * there, and sees the job control environment of that step's srun, not of
 * sbatch: so it is said again here that this job asked for the gate.
 *
 * Under -m arbitrary rank 0 may be on any node of the step, and nothing that
 * slurmstepd has tells which: the list that gives the order is seen here only.
 */
#include "spank/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "spank/hostlist.h"
#include "spank/request.h"
#include "spank/wiring.h"

enum { HOSTFILE_MAX_BYTES = 1 << 20 };

static struct request request;

void srun_init(struct plugin *plugin)
{
    request.args = &plugin->args;
    request.options = &plugin->options;
    request_read(&request);
    request.asked.nested = getenv("SLURM_JOB_ID") != NULL;
}

/* The host of the first task: the first one of the node list, or of the file
 * that -w or SLURM_HOSTFILE names. */
static int first_host(const char *list, char *dst, size_t dst_bytes)
{
    char path[PATH_MAX];
    const char *file = strchr(list, '/') ? list : getenv("SLURM_HOSTFILE");
    struct stat st;
    if (*list && !strchr(list, '/'))
        return hostlist_first(list, dst, dst_bytes);
    if (!file || !str_copy(path, sizeof path, file) || stat(path, &st) ||
        !S_ISREG(st.st_mode))
        return -1;
    char *text = file_read(path, HOSTFILE_MAX_BYTES, NULL, NULL);
    if (!text)
        return -1;
    char *line = text + strspn(text, " \t\n");
    line[strcspn(line, " \t\n*#")] = 0;
    int rc = hostlist_first(line, dst, dst_bytes);
    free(text);
    return rc;
}

static void mark_first_host(void)
{
    char host[WIRING_VALUE_BYTES];
    unsetenv(WIRING_FIRST_HOST);
    if (!getenv(KB_ENV_CONFIG))
        return;
    cmdline_parse_env(&request.asked, "SLURM");
    if (strncmp(request.asked.value[ASKED_DISTRIBUTION], "arb", 3) ||
        first_host(request.asked.value[ASKED_NODELIST], host, sizeof host))
        return;
    setenv(WIRING_FIRST_HOST, host, 1);
}

/* What the prolog reads, from the job's environment. */
static void pass_on(spank_t spank)
{
    static const char *const names[] = {KB_ENV_CONFIG, KB_ENV_HEALTH,
                                        KB_ENV_GATE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char kept[64]; /* from sbatch: the prolog's own are nowhere else */
        snprintf(kept, sizeof kept, "SLURM_SPANK_%s", names[i]);
        const char *value = getenv(names[i]);
        value = value ? value : getenv(kept);
        if (value)
            spank_job_control_setenv(spank, names[i], value, 1);
    }
}

void srun_post_opt(struct plugin *plugin, spank_t spank)
{
    if (!request.asked.nested || request.asked.train)
        request_finish(&request, spank);
    else
        pass_on(spank);
    mark_first_host();
}
