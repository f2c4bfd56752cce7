/* fake_host - stands for the process that Slurm loads the plugin into: loads
 * the real spank_koboshi.so, gives it Slurm's functions, and calls its hooks
 * in spank.h's order for one context. t_host.t drives it.
 *
 * usage: fake_host OPTIONS... (under the name sbatch, salloc, srun or another:
 * the plugin reads /proc/self/cmdline). From the environment:
 *   HOST_SO, HOST_CONTEXT (allocator local remote slurmd script),
 *   HOST_ARGS (words of plugstack.conf), HOST_STEP (step id),
 *   HOST_VERSION (major.minor that it says it is),
 *   HOST_FAIL_CALL=N, HOST_FAIL_ALLOC=N: the Nth call of Slurm's functions, or
 *   allocation, fails; HOST_NO_KILL=1: signals reach nobody; HOST_FILES=N: so
 *   many descriptors can still be opened.
 * Slurm's words go to standard error. What the hooks left goes to standard
 * output: `rc= fds= children= blocks= calls= allocs= ms=`, then the variables
 * that were set, NAME=VALUE each (job: and control: in front).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

/* ---- Allocations and signals --------------------------------------- */

static long fail_alloc, allocs, blocks;
static int counting;

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static int fails(void)
{
    if (!counting)
        return 0;
    if (++allocs != fail_alloc)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    void *p = fails() ? NULL : __libc_malloc(n);
    blocks += counting && p;
    return p;
}

void *calloc(size_t n, size_t m)
{
    void *p = fails() ? NULL : __libc_calloc(n, m);
    blocks += counting && p;
    return p;
}

void *realloc(void *old, size_t n)
{
    void *p = fails() ? NULL : __libc_realloc(old, n);
    blocks += counting && p && !old;
    return p;
}

void free(void *p)
{
    blocks -= counting && p;
    __libc_free(p);
}
#endif

/* Where sanitizers have malloc nothing is counted. */
#ifdef __SANITIZE_ADDRESS__
static void count_nothing(void)
{
    allocs = -1;
}
#else
static void count_nothing(void)
{
}
#endif

/* The plugin's kill() is this one: a child that no signal reaches is as one
 * in uninterruptible sleep. */
int kill(pid_t pid, int sig)
{
    return getenv("HOST_NO_KILL") ? 0 : (int)syscall(SYS_kill, pid, sig);
}

/* ---- Slurm's functions ------------------------------------------------ */

enum { OPTIONS_MAX = 16, VARS_MAX = 256 };

static long fail_call, calls;
static struct spank_option options[OPTIONS_MAX];
static int options_n;
static char *job_env[VARS_MAX], *control_env[VARS_MAX];
static int in_init;

static int call_fails(void)
{
    return ++calls == fail_call;
}

static void say(const char *level, const char *fmt, va_list ap)
{
    fprintf(stderr, "%s: ", level);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
}

#define SAY(name, level)                                                       \
    void name(const char *fmt, ...)                                            \
    {                                                                          \
        va_list ap;                                                            \
        va_start(ap, fmt);                                                     \
        say(level, fmt, ap);                                                   \
        va_end(ap);                                                            \
    }
SAY(slurm_error, "error")
SAY(slurm_info, "info")
SAY(slurm_spank_log, "spank")

static const char *context_name(void)
{
    const char *name = getenv("HOST_CONTEXT");
    return name ? name : "";
}

spank_context_t spank_context(void)
{
    static const char *const names[] = {
        [S_CTX_ERROR] = "error",   [S_CTX_LOCAL] = "local",
        [S_CTX_REMOTE] = "remote", [S_CTX_ALLOCATOR] = "allocator",
        [S_CTX_SLURMD] = "slurmd", [S_CTX_JOB_SCRIPT] = "script"};
    if (call_fails())
        return S_CTX_ERROR;
    for (int i = 0; i <= S_CTX_JOB_SCRIPT; i++)
        if (!strcmp(names[i], context_name()))
            return (spank_context_t)i;
    return S_CTX_ERROR;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
    if (call_fails() || !in_init || options_n == OPTIONS_MAX)
        return ESPANK_BAD_ARG;
    options[options_n++] = *option;
    return ESPANK_SUCCESS;
}

