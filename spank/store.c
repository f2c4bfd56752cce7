/* store - root's folder of verdicts; see store.h. */
#include "spank/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/str.h"

enum { FILE_MAX_BYTES = 4 << 20, NAME_BYTES = 128 };

static bool is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

int store_open(const char *dir, struct err *err)
{
    struct stat st;
    if (mkdir(dir, 0755) && errno != EEXIST)
        return err_set_errno(err, "gate: cannot make '%s'", dir);
    int store = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (store < 0)
        return err_set_errno(err, "gate: cannot open folder '%s'", dir);
    if (fstat(store, &st) || !is_ours(&st)) {
        close(store);
        return err_set(err, "gate: folder '%s' is not root's alone; remove it",
                       dir);
    }
    if ((st.st_mode & 0777) != 0755)
        fchmod(store, 0755); /* mkdir is under the umask */
    return store;
}

char *store_read(int store, const char *name, double max_age_s,
                 size_t *ret_bytes)
{
    struct stat st;
    char *text = NULL;
    int fd = openat(store, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
                    O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !is_ours(&st) ||
        st.st_size > FILE_MAX_BYTES)
        goto out;
    double age_s = clock_wall_s() - (double)st.st_mtime;
    if (max_age_s > 0 && (age_s < -1 || age_s > max_age_s))
        goto out;
    size_t want = (size_t)st.st_size, have = 0;
    text = malloc(want + 1);
    while (text && have < want) {
        ssize_t n = read(fd, text + have, want - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    if (text) {
        text[have] = 0;
        *ret_bytes = have;
    }
out:
    close(fd);
    return text;
}

int store_write(int store, const char *name, const char *text, size_t bytes,
                struct err *err)
{
    char temporary[NAME_BYTES];
    int rc = -1;
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", name, (long)getpid());
    unlinkat(store, temporary, 0);
    int fd = openat(store, temporary,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set_errno(err, "gate: cannot create '%s'", temporary);
    if (fchmod(fd, 0644) || file_write_all(fd, text, bytes))
        err_set_errno(err, "gate: cannot write '%s'", temporary);
    else if (renameat(store, temporary, store, name))
        err_set_errno(err, "gate: cannot rename to '%s'", name);
    else
        rc = 0;
    close(fd);
    if (rc)
        unlinkat(store, temporary, 0);
    return rc;
}

void store_remove(int store, const char *name)
{
    unlinkat(store, name, 0);
}
