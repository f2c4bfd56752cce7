/* retain - what becomes of checkpoints: healthy, quarantined, pruned; see
 * catalog.h. Only the current supervisor, or rank 0 of an unsupervised run,
 * calls these. */
#include "runner/ckpt/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/fences.h"
#include "runner/ckpt/reader.h"

#define SURE_N 2 /* always kept: that many healthy ones, if there are */

int catalog_mark_healthy(const char *run_dir, const char *name, int64_t step,
                         struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        file_join(path, sizeof path, dir, KB_CKPT_MANIFEST, err))
        return -1;
    if (!file_exists(path))
        return err_set(err, "ckpt: '%s' is not committed: it cannot be "
                            "healthy", name);
    if (file_join(path, sizeof path, dir, KB_CKPT_HEALTHY, err))
        return -1;
    json_t *v = json_pack("{s:I,s:f}", "proved_at_step", (json_int_t)step,
                          "time", clock_wall_s());
    int rc = v ? json_save_path(v, path, 0600, err)
               : err_set(err, "ckpt: out of memory");
    json_decref(v);
    return rc;
}

/* ---- Quarantine -------------------------------------------------------- */

int catalog_quarantine(const char *run_dir, const char *name,
                       const char *reason, struct err *err)
{
    char dir[PATH_MAX], cage[PATH_MAX], to[PATH_MAX], path[PATH_MAX + 16];
    char label[96];
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        file_join(cage, sizeof cage, run_dir, KB_CKPT_QUARANTINE, err) ||
        file_make_dirs(cage, 0700, err))
        return -1;
    for (int i = 1;; i++) { /* the same name may have been there before */
        if (i == 1)
            snprintf(label, sizeof label, "%s", name);
        else
            snprintf(label, sizeof label, "%s.%d", name, i);
        if (file_join(to, sizeof to, cage, label, err))
            return -1;
        if (!file_exists(to))
            break;
        if (i == 1000)
            return err_set(err, "ckpt: '%s' is full of '%s'", cage, name);
    }
    if (rename(dir, to))
        return err_set_errno(err, "ckpt: cannot move '%s' to '%s'", dir, to);
    snprintf(path, sizeof path, "%s.reason", to);
    struct sbuf text = SBUF_INIT;
    sbuf_printf(&text, "%s\n", reason);
    int rc = file_replace(path, text.data, text.len, 0600, err);
    sbuf_release(&text);
    return rc;
}

/* "NAME" or "NAME.2", with a manifest: it was one that could be loaded. */
static bool was_committed(const char *cage, const char *label, char name[64],
                          int *ret_attempt)
{
    char dir[PATH_MAX], path[PATH_MAX];
    int64_t step;
    if (!str_copy(name, 64, label) ||
        file_join(dir, sizeof dir, cage, label, NULL) ||
        file_join(path, sizeof path, dir, KB_CKPT_MANIFEST, NULL))
        return false;
    char *end = strstr(name, ".a");
    end = end ? strchr(end + 1, '.') : NULL;
    if (end)
        *end = 0;
    return manifest_name_parse(name, &step, ret_attempt) && file_exists(path);
}

int catalog_lost(const char *run_dir, int attempt, struct err *err)
{
    char cage[PATH_MAX], name[64];
    struct fences fences;
    struct dirent *e;
    int n = 0, writer;
    if (file_join(cage, sizeof cage, run_dir, KB_CKPT_QUARANTINE, err))
        return -1;
    DIR *dir = opendir(cage);
    if (!dir)
        return errno == ENOENT
                   ? 0
                   : err_set_errno(err, "ckpt: cannot read '%s'", cage);
    if (fences_load(&fences, run_dir, attempt, err)) {
        closedir(dir);
        return -1;
    }
    while ((e = readdir(dir)))
        if (was_committed(cage, e->d_name, name, &writer))
            n += fences_counted_on(&fences, name, writer);
    closedir(dir);
    fences_release(&fences);
    return n;
}

/* ---- Pruning ----------------------------------------------------------- */

/* Files that Koboshi makes in a checkpoint's folder. */
static bool is_ours(const char *name)
{
    static const char *const starts[] = {"shard-", "report-", "failed-",
                                         KB_CKPT_MANIFEST, KB_CKPT_HEALTHY};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (str_starts(name, starts[i]))
            return true;
    return false;
}

/* First the manifest, so that a crash leaves nothing that looks committed;
 * what is not ours stays, and with it the folder. */
static int remove_checkpoint(const char *run_dir, const char *name,
                             struct err *err)
{
    char path[PATH_MAX];
    struct dirent *e;
    if (reader_dir(run_dir, name, path, sizeof path, err))
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT
                   ? 0
                   : err_set_errno(err, "ckpt: cannot open '%s'", path);
    if (unlinkat(fd, KB_CKPT_MANIFEST, 0) && errno != ENOENT) {
        err_set_errno(err, "ckpt: cannot remove '%s/%s'", path,
                      KB_CKPT_MANIFEST);
        close(fd);
        return -1;
    }
    fsync(fd);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return err_set_errno(err, "ckpt: cannot read '%s'", path);
    }
    while ((e = readdir(dir)))
        if (is_ours(e->d_name))
            unlinkat(fd, e->d_name, 0);
    closedir(dir);
    if (rmdir(path) && errno != ENOENT && errno != ENOTEMPTY &&
        errno != EEXIST)
        return err_set_errno(err, "ckpt: cannot remove '%s'", path);
    return 0;
}

/* Mark what stays. */
static void choose_kept(const struct catalog *c, int keep_n, bool *keep)
{
    int kept = 0, healthy = 0;
    for (int i = 0; i < c->n; i++) { /* the newest good ones */
        const struct catalog_entry *e = &c->entries[i];
        if (!e->committed || !e->accepted || *e->problem)
            continue;
        if (kept < keep_n || (e->healthy && healthy < SURE_N)) {
            keep[i] = true;
            kept++;
            healthy += e->healthy;
        }
    }
}

/* May this one be deleted at all? The newest of this attempt may be at work. */
static bool is_over(const struct catalog *c, int i, int attempt)
{
    const struct catalog_entry *e = &c->entries[i];
    if (e->attempt < attempt)
        return true;
    if (e->attempt > attempt)
        return false;
    if (e->committed)
        return true;
    for (int k = 0; k < i; k++) /* saves of one attempt come in order */
        if (c->entries[k].committed && c->entries[k].attempt == attempt)
            return true;
    return false;
}

int catalog_prune(const char *run_dir, int attempt, int keep_n,
                  void (*on_prune)(void *ctx, const char *name), void *ctx,
                  struct err *err)
{
    struct catalog c;
    int rc = 0;
    if (catalog_load(run_dir, attempt, &c, err))
        return -1;
    bool *keep = calloc((size_t)c.n + 1, sizeof *keep);
    if (!keep) {
        catalog_release(&c);
        return err_set(err, "ckpt: out of memory");
    }
    choose_kept(&c, keep_n < SURE_N ? SURE_N : keep_n, keep);
    for (int i = 0; i < c.n && !rc; i++) {
        const struct catalog_entry *e = &c.entries[i];
        /* A committed one with a problem is evidence: for the quarantine. */
        if (keep[i] || !is_over(&c, i, attempt) ||
            (e->committed && e->accepted && *e->problem))
            continue;
        rc = remove_checkpoint(run_dir, e->name, err);
        if (!rc && on_prune)
            on_prune(ctx, e->name);
    }
    free(keep);
    catalog_release(&c);
    return rc;
}
