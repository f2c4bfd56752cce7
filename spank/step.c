/* step - the plugin in slurmstepd, as the job's user, for each task.
 *
 * Jobs without --llm-train are left as they are. The others get back what a
 * job submitted with --export=NONE lost, and a step's tasks their ranks. The
 * batch script is no rank. Every failure leaves a variable out and goes on.
 */
#include "spank/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/contract.h"
#include "runner/base/str.h"
#include "spank/say.h"
#include "spank/wiring.h"

enum { VALUE_BYTES = 32768, MARK_BYTES = 256 };

/* The value of the task's environment, or NULL; *buf is VALUE_BYTES long. */
static const char *job_value(spank_t spank, const char *name, char *buf)
{
    return spank_getenv(spank, name, buf, VALUE_BYTES) == ESPANK_SUCCESS
               ? buf
               : NULL;
}

/* What the job control environment kept of the options: SLURM_SPANK_NAME. */
static void restore_options(spank_t spank, char *buf)
{
    static const char *const more[] = {KB_ENV_USER_EXCLUDE};
    for (int i = 0; i < OPTION_N + 1; i++) {
        const char *name = i < OPTION_N ? option_rows[i].env : more[0];
        char kept[64];
        if (!name || job_value(spank, name, buf))
            continue;
        snprintf(kept, sizeof kept, "SLURM_SPANK_%s", name);
        if (job_value(spank, kept, buf))
            spank_setenv(spank, name, buf, 0);
    }
}

static int gather(spank_t spank, char *buf, struct wiring_facts *ret)
{
    uint32_t local_rank = 0;
    if (spank_get_item(spank, S_JOB_ID, &ret->job) ||
        spank_get_item(spank, S_JOB_STEPID, &ret->step) ||
        spank_get_item(spank, S_TASK_GLOBAL_ID, &ret->rank) ||
        spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &ret->world) ||
        spank_get_item(spank, S_TASK_ID, &local_rank) ||
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &ret->local_world) ||
        spank_get_item(spank, S_JOB_NODEID, &ret->node_rank))
        return -1;
    ret->local_rank = local_rank;
    bool any_order = job_value(spank, "SLURM_DISTRIBUTION", buf) &&
                     !strncmp(buf, "arb", 3);
    ret->nodes = job_value(
        spank, any_order ? WIRING_FIRST_HOST : "SLURM_STEP_NODELIST", buf);
    return 0;
}

/* Set what nobody preset, and say what somebody did. */
static void set_ranks(spank_t spank, const struct wiring_facts *facts)
{
    struct wiring wiring;
    struct sbuf mark = SBUF_INIT, kept = SBUF_INIT;
    char outer[MARK_BYTES], old[WIRING_VALUE_BYTES];
    wiring_compute(facts, &wiring);
    int any = 0;
    bool has_outer = spank_getenv(spank, WIRING_MARK, outer, MARK_BYTES) ==
                     ESPANK_SUCCESS;
    sbuf_printf(&mark, "%u.%u:", (unsigned)facts->job, (unsigned)facts->step);
    for (int i = 0; i < WIRING_N; i++) {
        const char *name = wiring.name[i];
        spank_err_t rc = spank_getenv(spank, name, old, sizeof old);
        bool preset = rc == ESPANK_SUCCESS || rc == ESPANK_NOSPACE;
        if (!*wiring.value[i])
            continue;
        if (preset && !(has_outer && wiring_mark_has(outer, name))) {
            sbuf_printf(&kept, " %s=%s", name, old);
            continue;
        }
        if (spank_setenv(spank, name, wiring.value[i], 1) != ESPANK_SUCCESS)
            continue;
        sbuf_printf(&mark, "%s%s", any++ ? "," : "", name);
    }
    if (!mark.failed)
        spank_setenv(spank, WIRING_MARK, mark.data, 1);
    if (kept.len && !kept.failed && facts->rank == 0)
        say_warn("kept as set by the user:%s", kept.data);
    sbuf_release(&mark);
    sbuf_release(&kept);
}

void step_task_init(spank_t spank)
{
    struct wiring_facts facts = {0};
    char *buf = malloc(VALUE_BYTES);
    if (!buf)
        return;
    if (job_value(spank, KB_ENV_CONFIG, buf) ||
        job_value(spank, "SLURM_SPANK_" KB_ENV_CONFIG, buf)) {
        restore_options(spank, buf);
        if (!gather(spank, buf, &facts) && wiring_is_rank_step(facts.step))
            set_ranks(spank, &facts);
    }
    free(buf);
}
