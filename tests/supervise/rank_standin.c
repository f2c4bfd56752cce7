/* rank_standin - behaves to its watcher as koboshi-train does, without
 * training: beats, datagrams, steps in lockstep through files in the run
 * directory, checkpoints of nothing. For tests of the supervisor alone.
 *
 * STANDIN_STEPS, STANDIN_STEP_MS; STANDIN_FAULT="step:rank:attempt:what" with
 * what = exitN | killN | stop | hang | collective | error | done.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"

static struct kb_beat *beat;
static char node_dir[PATH_MAX];
static int rank_, world, local_, attempt;
static const char *run_dir;
static volatile sig_atomic_t stop_asked;

static void on_stop(int sig)
{
    (void)sig;
    stop_asked = 1;
}

static void tell(const char *event, const char *more)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char line[1024];
    int n = snprintf(line, sizeof line,
                     "{\"event\":\"%s\",\"rank\":%d,\"pid\":%d,"
                     "\"attempt\":%d%s%s}", event, rank_, (int)getpid(),
                     attempt, *more ? "," : "", more);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "%.90s/watch.sock",
             node_dir);
    sendto(fd, line, (size_t)n, MSG_DONTWAIT, (struct sockaddr *)&addr,
           sizeof addr);
    close(fd);
}

static void touch(const char *fmt, long long step, int who)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/", run_dir);
    snprintf(path + n, sizeof path - (size_t)n, fmt, attempt, step, who);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
}

static void change(int64_t phase)
{
    beat->phase = phase;
    __atomic_add_fetch(&beat->changes, 1, __ATOMIC_RELAXED);
}

/* All ranks come here at a step before one leaves. */
static void collective(long long step)
{
    char path[PATH_MAX];
    beat->coll_entered++;
    change(beat->phase);
    touch("sync.%d.%lld.%d", step, rank_);
    for (int r = 0; r < world; r++) {
        snprintf(path, sizeof path, "%s/sync.%d.%lld.%d", run_dir, attempt,
                 step, r);
        while (access(path, F_OK))
            usleep(2000);
    }
    beat->coll_done++;
    change(beat->phase);
}

static void fault(long long step)
{
    const char *text = getenv("STANDIN_FAULT");
    long long at;
    int who, when;
    char what[32];
    if (!text || sscanf(text, "%lld:%d:%d:%31s", &at, &who, &when, what) != 4 ||
        at != step || who != rank_ || (when && when != attempt))
        return;
    if (!strncmp(what, "exit", 4))
        exit(atoi(what + 4));
    if (!strncmp(what, "kill", 4))
        kill(getpid(), atoi(what + 4));
    if (!strcmp(what, "stop"))
        kill(getpid(), SIGSTOP);
    if (!strcmp(what, "error")) {
        tell("rank_error", "\"class\":\"request\",\"message\":\"standin: no "
                           "such token file: 'x.bin'\"");
        exit(KB_EXIT_REQUEST);
    }
    if (!strcmp(what, "writer")) {
        beat->ckpt_writing = step;
        change(beat->phase);
    }
    while (!strcmp(what, "hang"))
        pause();
}

static long long newest(void)
{
    char path[PATH_MAX];
    long long step = 0;
    snprintf(path, sizeof path, "%s/newest", run_dir);
    FILE *f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%lld", &step) != 1)
            step = 0;
        fclose(f);
    }
    return step;
}

static void save(long long step)
{
    char path[PATH_MAX], more[256];
    snprintf(path, sizeof path, "%s/newest", run_dir);
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "%lld\n", step);
        fclose(f);
    }
    snprintf(more, sizeof more, "\"step\":%lld,\"checkpoint\":\"step-%010lld."
             "a%04d\",\"seconds\":0.1,\"bytes\":1", step, step, attempt);
    tell("checkpoint_saved", more);
}

int main(void)
{
    struct err err = ERR_INIT;
    char path[PATH_MAX + 32], more[128];
    if (!getenv("SLURM_PROCID") || !getenv(KB_ENV_ATTEMPT)) {
        fprintf(stderr, "rank_standin: not under koboshi-supervise\n");
        return KB_EXIT_REQUEST;
    }
    rank_ = atoi(getenv("SLURM_PROCID"));
    world = atoi(getenv("SLURM_NTASKS"));
    local_ = atoi(getenv("SLURM_LOCALID"));
    attempt = atoi(getenv(KB_ENV_ATTEMPT));
    run_dir = getenv(KB_ENV_RUN_DIR);
    long long steps = getenv("STANDIN_STEPS") ? atoll(getenv("STANDIN_STEPS"))
                                              : 50;
    int step_ms = getenv("STANDIN_STEP_MS") ? atoi(getenv("STANDIN_STEP_MS"))
                                            : 100;
    signal(SIGUSR1, on_stop);
    signal(SIGTERM, on_stop);
    contract_node_dir(node_dir, sizeof node_dir,
                      atol(getenv("SLURM_JOB_ID")), attempt, &err);
    snprintf(path, sizeof path, "%s/beat.%d", node_dir, local_);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *beat)) {
        perror("rank_standin: beat");
        return KB_EXIT_RANK;
    }
    beat = mmap(NULL, sizeof *beat, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    beat->pid = getpid();
    beat->rank = rank_;
    beat->attempt = attempt;
    beat->ckpt_writing = -1;
    beat->magic = KB_BEAT_MAGIC;
    tell("rank_hello", "");
    change(KB_PHASE_LOAD);
    long long step = newest();
    if (!rank_) {
        snprintf(more, sizeof more,
                 "\"step\":%lld,\"checkpoint\":\"step-%010lld\"", step, step);
        tell("resume", more);
    }
    long long first = step + 1;
    while (step < steps) {
        fault(step + 1);
        change(step + 1 == first ? KB_PHASE_FIRST_STEP : KB_PHASE_STEP);
        usleep((useconds_t)step_ms * 1000);
        collective(step + 1);
        beat->step = ++step;
        change(beat->phase);
        if (!rank_)
            printf("standin: step %lld\n", step), fflush(stdout);
        if (!rank_ && step == first) {
            snprintf(more, sizeof more, "\"step\":%lld", step);
            tell("first_step", more);
        }
        if (!rank_ && (step % 10 == 0 || stop_asked))
            save(step);
        if (stop_asked)
            return KB_EXIT_SAVED;
    }
    change(KB_PHASE_FINISH);
    if (!rank_) {
        snprintf(more, sizeof more, "\"step\":%lld,\"loss\":1.0", step);
        tell("done", more);
    }
    return 0;
}
