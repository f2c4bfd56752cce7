/* mishap - preloaded by a test into a job: what hardware does to a program now
 * and then, at a step or in a moment of the test's choice. Only programs whose
 * names begin with koboshi are touched.
 *
 * MISHAP_STEP=STEP:ATTEMPT:WHAT  rank 0 after that step (attempt 0: of any):
 *     segv | exitN | nan (all matrix products of five steps are not numbers)
 * MISHAP_FSYNC=FILE  while FILE is there, an fsync of the program that it names
 *     in its first word takes the seconds of its second; "PROGRAM 60 once"
 *     takes FILE away
 * MISHAP_CLOCK=FILE  the wall clock is ahead by the seconds in it
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAN_STEPS 5

extern char *program_invocation_short_name;

static int poisoned;

static int is_ours(void)
{
    return !strncmp(program_invocation_short_name, "koboshi", 7);
}

/* ---- At a step ------------------------------------------------------------ */

/* The step of the line for people that rank 0 writes after each; else -1. */
static long step_in(const char *text, size_t bytes)
{
    static const char mark[] = "iteration ";
    const char *at = memmem(text, bytes, mark, sizeof mark - 1);
    return at && text[bytes - 1] == '\n' ? atol(at + sizeof mark - 1) : -1;
}

static void befall(long now)
{
    const char *plan = getenv("MISHAP_STEP");
    const char *attempt = getenv("KOBOSHI_ATTEMPT");
    long step, of;
    char what[16];
    if (now < 0 || !plan || sscanf(plan, "%ld:%ld:%15s", &step, &of, what) != 3)
        return;
    poisoned = !strcmp(what, "nan") && now >= step && now < step + NAN_STEPS &&
               (!of || (attempt && atol(attempt) == of));
    if (now != step || (of && (!attempt || atol(attempt) != of)))
        return;
    if (!strcmp(what, "segv"))
        raise(SIGSEGV);
    if (!strncmp(what, "exit", 4))
        _exit(atoi(what + 4));
}

ssize_t write(int fd, const void *bytes, size_t bytes_n)
{
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    ssize_t n = real(fd, bytes, bytes_n);
    if (n > 0 && fd == STDERR_FILENO &&
        !strcmp(program_invocation_short_name, "koboshi-train"))
        befall(step_in(bytes, (size_t)n));
    return n;
}

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc);
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc)
{
    void (*real)(int, int, int, int, int, int, float, const float *, int,
                 const float *, int, float, float *, int) =
        dlsym(RTLD_NEXT, "cblas_sgemm");
    real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (poisoned && m > 0 && n > 0)
        c[0] = __builtin_nanf("");
}

/* ---- A slow disk ---------------------------------------------------------- */

/* "koboshi-supervise" stands for the supervisor, not for its watchers. */
static int is_named(const char *program)
{
    char line[512] = "";
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i + 1 < n; i++)
        if (!line[i] && line[i + 1] == '-' && !strcmp(line + i + 1, "--node"))
            return 0;
    return !strcmp(program_invocation_short_name, program);
}

int fsync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    const char *path = getenv("MISHAP_FSYNC");
    FILE *file = path && is_ours() ? fopen(path, "r") : NULL;
    char program[64] = "", once[16] = "";
    unsigned seconds = 0;
    if (file) {
        int got = fscanf(file, "%63s %u %15s", program, &seconds, once);
        fclose(file);
        if (got >= 2 && is_named(program)) {
            if (*once && unlink(path))
                seconds = 0; /* another was quicker */
            for (struct timespec left = {(time_t)seconds, 0};
                 nanosleep(&left, &left);)
                continue;
        }
    }
    return real(fd);
}

/* ---- A clock that was set ------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    const char *path = getenv("MISHAP_CLOCK");
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(clock, now);
    FILE *file = rc || clock != CLOCK_REALTIME || !path || !is_ours()
                     ? NULL
                     : fopen(path, "r");
    long ahead = 0;
    if (file) {
        if (fscanf(file, "%ld", &ahead) == 1)
            now->tv_sec += ahead;
        fclose(file);
    }
    return rc;
}
