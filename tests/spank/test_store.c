/* store: what root's folder takes, gives, and does not believe. */
#include "spank/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/tap.h"

static char *read_it(int store, double age)
{
    size_t n;
    return store_read(store, "a.json", age, &n);
}

int main(void)
{
    char base[] = "/tmp/test_store.XXXXXX", dir[64], path[128];
    struct err err = ERR_INIT;
    struct stat st;
    char *text;
    if (!mkdtemp(base))
        return 1;
    umask(077);
    snprintf(dir, sizeof dir, "%s/koboshi", base);
    int store = store_open(dir, &err);
    ok(store >= 0 && !stat(dir, &st) && (st.st_mode & 0777) == 0755,
       "made, for all to read");
    ok(!store_write(store, "a.json", "{}", 2, &err), "written %s", err.msg);
    ok(!fstatat(store, "a.json", &st, 0) && (st.st_mode & 0777) == 0644,
       "for all to read");
    text = read_it(store, 60);
    is_str(text, "{}", "read");
    free(text);
    ok(!store_write(store, "a.json", "{1}", 3, &err), "written again");
    text = read_it(store, 0);
    is_str(text, "{1}", "the new one");
    free(text);

    snprintf(path, sizeof path, "%s/a.json", dir);
    struct timespec old[2] = {{.tv_sec = time(NULL) - 100},
                              {.tv_sec = time(NULL) - 100}};
    utimensat(AT_FDCWD, path, old, 0);
    ok(!read_it(store, 60), "too old");
    old[0].tv_sec = old[1].tv_sec = time(NULL) + 100;
    utimensat(AT_FDCWD, path, old, 0);
    ok(!read_it(store, 60), "from the future");
    ok(!store_write(store, "a.json", "{}", 2, &err), "a fresh one");
    chmod(path, 0666);
    ok(!read_it(store, 60), "others could have written it");
    unlink(path);
    ok(!symlink("/etc/passwd", path), "a link in its place");
    ok(!read_it(store, 60), "is not followed when reading");
    ok(!store_write(store, "a.json", "{}", 2, &err), "and replaced by a file");
    ok(!lstat(path, &st) && S_ISREG(st.st_mode), "of our own");
    store_remove(store, "a.json");
    mkfifo(path, 0644);
    ok(!read_it(store, 60), "a pipe does not hang the reader");
    unlink(path);
    close(store);

    chmod(dir, 0777);
    ok(store_open(dir, &err) < 0 && strstr(err.msg, dir),
       "a folder that others may write: %s", err.msg);
    rmdir(dir);
    ok(!symlink("/tmp", dir), "a link instead of the folder");
    err = ERR_INIT;
    ok(store_open(dir, &err) < 0, "is refused: %s", err.msg);
    unlink(dir);
    if (geteuid() == 0) {
        mkdir(dir, 0755);
        ok(!chown(dir, 65534, 65534), "another's folder");
        err = ERR_INIT;
        ok(store_open(dir, &err) < 0, "is refused: %s", err.msg);
        rmdir(dir);
    }
    rmdir(base);
    return tap_done();
}
