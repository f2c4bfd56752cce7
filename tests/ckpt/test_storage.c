/* test_storage - what disks, file servers and power cuts do to a save. The
 * file calls that change something come by here first (a program's own
 * definitions go before libc's): they are counted, recorded, made to fail, or
 * the last thing that a process does.
 *
 * kill     at each call in turn, before it and in the middle of a write
 * fail     each call in turn fails with EIO, ENOSPC, ESTALE, EDQUOT
 * replay   each prefix of the calls, with what was not fsynced dropped
 * read     each file of a checkpoint zeroed, doubled, unreadable, hidden by an
 *          old answer of the file server
 * What says that it is committed loads; what is not says so; the older one
 * is left alone; the next attempt saves as if nothing had been.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "runner/base/clock.h"
#include "runner/ckpt/catalog.h"
#include "tests/ckpt/lab.h"
#include "tests/tap.h"

#define diag(...) (printf("# "), printf(__VA_ARGS__), printf("\n"))
#define CALLS_MAX 512
#define FDS_MAX 256
#define KILLED 77

enum op { OP_MKDIR, OP_OPEN, OP_WRITE, OP_FSYNC, OP_CLOSE, OP_RENAME,
          OP_UNLINK, OP_N };
static bool tap_long(void)
{
    return getenv("KOBOSHI_TEST_LONG") != NULL;
}

static const char *const op_names[OP_N] = {"mkdir", "open", "write", "fsync",
                                           "close", "rename", "unlink"};

struct call {
    enum op op;
    char path[512], to[512];
    char *bytes;
    size_t bytes_n;
};

static struct {
    bool on;             /* count calls */
    int n;               /* so far */
    int at;              /* this one ... */
    bool half;           /* ... half done, if it writes */
    int fails_with;      /* 0: ends the process */
    bool keep;           /* record them */
    const char *denied;  /* opening a file of this name to read fails ... */
    int denied_with;     /* ... with this */
} watch;
static struct call calls[CALLS_MAX];
static char fd_path[FDS_MAX][512];
static const char *run_dir;
static const struct lab_layout layout2 = {2, 1};

/* ---- The calls ----------------------------------------------------------- */

static void keep(enum op op, const char *path, const char *to,
                 const void *bytes, size_t bytes_n)
{
    if (!watch.keep || watch.n > CALLS_MAX)
        return;
    struct call *c = &calls[watch.n - 1];
    *c = (struct call){.op = op, .bytes_n = bytes_n};
    snprintf(c->path, sizeof c->path, "%s", path);
    snprintf(c->to, sizeof c->to, "%s", to ? to : "");
    if (bytes) {
        c->bytes = malloc(bytes_n + 1);
        memcpy(c->bytes, bytes, bytes_n);
    }
}

/* True: it fails now. May not come back. */
static bool befalls(enum op op, const char *path, const char *to,
                    const void *bytes, size_t bytes_n)
{
    if (!watch.on || !path[0])
        return false;
    watch.n++;
    keep(op, path, to, bytes, bytes_n);
    if (watch.n != watch.at)
        return false;
    if (!watch.fails_with && !(watch.half && op == OP_WRITE))
        _exit(KILLED);
    errno = watch.fails_with;
    return watch.fails_with != 0;
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, name))

static const char *path_of(int fd)
{
    return fd >= 0 && fd < FDS_MAX ? fd_path[fd] : "";
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (flags & O_CREAT && befalls(OP_OPEN, path, NULL, NULL, 0))
        return -1;
    const char *name = strrchr(path, '/');
    if (watch.denied && !strcmp(name ? name + 1 : path, watch.denied)) {
        errno = watch.denied_with;
        return -1;
    }
    int fd = REAL("open", int (*)(const char *, int, ...))(path, flags, mode);
    if (fd >= 0 && fd < FDS_MAX)
        snprintf(fd_path[fd], sizeof *fd_path, "%s",
                 watch.on && (flags & O_CREAT || flags & O_DIRECTORY) ? path
                                                                      : "");
    return fd;
}

ssize_t write(int fd, const void *bytes, size_t bytes_n)
{
    ssize_t (*real)(int, const void *, size_t) =
        REAL("write", ssize_t (*)(int, const void *, size_t));
    if (befalls(OP_WRITE, path_of(fd), NULL, bytes, bytes_n))
        return -1;
    if (watch.on && watch.half && watch.n == watch.at && *path_of(fd)) {
        if (real(fd, bytes, bytes_n / 2) >= 0)
            _exit(KILLED);
    }
    return real(fd, bytes, bytes_n);
}

int fsync(int fd)
{
    return befalls(OP_FSYNC, path_of(fd), NULL, NULL, 0)
               ? -1
               : REAL("fsync", int (*)(int))(fd);
}

