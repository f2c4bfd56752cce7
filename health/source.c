/* source - files under a root, and system calls or their record; see
 * source.h. */
#include "health/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/str.h"

#define TMPFS_MAGIC 0x01021994

int source_open(struct source *source, const char *root, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    *source = (struct source){.root = root};
    if (!strcmp(root, "/"))
        return 0;
    if (stat(root, &st) || !S_ISDIR(st.st_mode))
        return err_set_class(err, ERR_REQUEST,
                             "health: no recorded host: '%s'; name the "
                             "folder that holds its proc and sys", root);
    if (file_join(path, sizeof path, root, "facts", err))
        return -1;
    source->facts = file_read(path, SOURCE_FILE_BYTES, NULL, NULL);
    if (!source->facts)
        source->facts = strdup("");
    return source->facts ? 0 : err_set(err, "health: out of memory");
}

void source_close(struct source *source)
{
    free(source->facts);
    *source = (struct source){0};
}

bool source_is_live(const struct source *source)
{
    return !source->facts;
}

static int whole_path(const struct source *source, char *dst,
                      size_t dst_bytes, const char *fmt, va_list ap)
{
    const char *root = source_is_live(source) ? "" : source->root;
    size_t n = (size_t)snprintf(dst, dst_bytes, "%s", root);
    if (n < dst_bytes)
        n += (size_t)vsnprintf(dst + n, dst_bytes - n, fmt, ap);
    if (n < dst_bytes)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* The path of a function that ends in (..., const char *fmt, ...). */
#define WHOLE_PATH(rc, full)                                                   \
    char full[PATH_MAX];                                                       \
    va_list ap;                                                                \
    va_start(ap, fmt);                                                         \
    int rc = whole_path(source, full, sizeof full, fmt, ap);                   \
    va_end(ap)

int source_path(const struct source *source, char *dst, size_t dst_bytes,
                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = whole_path(source, dst, dst_bytes, fmt, ap);
    va_end(ap);
    return rc;
}

/* Bytes of a file from its start, NUL added; -1 with errno. Line ends and
 * blanks at its end are taken off. */
static int read_some(const char *path, char *dst, size_t dst_bytes)
{
    size_t len = 0;
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    while (n && len < dst_bytes - 1) {
        n = read(fd, dst + len, dst_bytes - 1 - len);
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    int saved = errno;
    close(fd);
    errno = saved;
    if (n < 0)
        return -1;
    while (len && (dst[len - 1] == '\n' || dst[len - 1] == ' '))
        len--;
    dst[len] = 0;
    return 0;
}

int source_read(const struct source *source, char *dst, size_t dst_bytes,
                const char *fmt, ...)
{
    WHOLE_PATH(rc, path);
    return rc ? -1 : read_some(path, dst, dst_bytes);
}

int source_number(const struct source *source, int64_t *ret, const char *fmt,
                  ...)
{
    char text[64];
    WHOLE_PATH(rc, path);
    return rc || read_some(path, text, sizeof text) || str_to_i64(text, ret)
               ? -1
               : 0;
}

bool source_exists(const struct source *source, const char *fmt, ...)
{
    WHOLE_PATH(rc, path);
    return !rc && !access(path, F_OK);
}

char *source_text(const struct source *source, const char *path)
{
    char *text = malloc(SOURCE_FILE_BYTES);
    if (text && source_read(source, text, SOURCE_FILE_BYTES, "%s", path)) {
        int saved = errno;
        free(text);
        errno = saved;
        return NULL;
    }
    return text;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int source_list(const struct source *source,
                char (*names)[SOURCE_NAME_BYTES], int names_max,
                const char *fmt, ...)
{
    int n = 0;
    WHOLE_PATH(rc, path);
    DIR *dir = rc ? NULL : opendir(path);
    if (!dir)
        return -1;
    for (struct dirent *e; n < names_max && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            str_copy(names[n++], SOURCE_NAME_BYTES, e->d_name);
    closedir(dir);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

/* ---- Facts ---------------------------------------------------------- */

/* What stands behind "NAME " at a line's start in the record. */
static int recorded(const struct source *source, const char *name, char *dst,
                    size_t dst_bytes)
{
    size_t name_n = strlen(name);
    const char *line = source->facts;
    while (*line) {
        size_t len = strcspn(line, "\n");
        if (len > name_n && !strncmp(line, name, name_n) &&
            line[name_n] == ' ') {
            snprintf(dst, dst_bytes, "%.*s", (int)(len - name_n - 1),
                     line + name_n + 1);
            return 0;
        }
        line += len + (line[len] == '\n');
    }
    return -1;
}

int source_disk(const struct source *source, const char *path,
                struct source_disk *ret)
{
    char name[PATH_MAX], text[256];
    long long v[4];
    int flag[2];
    if (!source_is_live(source)) {
        snprintf(name, sizeof name, "disk:%s", path);
        if (recorded(source, name, text, sizeof text) ||
            sscanf(text, "%lld %lld %lld %lld %d %d", &v[0], &v[1], &v[2],
                   &v[3], &flag[0], &flag[1]) != 6)
            return -1;
        *ret = (struct source_disk){v[0], v[1], v[2], v[3], flag[0], flag[1]};
        return 0;
    }
    struct statvfs st;
    struct statfs type;
    if (statvfs(path, &st) || statfs(path, &type))
        return -1;
    *ret = (struct source_disk){
        .bytes = (int64_t)st.f_blocks * (int64_t)st.f_frsize,
        .free_bytes = (int64_t)st.f_bavail * (int64_t)st.f_frsize,
        .files = (int64_t)st.f_files,
        .free_files = (int64_t)st.f_favail,
        .read_only = st.f_flag & ST_RDONLY,
        .is_tmpfs = type.f_type == TMPFS_MAGIC,
    };
    return 0;
}

int source_time(const struct source *source, struct source_time *ret)
{
    char text[128];
    int synced;
    double max_error_s;
    if (!source_is_live(source)) {
        if (recorded(source, "time", text, sizeof text) ||
            sscanf(text, "%d %lf", &synced, &max_error_s) != 2)
            return -1;
        *ret = (struct source_time){synced, max_error_s};
        return 0;
    }
    struct timex timex = {0};
    int state = adjtimex(&timex);
    if (state < 0)
        return -1;
    *ret = (struct source_time){
        .synced = state != TIME_ERROR && !(timex.status & STA_UNSYNC),
        .max_error_s = (double)timex.maxerror * 1e-6,
    };
    return 0;
}

int source_now(const struct source *source, double *ret_wall_s)
{
    char text[64];
    if (source_is_live(source)) {
        *ret_wall_s = clock_wall_s();
        return 0;
    }
    return recorded(source, "now", text, sizeof text) ||
                   str_to_double(text, ret_wall_s)
               ? -1
               : 0;
}

int source_mtime(const struct source *source, const char *path, double *ret)
{
    char name[PATH_MAX], text[64];
    struct stat st;
    if (!source_is_live(source)) {
        snprintf(name, sizeof name, "mtime:%s", path);
        return recorded(source, name, text, sizeof text) ||
                       str_to_double(text, ret)
                   ? -1
                   : 0;
    }
    if (stat(path, &st))
        return -1;
    *ret = (double)st.st_mtime;
    return 0;
}

int source_limit(const struct source *source, const char *name, int64_t *ret)
{
    static const struct {
        const char *name;
        int resource;
    } rows[] = {{"memlock", RLIMIT_MEMLOCK}, {"nofile", RLIMIT_NOFILE}};
    char key[64], text[64];
    struct rlimit limit;
    if (!source_is_live(source)) {
        snprintf(key, sizeof key, "limit:%s", name);
        return recorded(source, key, text, sizeof text) ||
                       str_to_i64(text, ret)
                   ? -1
                   : 0;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name))
            continue;
        if (getrlimit((__rlimit_resource_t)rows[i].resource, &limit))
            return -1;
        *ret = limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur;
        return 0;
    }
    return -1;
}

int source_host(const struct source *source, char *dst, size_t dst_bytes)
{
    if (!source_is_live(source))
        return recorded(source, "host", dst, dst_bytes);
    if (gethostname(dst, dst_bytes))
        return -1;
    dst[dst_bytes - 1] = 0;
    return 0;
}

int source_fact(const struct source *source, const char *name, char *dst,
                size_t dst_bytes)
{
    return source_is_live(source) ? -1
                                  : recorded(source, name, dst, dst_bytes);
}
