/* badfs - a file system that passes a folder through and behaves badly on
 * request, for one node of a test's cluster; by libfuse.
 *
 * usage: badfs FOLDER MOUNTPOINT CONTROL [SECONDS]
 *   SECONDS   attributes, names and absent names are believed that long, as a
 *             file server's client does (default 0)
 *   CONTROL   a file that may come and go: "WHAT EACH". Every EACHth call does
 *             WHAT: estale | eio (reads and writes) | close (EIO when a written
 *             file is closed) | hang (for as long as the file is there)
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char *folder, *control;
static double believed_s;
static atomic_long calls_n;

enum kind { ANY, DATA, CLOSE };

/* 0 or what this call is to fail with. */
static int mishap(enum kind kind)
{
    char what[16] = "";
    long each = 1, n = atomic_fetch_add(&calls_n, 1);
    FILE *file = fopen(control, "r");
    if (!file)
        return 0;
    int got = fscanf(file, "%15s %ld", what, &each);
    fclose(file);
    if (got < 1 || each < 1 || n % each)
        return 0;
    while (!strcmp(what, "hang") && !access(control, F_OK))
        usleep(50000);
    if (!strcmp(what, "estale") && kind != CLOSE)
        return -ESTALE;
    if (!strcmp(what, "eio") && kind == DATA)
        return -EIO;
    return !strcmp(what, "close") && kind == CLOSE ? -EIO : 0;
}

#define REAL(path)                                                             \
    char real[PATH_MAX];                                                       \
    int bad = mishap(ANY);                                                     \
    if (bad)                                                                   \
        return bad;                                                            \
    if (snprintf(real, sizeof real, "%s%s", folder, path) >=                   \
        (int)sizeof real)                                                      \
        return -ENAMETOOLONG
/* A descriptor, and whether it was opened for writing. */
#define HANDLE(fd, flags) ((uint64_t)(fd) << 1 | !!((flags) & O_ACCMODE))
#define FD(fi) ((int)((fi)->fh >> 1))
#define RESULT(rc) ((rc) < 0 ? -errno : 0)

static int bad_getattr(const char *path, struct stat *st,
                       struct fuse_file_info *fi)
{
    (void)fi;
    REAL(path);
    return RESULT(lstat(real, st));
}

static int bad_readdir(const char *path, void *buf, fuse_fill_dir_t fill,
                       off_t offset, struct fuse_file_info *fi,
                       enum fuse_readdir_flags flags)
{
    (void)offset;
    (void)fi;
    (void)flags;
    REAL(path);
    DIR *dir = opendir(real);
    if (!dir)
        return -errno;
    for (struct dirent *e; (e = readdir(dir));)
        fill(buf, e->d_name, NULL, 0, 0);
    closedir(dir);
    return 0;
}

static int bad_open(const char *path, struct fuse_file_info *fi)
{
    REAL(path);
    int fd = open(real, fi->flags & ~O_NOFOLLOW);
    fi->fh = HANDLE(fd, fi->flags);
    return RESULT(fd);
}

static int bad_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    REAL(path);
    int fd = open(real, fi->flags | O_CREAT, mode);
    fi->fh = HANDLE(fd, fi->flags);
    return RESULT(fd);
}

static int bad_read(const char *path, char *buf, size_t bytes_n, off_t at,
                    struct fuse_file_info *fi)
{
    (void)path;
    int bad = mishap(DATA);
    ssize_t n = bad ? 0 : pread(FD(fi), buf, bytes_n, at);
    return bad ? bad : n < 0 ? -errno : (int)n;
}

static int bad_write(const char *path, const char *buf, size_t bytes_n,
                     off_t at, struct fuse_file_info *fi)
{
    (void)path;
    int bad = mishap(DATA);
    ssize_t n = bad ? 0 : pwrite(FD(fi), buf, bytes_n, at);
    return bad ? bad : n < 0 ? -errno : (int)n;
}

static int bad_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
    (void)path;
    (void)data_only;
    int bad = mishap(DATA);
    return bad ? bad : RESULT(fsync(FD(fi)));
}

static int bad_fsyncdir(const char *path, int data_only,
                        struct fuse_file_info *fi)
{
    (void)path;
    (void)data_only;
    (void)fi;
    return mishap(DATA);
}

/* What close() of the program gives. */
static int bad_flush(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    return fi->fh & 1 ? mishap(CLOSE) : 0; /* it was written */
}

static int bad_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    close(FD(fi));
    return 0;
}

static int bad_mkdir(const char *path, mode_t mode)
{
    REAL(path);
    return RESULT(mkdir(real, mode));
}

static int bad_unlink(const char *path)
{
    REAL(path);
    return RESULT(unlink(real));
}

static int bad_rmdir(const char *path)
{
    REAL(path);
    return RESULT(rmdir(real));
}

static int bad_rename(const char *from, const char *to, unsigned flags)
{
    char real_to[PATH_MAX];
    REAL(from);
    if (flags)
        return -EINVAL;
    if (snprintf(real_to, sizeof real_to, "%s%s", folder, to) >=
        (int)sizeof real_to)
        return -ENAMETOOLONG;
    return RESULT(rename(real, real_to));
}

static int bad_truncate(const char *path, off_t bytes,
                        struct fuse_file_info *fi)
{
    (void)fi;
    REAL(path);
    return RESULT(truncate(real, bytes));
}

static int bad_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    (void)fi;
    REAL(path);
    return RESULT(chmod(real, mode));
}

static int bad_utimens(const char *path, const struct timespec times[2],
                       struct fuse_file_info *fi)
{
    (void)fi;
    REAL(path);
    return RESULT(utimensat(AT_FDCWD, real, times, AT_SYMLINK_NOFOLLOW));
}

static int bad_statfs(const char *path, struct statvfs *st)
{
    REAL(path);
    return RESULT(statvfs(real, st));
}

static void *bad_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
    (void)conn;
    config->attr_timeout = config->entry_timeout = believed_s;
    config->negative_timeout = believed_s;
    config->hard_remove = 1;
    return NULL;
}

static const struct fuse_operations operations = {
    .init = bad_init,         .getattr = bad_getattr,
    .readdir = bad_readdir,   .open = bad_open,
    .create = bad_create,     .read = bad_read,
    .write = bad_write,       .fsync = bad_fsync,
    .fsyncdir = bad_fsyncdir,   .flush = bad_flush,
    .release = bad_release,   .mkdir = bad_mkdir,
    .unlink = bad_unlink,     .rmdir = bad_rmdir,
    .rename = bad_rename,     .truncate = bad_truncate,
    .chmod = bad_chmod,       .utimens = bad_utimens,
    .statfs = bad_statfs,
};

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: badfs FOLDER MOUNTPOINT CONTROL [SECONDS]\n");
        return 2;
    }
    /* By descriptor, so that it may be mounted over itself. */
    static char below[32];
    int fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(below, sizeof below, "/proc/self/fd/%d", fd);
    folder = below;
    control = argv[3];
    believed_s = argc > 4 ? atof(argv[4]) : 0;
    char *args[] = {argv[0], "-f", "-o", "allow_other,default_permissions",
                    argv[2], NULL};
    return fuse_main(5, args, &operations, NULL);
}
