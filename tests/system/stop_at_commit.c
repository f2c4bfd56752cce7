/* stop_at_commit - preloaded into koboshi-train by a test: when the file that
 * STOP_AT_COMMIT names is there, the process stops itself right before it
 * renames a manifest.json into place, once. FILE.stopped then holds the path
 * that was to be written. Nothing else is changed. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_manifest(const char *path)
{
    const char *name = strrchr(path, '/');
    return !strcmp(name ? name + 1 : path, "manifest.json");
}

static void stop_once(const char *path)
{
    const char *flag = getenv("STOP_AT_COMMIT");
    char mark[4096];
    FILE *file;
    if (!flag || unlink(flag) ||
        snprintf(mark, sizeof mark, "%s.stopped", flag) >= (int)sizeof mark)
        return;
    file = fopen(mark, "w");
    if (file) {
        fprintf(file, "%s\n", path);
        fclose(file);
    }
    raise(SIGSTOP); /* this thread first: the rename must not slip by */
}

int rename(const char *from, const char *to);
int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    if (is_manifest(to))
        stop_once(to);
    return real(from, to);
}