static char **find(char **vars, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < VARS_MAX; i++)
        if (!vars[i] || (!strncmp(vars[i], name, n) && vars[i][n] == '='))
            return &vars[i];
    return NULL;
}

static spank_err_t set(char **vars, const char *name, const char *value,
                       int overwrite)
{
    char **at = find(vars, name);
    if (!at || (*at && !overwrite))
        return ESPANK_ENV_EXISTS;
    int was = counting;
    counting = 0;
    free(*at);
    if (asprintf(at, "%s=%s", name, value) < 0)
        *at = NULL;
    counting = was;
    return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *buf, int len)
{
    char **at = find(job_env, name);
    if (call_fails())
        return ESPANK_ERROR;
    if (!at || !*at)
        return ESPANK_ENV_NOEXIST;
    const char *value = strchr(*at, '=') + 1;
    snprintf(buf, (size_t)len, "%s", value);
    return strlen(value) < (size_t)len ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value,
                         int overwrite)
{
    return call_fails() ? ESPANK_ERROR : set(job_env, name, value, overwrite);
}

spank_err_t spank_job_control_setenv(spank_t spank, const char *name,
                                     const char *value, int overwrite)
{
    return call_fails() ? ESPANK_NOT_LOCAL
                        : set(control_env, name, value, overwrite);
}

static uint32_t number(const char *name, uint32_t fallback)
{
    const char *text = getenv(name);
    return text ? (uint32_t)strtoul(text, NULL, 0) : fallback;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
    static char major[16], minor[16];
    int remote = !strcmp(context_name(), "remote");
    const char *version = getenv("HOST_VERSION");
    va_list ap;
    if (call_fails())
        return ESPANK_ERROR;
    snprintf(major, sizeof major, "%d",
             (int)SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER));
    snprintf(minor, sizeof minor, "%02d",
             (int)SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER));
    if (version)
        sscanf(version, "%15[0-9].%15[0-9]", major, minor);
    va_start(ap, item);
    void *to = va_arg(ap, void *);
    va_end(ap);
    if (item == S_SLURM_VERSION_MAJOR)
        *(char **)to = major;
    else if (item == S_SLURM_VERSION_MINOR)
        *(char **)to = minor;
    else if (!remote)
        return ESPANK_NOT_REMOTE;
    else
        *(uint32_t *)to = item == S_JOB_ID                 ? 42
                          : item == S_JOB_STEPID           ? number("HOST_STEP", 0)
                          : item == S_TASK_GLOBAL_ID       ? 3
                          : item == S_JOB_TOTAL_TASK_COUNT ? 4
                          : item == S_TASK_ID              ? 1
                          : item == S_JOB_LOCAL_TASK_COUNT ? 2
                                                           : 1;
    return ESPANK_SUCCESS;
}

/* ---- The hooks in order ------------------------------------------------- */

static void *library;
static char *args[32];
static int args_n;
static int worst;

static void hook(const char *name)
{
    spank_f *f = (spank_f *)dlsym(library, name);
    if (!f)
        return;
    int rc = f((spank_t)&options, args_n, args);
    if (rc && !worst) {
        worst = rc;
        fprintf(stderr, "host: %s returned %d\n", name, rc);
    }
}

/* What sbatch does between init and init_post_opt: callbacks for its options;
 * one that returns an error ends it. */
static void take_options(int argc, char **argv, int remote)
{
    for (int i = 1; i < argc; i++)
        for (int o = 0; o < options_n; o++) {
            size_t n = strlen(options[o].name);
            const char *word = argv[i];
            if (strncmp(word, "--", 2) || strncmp(word + 2, options[o].name, n))
                continue;
            word += 2 + n;
            if (*word && *word != '=')
                continue;
            if (options[o].cb(options[o].val, *word ? word + 1 : NULL, remote))
                exit(255);
        }
}

