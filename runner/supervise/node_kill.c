/* node_kill - no rank of an older attempt outlives the start of a new one.
 *
 * Processes are known by their environment, which is readable for the user's
 * own: the job, the attempt, and whether they hold the secret (watchers do,
 * ranks do not).
 */
#include "runner/supervise/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENVIRON_BYTES (256u << 10)

static const char *variable(const char *env, size_t n, const char *name)
{
    size_t name_n = strlen(name);
    for (const char *p = env, *end = env + n; p < end; p += strlen(p) + 1)
        if (!strncmp(p, name, name_n) && p[name_n] == '=')
            return p + name_n + 1;
    return NULL;
}

static ssize_t read_proc(pid_t pid, const char *what, char *buf, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t len = 0;
    ssize_t n;
    while (len < bytes - 1 && (n = read(fd, buf + len, bytes - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    buf[len] = 0;
    return (ssize_t)len;
}

/* Gone, a zombie (its parent only has not looked; it writes nothing more), a
 * child of this watcher, or an srun, which ends its step itself. */
static bool is_spared(pid_t pid)
{
    char text[512];
    if (read_proc(pid, "stat", text, sizeof text) <= 0)
        return true;
    const char *end = strrchr(text, ')');
    char state;
    int parent;
    if (!end || sscanf(end + 1, " %c %d", &state, &parent) != 2)
        return true;
    return state == 'Z' || state == 'X' || parent == getpid() ||
           strstr(text, "(srun)");
}

enum kin { KIN_NONE, KIN_RANK, KIN_WATCHER };

static enum kin classify_process(pid_t pid, long job, int attempt, char *env)
{
    struct stat st;
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &st) || st.st_uid != geteuid())
        return KIN_NONE;
    ssize_t n = read_proc(pid, "environ", env, ENVIRON_BYTES);
    if (n <= 0)
        return KIN_NONE;
    const char *its_job = variable(env, (size_t)n, "SLURM_JOB_ID");
    const char *its_attempt = variable(env, (size_t)n, KB_ENV_ATTEMPT);
    if (!its_job || !its_attempt || atol(its_job) != job ||
        !variable(env, (size_t)n, "SLURM_PROCID"))
        return KIN_NONE;
    if (variable(env, (size_t)n, KB_ENV_SECRET))
        return KIN_WATCHER;
    return atoi(its_attempt) < attempt ? KIN_RANK : KIN_NONE;
}

int node_kill_older(long job, int attempt, char *what, size_t what_bytes)
{
    int left = 0;
    DIR *proc = opendir("/proc");
    char *env = malloc(ENVIRON_BYTES);
    struct dirent *entry;
    while (proc && env && (entry = readdir(proc))) {
        pid_t pid = (pid_t)atol(entry->d_name);
        if (pid <= 1 || pid == getpid())
            continue;
        enum kin kin = classify_process(pid, job, attempt, env);
        if (kin == KIN_NONE || is_spared(pid))
            continue;
        if (kill(pid, SIGKILL) && errno == ESRCH)
            continue;
        if (!left++)
            snprintf(what, what_bytes, "%s %d of an older attempt",
                     kin == KIN_RANK ? "process" : "watcher", (int)pid);
    }
    free(env);
    if (proc)
        closedir(proc);
    return left;
}
