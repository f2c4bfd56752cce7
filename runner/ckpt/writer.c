/* writer - one save on its way to disk; see writer.h.
 *
 * Order: shards to temporaries, fsync, rename, then report-RANK.json by the
 * same steps, which says: all that I list is on disk. Rank 0 waits for every
 * report, then writes, syncs and renames the manifest. A crash at any point
 * leaves a folder without a manifest, which nobody takes for a checkpoint. */
#include "runner/ckpt/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"

#define REPORT_FMT "report-%05d.json"
#define FAILED_FMT "failed-%05d"
#define REPORT_MAX_BYTES ((size_t)256 << 20)
#define LOOK_FIRST_S 0.005
#define LOOK_LAST_S 0.5

/* ---- Shards ------------------------------------------------------------ */

/* Write one file's memory, hashing each block on its way. hex: 16 digits a
 * block. */
static int write_blocks(int fd, const unsigned char *memory, int64_t bytes,
                        char *hex)
{
    for (int64_t at = 0; at < bytes; at += MANIFEST_BLOCK_BYTES, hex += 16) {
        int64_t left = bytes - at;
        size_t n = (size_t)(left < MANIFEST_BLOCK_BYTES ? left
                                                        : MANIFEST_BLOCK_BYTES);
        char digits[17];
        manifest_hex(XXH3_64bits(memory + at, n), digits);
        memcpy(hex, digits, 16);
        if (file_write_all(fd, memory + at, n))
            return -1;
    }
    return 0;
}

/* One shard, whole or not at all; its entry for the report. */
static json_t *write_shard(const char *dir, const struct layout_file *file,
                           const unsigned char *memory, struct err *err)
{
    char path[PATH_MAX], tmp[PATH_MAX + 8];
    int64_t blocks =
        (file->bytes + MANIFEST_BLOCK_BYTES - 1) / MANIFEST_BLOCK_BYTES;
    json_t *entry = NULL;
    char *hex = calloc((size_t)blocks * 16 + 1, 1);
    if (!hex) {
        err_set(err, "ckpt: out of memory");
        return NULL;
    }
    if (file_join(path, sizeof path, dir, file->name, err)) {
        free(hex);
        return NULL;
    }
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    if (fd < 0 || write_blocks(fd, memory, file->bytes, hex) || fsync(fd)) {
        err_set_errno(err, "ckpt: cannot write '%s'", tmp);
        goto out;
    }
    int rc = close(fd);
    fd = -1;
    if (rc || rename(tmp, path)) {
        err_set_errno(err, "ckpt: cannot put '%s' in place", path);
        goto out;
    }
    entry = json_pack("{s:s,s:I,s:s}", "file", file->name, "bytes",
                      (json_int_t)file->bytes, "xxh3", hex);
    if (!entry)
        err_set(err, "ckpt: out of memory");
out:
    if (fd >= 0)
        close(fd);
    if (!entry)
        unlink(tmp);
    free(hex);
    return entry;
}

/* ---- Report ------------------------------------------------------------ */

static int write_report(const struct writer *w, const char *dir,
                        json_t *shards, struct err *err)
{
    char name[32], path[PATH_MAX];
    snprintf(name, sizeof name, REPORT_FMT, w->rank);
    if (file_join(path, sizeof path, dir, name, err))
        return -1;
    json_t *report = json_pack("{s:i,s:I,s:O,s:O}", "rank", w->rank, "step",
                               (json_int_t)w->step, "shards", shards, "boxes",
                               w->boxes);
    char *text = report ? json_line(report) : NULL;
    int rc = text ? file_replace(path, text, strlen(text), 0600, err)
                  : err_set(err, "ckpt: out of memory");
    free(text);
    json_decref(report);
    return rc;
}

static int write_own(const struct writer *w, const char *dir, struct err *err)
{
    json_t *shards = json_array();
    int rc = shards ? 0 : err_set(err, "ckpt: out of memory");
    for (int f = 0; f < w->layout->files_n && !rc; f++) {
        const struct layout_file *file = &w->layout->files[f];
        json_t *entry =
            write_shard(dir, file, w->memory + file->memory_at, err);
        if (!entry || json_array_append_new(shards, entry))
            rc = -1;
    }
    if (!rc)
        rc = write_report(w, dir, shards, err);
    json_decref(shards);
    return rc;
}

/* ---- Rank 0: wait for all, commit -------------------------------------- */

/* The report of one rank: 1 there, 0 not yet, -1 it failed. */
static int look_for_report(const struct writer *w, const char *dir, int rank,
                           json_t **ret, struct err *err)
{
    char name[32], path[PATH_MAX];
    snprintf(name, sizeof name, FAILED_FMT, rank);
    if (file_join(path, sizeof path, dir, name, err))
        return -1;
    if (file_exists(path)) {
        char *why = file_read(path, 2000, NULL, NULL);
        err_set(err, "ckpt: rank %d could not write its part: %s", rank,
                why && *why ? why : "it could not even say why");
        free(why);
        return -1;
    }
    snprintf(name, sizeof name, REPORT_FMT, rank);
    if (file_join(path, sizeof path, dir, name, err))
        return -1;
    if (!file_exists(path))
        return 0;
    *ret = json_load_path(path, REPORT_MAX_BYTES, err);
    if (!*ret)
        return -1;
    if (json_i64_or(*ret, "step", -1) != w->step)
        return err_set(err, "ckpt: '%s' is of another step", path);
    return 1;
}

