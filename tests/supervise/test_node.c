/* Tests of the watcher's judgements: node_stall.c, the vote of
 * node_quorum.c, and node_ranks.c with a real folder. */
#include "runner/base/clock.h"
#include "runner/supervise/node.h"
#include "runner/supervise/node_quorum.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

static const struct node_limits limits = {
    .stall_min_s = 30, .stall_factor = 3, .load_limit_s = 600,
    .wireup_limit_s = 60};

static void test_stall(void)
{
    static const struct {
        const char *name;
        int64_t phase;
        double slowest, want;
    } rows[] = {
        {"a step with no history", KB_PHASE_STEP, 0, 30},
        {"fast steps", KB_PHASE_STEP, 2, 30},
        {"slow steps", KB_PHASE_STEP, 20, 60},
        {"slow checkpoints", KB_PHASE_CKPT, 100, 300},
        {"wire-up", KB_PHASE_START, 0, 60},
        {"wire-up does not learn", KB_PHASE_START, 50, 60},
        {"loading", KB_PHASE_LOAD, 0, 600},
        {"first step", KB_PHASE_FIRST_STEP, 0, 600},
        {"nonsense", 99, 0, 600},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct node_rank rank = {
            .beat = {.magic = KB_BEAT_MAGIC, .phase = rows[i].phase}};
        if (rows[i].phase < KB_PHASE_N)
            rank.slowest_s[rows[i].phase] = rows[i].slowest;
        is_near(node_stall_limit(&rank, &limits), rows[i].want, 1e-9,
                rows[i].name);
    }
    struct node_ranks ranks = {.n = 2};
    for (int i = 0; i < 2; i++)
        ranks.rank[i] = (struct node_rank){
            .known = true, .changed_s = 100,
            .beat = {.magic = KB_BEAT_MAGIC, .phase = KB_PHASE_STEP}};
    is_int(node_stall_find(&ranks, &limits, 129), -1, "29 s are no stall");
    is_int(node_stall_find(&ranks, &limits, 131), 0, "31 s are one");
    ranks.rank[0].told_s = 131;
    is_int(node_stall_find(&ranks, &limits, 132), 1, "one is told once");
    node_ranks_forgive(&ranks, 50);
    is_int(node_stall_find(&ranks, &limits, 170), -1,
           "a watcher that was stopped itself accuses nobody");
}

static void test_vote(void)
{
    static const struct {
        const char *name;
        struct quorum_view view;
        bool want;
    } rows[] = {
        {"all lost it", {.electorate = 3, .lost_n = 3, .first = true}, true},
        {"a majority", {.electorate = 3, .lost_n = 2, .first = true}, true},
        {"a half is none", {.electorate = 4, .lost_n = 2, .first = true},
         false},
        {"one cut off alone", {.electorate = 3, .lost_n = 1, .first = true},
         false},
        {"not the first", {.electorate = 3, .lost_n = 3}, false},
        {"somebody hears it",
         {.electorate = 5, .lost_n = 4, .heard_n = 1, .first = true}, false},
        {"the host's watcher answers: the template starts it again",
         {.electorate = 3, .lost_n = 3, .first = true, .host_watcher = true},
         false},
        {"the host answers",
         {.electorate = 3, .lost_n = 3, .first = true, .host_answers = true},
         false},
        {"alone, Slurm hears the host",
         {.electorate = 1, .lost_n = 1, .first = true}, false},
        {"alone, Slurm does not",
         {.electorate = 1, .lost_n = 1, .first = true, .slurm_silent = true},
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_int(quorum_says_requeue(&rows[i].view), rows[i].want, rows[i].name);
}

/* ---- A real folder, a real process -------------------------------------- */

static json_t *said[64];
static int said_n;

static void send_it(void *ctx, json_t *m)
{
    (void)ctx;
    if (said_n < 64)
        said[said_n++] = m;
    else
        json_decref(m);
}

static void forget(void)
{
    while (said_n)
        json_decref(said[--said_n]);
}

static void tell(const char *dir, const char *text, size_t n)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "%.90s/watch.sock", dir);
    sendto(fd, text, n, 0, (struct sockaddr *)&addr, sizeof addr);
    close(fd);
}

