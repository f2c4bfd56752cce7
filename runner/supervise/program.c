/* program - where Koboshi's own programs are; see program.h. */
#include "runner/supervise/program.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int program_self(char *dst, size_t dst_bytes, struct err *err)
{
    ssize_t n = readlink("/proc/self/exe", dst, dst_bytes - 1);
    if (n < 0)
        return err_set_errno(err, "supervise: cannot find this program");
    dst[n] = 0;
    return 0;
}

int program_find(const char *name, char *dst, size_t dst_bytes,
                 struct err *err)
{
    char self[PATH_MAX];
    if (program_self(self, sizeof self, err))
        return -1;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    const char *const folders[] = {self, KB_BINDIR};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int n = snprintf(dst, dst_bytes, "%s/%s", folders[i], name);
        if (n > 0 && (size_t)n < dst_bytes && !access(dst, X_OK))
            return 0;
    }
    return err_set_class(err, ERR_REQUEST,
                         "supervise: program not found: '%s': neither beside "
                         "koboshi-supervise nor in '%s'; install Koboshi on "
                         "every node", name, KB_BINDIR);
}