static void run_hooks(int argc, char **argv)
{
    const char *context = context_name();
    int remote = !strcmp(context, "remote");
    if (!strcmp(context, "script")) {
        const char *which = getenv("HOST_SCRIPT");
        hook(which && !strcmp(which, "epilog") ? "slurm_spank_job_epilog"
                                               : "slurm_spank_job_prolog");
        return;
    }
    in_init = 1;
    hook("slurm_spank_init");
    in_init = 0;
    take_options(argc, argv, remote);
    if (remote)
        take_options(argc, argv, remote); /* Slurm does so */
    hook("slurm_spank_init_post_opt");
    if (!strcmp(context, "local"))
        hook("slurm_spank_local_user_init");
    if (remote) {
        hook("slurm_spank_user_init");
        hook("slurm_spank_task_init_privileged");
        hook("slurm_spank_task_init");
        hook("slurm_spank_task_post_fork");
        hook("slurm_spank_task_exit");
    }
    if (!strcmp(context, "slurmd"))
        hook("slurm_spank_slurmd_exit");
    hook("slurm_spank_exit");
}

/* ---- Measuring ------------------------------------------------------------ */

static int open_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int children(void)
{
    char path[64];
    int pid, n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%d", &pid) == 1) {
        n++;
        syscall(SYS_kill, -pid, SIGKILL);
        syscall(SYS_kill, pid, SIGKILL);
    }
    if (file)
        fclose(file);
    return n;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The rest of the process is measured with the limit that it had. */
static void limit_files(rlim_t n)
{
    static struct rlimit had;
    struct rlimit now;
    if (!had.rlim_cur)
        getrlimit(RLIMIT_NOFILE, &had);
    now = had;
    if (n < had.rlim_cur)
        now.rlim_cur = n;
    setrlimit(RLIMIT_NOFILE, &now);
}

static void split_args(void)
{
    static char words[4096];
    const char *text = getenv("HOST_ARGS");
    snprintf(words, sizeof words, "%s", text ? text : "");
    for (char *w = strtok(words, " "); w && args_n < 32; w = strtok(NULL, " "))
        args[args_n++] = w;
}

int main(int argc, char **argv)
{
    extern char **environ;
    setvbuf(stdout, NULL, _IONBF, 0);
    setvbuf(stderr, NULL, _IONBF, 0);
    fail_call = number("HOST_FAIL_CALL", 0);
    fail_alloc = number("HOST_FAIL_ALLOC", 0);
    split_args();
    library = dlopen(getenv("HOST_SO"), RTLD_LAZY);
    if (!library) {
        fprintf(stderr, "host: %s\n", dlerror());
        return 99;
    }
    if (!strcmp(context_name(), "remote"))
        for (char **e = environ; *e; e++)
            if (!strncmp(*e, "JOB_", 4)) {
                char name[128];
                const char *equals = strchr(*e, '=');
                snprintf(name, sizeof name, "%.*s", (int)(equals - *e - 4),
                         *e + 4);
                set(job_env, name, equals + 1, 1);
            }
    int files = open_files();
    int first_free = dup(0);
    close(first_free);
    if (getenv("HOST_FILES"))
        limit_files((rlim_t)first_free + number("HOST_FILES", 0));
    double begin = now_ms();
    counting = 1;
    run_hooks(argc, argv);
    counting = 0;
    limit_files(RLIM_INFINITY);
    count_nothing();
    double took = now_ms() - begin;
    printf("rc=%d fds=%d children=%d blocks=%ld calls=%ld allocs=%ld ms=%.0f\n",
           worst, open_files() - files, children(), blocks, calls, allocs,
           took);
    for (int i = 0; i < VARS_MAX && job_env[i]; i++)
        printf("job:%s\n", job_env[i]);
    for (int i = 0; i < VARS_MAX && control_env[i]; i++)
        printf("control:%s\n", control_env[i]);
    for (char **e = environ; *e; e++)
        if (!strncmp(*e, "KOBOSHI_", 8))
            printf("env:%s\n", *e);
    return 0;
}
