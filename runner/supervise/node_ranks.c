/* node_ranks - the local ranks: their folder, what they say, how they end.
 *
 * The folder is this user's alone (0700). Beats are read with pread, not
 * mapped, so that no file that shrinks can hurt the watcher. The watcher is
 * not the ranks' parent: a pidfd tells that one has gone, the rank's wrapper
 * (rank_main.c) tells with what status.
 */
#include "runner/supervise/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "runner/base/json.h"

/* A process that a rank can be: cut to a pid_t it is still that one, and a
 * signal to it reaches no group and not init. */
static bool is_pid(int64_t pid)
{
    return pid > 1 && pid <= INT_MAX;
}

static int rank_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Kills for memory on this host since it booted, cgroups' own included. */
static long long oom_kills(void)
{
    char text[16384];
    long long n = 0;
    int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    const char *line = strstr(text, "\noom_kill ");
    return line && sscanf(line, " oom_kill %lld", &n) == 1 ? n : 0;
}

/* ---- The folder --------------------------------------------------------- */

static int open_beats(struct node_ranks *r, struct err *err)
{
    for (int i = 0; i < r->n; i++) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof path, "%s/beat.%d", r->dir, i);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return err_set_errno(err, "node: cannot make '%s'", path);
        r->rank[i].beat_fd = fd;
        if (ftruncate(fd, sizeof(struct kb_beat)))
            return err_set_errno(err, "node: cannot size '%s'", path);
    }
    return 0;
}

static int open_socket(struct node_ranks *r, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int n = snprintf(addr.sun_path, sizeof addr.sun_path, "%s/watch.sock",
                     r->dir);
    if (n >= (int)sizeof addr.sun_path)
        return err_set(err, "node: socket path too long: '%s/watch.sock'",
                       r->dir);
    unlink(addr.sun_path);
    r->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->sock < 0 ||
        bind(r->sock, (struct sockaddr *)&addr, sizeof addr))
        return err_set_errno(err, "node: cannot listen on '%s'",
                             addr.sun_path);
    return 0;
}

int node_ranks_open(struct node_ranks *r, long job, int attempt, int n,
                    struct err *err)
{
    struct stat st;
    double kept[KB_PHASE_N];
    memcpy(kept, r->rank[0].slowest_s, sizeof kept);
    *r = (struct node_ranks){.sock = -1, .attempt = attempt, .n = n};
    for (int i = 0; i < NODE_RANKS_MAX; i++) {
        r->rank[i].beat_fd = r->rank[i].pidfd = -1;
        memcpy(r->rank[i].slowest_s, kept, sizeof kept);
    }
    if (n < 0 || n > NODE_RANKS_MAX)
        return err_set(err, "node: %d ranks on a node; at most %d", n,
                       NODE_RANKS_MAX);
    if (contract_node_dir(r->dir, sizeof r->dir, job, attempt, err))
        return -1;
    if (mkdir(r->dir, 0700) && errno != EEXIST)
        return err_set_errno(err, "node: cannot make folder '%s'", r->dir);
    if (lstat(r->dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 077))
        return err_set(err, "node: folder '%s' is not this user's alone",
                       r->dir);
    r->oom_kills = oom_kills();
    return open_beats(r, err) || open_socket(r, err) ? -1 : 0;
}

void node_ranks_close(struct node_ranks *r)
{
    char path[PATH_MAX + 32];
    if (!r->attempt)
        return;
    for (int i = 0; i < r->n; i++) {
        struct node_rank *rank = &r->rank[i];
        if (rank->beat_fd >= 0)
            close(rank->beat_fd);
        if (rank->pidfd >= 0)
            close(rank->pidfd);
        rank->beat_fd = rank->pidfd = -1;
        snprintf(path, sizeof path, "%s/beat.%d", r->dir, i);
        unlink(path);
    }
    if (r->sock >= 0)
        close(r->sock);
    r->sock = -1;
    snprintf(path, sizeof path, "%s/watch.sock", r->dir);
    unlink(path);
    rmdir(r->dir);
    r->attempt = r->n = 0;
}

