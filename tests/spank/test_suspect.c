/* suspect: what a user writes, lays out, floods and links is at most a few
 * words of the table, and only so often. */
#include "spank/suspect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/store.h"
#include "tests/tap.h"

static char base[] = "/tmp/test_suspect.XXXXXX";
static int store;

static void put(const char *name, const char *text, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/s/%s", base, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes)
        ok(false, "cannot write %s", path);
    close(fd);
}

static const char *take(uid_t uid)
{
    static char text[SUSPECT_TEXT_BYTES];
    suspect_take(store, 7, uid, text);
    return text;
}

static void check_words(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", ""},
        {"suspect-gpu\n", "suspect-gpu"},
        {"suspect-gpu", "suspect-gpu"},
        {"suspect-hang\nsuspect-gpu\nsuspect-hang\n",
         "suspect-gpu,suspect-hang"},
        {"suspect-gpux\n suspect-gpu\nsuspect\n", ""},
        {"drain\nfail node1\n--help\n$(reboot)\nsuspect-gpu;reboot\n", ""},
        {"\n\n\n", ""},
    };
    struct err err = ERR_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ok(!suspect_make(store, 7, geteuid(), &err), "made %s", err.msg);
        put("suspect.7", rows[i].text, strlen(rows[i].text));
        is_str(take(geteuid()), rows[i].want, "words of the table alone");
    }
    is_str(take(geteuid()), "", "it is gone after that");
}

static void check_tricks(void)
{
    static char flood[1 << 20];
    char path[128], other[128];
    struct err err = ERR_INIT;
    struct stat st;
    snprintf(path, sizeof path, "%s/s/suspect.7", base);
    snprintf(other, sizeof other, "%s/other", base);
    memset(flood, 'x', sizeof flood);
    memcpy(flood + sizeof flood - 13, "\nsuspect-gpu\n", 13);
    suspect_make(store, 7, geteuid(), &err);
    put("suspect.7", flood, sizeof flood);
    is_str(take(geteuid()), "", "a flood: only its beginning is read");
    put("../other", "suspect-gpu\n", 12);
    ok(!symlink(other, path), "a link in its place");
    is_str(take(geteuid()), "", "is not followed");
    ok(!symlink(other, path) && !suspect_make(store, 7, geteuid(), &err) &&
           !lstat(path, &st) && S_ISREG(st.st_mode) && st.st_size == 0 &&
           (st.st_mode & 0777) == 0600,
       "nor when it is made: the link is replaced");
    ok(!stat(other, &st) && st.st_size == 12, "what it led to is as it was");
    put("suspect.7", "suspect-gpu\n", 12);
    is_str(take(geteuid() + 1), "", "another user's file");
    ok(!mkfifo(path, 0600), "a pipe");
    is_str(take(geteuid()), "", "is not waited for");
    ok(!mkdir(path, 0700), "a folder");
    is_str(take(geteuid()), "", "is none");
    rmdir(path);
    if (geteuid() == 0) {
        ok(!suspect_make(store, 7, 65534, &err) && !stat(path, &st) &&
               st.st_uid == 65534,
           "it is the user's");
        unlink(path);
    }
}

static void check_rate(void)
{
    int n = 0;
    for (int i = 0; i < 20; i++)
        n += suspect_may_look(store, 1000000 + i);
    is_int(n, 4, "four closer looks an hour");
    ok(suspect_may_look(store, 1000000 + 3700), "and again an hour later");
    put("suspect.looks", "nonsense\n1e308\n-5\n\n", 19);
    ok(suspect_may_look(store, 1000000), "a damaged count is none");
}

int main(void)
{
    char path[128], command[160];
    struct err err = ERR_INIT;
    if (!mkdtemp(base))
        return 1;
    snprintf(path, sizeof path, "%s/s", base);
    store = store_open(path, &err);
    ok(store >= 0, "a store %s", err.msg);
    check_words();
    check_tricks();
    check_rate();
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command) ? 1 : tap_done();
}
