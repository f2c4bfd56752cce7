/* launch - srun for watchers and ranks; see launch.h. */
#include "runner/supervise/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/supervise/ctl.h"
#include "runner/supervise/program.h"

/* ---- Lists of strings --------------------------------------------------- */

struct list {
    char **item;
    int n;
    bool failed;
};

static void add(struct list *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct list *l, const char *fmt, ...)
{
    struct sbuf text = SBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    sbuf_vprintf(&text, fmt, ap);
    va_end(ap);
    char **item = realloc(l->item, (size_t)(l->n + 2) * sizeof *item);
    char *one = sbuf_take(&text);
    if (item)
        l->item = item;
    if (!item || !one) {
        l->failed = true;
        free(one);
        return;
    }
    l->item[l->n++] = one;
    l->item[l->n] = NULL;
}

void launch_free(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static char **finish(struct list *l)
{
    if (!l->failed)
        return l->item;
    launch_free(l->item);
    return NULL;
}

/* ---- Arguments ---------------------------------------------------------- */

static void add_hosts(struct list *l, const char *option,
                      const char *const *names, int n)
{
    char *hosts = ctl_compress(names, n);
    if (!hosts)
        l->failed = true;
    else if (n)
        add(l, "%s=%s", option, hosts);
    free(hosts);
}

static void watcher_args(struct list *l)
{
    char self[PATH_MAX] = "";
    program_self(self, sizeof self, NULL);
    add(l, "--no-kill"); /* goes on when a node is called DOWN */
    add(l, "--mpi=none");
    add(l, "--kill-on-bad-exit=0");
    add(l, "--ntasks-per-node=1");
    add(l, "--cpus-per-task=1");
    add(l, "--mem=0");
    /* With --overlap it shares the job's GPUs, which it must see to watch. */
    add(l, "--job-name=koboshi-watch");
    add(l, "%s", self);
    add(l, "--node");
}

static void rank_args(struct list *l, const struct launch *launch)
{
    char self[PATH_MAX] = "";
    program_self(self, sizeof self, NULL);
    add(l, "--mpi=pmix");
    add(l, "--kill-on-bad-exit=1");
    add(l, "--ntasks-per-node=%d", launch->ranks_per_node);
    if (launch->cpus_per_rank > 0)
        add(l, "--cpus-per-task=%d", launch->cpus_per_rank);
    if (launch->crowded)
        add(l, "--overcommit");
    add(l, "--job-name=koboshi-train");
    add(l, "%s", self);
    add(l, "--rank");
    for (char *const *p = launch->program; *p; p++)
        add(l, "%s", *p);
}

char **launch_argv(const struct launch *launch, bool watchers)
{
    struct list l = {0};
    int ranks = watchers ? 1 : launch->ranks_per_node;
    add(&l, "srun");
    add(&l, "--overlap");
    add(&l, "--export=ALL");
    add(&l, "--input=none");
    add(&l, "--wait=0");
    add(&l, "--distribution=block");
    add(&l, "--nodes=%d", launch->nodes_n);
    add(&l, "--ntasks=%d", launch->nodes_n * ranks);
    add_hosts(&l, "--nodelist", launch->nodes, launch->nodes_n);
    add_hosts(&l, "--exclude", launch->exclude, launch->exclude_n);
    if (watchers)
        watcher_args(&l);
    else
        rank_args(&l, launch);
    return finish(&l);
}

/* ---- Environment -------------------------------------------------------- */

/* What srun would read as options of the step. A name ending in '*' stands
 * for all that begin so. */
static const char *const scrubbed[] = {
    "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_*", "SLURM_NNODES",
    "SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_GPU_BIND*",
    "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_TRES_BIND",
    "SLURM_DISTRIBUTION", "SLURM_EXPORT_ENV", "SLURM_HOSTFILE",
    "SLURM_KILL_BAD_EXIT", "SLURM_LABELIO", "SLURM_MPI_TYPE",
    "SLURM_NO_KILL", "SLURM_OPEN_MODE", "SLURM_OVERCOMMIT", "SLURM_EXACT",
    "SLURM_EXCLUSIVE", "SLURM_RELATIVE", "SLURM_STDERRMODE", "SLURM_STDINMODE",
    "SLURM_STDOUTMODE", "SLURM_STEP_*", "SLURM_THREADS", "SLURM_TIMELIMIT",
    "SLURM_WAIT", "SLURM_HINT", "SLURM_UNBUFFEREDIO", "SLURM_ARBITRARY*",
    "SLURM_WCKEY", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
    "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",
    KB_ENV_SECRET, KB_ENV_SUPERVISOR, KB_ENV_RUN_DIR, KB_ENV_ATTEMPT,
    KB_ENV_RESUME, KB_ENV_NODE_DIR,
};
/* The watcher takes no memory or GPU of the ranks. */
static const char *const scrubbed_watcher[] = {
    "SLURM_MEM_PER_*", "SLURM_GPUS*", "SLURM_JOB_GPUS", "SLURM_GRES*",
    "SLURM_TRES_*",
};

static bool is_named(const char *entry, const char *const *names, size_t n)
{
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < n; i++) {
        size_t name_n = strlen(names[i]);
        bool prefix = names[i][name_n - 1] == '*';
        if (prefix ? len >= name_n - 1 && !strncmp(entry, names[i], name_n - 1)
                   : len == name_n && !strncmp(entry, names[i], name_n))
            return true;
    }
    return false;
}

