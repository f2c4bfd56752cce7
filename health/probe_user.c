/* probe_user - can the job's user write where the job will, and fast enough?
 * Run as that user, in preflight; the only probe that writes, its own files in
 * the user's own folders. */
#include "health/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"

enum { BLOCK_BYTES = 1 << 20, BLOCKS = 8 };

/* Errors that tell of the user's rights and room, the same on every node. An
 * absent or read-only folder is a mount that this node lacks. */
static bool is_users(int why)
{
    static const int users[] = {EACCES,  EPERM, ENOSPC,       EDQUOT,
                                ENOTDIR, ELOOP, ENAMETOOLONG, EMFILE};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (users[i] == why)
            return true;
    return false;
}

/* 8 MB and an fsync; errno or 0. Every node writes a file of its own name. */
static int write_test(const char *folder, double *ret_mb_per_s)
{
    static char block[BLOCK_BYTES];
    char host[128] = "", path[PATH_MAX];
    gethostname(host, sizeof host - 1);
    if (snprintf(path, sizeof path, "%s/.koboshi-health.%s.%ld", folder, host,
                 (long)getpid()) >= (int)sizeof path)
        return ENAMETOOLONG;
    double begin_s = clock_mono_s();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    if (fd < 0)
        return errno;
    int why = 0;
    for (int i = 0; i < BLOCKS && !why; i++) {
        memset(block, 'a' + i, sizeof block);
        if (file_write_all(fd, block, sizeof block))
            why = errno;
    }
    if (!why && fsync(fd))
        why = errno;
    if (close(fd) && !why)
        why = errno;
    unlink(path);
    *ret_mb_per_s = BLOCKS * (BLOCK_BYTES / 1e6) / (clock_mono_s() - begin_s);
    return why;
}

static void check_folder(const struct look *look, struct findings *findings,
                         const char *folder, bool shared)
{
    double mb_per_s = 0, least = conf_real(look->site, "user.write_mb_per_s");
    int why = write_test(folder, &mb_per_s);
    if (why)
        findings_add(findings,
                     shared && is_users(why) ? F_USER_DIR_REFUSED
                                             : F_USER_DIR_BROKEN,
                     folder, "%s", strerror(why));
    else if (shared && mb_per_s < least)
        findings_add(findings, F_USER_DIR_SLOW, folder,
                     "%.1f MB/s, %g expected", mb_per_s, least);
}

void probe_user_dirs(const struct look *look, struct findings *findings)
{
    check_folder(look, findings, "/tmp", false);
    if (look->run_dir)
        check_folder(look, findings, look->run_dir, true);
}
