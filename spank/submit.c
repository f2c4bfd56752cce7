/* submit - the plugin in sbatch and salloc.
 *
 * Everything happens before the job exists: the template is supplied at init
 * (see script.h why then), the plan is checked after all options are known.
 */
#include "spank/context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "spank/defaults.h"
#include "spank/request.h"
#include "spank/say.h"
#include "spank/script.h"

static struct request request;

/* The template on standard input, where that is nobody's script. Whether a
 * script is named does not matter: then sbatch does not read this. */
static void supply_script(bool named)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    if (!script_stdin_is_empty(STDIN_FILENO))
        return;
    request.supplied = !file_join(path, sizeof path, request.args->datadir,
                                  SCRIPT_TEMPLATE, &err) &&
                       !script_supply(path, &err);
    if (!request.supplied && !named)
        say_error("no batch script to run: %s; name one of your own", err.msg);
}

/* For a script of the user's own: the template says these things itself, and
 * of a pipe nobody knows what it says. */
static void set_defaults(bool wrapped)
{
    size_t bytes = 0;
    char *script = wrapped ? NULL : request_script(&request);
    char *words = wrapped || script ? cmdline_read(&bytes) : NULL;
    if (words)
        defaults_set(words, bytes, script);
    free(words);
    free(script);
}

void submit_init(struct plugin *plugin)
{
    request.args = &plugin->args;
    request.options = &plugin->options;
    request_read(&request);
    if (strcmp(request.program, "sbatch") || !request.asked.train)
        return;
    bool wrapped = *request.asked.value[ASKED_WRAP];
    bool named = wrapped || *request.asked.script;
    supply_script(named);
    if (named)
        set_defaults(wrapped);
}

void submit_post_opt(struct plugin *plugin, spank_t spank)
{
    defaults_unset();
    request_finish(&request, spank);
}
