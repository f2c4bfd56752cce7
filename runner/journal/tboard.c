/* tboard - TensorBoard's event file of one attempt; see journal.h. Records
 * gather in memory and go out at each flush; what a full disk refuses is
 * dropped and told once a flush. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/journal/fields.h"
#include "runner/journal/tb_record.h"

struct tboard {
    char path[PATH_MAX];
    int fd;
    bool later_attempt, started;
    struct sbuf out;
};

static int make_path(char *dst, size_t dst_bytes, const char *run_dir,
                     int attempt, double wall_s, struct err *err)
{
    char host[64];
    if (gethostname(host, sizeof host))
        snprintf(host, sizeof host, "unknown");
    host[sizeof host - 1] = 0;
    int n = snprintf(dst, dst_bytes,
                     "%s/" KB_TB_DIR "/events.out.tfevents.%010lld.%s.%ld.%d",
                     run_dir, (long long)wall_s, host, (long)getpid(),
                     attempt);
    if (n < 0 || (size_t)n >= dst_bytes)
        return err_set(err, "journal: path too long: '%s'", run_dir);
    return 0;
}

struct tboard *tboard_open(const char *run_dir, int attempt, struct err *err)
{
    char dir[PATH_MAX];
    double wall_s = clock_wall_s();
    struct tboard *tb = calloc(1, sizeof *tb);
    if (!tb) {
        err_set(err, "journal: out of memory");
        return NULL;
    }
    *tb = (struct tboard){.fd = -1, .later_attempt = attempt > 1,
                          .out = SBUF_INIT};
    if (file_join(dir, sizeof dir, run_dir, KB_TB_DIR, err) ||
        file_make_dirs(dir, 0700, err) ||
        make_path(tb->path, sizeof tb->path, run_dir, attempt, wall_s, err))
        goto fail;
    tb->fd = open(tb->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (tb->fd < 0) {
        err_set_errno(err, "journal: cannot create '%s'", tb->path);
        goto fail;
    }
    tb_record_version(&tb->out, wall_s);
    if (!tboard_flush(tb, err))
        return tb;
fail:
    tboard_close(tb);
    return NULL;
}

void tboard_close(struct tboard *tb)
{
    if (!tb)
        return;
    if (tb->fd >= 0) {
        tboard_flush(tb, NULL);
        close(tb->fd);
    }
    sbuf_release(&tb->out);
    free(tb);
}

int tboard_scalar(struct tboard *tb, const char *tag, int64_t step,
                  double wall_s, float value)
{
    /* What older attempts wrote about steps that are done again goes. */
    if (tb->later_attempt && !tb->started)
        tb_record_session(&tb->out, wall_s, step);
    tb->started = true;
    tb_record_scalar(&tb->out, wall_s, step, tag, value);
    return tb->out.failed ? -1 : 0;
}

int tboard_metrics(struct tboard *tb, const struct metrics *m)
{
    int rc = 0;
    for (int i = 0; i < metrics_fields_n; i++) {
        const struct field *field = &metrics_fields[i];
        double v = field_value(field, m) * field->tag_scale;
        char tag[64];
        if (!field->tag || isnan(v))
            continue;
        rc |= tboard_scalar(tb, field->tag, m->step, m->wall_s, (float)v);
        if (!field->vs_samples)
            continue;
        snprintf(tag, sizeof tag, "%s vs samples", field->tag);
        rc |= tboard_scalar(tb, tag, m->consumed_samples, m->wall_s,
                            (float)v);
    }
    return rc;
}

int tboard_flush(struct tboard *tb, struct err *err)
{
    off_t end = lseek(tb->fd, 0, SEEK_END);
    int rc = 0;
    if (tb->out.failed)
        rc = err_set(err, "journal: records of '%s' are lost: out of memory",
                     tb->path);
    else if (file_write_all(tb->fd, tb->out.data, tb->out.len)) {
        rc = err_set_errno(err, "journal: records of '%s' are lost",
                           tb->path);
        /* Half a record would hide all that follow. */
        if (end < 0 || ftruncate(tb->fd, end))
            rc = -1;
    }
    sbuf_clear(&tb->out);
    return rc;
}
