/* submit - the plugin in sbatch and salloc.
 *
 * Everything happens before the job exists: the template is supplied at init
 * (see script.h why then), the plan is checked after all options are known.
 */
#include "spank/context.h"

#include <string.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "spank/request.h"
#include "spank/say.h"
#include "spank/script.h"

static struct request request;

void submit_init(struct plugin *plugin)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    request.args = &plugin->args;
    request.options = &plugin->options;
    request_read(&request);
    /* Whether a script is named does not matter: then this is not read. */
    if (strcmp(request.program, "sbatch") || !request.asked.train ||
        !script_stdin_is_empty(STDIN_FILENO))
        return;
    bool named =
        *request.asked.script || *request.asked.value[ASKED_WRAP];
    if (file_join(path, sizeof path, plugin->args.datadir, SCRIPT_TEMPLATE,
                  &err) ||
        script_supply(path, &err)) {
        if (!named)
            say_error("no batch script to run: %s; name one of your own",
                      err.msg);
    } else {
        request.supplied = true;
    }
}

void submit_post_opt(struct plugin *plugin, spank_t spank)
{
    request_finish(&request, spank);
}