void node_ranks_adopt(struct node_ranks *r, double now)
{
    for (int i = 0; i < r->n; i++) {
        struct node_rank *rank = &r->rank[i];
        struct kb_beat beat;
        if (pread(rank->beat_fd, &beat, sizeof beat, 0) !=
                (ssize_t)sizeof beat ||
            beat.magic != KB_BEAT_MAGIC || beat.attempt != r->attempt ||
            !is_pid(beat.pid))
            continue;
        rank->known = true;
        rank->rank = (int)beat.rank;
        rank->pid = (pid_t)beat.pid;
        rank->pidfd = rank_pidfd(rank->pid);
        rank->beat = beat;
        rank->changed_s = now;
    }
}

/* ---- What they say ------------------------------------------------------ */

static void meet(struct node_ranks *r, const json_t *m, double now)
{
    int64_t local = json_i64_or(m, "local", -1);
    int64_t pid = json_i64_or(m, "pid", 0);
    if (local < 0 || local >= r->n || !is_pid(pid) || r->rank[local].known)
        return;
    struct node_rank *rank = &r->rank[local];
    rank->known = true;
    rank->rank = (int)json_i64_or(m, "rank", local);
    rank->pid = (pid_t)pid;
    rank->pidfd = rank_pidfd(rank->pid);
    rank->changed_s = now;
}

static void mark_exited(struct node_ranks *r, json_t *m)
{
    int64_t local = json_i64_or(m, "local", -1);
    struct kb_beat beat;
    if (local >= 0 && local < r->n) {
        r->rank[local].exited = true;
        if (pread(r->rank[local].beat_fd, &beat, sizeof beat, 0) ==
                (ssize_t)sizeof beat && beat.magic == KB_BEAT_MAGIC)
            json_object_set_new(m, "step", json_integer(beat.step));
    }
    if (json_i64_or(m, "signal", 0) == SIGKILL && oom_kills() > r->oom_kills)
        json_object_set_new(m, "oom", json_true());
}

static void read_datagrams(struct node_ranks *r, double now,
                           void (*send)(void *, json_t *), void *ctx)
{
    char buf[KB_RANK_MESSAGE_BYTES + 1];
    for (int i = 0; i < 1000 && r->sock >= 0; i++) {
        ssize_t n = recv(r->sock, buf, sizeof buf, MSG_DONTWAIT);
        if (n < 0)
            return;
        json_t *m = n <= KB_RANK_MESSAGE_BYTES
                        ? json_loadb(buf, (size_t)n, JSON_REJECT_DUPLICATES,
                                     NULL)
                        : NULL;
        const char *name = json_string_or(m, "event", "");
        int event = contract_event(name);
        if (event < 0 || json_i64_or(m, "attempt", -1) != r->attempt) {
            json_decref(m);
            continue;
        }
        if (event == KB_EV_RANK_HELLO)
            meet(r, m, now);
        if (event == KB_EV_RANK_EXIT)
            mark_exited(r, m);
        send(ctx, json_pack("{s:s, s:o}", "type", "rank", "event", m));
    }
}

/* ---- Beats and exits ---------------------------------------------------- */

/* The writer has no beat of its own: how long it has written is all. */
static void follow_writer(struct node_rank *rank, int64_t writing, double now)
{
    bool writes = writing >= 0;
    if (writes && rank->writing_s && writing == rank->beat.ckpt_writing)
        return;
    if (rank->writing_s && now - rank->writing_s > rank->slowest_write_s)
        rank->slowest_write_s = now - rank->writing_s;
    rank->writing_s = writes ? now : 0;
    rank->writing_told_s = 0;
}

