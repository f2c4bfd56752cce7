/* probe_disk - space, inodes and writability of root's own places, and shared
 * memory. A full disk can be a user's doing: warn. A read-only one is not. */
#include "health/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "runner/base/str.h"

enum { NVMES_MAX = 1024 };

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 100;
}

static void check_disk(const struct look *look, struct findings *findings,
                       const char *path)
{
    struct source_disk disk;
    double least = conf_real(look->site, "disk.free_percent");
    if (source_disk(&look->source, path, &disk)) {
        if (source_is_live(&look->source) && errno == ENOENT)
            findings_add(findings, F_DISK_ABSENT, path, "no such folder");
        else if (source_is_live(&look->source) && errno != EACCES)
            findings_add(findings, F_DISK_WRITE_FAILS, path, "statvfs: %s",
                         strerror(errno));
        return;
    }
    /* Nodes without disks run from a read-only image on purpose. */
    if (disk.read_only && strcmp(path, "/")) {
        findings_add(findings, F_DISK_READ_ONLY, path, "mounted read-only");
        return;
    }
    if (disk.read_only)
        return;
    if (percent(disk.free_bytes, disk.bytes) < least)
        findings_add(findings, F_DISK_FULL, path, "%.1f of %.1f GiB free",
                     (double)disk.free_bytes / (1 << 30),
                     (double)disk.bytes / (1 << 30));
    if (percent(disk.free_files, disk.files) < least)
        findings_add(findings, F_DISK_INODES_FULL, path, "%lld of %lld free",
                     (long long)disk.free_files, (long long)disk.files);
}

/* Is it the second word of a line of /proc/self/mounts? Read there, not asked
 * of the file system, whose server may not answer. */
static bool is_mounted(const char *mounts, const char *path, size_t n)
{
    for (const char *line = mounts; line && *line;) {
        const char *at = strchr(line, ' ');
        if (at && !strncmp(at + 1, path, n) && at[n + 1] == ' ')
            return true;
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return false;
}

static void check_mounts(const struct look *look, struct findings *findings)
{
    const char *paths = conf_text(look->site, "expect.mounts");
    char *mounts = *paths ? source_text(&look->source, "/proc/mounts") : NULL;
    while (mounts && *paths) {
        char path[SOURCE_NAME_BYTES];
        size_t n = strcspn(paths, "\n");
        snprintf(path, sizeof path, "%.*s", (int)n, paths);
        if (n && !is_mounted(mounts, paths, n))
            findings_add(findings, F_MOUNT_ABSENT, path,
                         "not in /proc/mounts");
        paths += n + (paths[n] == '\n');
    }
    free(mounts);
}

static void check_nvmes(const struct look *look, struct findings *findings)
{
    static char names[NVMES_MAX][SOURCE_NAME_BYTES];
    int expected = (int)conf_int(look->site, "expect.nvmes");
    int n = expected ? source_list(&look->source, names, NVMES_MAX,
                                   "/sys/class/nvme")
                     : 0;
    if (n < expected)
        findings_add(findings, F_NVME_COUNT_LOW, "node",
                     "%d shown, %d expected", n < 0 ? 0 : n, expected);
}

void probe_disk(const struct look *look, struct findings *findings)
{
    check_mounts(look, findings);
    check_nvmes(look, findings);
    const char *paths = conf_text(look->site, "disk.paths");
    while (*paths) {
        char path[SOURCE_NAME_BYTES];
        size_t n = strcspn(paths, "\n");
        if (n && n < sizeof path) {
            memcpy(path, paths, n);
            path[n] = 0;
            check_disk(look, findings, path);
        }
        paths += n + (paths[n] == '\n');
    }
}

/* A file without a name, so nothing that a user laid out can be followed. */
static void check_write(struct findings *findings, const char *folder)
{
    static const char block[4096];
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC | O_EXCL, 0600);
    int failed = fd < 0 || file_write_all(fd, block, sizeof block) || fsync(fd);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (!failed || why == EOPNOTSUPP || why == EISDIR || why == ENOENT)
        return;
    bool room = why == ENOSPC || why == EDQUOT || why == EACCES ||
                why == EPERM || why == EMFILE || why == ENFILE;
    findings_add(findings, room ? F_DISK_WRITE_REFUSED : F_DISK_WRITE_FAILS,
                 folder, "%s", strerror(why));
}

void probe_write(const struct look *look, struct findings *findings)
{
    if (!source_is_live(&look->source)) {
        findings_skip(findings, "a recorded host");
        return;
    }
    if (geteuid() != 0) {
        findings_skip(findings, "not root");
        return;
    }
    check_write(findings, "/run");
    check_write(findings, "/var/tmp");
    check_write(findings, "/tmp");
}

void probe_shm(const struct look *look, struct findings *findings)
{
    struct source_disk disk;
    double least = conf_real(look->site, "disk.free_percent");
    if (source_disk(&look->source, "/dev/shm", &disk)) {
        if (source_is_live(&look->source) && errno == ENOENT)
            findings_add(findings, F_SHM_ABSENT, "/dev/shm", "no such folder");
        return;
    }
    if (!disk.is_tmpfs)
        findings_add(findings, F_SHM_ABSENT, "/dev/shm",
                     "another kind of file system");
    else if (percent(disk.free_bytes, disk.bytes) < least)
        findings_add(findings, F_SHM_FULL, "/dev/shm", "%.2f of %.2f GiB free",
                     (double)disk.free_bytes / (1 << 30),
                     (double)disk.bytes / (1 << 30));
}
