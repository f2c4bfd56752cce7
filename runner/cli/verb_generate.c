/* verb_generate - starts koboshi-generate: beside this program in a build tree,
 * else where it is installed. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/cli/verbs.h"

#define HELPER "koboshi-generate"

int verb_generate(int argc, char **argv)
{
    char path[PATH_MAX + sizeof HELPER];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    (void)argc;
    path[n > 0 ? n : 0] = 0;
    char *name = strrchr(path, '/');
    if (name) {
        strcpy(name + 1, HELPER);
        execv(path, argv);
    }
    execv(KB_LIBEXECDIR "/koboshi/" HELPER, argv);
    fprintf(stderr, "koboshi generate: " HELPER " cannot be started: %s; is "
            "the installation complete?\n", strerror(errno));
    return KB_EXIT_REQUEST;
}