/* A close that fails has closed all the same. */
int close(int fd)
{
    char path[512];
    snprintf(path, sizeof path, "%s", path_of(fd));
    if (fd >= 0 && fd < FDS_MAX)
        fd_path[fd][0] = 0;
    bool fails = befalls(OP_CLOSE, path, NULL, NULL, 0);
    int why = errno, rc = REAL("close", int (*)(int))(fd);
    errno = fails ? why : errno;
    return fails ? -1 : rc;
}

int rename(const char *from, const char *to)
{
    return befalls(OP_RENAME, from, to, NULL, 0)
               ? -1
               : REAL("rename", int (*)(const char *, const char *))(from, to);
}

int unlink(const char *path)
{
    return befalls(OP_UNLINK, path, NULL, NULL, 0)
               ? -1
               : REAL("unlink", int (*)(const char *))(path);
}

int mkdir(const char *path, mode_t mode)
{
    return befalls(OP_MKDIR, path, NULL, NULL, 0)
               ? -1
               : REAL("mkdir", int (*)(const char *, mode_t))(path, mode);
}

/* ---- A save, and what became of it --------------------------------------- */

static const char *name_of(int64_t step, int attempt)
{
    static char name[64];
    snprintf(name, sizeof name, KB_CKPT_FMT, (long long)step, attempt);
    return name;
}

static int save_watched(int at, bool half, int fails_with, struct err *err)
{
    watch.n = 0;
    watch.at = at;
    watch.half = half;
    watch.fails_with = fails_with;
    watch.on = true;
    int rc = lab_save(run_dir, layout2, 20, 1, 1 << 30, err);
    watch.on = false;
    return rc;
}

static bool is_committed(const char *dir, int64_t step)
{
    struct catalog catalog;
    if (catalog_load(dir, 0, &catalog, NULL))
        return false;
    const struct catalog_entry *e = catalog_find(&catalog, step);
    bool is = e && e->committed && e->accepted && !*e->problem;
    catalog_release(&catalog);
    return is;
}

static bool loads(const char *dir, const char *name)
{
    struct err err = ERR_INIT;
    int64_t wrong = lab_load(dir, name, (struct lab_layout){1, 1}, NULL, &err);
    if (wrong)
        diag("%s: %lld wrong, %s", name, (long long)wrong, err.msg);
    return wrong == 0;
}

static void forget_20(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/ckpt/%s", run_dir, name_of(20, 1));
    lab_remove(path);
}

static int calls_of_a_save(void)
{
    struct err err = ERR_INIT;
    watch.keep = true;
    int rc = save_watched(0, false, 0, &err), n = watch.n;
    watch.keep = false;
    ok(!rc && n > 20 && n <= CALLS_MAX, "a save makes %d calls that change something", n);
    forget_20();
    return n;
}

/* ---- Killed ---------------------------------------------------------------- */

static bool survives_kill(int at, bool half, bool again)
{
    struct err err = ERR_INIT;
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(save_watched(at, half, 0, &err) ? 1 : 0);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
        (WEXITSTATUS(status) != KILLED && !half))
        return false;
    bool good = !is_committed(run_dir, 20) || loads(run_dir, name_of(20, 1));
    if (good && again) {
        good = !lab_save(run_dir, layout2, 20, 2, 1 << 30, &err) &&
               is_committed(run_dir, 20) && loads(run_dir, name_of(20, 2));
        char path[600];
        snprintf(path, sizeof path, "%s/ckpt/%s", run_dir, name_of(20, 2));
        lab_remove(path);
    }
    good = good && is_committed(run_dir, 10);
    forget_20();
    return good;
}

static void test_kill(int n)
{
    int good = 0;
    for (int at = 1; at <= n; at++) {
        bool whole = survives_kill(at, false, tap_long() || at % 16 == 0);
        bool half = calls[at - 1].op != OP_WRITE ||
                    survives_kill(at, true, false);
        good += whole && half;
        if (!whole || !half)
            diag("killed at call %d", at);
    }
    ok(good == n, "killed at any of its %d calls, a save harms nothing", n);
}

/* ---- Failed ---------------------------------------------------------------- */

static bool survives_failure(int at, int why)
{
    struct err err = ERR_INIT;
    int rc = save_watched(at, false, why, &err);
    bool committed = is_committed(run_dir, 20);
    /* Told as saved: it is there. Told as failed: nobody takes it. */
    bool good = rc ? !committed && strstr(err.msg, strerror(why))
                   : committed && loads(run_dir, name_of(20, 1));
    if (rc && (why == ENOSPC || why == EDQUOT))
        good = good && err.class == ERR_REQUEST;
    if (!good)
        diag("%s at call %d: rc %d, %s, %s", strerror(why), at, rc,
             committed ? "committed" : "not committed", err.msg);
    forget_20();
    return good && is_committed(run_dir, 10);
}

