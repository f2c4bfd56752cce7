/* Tests of runner/supervise/attempt.c and launch.c: files on disk, and what
 * srun is given. */
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/supervise/attempt.h"
#include "runner/supervise/launch.h"
#include "tests/tap.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static void test_attempts(const char *dir)
{
    struct err err = ERR_INIT;
    struct history h;
    char path[PATH_MAX];
    int first = 0, second = 0, third = 0;
    ok(!history_load(dir, &h, &err) && h.newest == 0, "an empty run");
    history_release(&h);
    ok(!attempt_begin(dir, 1, 7, 1, &first, &err) && first == 1, "the first is 1");
    ok(!attempt_begin(dir, 1, 8, 0, &second, &err) && second == 2,
       "a number that another took is passed over");
    ok(!attempt_begin(dir, 1, 9, 0, &third, &err) && third == 3, "a third");
    attempt_withdraw(dir, third);
    const char *nodes[] = {"a", "b"}, *ckpt[] = {"step-0000000010.a0001"};
    struct attempt_start start = {.resume = "auto", .job = 7,
                                  .restart_count = 1, .nodes = nodes,
                                  .nodes_n = 2, .checkpoints = ckpt,
                                  .checkpoints_n = 1};
    ok(!attempt_start_write(dir, 1, &start, &err), "start.json");
    struct diagnosis d;
    struct decision decision = {.action = ACTION_REPLACE};
    classify_node(CAUSE_NODE_DEAD, "b", 1, "closed", &d);
    ok(!attempt_verdict_write(dir, 1, 7, 1, &d, &decision, 10, &err),
       "verdict.json");
    attempt_path(dir, 2, KB_START_JSON, path, sizeof path, &err);
    file_replace(path, "{ torn", 6, 0600, &err);
    ok(!history_load(dir, &h, &err), "history loads: %s", err.msg);
    is_int(h.n, 2, "two attempts");
    ok(h.past[0].judged && h.past[0].counted && h.past[0].node_out,
       "the first is judged, counts, and cost a node");
    is_str(h.past[0].node, "b", "its node");
    is_int(h.past[0].job, 7, "its job");
    is_int(h.past[0].cause, CAUSE_NODE_DEAD, "its cause");
    ok(!h.past[1].started && !h.past[1].judged,
       "of a torn one nothing is known");
    ok(h.past[1].claimed && h.past[1].job == 8, "but whose it is");
    history_release(&h);
}

static bool has(char **list, const char *word)
{
    for (char **p = list; p && *p; p++)
        if (!strcmp(*p, word))
            return true;
    return false;
}

static bool any_contains(char **list, const char *word)
{
    for (char **p = list; p && *p; p++)
        if (strstr(*p, word))
            return true;
    return false;
}

static void test_launch(void)
{
    static char *environment[] = {
        "HOME=/home/x", "SLURM_JOB_ID=7", "SLURM_NTASKS=99",
        "SLURM_NTASKS_PER_NODE=4", "SLURM_CPU_BIND_TYPE=x",
        "SLURM_GPUS_PER_TASK=1", "SLURM_MEM_PER_CPU=10",
        "KOBOSHI_SECRET=stale", "OPENBLAS_CORETYPE=old", "SLURM_NTASKSX=1",
        NULL};
    static char *program[] = {"/bin/train", "--x", NULL};
    const char *nodes[] = {"n1", "n3"}, *out[] = {"n2"};
    struct launch l = {.nodes = nodes, .nodes_n = 2, .exclude = out,
                       .exclude_n = 1, .ranks_per_node = 8, .attempt = 4,
                       .environment = environment, .run_dir = "/r",
                       .secret = "s3cret", .supervisor = "h:1",
                       .program = program, .blas_core = "Haswell",
                       .blas_threads = 2, .resume = "auto"};
    char **argv = launch_argv(&l, false), **envp = launch_envp(&l, false);
    ok(has(argv, "--ntasks=16") && has(argv, "--nodes=2"), "counts");
    ok(has(argv, "--nodelist=n[1,3]"), "where");
    ok(has(argv, "--exclude=n2"), "and where not");
    ok(has(argv, "--mpi=pmix") && has(argv, "--overlap") &&
           has(argv, "--kill-on-bad-exit=1") && !has(argv, "--overcommit"),
       "as ranks are launched");
    ok(has(argv, "--rank") && has(argv, "/bin/train") && has(argv, "--x"),
       "the program behind its wrapper");
    ok(!any_contains(envp, "SECRET"), "ranks get no secret, not even an old");
    ok(has(envp, "KOBOSHI_ATTEMPT=4") && has(envp, "KOBOSHI_RESUME=auto"),
       "what they need");
    ok(has(envp, "OPENBLAS_CORETYPE=Haswell") &&
           !has(envp, "OPENBLAS_CORETYPE=old"), "the recorded core");
    ok(!any_contains(envp, "SLURM_NTASKS=") &&
           !any_contains(envp, "SLURM_CPU_BIND") &&
           !any_contains(envp, "GPUS_PER_TASK"), "the job's own are out");
    ok(has(envp, "SLURM_NTASKSX=1") && has(envp, "SLURM_MEM_PER_CPU=10") &&
           has(envp, "HOME=/home/x"), "the rest stays");
    launch_free(argv);
    launch_free(envp);

    l.crowded = true;
    argv = launch_argv(&l, false);
    ok(has(argv, "--overcommit"), "more ranks than cores share them");
    launch_free(argv);
    argv = launch_argv(&l, true);
    envp = launch_envp(&l, true);
    ok(has(argv, "--no-kill") && has(argv, "--ntasks=2") &&
           has(argv, "--node"), "watchers: one a node, --no-kill");
    ok(!any_contains(argv, "s3cret"), "the secret is no argument");
    ok(has(envp, "KOBOSHI_SECRET=s3cret"), "but in the environment");
    ok(!any_contains(envp, "SLURM_MEM_PER_CPU"), "no memory of the ranks'");
    launch_free(argv);
    launch_free(envp);
}

int main(void)
{
    char dir[] = "/tmp/koboshi-test.XXXXXX", command[64];
    if (!mkdtemp(dir))
        return 1;
    test_attempts(dir);
    test_launch();
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) || tap_done();
}
