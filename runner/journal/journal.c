/* journal - writing events and metrics; see journal.h.
 *
 * A record is one line and one write(). When it does not fit on the disk the
 * part that did is cut off again, so that the file stays lines.
 */
#include "runner/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/journal/fields.h"

struct journal {
    char path[PATH_MAX];
    int fd;
    int attempt;
    bool torn; /* the file may end within a line */
};

/* Did an earlier writer leave half a line? */
static bool ends_torn(int fd)
{
    char last;
    off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 && (pread(fd, &last, 1, end - 1) != 1 || last != '\n');
}

struct journal *journal_open(const char *run_dir, int attempt,
                             const char *file, struct err *err)
{
    struct journal *j = calloc(1, sizeof *j);
    if (!j) {
        err_set(err, "journal: out of memory");
        return NULL;
    }
    j->attempt = attempt;
    int n = snprintf(j->path, sizeof j->path, "%s/" KB_ATTEMPT_FMT "/%s",
                     run_dir, attempt, file);
    if (n >= (int)sizeof j->path) {
        err_set_class(err, ERR_REQUEST, "journal: path too long: '%s'",
                      run_dir);
        free(j);
        return NULL;
    }
    j->fd = open(j->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (j->fd < 0) {
        err_set_errno(err, "journal: cannot open '%s'", j->path);
        free(j);
        return NULL;
    }
    j->torn = ends_torn(j->fd);
    return j;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    close(j->fd);
    free(j);
}

/* Takes record. */
static int write_record(struct journal *j, json_t *record, struct err *err)
{
    struct sbuf line = SBUF_INIT;
    char *text = json_line(record);
    int rc = -1;
    json_decref(record);
    if (text)
        sbuf_printf(&line, "%s%s\n", j->torn ? "\n" : "", text);
    free(text);
    if (!text || line.failed) {
        err_set(err, "journal: cannot write '%s': out of memory", j->path);
        goto out;
    }
    off_t end = lseek(j->fd, 0, SEEK_END);
    if (file_write_all(j->fd, line.data, line.len)) {
        err_set_errno(err, "journal: a record is lost: '%s'", j->path);
        j->torn = end < 0 || ftruncate(j->fd, end) || j->torn;
        goto out;
    }
    j->torn = false;
    rc = 0;
out:
    sbuf_release(&line);
    return rc;
}

int journal_event(struct journal *j, enum kb_event event, json_t *fields,
                  struct err *err)
{
    json_t *record = fields ? fields : json_object();
    if (!record ||
        json_object_set_new(record, "event",
                            json_string(kb_event_names[event])) ||
        json_object_set_new(record, "time", json_real(clock_wall_s())) ||
        json_object_set_new(record, "attempt", json_integer(j->attempt))) {
        json_decref(record);
        return err_set(err, "journal: cannot write '%s': out of memory",
                       j->path);
    }
    if (write_record(j, record, err))
        return -1;
    /* Events are few, and the last ones before a crash tell why. */
    if (fdatasync(j->fd) && errno != EINVAL && errno != EROFS)
        return err_set_errno(err, "journal: cannot sync '%s'", j->path);
    return 0;
}

int journal_metrics(struct journal *j, const struct metrics *m,
                    struct err *err)
{
    json_t *record = metrics_json(m);
    if (!record || json_object_set_new(record, "attempt",
                                       json_integer(j->attempt))) {
        json_decref(record);
        return err_set(err, "journal: cannot write '%s': out of memory",
                       j->path);
    }
    return write_record(j, record, err);
}