static void test_fail(int n)
{
    static const int whys[] = {EIO, ENOSPC, ESTALE, EDQUOT};
    for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
        int good = 0, tried = 0;
        int each = tap_long() ? 1 : i == 0 ? 2 : 9;
        for (int at = 1 + (int)i; at <= n; at += each, tried++)
            good += survives_failure(at, whys[i]);
        ok(good == tried, "%s at each of %d calls of a save: told, no harm",
           strerror(whys[i]), tried);
    }
}

/* ---- Power cut ------------------------------------------------------------- */

/* A disk: what is in memory, and what of it is on the platter. */
struct inode {
    char path[512];      /* its entry, "" unlinked */
    char kept[512];      /* its entry as last fsynced with its folder */
    bool folder;
    char *data;
    size_t n, kept_n;    /* kept_n: of the data, fsynced */
};
static struct inode disk[CALLS_MAX];
static int disk_n;

enum cut { CUT_DATA, CUT_ZEROS, CUT_ENTRIES, CUT_N };
static const char *const cut_names[CUT_N] = {
    "data that was not fsynced is gone", "it is zeros",
    "entries of folders that were not fsynced are gone, too"};

static struct inode *entry(const char *path)
{
    for (int i = 0; i < disk_n; i++)
        if (!strcmp(disk[i].path, path))
            return &disk[i];
    return NULL;
}

static void entry_remove(const char *path)
{
    struct inode *in = entry(path);
    if (in)
        in->path[0] = 0;
}

static struct inode *entry_make(const char *path, bool folder)
{
    struct inode *in = entry(path);
    if (in && folder)
        return in;
    entry_remove(path);
    in = &disk[disk_n++];
    *in = (struct inode){.folder = folder};
    snprintf(in->path, sizeof in->path, "%s", path);
    return in;
}

static bool is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && path[n] == '/' &&
           !strchr(path + n + 1, '/');
}

static void sync_path(const char *path)
{
    struct inode *in = entry(path);
    if (in && !in->folder)
        in->kept_n = in->n;
    for (int i = 0; i < disk_n; i++)
        if (is_in(disk[i].path, path) || is_in(disk[i].kept, path))
            memcpy(disk[i].kept, disk[i].path, sizeof disk[i].kept);
}

static void apply(const struct call *c)
{
    struct inode *in;
    switch (c->op) {
    case OP_MKDIR:
        entry_make(c->path, true);
        break;
    case OP_OPEN:
        entry_make(c->path, false);
        break;
    case OP_WRITE:
        in = entry(c->path);
        in->data = realloc(in->data, in->n + c->bytes_n + 1);
        memcpy(in->data + in->n, c->bytes, c->bytes_n);
        in->n += c->bytes_n;
        break;
    case OP_FSYNC:
        sync_path(c->path);
        break;
    case OP_RENAME:
        entry_remove(c->to);
        in = entry(c->path);
        if (in)
            memcpy(in->path, c->to, sizeof in->path);
        break;
    case OP_UNLINK:
        entry_remove(c->path);
        break;
    default:
        break;
    }
}

static void put_file(const char *path, const struct inode *in, enum cut cut)
{
    FILE *file = fopen(path, "w");
    size_t n = cut == CUT_ZEROS ? in->n : in->kept_n;
    for (size_t i = 0; file && i < n; i += 4096) {
        static const char zeros[4096];
        size_t more = n - i < 4096 ? n - i : 4096;
        bool whole = i + more <= in->kept_n;
        fwrite(whole ? in->data + i : zeros, 1, more, file);
    }
    if (file)
        fclose(file);
}

/* The disk after the cut into folder `to`, in place of the run directory. True
 * when a manifest is among it. */
static bool disk_write(const char *to, enum cut cut)
{
    bool manifest = false;
    size_t cut_n = strlen(run_dir);
    for (int i = 0; i < disk_n; i++) {
        const char *path =
            cut == CUT_ENTRIES ? disk[i].kept : disk[i].path;
        const char *name = strrchr(path, '/');
        manifest |= name && !strcmp(name, "/" KB_CKPT_MANIFEST);
    }
    for (int i = 0; i < disk_n && manifest; i++) {
        const struct inode *in = &disk[i];
        const char *path = cut == CUT_ENTRIES ? in->kept : in->path;
        char real[1024];
        if (!*path)
            continue;
        snprintf(real, sizeof real, "%s%s", to, path + cut_n);
        if (in->folder)
            file_make_dirs(real, 0700, NULL);
        else
            put_file(real, in, cut);
    }
    return manifest;
}

static void disk_free(void)
{
    for (int i = 0; i < disk_n; i++)
        free(disk[i].data);
    disk_n = 0;
}

