/* plugin - the only place with Slurm's callbacks: which hook of which process
 * goes where. Nothing here or below may harm the process that loaded it: each
 * hook returns 0, in bounded time, whatever happens; only a user's own sbatch,
 * salloc or srun is ended, and only for what that user asked with an option.
 */
#include "spank/context.h"

#include <stdlib.h>
#include <string.h>

#include "runner/base/contract.h"
#include "runner/base/str.h"
#include "spank/say.h"

SPANK_PLUGIN(koboshi, 1)

static struct plugin plugin;

/* ---- Options -------------------------------------------------------- */

/* In slurmstepd (remote) the job's environment says it all already. A wrong
 * value ends the user's command, as all that is refused does, with 1. */
static int take_option(int key, const char *value, int remote)
{
    struct err err = ERR_INIT;
    if (remote || plugin.refused || key < 0 || key >= OPTION_N)
        return 0;
    if (!options_take(&plugin.options, key, value, &err))
        return 0;
    say_error("%s", err.msg);
    exit(1);
}

static void register_options(spank_t spank)
{
    for (int i = 0; i < OPTION_N; i++) {
        const struct option_row *row = &option_rows[i];
        struct spank_option option = {
            .name = (char *)row->name,
            .arginfo = (char *)row->arginfo,
            .usage = (char *)row->usage,
            .has_arg = row->arginfo != NULL,
            .val = i,
            .cb = take_option,
        };
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
            say_warn("cannot register --%s", row->name);
    }
}

/* ---- Slurm's release ------------------------------------------------ */

/* The interface may change with each major release (22.05, 24.11): a plugin
 * built for another one does nothing. */
static bool is_other_release(spank_t spank)
{
    char *major = NULL, *minor = NULL;
    int64_t have_major, have_minor;
    if (spank_get_item(spank, S_SLURM_VERSION_MAJOR, &major) ||
        spank_get_item(spank, S_SLURM_VERSION_MINOR, &minor) || !major ||
        !minor || str_to_i64(major, &have_major) ||
        str_to_i64(minor, &have_minor))
        return false;
    if (have_major == SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER) &&
        have_minor == SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER))
        return false;
    say_error("spank_koboshi.so is built for Slurm %d.%02d and this is "
              "%s.%s: it does nothing; build it again",
              (int)SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER),
              (int)SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER), major, minor);
    return true;
}

/* ---- The hooks ------------------------------------------------------ */

int slurm_spank_init(spank_t spank, int ac, char *av[])
{
    plugin.refused = is_other_release(spank);
    if (plugin.refused)
        return 0;
    plugin.context = spank_context();
    switch (plugin.context) {
    case S_CTX_ALLOCATOR:
        args_read(&plugin.args, ac, av);
        register_options(spank);
        submit_init(&plugin);
        break;
    case S_CTX_LOCAL:
        args_read(&plugin.args, ac, av);
        register_options(spank);
        srun_init(&plugin);
        break;
    case S_CTX_REMOTE:
        register_options(spank);
        break;
    default:
        break;
    }
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int ac, char *av[])
{
    if (plugin.refused)
        return 0;
    switch (plugin.context) { /* not asked again: init must have run for it */
    case S_CTX_ALLOCATOR:
        submit_post_opt(&plugin, spank);
        break;
    case S_CTX_LOCAL:
        srun_post_opt(&plugin, spank);
        break;
    default:
        break;
    }
    return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char *av[])
{
    if (!plugin.refused && spank_context() == S_CTX_REMOTE)
        step_task_init(spank);
    return 0;
}

/* slurm_spank_init did not run in this process. */
int slurm_spank_job_prolog(spank_t spank, int ac, char *av[])
{
    struct args args;
    if (!getenv("SPANK_" KB_ENV_CONFIG) || is_other_release(spank))
        return 0;
    args_read(&args, ac, av);
    gate_prolog(&args);
    return 0;
}

int slurm_spank_job_epilog(spank_t spank, int ac, char *av[])
{
    struct args args;
    if (!getenv("SPANK_" KB_ENV_CONFIG) || is_other_release(spank))
        return 0;
    args_read(&args, ac, av);
    gate_epilog(&args);
    return 0;
}

int slurm_spank_exit(spank_t spank, int ac, char *av[])
{
    options_release(&plugin.options);
    return 0;
}
