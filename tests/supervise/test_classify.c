/* Tests of runner/supervise/classify.c: rows of what was seen. */
#include "runner/supervise/classify.h"
#include "runner/base/contract.h"
#include "tests/tap.h"

#include <signal.h>

static void test_ends(void)
{
    static const struct {
        const char *name;
        struct rank_end end[3];
        int n, blame;
        enum cause cause;
    } rows[] = {
        {"SIGKILL from outside",
         {{.rank = 0, .told = true, .signal = SIGKILL, .seen_s = 1}}, 1, 0,
         CAUSE_RANK_KILLED},
        {"SIGKILL with the memory counter moved",
         {{.rank = 0, .told = true, .signal = SIGKILL, .oom = true}}, 1, 0,
         CAUSE_OUT_OF_MEMORY},
        {"SIGSEGV", {{.told = true, .signal = SIGSEGV}}, 1, 0,
         CAUSE_RANK_CRASH},
        {"the one that lost its peer is innocent",
         {{.rank = 0, .told = true, .code = KB_EXIT_PEER, .seen_s = 1},
          {.rank = 1, .told = true, .signal = SIGSEGV, .seen_s = 2}}, 2, 1,
         CAUSE_RANK_CRASH},
        {"one taken along without a word is innocent",
         {{.rank = 0, .told = false, .seen_s = 1},
          {.rank = 1, .told = true, .code = KB_EXIT_RANK, .seen_s = 2}}, 2, 1,
         CAUSE_RANK_ERROR},
        {"the first of two is to blame",
         {{.rank = 0, .told = true, .code = KB_EXIT_RANK, .seen_s = 5},
          {.rank = 1, .told = true, .code = KB_EXIT_GPU, .seen_s = 2}}, 2, 1,
         CAUSE_GPU},
        {"a user error explains all else",
         {{.rank = 0, .told = true, .signal = SIGABRT, .seen_s = 1},
          {.rank = 1, .told = true, .code = KB_EXIT_REQUEST, .seen_s = 2}}, 2,
         1, CAUSE_USER},
        {"no valid checkpoint", {{.told = true, .code = KB_EXIT_NO_CKPT}}, 1,
         0, CAUSE_NO_CKPT},
        {"a foreign exit code", {{.told = true, .code = 77}}, 1, 0,
         CAUSE_RANK_ERROR},
        {"the loss", {{.told = true, .code = KB_EXIT_STEP}}, 1, 0, CAUSE_LOSS},
        {"SIGTERM is Slurm's", {{.told = true, .signal = SIGTERM}}, 1, -1, 0},
        {"nobody ended", {{0}}, 0, -1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct diagnosis d;
        int blame = classify_blame(rows[i].end, rows[i].n);
        is_int(blame, rows[i].blame, rows[i].name);
        if (blame < 0)
            continue;
        classify_rank(&rows[i].end[blame], &d);
        is_str(cause_rows[d.cause].name, cause_rows[rows[i].cause].name,
               rows[i].name);
    }
}

static void test_signature(void)
{
    struct rank_end a = {.rank = 1, .node = "n1", .told = true, .code = 12,
                         .step = 3, .message = "address 0x1234 is bad"};
    struct rank_end b = a;
    struct diagnosis x, y;
    b.message = "address 0x9999 is bad";
    b.step = 40;
    classify_rank(&a, &x);
    classify_rank(&b, &y);
    is_str(x.signature, y.signature, "numbers do not make another failure");
    ok(strstr(x.evidence, "after step 3"), "the step is named: %s",
       x.evidence);
    is_str(x.subject, "rank 1 on n1", "the subject is rank and node");
    b.node = "n2";
    classify_rank(&b, &y);
    ok(strcmp(x.signature, y.signature), "another node is another failure");
    b = a;
    b.code = 0;
    b.signal = SIGBUS;
    classify_rank(&b, &y);
    ok(strcmp(x.signature, y.signature), "a signal is another failure");
}

static struct rank_beat beat(int rank, int64_t step, int64_t entered,
                             int64_t done, double quiet)
{
    return (struct rank_beat){.rank = rank, .node = rank ? "n2" : "n1",
                              .beats = true, .state = 'S', .quiet_s = quiet,
                              .limit_s = 30, .phase = KB_PHASE_STEP,
                              .step = step, .entered = entered, .done = done};
}

static void test_writer(void)
{
    struct diagnosis d;
    struct rank_beat b[3] = {beat(0, 60, 9, 9, 0), beat(1, 60, 9, 9, 0),
                             beat(2, 60, 9, 9, 0)};
    b[1].node = "n3";
    b[1].writing = -1;
    b[0].writing = b[2].writing = 50;
    classify_writer(b, 3, 0, "n1", 50, 31, &d);
    is_int(d.rank, 2, "rank 0's writer waits for the others'");
    is_str(d.node, "n2", "on its node");
    b[2].writing = -1;
    classify_writer(b, 3, 0, "n1", 50, 31, &d);
    is_int(d.rank, 0, "all others wrote theirs: rank 0's own");
    b[1].writing = b[2].writing = 50;
    classify_writer(b, 3, 2, "n2", 50, 31, &d);
    is_int(d.rank, 2, "one that was told");
    ok(strstr(d.evidence, "as 1 others do"), "%s", d.evidence);
    classify_writer(b, 0, 0, "n1", 50, 31, &d);
    is_int(d.rank, 0, "nothing reported: the one that was told");
}

static void test_stall(void)
{
    struct diagnosis d;
    struct rank_beat b[3] = {beat(0, 9, 20, 19, 31), beat(1, 9, 19, 19, 32)};
    ok(classify_stall(b, 2, 0, &d), "a stall is a stall");
    is_int(d.rank, 1, "guilty: the one that did not enter");
    ok(strstr(d.evidence, "1 other ranks wait"), "the evidence: %s",
       d.evidence);
    is_str(d.node, "n2", "and its node");

    b[1].state = 'T';
    classify_stall(b, 2, 0, &d);
    ok(strstr(d.evidence, "stopped"), "a stopped process is said");

    b[1] = beat(1, 9, 19, 19, 10); /* a long checkpoint, say */
    b[1].limit_s = 90;
    ok(!classify_stall(b, 2, 0, &d), "within its own limit: not yet");

    b[1] = beat(1, 8, 20, 19, 40);
    classify_stall(b, 2, 0, &d);
    is_int(d.rank, 1, "one step behind is behind");

    b[1] = beat(1, 9, 20, 19, 40);
    classify_stall(b, 2, 0, &d);
    ok(strstr(d.evidence, "which all entered"), "all in one: %s", d.evidence);

    b[1] = beat(1, 9, 19, 19, 40);
    b[1].beats = false;
    classify_stall(b, 2, 0, &d);
    is_int(d.cause, CAUSE_WIREUP, "a rank that never beat: wire-up");
    is_int(d.rank, -1, "which is nobody's failure");

    /* groups count each for itself: two wait, one computes */
    b[0] = beat(0, 9, 40, 39, 50);
    b[1] = beat(1, 9, 7, 6, 60);
    b[2] = beat(2, 9, 900, 900, 40);
    b[0].group = 8, b[1].group = -4, b[2].group = 16;
    classify_stall(b, 3, 0, &d);
    is_int(d.rank, 2, "guilty: the one that waits for nobody");

    b[0] = beat(0, 9, 20, 19, 31);
    b[1] = beat(1, 9, 20, 19, 32);
    b[0].exited = b[1].exited = true;
    classify_stall(b, 2, 1, &d);
    is_int(d.rank, 1, "nobody left to look at: the one that was told");
    ok(classify_stall(NULL, 0, 2, &d), "no beats at all");
}

static void test_finish(void)
{
    struct rank_end e[2] = {{.rank = 0, .told = true},
                            {.rank = 1, .told = true}};
    struct diagnosis d;
    classify_finish(e, 2, 2, false, &d);
    is_int(d.cause, CAUSE_DONE, "all exit 0: done");
    e[0].code = e[1].code = KB_EXIT_SAVED;
    classify_finish(e, 2, 2, true, &d);
    is_int(d.cause, CAUSE_SAVED, "all saved");
    classify_finish(e, 2, 2, false, &d);
    is_int(d.cause, CAUSE_STEP_CANCELLED, "all saved, but who asked them");
    e[0].told = false;
    classify_finish(e, 2, 2, true, &d);
    is_int(d.cause, CAUSE_PEER, "one of them gone without a word");
}

int main(void)
{
    test_ends();
    test_signature();
    test_writer();
    test_stall();
    test_finish();
    for (int i = 0; i < CAUSE_N; i++)
        ok(cause_rows[i].name && cause_rows[i].words, "cause %d has words", i);
    return tap_done();
}