static int collect_reports(const struct writer *w, const char *dir,
                           json_t **reports, struct err *err)
{
    double begin_s = clock_mono_s(), pause_s = LOOK_FIRST_S;
    for (int rank = 0; rank < w->size;) {
        int there = look_for_report(w, dir, rank, &reports[rank], err);
        if (there < 0)
            return -1;
        if (there) {
            rank++;
            pause_s = LOOK_FIRST_S;
            continue;
        }
        if (clock_mono_s() - begin_s > w->wait_limit_s)
            return err_set(err, "ckpt: rank %d did not report its part of "
                                "step %lld within %.0f s",
                           rank, (long long)w->step, w->wait_limit_s);
        clock_sleep_s(pause_s);
        pause_s = pause_s * 2 < LOOK_LAST_S ? pause_s * 2 : LOOK_LAST_S;
    }
    return 0;
}

/* A newer attempt has begun: what we commit now would be ignored, and might
 * confuse a person. (Readers do not rely on this look.) */
static int check_fence(const struct writer *w, struct err *err)
{
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, KB_ATTEMPT_FMT, w->attempt + 1);
    if (file_join(path, sizeof path, w->run_dir, name, err))
        return -1;
    if (file_exists(path))
        return err_set(err, "ckpt: attempt %d has begun: attempt %d commits "
                            "nothing more", w->attempt + 1, w->attempt);
    return 0;
}

static void remove_reports(const struct writer *w, const char *dir)
{
    char name[32], path[PATH_MAX];
    for (int rank = 0; rank < w->size; rank++) {
        snprintf(name, sizeof name, REPORT_FMT, rank);
        if (!file_join(path, sizeof path, dir, name, NULL))
            unlink(path);
    }
}

static int commit(const struct writer *w, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    char *text = NULL;
    int rc = -1;
    json_t **reports = calloc((size_t)w->size, sizeof *reports);
    if (!reports)
        return err_set(err, "ckpt: out of memory");
    if (collect_reports(w, dir, reports, err))
        goto out;
    text = manifest_write(reports, w->size, w->step, w->attempt, w->plan_hash,
                          w->state, err);
    if (!text || check_fence(w, err) ||
        file_join(path, sizeof path, dir, KB_CKPT_MANIFEST, err))
        goto out;
    rc = file_replace(path, text, strlen(text), 0600, err);
    if (!rc)
        remove_reports(w, dir);
out:
    for (int i = 0; i < w->size; i++)
        json_decref(reports[i]);
    free(reports);
    free(text);
    return rc;
}

/* ---- The save ---------------------------------------------------------- */

/* ckpt/NAME, its entry on disk. */
static int make_folder(const struct writer *w, const char *dir,
                       struct err *err)
{
    char above[PATH_MAX], manifest[PATH_MAX];
    if (file_join(above, sizeof above, w->run_dir, KB_CKPT_DIR, err) ||
        file_join(manifest, sizeof manifest, dir, KB_CKPT_MANIFEST, err) ||
        file_make_dirs(dir, 0700, err))
        return -1;
    if (file_exists(manifest))
        return err_set(err, "ckpt: '%s' is already committed", dir);
    return w->rank == 0 ? file_sync_dir(above, err) : 0;
}

/* Tell rank 0, by a file that needs no disk blocks where there are none, and
 * free what we took. */
static void give_up(const struct writer *w, const char *dir,
                    const struct err *why)
{
    char name[SHARD_NAME_BYTES], path[PATH_MAX];
    /* First the manifest: its rename may have gone through and only the sync
     * failed. */
    if (w->rank == 0 && !file_join(path, sizeof path, dir, KB_CKPT_MANIFEST,
                                   NULL) &&
        unlink(path) && errno != ENOENT)
        return;
    for (int f = 0; f < w->layout->files_n; f++)
        if (!file_join(path, sizeof path, dir, w->layout->files[f].name, NULL))
            unlink(path);
    snprintf(name, sizeof name, REPORT_FMT, w->rank);
    if (!file_join(path, sizeof path, dir, name, NULL))
        unlink(path);
    if (w->rank == 0 && w->size == 1) {
        rmdir(dir);
        return;
    }
    snprintf(name, sizeof name, FAILED_FMT, w->rank);
    if (file_join(path, sizeof path, dir, name, NULL))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, why->msg, strlen(why->msg));
    (void)ignored;
    close(fd);
}

int writer_save(const struct writer *w, const char *name, struct err *err)
{
    char part[128], dir[PATH_MAX];
    snprintf(part, sizeof part, "%s/%s", KB_CKPT_DIR, name);
    if (file_join(dir, sizeof dir, w->run_dir, part, err) ||
        make_folder(w, dir, err))
        return -1;
    if (write_own(w, dir, err) || (w->rank == 0 && commit(w, dir, err))) {
        give_up(w, dir, err);
        return -1;
    }
    return 0;
}
