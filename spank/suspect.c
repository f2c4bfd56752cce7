/* suspect - a job's word on its node; see suspect.h. */
#include "spank/suspect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "spank/store.h"

#define LOOKS_FILE "suspect.looks" /* when they were, a line each */
#define HOUR_S 3600.0
enum { LOOKS_PER_HOUR = 4, NAME_BYTES = 64 };

static const char *name_of(uint32_t job, char dst[NAME_BYTES])
{
    char path[128];
    snprintf(path, sizeof path, KB_SUSPECT_FMT, (unsigned)job);
    snprintf(dst, NAME_BYTES, "%s", strrchr(path, '/') + 1);
    return dst;
}

int suspect_make(int store, uint32_t job, uid_t uid, struct err *err)
{
    char name[NAME_BYTES];
    unlinkat(store, name_of(job, name), 0);
    int fd = openat(store, name,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, "gate: cannot create '%s'", name);
    int rc = fchown(fd, uid, (gid_t)-1)
                 ? err_set_errno(err, "gate: cannot give away '%s'", name)
                 : 0;
    close(fd);
    return rc;
}

/* Its text, if it is what the prolog made and not too long. */
static size_t read_file(int store, const char *name, uid_t uid, char *dst,
                        size_t dst_bytes)
{
    struct stat st;
    int fd = openat(store, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = 0;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == uid)
        n = read(fd, dst, dst_bytes);
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

static bool has_line(const char *text, size_t bytes, const char *word)
{
    size_t word_n = strlen(word);
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - text) - at : bytes - at;
        if (n == word_n && !memcmp(text + at, word, n))
            return true;
        at += n + 1;
    }
    return false;
}

void suspect_take(int store, uint32_t job, uid_t uid,
                  char dst[SUSPECT_TEXT_BYTES])
{
    char name[NAME_BYTES], text[KB_SUSPECT_BYTES];
    size_t len = 0;
    size_t n = read_file(store, name_of(job, name), uid, text, sizeof text);
    dst[0] = 0;
    for (int i = 0; i < KB_SUSPICION_N; i++)
        if (has_line(text, n, kb_suspicion_names[i]) &&
            len < SUSPECT_TEXT_BYTES)
            len += (size_t)snprintf(dst + len, SUSPECT_TEXT_BYTES - len,
                                    "%s%s", len ? "," : "",
                                    kb_suspicion_names[i]);
    unlinkat(store, name, 0);
}

bool suspect_may_look(int store, double now_s)
{
    char out[LOOKS_PER_HOUR * 32];
    size_t bytes = 0, len = 0;
    int recent = 0;
    char *text = store_read(store, LOOKS_FILE, 0, &bytes);
    for (const char *p = text; p && *p && recent < LOOKS_PER_HOUR;) {
        double when = strtod(p, NULL);
        if (when > now_s - HOUR_S && when <= now_s) {
            recent++;
            len += (size_t)snprintf(out + len, sizeof out - len, "%.0f\n",
                                    when);
        }
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    free(text);
    if (recent >= LOOKS_PER_HOUR)
        return false;
    len += (size_t)snprintf(out + len, sizeof out - len, "%.0f\n", now_s);
    store_write(store, LOOKS_FILE, out, len, NULL);
    return true;
}