static void test_replay(int n)
{
    char to[600];
    int good[CUT_N] = {0}, there[CUT_N] = {0};
    bool last[CUT_N] = {false};
    snprintf(to, sizeof to, "%s.cut", run_dir);
    for (int upto = 1; upto <= n; upto++) {
        apply(&calls[upto - 1]);
        for (int cut = 0; cut < CUT_N; cut++) {
            bool manifest = disk_write(to, (enum cut)cut);
            there[cut] += manifest;
            bool right = !manifest || (is_committed(to, 20) &&
                                       loads(to, name_of(20, 1)));
            good[cut] += right;
            last[cut] = manifest && right;
            if (!right)
                diag("cut after call %d, %s %s: %s", upto,
                     op_names[calls[upto - 1].op], calls[upto - 1].path,
                     cut_names[cut]);
            if (manifest)
                lab_remove(to);
        }
    }
    for (int cut = 0; cut < CUT_N; cut++) {
        ok(good[cut] == n, "power cut after any call: %s: what says "
           "committed loads (%d times there)", cut_names[cut], there[cut]);
        ok(last[cut], "and when it is told as saved it is there");
    }
    disk_free();
    for (int i = 0; i < n && i < CALLS_MAX; i++)
        free(calls[i].bytes);
}

/* ---- Reading ---------------------------------------------------------------- */

static char target[700]; /* a file of step 10 */

static void shell(const char *what)
{
    char command[2600];
    snprintf(command, sizeof command, what, target, target, target);
    if (system(command))
        diag("failed: %s", command);
}
static void zeroed(void)
{
    shell("n=$(stat -c %%s '%s') && truncate -s 0 '%s' && truncate -s $n '%s'");
}
static void doubled(void)
{
    shell("t=$(mktemp) && cat '%s' '%s' >$t && mv $t '%s'");
}
static void emptied(void) { shell("truncate -s 0 '%s' # %s %s"); }
static void removed(void) { shell("rm '%s' # %s %s"); }
static void halved(void)
{
    shell("truncate -s $(($(stat -c %%s '%s') / 2)) '%s' # %s");
}
static void a_folder(void) { shell("rm '%s' && mkdir '%s' # %s"); }
static void a_loop(void) { shell("rm '%s' && ln -s . '%s' # %s"); }

static void test_read(void)
{
    static const struct {
        const char *name;
        void (*harm)(void);
    } harms[] = {
        {"zeroed", zeroed},   {"emptied", emptied},   {"removed", removed},
        {"halved", halved},   {"doubled", doubled},
        {"a folder", a_folder}, {"a link", a_loop},
    };
    static const char *const files[] = {"shard-00000-000.safetensors",
                                        "shard-00001-000.safetensors",
                                        KB_CKPT_MANIFEST};
    char keep_dir[600], command[2000];
    snprintf(keep_dir, sizeof keep_dir, "%s.kept", run_dir);
    snprintf(command, sizeof command, "cp -r '%s' '%s'", run_dir, keep_dir);
    ok(!system(command), "kept aside");
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
            struct err err = ERR_INIT;
            snprintf(target, sizeof target, "%s/ckpt/%s/%s", run_dir,
                     name_of(10, 1), files[f]);
            harms[i].harm();
            int rc = catalog_verify(run_dir, name_of(10, 1), &err);
            ok(rc && strstr(err.msg, files[f]), "%s %s: %s", files[f],
               harms[i].name, err.msg);
            lab_remove(run_dir);
            snprintf(command, sizeof command, "cp -r '%s' '%s'", keep_dir,
                     run_dir);
            if (system(command))
                break;
        }
    static const int whys[] = {EACCES, ESTALE, EIO};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
            struct err err = ERR_INIT;
            watch.denied = files[f];
            watch.denied_with = whys[i];
            int rc = catalog_verify(run_dir, name_of(10, 1), &err);
            watch.denied = NULL;
            ok(rc && strstr(err.msg, strerror(whys[i])), "%s: %s", files[f],
               err.msg);
        }
    /* A copy beside the files, under another name, is nobody's. */
    snprintf(target, sizeof target, "%s/ckpt/%s/%s", run_dir, name_of(10, 1),
             files[0]);
    shell("cp '%s' '%s.copy' # %s");
    ok(loads(run_dir, name_of(10, 1)), "a copy of a shard beside it");
    lab_remove(keep_dir);
}

int main(void)
{
    struct err err = ERR_INIT;
    if (!access("/dev/shm", W_OK)) /* fsyncs are told, not waited for */
        setenv("TMPDIR", "/dev/shm", 0);
    run_dir = lab_run_dir();
    ok(!lab_save(run_dir, layout2, 10, 1, 1 << 30, &err), "an older one");
    int n = calls_of_a_save();
    test_kill(n);
    test_fail(n);
    test_replay(n);
    test_read();
    lab_remove(run_dir);
    return tap_done();
}