char **launch_envp(const struct launch *launch, bool watchers)
{
    struct list l = {0};
    for (char *const *p = launch->environment; *p; p++) {
        if (is_named(*p, scrubbed, sizeof scrubbed / sizeof *scrubbed) ||
            (watchers &&
             is_named(*p, scrubbed_watcher,
                      sizeof scrubbed_watcher / sizeof *scrubbed_watcher)))
            continue;
        if (!watchers && launch->blas_core[0] &&
            (str_starts(*p, "OPENBLAS_CORETYPE=") ||
             str_starts(*p, "OPENBLAS_NUM_THREADS=")))
            continue;
        add(&l, "%s", *p);
    }
    add(&l, "%s=%s", KB_ENV_RUN_DIR, launch->run_dir);
    add(&l, "%s=%d", KB_ENV_ATTEMPT, launch->attempt);
    if (launch->resume)
        add(&l, "%s=%s", KB_ENV_RESUME, launch->resume);
    if (watchers) {
        add(&l, "%s=%s", KB_ENV_SECRET, launch->secret);
        add(&l, "%s=%s", KB_ENV_SUPERVISOR, launch->supervisor);
        return finish(&l);
    }
    if (launch->blas_core[0]) {
        add(&l, "OPENBLAS_CORETYPE=%s", launch->blas_core);
        add(&l, "OPENBLAS_NUM_THREADS=%d",
            launch->blas_threads > 0 ? launch->blas_threads : 1);
    }
    return finish(&l);
}

/* ---- Start -------------------------------------------------------------- */

static void child_exec(char **argv, char **envp, int out, pid_t parent)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    int in = open("/dev/null", O_RDONLY);
    if (in >= 0)
        dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, envp);
    dprintf(STDERR_FILENO, "koboshi-supervise: cannot run srun: %s\n",
            strerror(errno));
    _exit(127);
}

pid_t launch_start(const struct launch *launch, bool watchers, struct err *err)
{
    pid_t pid = -1, parent = getpid();
    char **argv = launch_argv(launch, watchers);
    char **envp = launch_envp(launch, watchers);
    int out = open(launch->output,
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (!argv || !envp)
        err_set(err, "launch: out of memory");
    else if (out < 0)
        err_set_errno(err, "launch: cannot open '%s'", launch->output);
    else if ((pid = fork()) < 0)
        err_set_errno(err, "launch: cannot start srun");
    if (pid == 0)
        child_exec(argv, envp, out, parent);
    if (out >= 0)
        close(out);
    launch_free(argv);
    launch_free(envp);
    return pid;
}
