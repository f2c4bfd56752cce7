/* fences - see fences.h. */
#include "runner/ckpt/fences.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"

#define START_MAX_BYTES ((size_t)16 << 20)

void fences_release(struct fences *fences)
{
    for (int i = 0; i < fences->n; i++)
        json_decref(fences->list[i].accepted);
    free(fences->list);
    *fences = (struct fences){0};
}

/* An attempt whose start.json is absent or broken never told its ranks
 * anything: it fences nothing. */
static int fence_add(struct fences *f, const char *run_dir, int attempt)
{
    char name[96], path[PATH_MAX];
    struct stat st;
    snprintf(name, sizeof name, KB_ATTEMPT_FMT "/%s", attempt, KB_START_JSON);
    if (file_join(path, sizeof path, run_dir, name, NULL) ||
        lstat(path, &st) || !S_ISREG(st.st_mode))
        return 0;
    int rc = 0;
    json_t *start = json_load_path(path, START_MAX_BYTES, NULL);
    json_t *accepted = json_object_get(start, "checkpoints");
    if (!json_is_array(accepted))
        goto out;
    if (f->n == f->cap) {
        int cap = f->cap ? 2 * f->cap : 16;
        struct fence *more = realloc(f->list, (size_t)cap * sizeof *more);
        if (!more) {
            rc = -1;
            goto out;
        }
        f->list = more;
        f->cap = cap;
    }
    f->list[f->n++] = (struct fence){
        .attempt = attempt,
        .fresh = !strcmp(json_string_or(start, "resume", ""), "fresh"),
        .accepted = json_incref(accepted)};
out:
    json_decref(start);
    return rc;
}

int fences_load(struct fences *ret, const char *run_dir, int attempt,
                struct err *err)
{
    char path[PATH_MAX];
    struct dirent *e;
    int rc = 0;
    *ret = (struct fences){0};
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
        if (fence_add(ret, run_dir, (int)number))
            rc = err_set(err, "ckpt: out of memory");
    }
    closedir(dir);
    if (rc)
        fences_release(ret);
    return rc;
}

static bool lists(const struct fence *fence, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach (fence->accepted, i, one)
        if (json_is_string(one) && !strcmp(json_string_value(one), name))
            return true;
    return false;
}

int fences_without(const struct fences *fences, const char *name, int attempt)
{
    int first = 0;
    for (int i = 0; i < fences->n; i++) {
        const struct fence *fence = &fences->list[i];
        if (fence->attempt > attempt && !lists(fence, name) &&
            (!first || fence->attempt < first))
            first = fence->attempt;
    }
    return first;
}

bool fences_counted_on(const struct fences *fences, const char *name,
                       int attempt)
{
    const struct fence *next = NULL;
    for (int i = 0; i < fences->n; i++) {
        const struct fence *fence = &fences->list[i];
        if (fence->attempt <= attempt)
            continue;
        if (fence->fresh)
            return false;
        if (!next || fence->attempt < next->attempt)
            next = fence;
    }
    return next && lists(next, name);
}

const json_t *fences_given(const struct fences *fences, int attempt)
{
    for (int i = 0; i < fences->n; i++)
        if (fences->list[i].attempt == attempt)
            return fences->list[i].accepted;
    return NULL;
}