static void read_beat(struct node_rank *rank, double now)
{
    struct kb_beat beat;
    if (pread(rank->beat_fd, &beat, sizeof beat, 0) != (ssize_t)sizeof beat ||
        beat.magic != KB_BEAT_MAGIC)
        return;
    follow_writer(rank, beat.ckpt_writing, now);
    rank->beat.ckpt_writing = beat.ckpt_writing;
    bool first = rank->beat.magic != KB_BEAT_MAGIC;
    if (!first && beat.changes == rank->beat.changes)
        return;
    int64_t phase = rank->beat.phase;
    if (!first && phase >= 0 && phase < KB_PHASE_N &&
        now - rank->changed_s > rank->slowest_s[phase])
        rank->slowest_s[phase] = now - rank->changed_s;
    rank->beat = beat;
    rank->changed_s = now;
    rank->told_s = 0;
}

static void check_gone(struct node_ranks *r, int local,
                       void (*send)(void *, json_t *), void *ctx)
{
    struct node_rank *rank = &r->rank[local];
    struct pollfd p = {.fd = rank->pidfd, .events = POLLIN};
    bool gone = rank->pidfd < 0 ? kill(rank->pid, 0) && errno == ESRCH
                                : poll(&p, 1, 0) > 0;
    if (!gone)
        return;
    rank->exited = true;
    /* The wrapper's word, if it has one, comes with the status; this one
     * says only that the process is no more. */
    send(ctx, json_pack("{s:s, s:i, s:i, s:i}", "type", "gone", "attempt",
                        r->attempt, "rank", rank->rank, "local", local));
}

void node_ranks_turn(struct node_ranks *r, double now,
                     void (*send)(void *ctx, json_t *message), void *ctx)
{
    read_datagrams(r, now, send, ctx);
    for (int i = 0; i < r->n; i++) {
        struct node_rank *rank = &r->rank[i];
        if (rank->beat_fd >= 0)
            read_beat(rank, now);
        if (rank->known && !rank->exited)
            check_gone(r, i, send, ctx);
    }
}

static char process_state(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return '?';
    text[n] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : '?';
}

json_t *node_ranks_report(const struct node_ranks *r,
                          const struct node_limits *limits, double now)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n; i++) {
        const struct node_rank *k = &r->rank[i];
        if (!k->known)
            continue;
        char state[2] = {process_state(k->pid), 0};
        json_array_append_new(
            list,
            json_pack("{s:i, s:i, s:b, s:s, s:f, s:f, s:b, s:I, s:I, s:I, s:I, "
                      "s:I, s:I}",
                      "rank", k->rank, "pid", (int)k->pid, "exited", k->exited,
                      "state", state, "quiet_s", now - k->changed_s, "limit_s",
                      node_stall_limit(k, limits), "beats",
                      k->beat.magic == KB_BEAT_MAGIC, "phase",
                      (json_int_t)k->beat.phase, "step",
                      (json_int_t)k->beat.step, "group",
                      (json_int_t)k->beat.group, "entered",
                      (json_int_t)k->beat.coll_entered, "done",
                      (json_int_t)k->beat.coll_done, "writing",
                      (json_int_t)(k->writing_s ? k->beat.ckpt_writing : -1)));
    }
    return list;
}

void node_ranks_signal(const struct node_ranks *r, int signal)
{
    for (int i = 0; i < r->n; i++) {
        const struct node_rank *k = &r->rank[i];
        if (!k->known || k->exited)
            continue;
        if (k->pidfd >= 0)
            syscall(SYS_pidfd_send_signal, k->pidfd, signal, NULL, 0);
        else
            kill(k->pid, signal);
    }
}

void node_ranks_forgive(struct node_ranks *r, double gap_s)
{
    for (int i = 0; i < r->n; i++) {
        r->rank[i].changed_s += gap_s;
        if (r->rank[i].writing_s)
            r->rank[i].writing_s += gap_s;
    }
}

bool node_ranks_alive(const struct node_ranks *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->rank[i].known && !r->rank[i].exited)
            return true;
    return false;
}
