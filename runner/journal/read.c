/* read - the records of all attempts; see journal.h. Lines that are no JSON
 * object are passed over: the last one of a writer that died, or one on a
 * disk that was full. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/journal/journal.h"

/* Attempts by number, ascending; to be freed. */
int journal_attempts(const char *run_dir, int **ret, struct err *err)
{
    char path[PATH_MAX];
    int *list = NULL, n = 0, cap = 0;
    snprintf(path, sizeof path, "%s/" KB_ATTEMPTS_DIR, run_dir);
    DIR *dir = opendir(path);
    if (!dir)
        return err_set_class(err, ERR_REQUEST,
                             "journal: cannot read '%s': %s; is it a run "
                             "directory", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *end;
        long number = strtol(entry->d_name, &end, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || *end || number < 1 ||
            number > INT_MAX)
            continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            int *more = realloc(list, (size_t)cap * sizeof *list);
            if (!more) {
                free(list);
                closedir(dir);
                return err_set(err, "journal: out of memory");
            }
            list = more;
        }
        int at = n++;
        for (; at > 0 && list[at - 1] > number; at--)
            list[at] = list[at - 1];
        list[at] = (int)number;
    }
    closedir(dir);
    *ret = list;
    return n;
}

int journal_read_attempt(const char *run_dir, int attempt, const char *file,
                         journal_record_f on_record, void *ctx,
                         struct err *err)
{
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    snprintf(path, sizeof path, "%s/" KB_ATTEMPT_FMT "/%s", run_dir, attempt,
             file);
    FILE *f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return 0;
    if (!f)
        return err_set_errno(err, "journal: cannot read '%s'", path);
    while (!rc && (n = getline(&line, &cap, f)) > 0) {
        if (line[n - 1] != '\n')
            break;
        json_t *record = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        if (json_is_object(record))
            rc = on_record(ctx, attempt, record);
        json_decref(record);
    }
    if (!rc && ferror(f))
        rc = err_set_errno(err, "journal: cannot read '%s'", path);
    free(line);
    fclose(f);
    return rc;
}

int journal_read(const char *run_dir, const char *file,
                 journal_record_f on_record, void *ctx, struct err *err)
{
    int *list = NULL, rc = 0;
    int n = journal_attempts(run_dir, &list, err);
    for (int i = 0; i < n && !rc; i++)
        rc = journal_read_attempt(run_dir, list[i], file, on_record, ctx,
                                  err);
    free(list);
    return n < 0 ? -1 : rc;
}
