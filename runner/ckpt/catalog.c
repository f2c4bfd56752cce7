/* catalog - what checkpoints a run directory holds; see catalog.h. */
#include "runner/ckpt/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "runner/ckpt/fences.h"
#include "runner/ckpt/reader.h"

/* ---- Entries ----------------------------------------------------------- */

static bool is_regular(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    return !file_join(path, sizeof path, dir, name, NULL) &&
           !lstat(path, &st) && S_ISREG(st.st_mode);
}

/* What a look tells, without reading the shards. */
static void look_at(const char *dir, struct catalog_entry *entry)
{
    struct manifest m;
    struct err why = ERR_INIT;
    char path[PATH_MAX];
    struct stat st;
    if (file_join(path, sizeof path, dir, KB_CKPT_MANIFEST, NULL))
        return;
    entry->committed = !lstat(path, &st);
    if (!entry->committed) {
        str_copy(entry->problem, sizeof entry->problem,
                 "not committed: it has no manifest.json");
        return;
    }
    entry->wall_s = (double)st.st_mtime;
    entry->healthy = is_regular(dir, KB_CKPT_HEALTHY);
    if (reader_manifest(dir, entry->name, &m, &why)) {
        str_copy(entry->problem, sizeof entry->problem, why.msg);
        return;
    }
    entry->bytes = m.bytes;
    if (m.wall_s > 0)
        entry->wall_s = m.wall_s;
    if (reader_look(dir, &m, &why))
        str_copy(entry->problem, sizeof entry->problem, why.msg);
    manifest_release(&m);
}

static int newest_first(const void *a, const void *b)
{
    const struct catalog_entry *x = a, *y = b;
    if (x->step != y->step)
        return x->step > y->step ? -1 : 1;
    return x->attempt > y->attempt ? -1 : x->attempt < y->attempt;
}

static int add_entry(struct catalog *c, const char *name, int *cap)
{
    struct catalog_entry entry = {0};
    if (!manifest_name_parse(name, &entry.step, &entry.attempt))
        return 0; /* not ours */
    str_copy(entry.name, sizeof entry.name, name);
    if (c->n == *cap) {
        int more = *cap ? 2 * *cap : 32;
        struct catalog_entry *list =
            realloc(c->entries, (size_t)more * sizeof *list);
        if (!list)
            return -1;
        c->entries = list;
        *cap = more;
    }
    c->entries[c->n++] = entry;
    return 0;
}

static int list_names(const char *path, struct catalog *ret, struct err *err)
{
    struct dirent *e;
    int rc = 0, cap = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT
                   ? 0
                   : err_set_errno(err, "ckpt: cannot read '%s'", path);
    errno = 0;
    while (!rc && (e = readdir(dir))) {
        struct stat st;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISDIR(st.st_mode))
            continue;
        if (add_entry(ret, e->d_name, &cap))
            rc = err_set(err, "ckpt: out of memory");
        errno = 0;
    }
    if (!rc && errno)
        rc = err_set_errno(err, "ckpt: cannot read '%s'", path);
    closedir(dir);
    return rc;
}

int catalog_load(const char *run_dir, int attempt, struct catalog *ret,
                 struct err *err)
{
    char path[PATH_MAX], dir[PATH_MAX];
    struct fences fences = {0};
    *ret = (struct catalog){0};
    int rc = file_join(path, sizeof path, run_dir, KB_CKPT_DIR, err);
    if (!rc)
        rc = list_names(path, ret, err);
    if (!rc && ret->n)
        rc = fences_load(&fences, run_dir, attempt, err);
    for (int i = 0; i < ret->n && !rc; i++) {
        struct catalog_entry *entry = &ret->entries[i];
        if (file_join(dir, sizeof dir, path, entry->name, err)) {
            rc = -1;
            break;
        }
        int without =
            fences_without(&fences, entry->name, entry->attempt);
        entry->accepted = !without;
        look_at(dir, entry);
        if (entry->committed && without && !*entry->problem)
            snprintf(entry->problem, sizeof entry->problem,
                     "attempt %d began without it", without);
    }
    fences_release(&fences);
    if (rc)
        catalog_release(ret);
    else if (ret->n)
        qsort(ret->entries, (size_t)ret->n, sizeof *ret->entries,
              newest_first);
    return rc;
}

void catalog_release(struct catalog *catalog)
{
    free(catalog->entries);
    *catalog = (struct catalog){0};
}

const struct catalog_entry *catalog_find(const struct catalog *catalog,
                                         int64_t step)
{
    const struct catalog_entry *found = NULL;
    for (int i = 0; i < catalog->n; i++) {
        const struct catalog_entry *e = &catalog->entries[i];
        if (e->step != step)
            continue;
        if (e->committed && e->accepted)
            return e;
        if (!found)
            found = e;
    }
    return found;
}

bool catalog_takes(const struct catalog_entry *entry, const char *resume)
{
    int64_t step;
    if (!entry->committed || !entry->accepted || !strcmp(resume, "fresh"))
        return false;
    return str_to_i64(resume, &step) || entry->step <= step;
}

int catalog_check_resume(const struct catalog *catalog, const char *resume,
                         struct err *err)
{
    int64_t step;
    if (str_to_i64(resume, &step))
        return 0;
    const struct catalog_entry *entry = catalog_find(catalog, step);
    if (entry && catalog_takes(entry, resume))
        return 0;
    return err_set_class(err, ERR_REQUEST,
                         "ckpt: no checkpoint of step %s to go on from; "
                         "koboshi ckpt list shows what is there", resume);
}

static bool shows(const struct catalog *catalog, const char *name)
{
    for (int i = 0; i < catalog->n; i++)
        if (catalog->entries[i].committed &&
            !strcmp(catalog->entries[i].name, name))
            return true;
    return false;
}

bool catalog_misses(const struct catalog *catalog, const char *run_dir,
                    int attempt, char ret_name[64])
{
    struct fences fences;
    size_t i;
    json_t *one;
    bool misses = false;
    if (fences_load(&fences, run_dir, attempt, NULL))
        return false;
    json_array_foreach ((json_t *)fences_given(&fences, attempt), i, one) {
        const char *name = json_string_value(one);
        if (misses || !name || shows(catalog, name))
            continue;
        misses = true;
        str_copy(ret_name, 64, name);
    }
    fences_release(&fences);
    return misses;
}

int catalog_verify(const char *run_dir, const char *name, struct err *err)
{
    char dir[PATH_MAX];
    struct manifest m;
    if (reader_dir(run_dir, name, dir, sizeof dir, err) ||
        reader_manifest(dir, name, &m, err))
        return -1;
    int rc = reader_verify(dir, &m, err);
    manifest_release(&m);
    return rc;
}
