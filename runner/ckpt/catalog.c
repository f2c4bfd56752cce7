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
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/reader.h"

#define START_MAX_BYTES ((size_t)16 << 20)

/* ---- Fences ------------------------------------------------------------ */

/* What attempts accepted when they began: newest first. */
struct fence {
    int attempt;
    json_t *accepted; /* array of names, owned */
};
struct fences {
    struct fence *list;
    int n, cap;
};

static void fences_release(struct fences *f)
{
    for (int i = 0; i < f->n; i++)
        json_decref(f->list[i].accepted);
    free(f->list);
    *f = (struct fences){0};
}

/* An attempt whose start.json is absent or broken never told its ranks
 * anything: it fences nothing. */
static int fence_add(struct fences *f, const char *run_dir, int attempt)
{
    char name[96], path[PATH_MAX];
    snprintf(name, sizeof name, KB_ATTEMPT_FMT "/%s", attempt, KB_START_JSON);
    if (file_join(path, sizeof path, run_dir, name, NULL))
        return 0;
    struct stat st;
    if (lstat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    json_t *start = json_load_path(path, START_MAX_BYTES, NULL);
    json_t *accepted = json_object_get(start, "checkpoints");
    if (!json_is_array(accepted)) {
        json_decref(start);
        return 0;
    }
    if (f->n == f->cap) {
        int cap = f->cap ? 2 * f->cap : 16;
        struct fence *more = realloc(f->list, (size_t)cap * sizeof *more);
        if (!more) {
            json_decref(start);
            return -1;
        }
        f->list = more;
        f->cap = cap;
    }
    f->list[f->n++] = (struct fence){attempt, json_incref(accepted)};
    json_decref(start);
    return 0;
}

static int fences_load(struct fences *f, const char *run_dir, int attempt,
                       struct err *err)
{
    char path[PATH_MAX];
    struct dirent *e;
    int rc = 0;
    if (file_join(path, sizeof path, run_dir, KB_ATTEMPTS_DIR, err))
        return -1;
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT
                   ? 0
                   : err_set_errno(err, "ckpt: cannot read '%s'", path);
    while (!rc && (e = readdir(dir))) {
        int64_t number;
        if (str_to_i64(e->d_name, &number) || number < 1 ||
            number > INT_MAX || (attempt > 0 && number > attempt))
            continue;
        if (fence_add(f, run_dir, (int)number))
            rc = err_set(err, "ckpt: out of memory");
    }
    closedir(dir);
    return rc;
}

/* Every attempt after the one that wrote it knew it when it began. */
static bool is_accepted(const struct fences *f,
                        const struct catalog_entry *entry)
{
    for (int i = 0; i < f->n; i++) {
        size_t k;
        json_t *name;
        bool listed = false;
        if (f->list[i].attempt <= entry->attempt)
            continue;
        json_array_foreach (f->list[i].accepted, k, name)
            listed |= json_is_string(name) &&
                      !strcmp(json_string_value(name), entry->name);
        if (!listed)
            return false;
    }
    return true;
}

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
        entry->accepted = is_accepted(&fences, entry);
        look_at(dir, entry);
        if (entry->committed && !entry->accepted && !*entry->problem)
            str_copy(entry->problem, sizeof entry->problem,
                     "committed by an older attempt after a newer one began");
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
