/* script - the template on standard input; see script.h. */
#include "spank/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runner/base/file.h"

enum { SCRIPT_MAX_BYTES = 1 << 20 };

bool script_stdin_is_empty(int fd)
{
    struct stat st, null;
    if (fstat(fd, &st))
        return errno == EBADF;
    if (!S_ISCHR(st.st_mode))
        return false;
    if (isatty(fd))
        return true;
    return !stat("/dev/null", &null) && st.st_rdev == null.st_rdev;
}

int script_supply(const char *path, struct err *err)
{
    size_t bytes = 0;
    int fd = -1, rc = -1;
    char *text = file_read(path, SCRIPT_MAX_BYTES, &bytes, err);
    if (!text)
        return -1;
    fd = memfd_create("koboshi-script", MFD_CLOEXEC);
    if (fd < 0) {
        err_set_errno(err, "script: cannot make a file in memory");
        goto out;
    }
    if (file_write_all(fd, text, bytes) || lseek(fd, 0, SEEK_SET) < 0) {
        err_set_errno(err, "script: cannot write the file in memory");
        goto out;
    }
    /* With a closed standard input the new descriptor is 0 already. */
    if (fd == 0) {
        fcntl(fd, F_SETFD, 0);
        fd = -1;
    } else if (dup2(fd, 0) < 0) {
        err_set_errno(err, "script: cannot replace standard input");
        goto out;
    }
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    free(text);
    return rc;
}
