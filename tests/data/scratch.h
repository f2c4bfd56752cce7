/* scratch - a folder for one test's files, removed at the end, and small
 * corpora in it. */
#ifndef KB_TESTS_SCRATCH_H
#define KB_TESTS_SCRATCH_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "runner/data/tokens.h"

static char scratch_dir[64];

__attribute__((unused)) static void scratch_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch_dir);
    if (system(command))
        fprintf(stderr, "cannot remove %s\n", scratch_dir);
}

__attribute__((unused)) static const char *scratch(const char *name)
{
    static char path[4][PATH_MAX];
    static int at;
    if (!scratch_dir[0]) {
        strcpy(scratch_dir, "/tmp/kb-test-XXXXXX");
        if (!mkdtemp(scratch_dir))
            abort();
        atexit(scratch_remove);
    }
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", scratch_dir, name);
    return path[at];
}

__attribute__((unused)) static void scratch_write(const char *path,
                                                  const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
        abort();
}

/* A corpus whose sequence i has lengths[i] tokens first, first + 1, ...
 * counted through all of them, modulo vocab. */
__attribute__((unused)) static void
scratch_corpus(const char *prefix, const int *lengths, int n, int first,
               int vocab)
{
    struct err err = ERR_INIT;
    struct tokens_writer *w = tokens_create(prefix, vocab, &err);
    for (int i = 0; w && i < n; i++) {
        int32_t *ids = malloc((size_t)lengths[i] * sizeof *ids + 1);
        for (int t = 0; t < lengths[i]; t++)
            ids[t] = first++ % vocab;
        if (tokens_add(w, ids, lengths[i], &err) ||
            tokens_end_document(w, &err))
            abort();
        free(ids);
    }
    if (!w || tokens_finish(w, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
}

#endif
