/* file - whole files, made whole; see file.h. */
#include "runner/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *file_read(const char *path, size_t max_bytes, size_t *ret_bytes,
                struct err *err)
{
    char *data = NULL;
    size_t len = 0, cap = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_set_errno(err, "file: cannot open '%s'", path);
        return NULL;
    }
    for (;;) {
        if (len + 1 >= cap) {
            cap = cap ? cap * 2 : 4096;
            char *more = realloc(data, cap);
            if (!more) {
                err_set(err, "file: cannot read '%s': out of memory", path);
                goto fail;
            }
            data = more;
        }
        ssize_t n = read(fd, data + len, cap - len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_set_errno(err, "file: cannot read '%s'", path);
            goto fail;
        }
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > max_bytes) {
            err_set(err, "file: '%s' is larger than %zu bytes", path,
                    max_bytes);
            goto fail;
        }
    }
    close(fd);
    data[len] = 0;
    if (ret_bytes)
        *ret_bytes = len;
    return data;
fail:
    close(fd);
    free(data);
    return NULL;
}

int file_write_all(int fd, const void *bytes, size_t bytes_n)
{
    const char *p = bytes;
    while (bytes_n) {
        ssize_t n = write(fd, p, bytes_n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        bytes_n -= (size_t)n;
    }
    return 0;
}

/* The folder that holds path, into dir. */
static int parent_dir(const char *path, char dir[PATH_MAX])
{
    if (snprintf(dir, PATH_MAX, "%s", path) >= PATH_MAX)
        return -1;
    char *slash = strrchr(dir, '/');
    if (!slash)
        memcpy(dir, ".", 2);
    else if (slash == dir)
        dir[1] = 0;
    else
        *slash = 0;
    return 0;
}

int file_sync_dir(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, "file: cannot open folder '%s'", path);
    int rc = fsync(fd);
    if (rc && errno != EINVAL && errno != EROFS)
        err_set_errno(err, "file: cannot sync folder '%s'", path);
    else
        rc = 0;
    close(fd);
    return rc;
}

static int put_in_place(const char *path, const void *bytes, size_t bytes_n,
                        mode_t mode, bool synced, struct err *err)
{
    char tmp[PATH_MAX], dir[PATH_MAX];
    int rc = -1;
    if (snprintf(tmp, sizeof tmp, "%s.tmp.%ld", path, (long)getpid()) >=
            (int)sizeof tmp ||
        parent_dir(path, dir))
        return err_set(err, "file: path too long: '%s'", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                  mode);
    if (fd < 0)
        return err_set_errno(err, "file: cannot create '%s'", tmp);
    if (file_write_all(fd, bytes, bytes_n) || (synced && fsync(fd))) {
        err_set_errno(err, "file: cannot write '%s'", tmp);
        goto out;
    }
    rc = close(fd);
    fd = -1;
    if (rc) {
        err_set_errno(err, "file: cannot close '%s'", tmp);
        goto out;
    }
    rc = -1;
    if (rename(tmp, path)) {
        err_set_errno(err, "file: cannot rename '%s' to '%s'", tmp, path);
        goto out;
    }
    rc = synced ? file_sync_dir(dir, err) : 0;
out:
    if (fd >= 0)
        close(fd);
    if (rc)
        unlink(tmp);
    return rc;
}

int file_replace(const char *path, const void *bytes, size_t bytes_n,
                 mode_t mode, struct err *err)
{
    return put_in_place(path, bytes, bytes_n, mode, true, err);
}

int file_publish(const char *path, const void *bytes, size_t bytes_n,
                 mode_t mode, struct err *err)
{
    return put_in_place(path, bytes, bytes_n, mode, false, err);
}

int file_make_dirs(const char *path, mode_t mode, struct err *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return err_set(err, "file: path too long: '%s'", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p)
            continue;
        char kept = *p;
        *p = 0;
        if (mkdir(part, mode) && errno != EEXIST)
            return err_set_errno(err, "file: cannot make folder '%s'", part);
        *p = kept;
        if (!kept)
            return 0;
    }
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int file_join(char *dst, size_t dst_bytes, const char *dir, const char *name,
              struct err *err)
{
    int n = snprintf(dst, dst_bytes, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= dst_bytes)
        return err_set(err, "file: path too long: '%s/%s'", dir, name);
    return 0;
}