static void test_ranks(void)
{
    char dir[] = "/tmp/koboshi-test.XXXXXX", text[256];
    struct err err = ERR_INIT;
    static struct node_ranks ranks;
    struct stat st;
    ok(mkdtemp(dir) != NULL, "a folder");
    setenv(KB_ENV_NODE_DIR, dir, 1);
    ok(!node_ranks_open(&ranks, 1, 3, 2, &err), "opens: %s", err.msg);
    snprintf(text, sizeof text, "%s/beat.1", dir);
    ok(!stat(text, &st) && st.st_size == sizeof(struct kb_beat),
       "beats are there before the ranks");

    static const char *const junk[] = {"", "{", "[]", "null", "{\"event\":1}",
                                       "{\"event\":\"rank_hello\"}",
                                       "{\"event\":\"nonsense\",\"attempt\":3}",
                                       "{\"event\":\"rank_hello\","
                                       "\"attempt\":3,\"local\":99,"
                                       "\"pid\":-5}"};
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
        tell(dir, junk[i], strlen(junk[i]));
    char *big = calloc(1, 60000);
    tell(dir, big, 60000);
    free(big);
    node_ranks_turn(&ranks, 1, send_it, NULL);
    ok(!node_ranks_alive(&ranks), "junk makes no rank");
    forget();

    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int n = snprintf(text, sizeof text,
                     "{\"event\":\"rank_hello\",\"attempt\":2,\"rank\":4,"
                     "\"local\":0,\"pid\":%d}", (int)child);
    tell(dir, text, (size_t)n);
    node_ranks_turn(&ranks, 1, send_it, NULL);
    ok(!node_ranks_alive(&ranks), "an older attempt's hello is passed over");
    n = snprintf(text, sizeof text,
                 "{\"event\":\"rank_hello\",\"attempt\":3,\"rank\":4,"
                 "\"local\":0,\"pid\":%d}", (int)child);
    tell(dir, text, (size_t)n);
    node_ranks_turn(&ranks, 2, send_it, NULL);
    ok(node_ranks_alive(&ranks), "this attempt's is taken");
    is_int(said_n, 1, "and passed on");
    forget();

    struct kb_beat beat = {.magic = KB_BEAT_MAGIC, .rank = 4, .changes = 1,
                           .phase = KB_PHASE_STEP, .ckpt_writing = -1};
    ok(pwrite(ranks.rank[0].beat_fd, &beat, sizeof beat, 0) > 0, "a beat");
    node_ranks_turn(&ranks, 10, send_it, NULL);
    beat.changes = 2;
    ok(pwrite(ranks.rank[0].beat_fd, &beat, sizeof beat, 0) > 0, "another");
    node_ranks_turn(&ranks, 25, send_it, NULL);
    is_near(ranks.rank[0].slowest_s[KB_PHASE_STEP], 15, 1e-9,
            "the quiet between them was normal");

    node_ranks_signal(&ranks, SIGKILL);
    for (int i = 0; i < 100 && node_ranks_alive(&ranks); i++) {
        waitpid(child, NULL, WNOHANG);
        node_ranks_turn(&ranks, 26, send_it, NULL);
        clock_sleep_s(0.01);
    }
    ok(!node_ranks_alive(&ranks), "a killed rank is seen gone");
    ok(said_n == 1 && !strcmp(json_string_value(json_object_get(said[0],
                                                                "type")),
                              "gone"), "and told");
    forget();
    node_ranks_close(&ranks);
    ok(stat(dir, &st) && errno == ENOENT, "the folder is taken away");
    mkdir(dir, 0755);
    chmod(dir, 0755);
    struct err refused = ERR_INIT;
    is_int(node_ranks_open(&ranks, 1, 4, 1, &refused), -1,
           "a folder open to others is refused");
    rmdir(dir);
}

int main(void)
{
    test_stall();
    test_vote();
    test_ranks();
    return tap_done();
}
