/* report - see report.h. The beat is written by the step loop itself with
 * relaxed stores, so that a hung rank looks hung. */
#include "runner/train/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/json.h"
#include "runner/base/str.h"

#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

static void changed(struct report *r)
{
    __atomic_add_fetch(&r->beat->changes, 1, __ATOMIC_RELAXED);
}

static int beat_map(struct report *r, const char *dir, int local_rank,
                    struct err *err)
{
    char path[256];
    snprintf(path, sizeof path, "%s/beat.%d", dir, local_rank);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, "train: opening the beat failed: '%s'",
                             path);
    void *p = MAP_FAILED;
    if (ftruncate(fd, sizeof(struct kb_beat)) == 0)
        p = mmap(NULL, sizeof(struct kb_beat), PROT_READ | PROT_WRITE,
                 MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        err_set_errno(err, "train: mapping the beat failed: '%s'", path);
        close(fd);
        return -1;
    }
    close(fd);
    r->beat = p;
    r->mapped = true;
    return 0;
}

int report_open(struct report *r, const char *dir, int rank, int local_rank,
                int attempt, struct err *err)
{
    *r = (struct report){.sock = -1, .rank = rank, .attempt = attempt};
    r->beat = &r->own;
    if (dir && beat_map(r, dir, local_rank, err) != 0)
        return -1;
    if (dir) {
        r->to.sun_family = AF_UNIX;
        int n = snprintf(r->to.sun_path, sizeof r->to.sun_path,
                         "%s/watch.sock", dir);
        if (n < 0 || n >= (int)sizeof r->to.sun_path)
            return err_set(err, "train: the watcher's socket has too long a "
                           "name: '%s'", dir);
        r->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                         0);
    }
    PUT(r->beat->pid, (int64_t)getpid());
    PUT(r->beat->rank, (int64_t)rank);
    PUT(r->beat->attempt, (int64_t)attempt);
    PUT(r->beat->phase, (int64_t)KB_PHASE_START);
    PUT(r->beat->step, (int64_t)0);
    PUT(r->beat->ckpt_writing, (int64_t)-1);
    changed(r);
    __atomic_store_n(&r->beat->magic, KB_BEAT_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

void report_close(struct report *r)
{
    if (r->sock >= 0)
        close(r->sock);
    r->sock = -1;
}

void report_event(struct report *r, enum kb_event event, json_t *fields)
{
    json_t *message = fields ? fields : json_object();
    if (r->sock >= 0 && message) {
        json_object_set_new(message, "event",
                            json_string(kb_event_names[event]));
        json_object_set_new(message, "rank", json_integer(r->rank));
        json_object_set_new(message, "pid", json_integer(getpid()));
        json_object_set_new(message, "attempt", json_integer(r->attempt));
        char *line = json_line(message);
        if (line && strlen(line) <= KB_RANK_MESSAGE_BYTES)
            sendto(r->sock, line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL,
                   (struct sockaddr *)&r->to, sizeof r->to);
        free(line);
    }
    json_decref(message);
}

void report_error(struct report *r, const struct err *err)
{
    report_event(r, KB_EV_RANK_ERROR,
                 json_pack("{s:s, s:s}", "class", err_class_name(err->class),
                           "message", err->msg));
}

void report_phase(struct report *r, enum kb_phase phase)
{
    PUT(r->beat->phase, (int64_t)phase);
    changed(r);
}

void report_step(struct report *r, int64_t step)
{
    PUT(r->beat->step, step);
    changed(r);
}

void report_writing(struct report *r, int64_t step)
{
    if (__atomic_load_n(&r->beat->ckpt_writing, __ATOMIC_RELAXED) == step)
        return;
    PUT(r->beat->ckpt_writing, step);
    changed(r);
}
