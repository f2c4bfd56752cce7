/* Tests of CPU collectives: starts itself as four ranks under mpirun, on this
 * node alone. Rank 0 prints; every check is agreed by all ranks. */
#include "runner/comm/comm.h"

#include <stdlib.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "tests/tap.h"

#define RANKS 4

static struct comm *comm;
static int me;

/* A check that must hold on each rank. */
static void all_ok(bool good, const char *name)
{
    struct err err = ERR_INIT;
    int64_t v = good;
    if (comm_agree(comm, &v, 1, COMM_MIN, 20, &err)) {
        printf("# rank %d: %s\n", me, err.msg);
        v = 0;
    }
    if (me == 0)
        ok(v, "%s", name);
    else if (!good)
        printf("# rank %d: failed: %s\n", me, name);
    fflush(stdout);
}

/* Element i of rank r: numbers whose sum depends on the order. */
static double value_of(int r, int64_t i)
{
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)r * 77777;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return ((double)(x >> 11) / (double)(1ull << 53) - 0.5) *
           (i % 3 ? 1e6 : 1e-3);
}

static void fill(float *x, int r, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)value_of(r, i);
}

/* The serial sum over ranks in order. */
static float sum_of(const struct comm_ranks *g, int64_t i)
{
    float sum = (float)value_of(g->world[0], i);
    for (int r = 1; r < g->size; r++)
        sum += (float)value_of(g->world[r], i);
    return sum;
}

static void test_all_reduce(enum comm_group group, int64_t n)
{
    struct err err = ERR_INIT;
    char name[80];
    float *x = malloc((size_t)n * sizeof *x + 1);
    fill(x, me, n);
    bool good = !comm_all_reduce(comm, group, x, n, DT_F32, NULL, NULL, &err);
    for (int64_t i = 0; good && i < n; i++)
        good = x[i] == sum_of(comm_group(comm, group), i);
    snprintf(name, sizeof name, "all-reduce of %lld: the serial sum's bits",
             (long long)n);
    all_ok(good, name);
    free(x);
}

static void test_reduce_scatter(int64_t n, bool in_place)
{
    struct err err = ERR_INIT;
    char name[80];
    float *x = malloc((size_t)n * RANKS * sizeof *x + 1);
    float *y = in_place ? x + n * me : malloc((size_t)n * sizeof *x + 1);
    fill(x, me, n * RANKS);
    bool good = !comm_reduce_scatter(comm, COMM_WORLD, y, x, n, DT_F32, NULL,
                                     NULL, &err);
    for (int64_t i = 0; good && i < n; i++)
        good = y[i] == sum_of(comm_group(comm, COMM_WORLD), n * me + i);
    snprintf(name, sizeof name, "reduce-scatter of %lld%s", (long long)n,
             in_place ? " in place" : "");
    all_ok(good, name);
    /* and the gather brings all of it to all */
    float *all = malloc((size_t)n * RANKS * sizeof *x + 1);
    good = !comm_all_gather(comm, COMM_WORLD, all, y, n, DT_F32, NULL, NULL,
                            &err);
    for (int64_t i = 0; good && i < n * RANKS; i++)
        good = all[i] == sum_of(comm_group(comm, COMM_WORLD), i);
    all_ok(good, "and all-gather of its parts");
    if (!in_place)
        free(y);
    free(x);
    free(all);
}

/* Parts of unequal lengths, one of them empty, with gaps between. */
static void test_parts(int64_t n)
{
    struct err err = ERR_INIT;
    const struct comm_ranks *g = comm_group(comm, COMM_WORLD);
    const int64_t first[RANKS] = {0, n + 3, n + 3, 3 * n + 5};
    const int64_t len[RANKS] = {n, 0, 2 * n + 1, n / 2};
    int64_t all = 4 * n + 8;
    float *x = malloc((size_t)all * sizeof *x);
    fill(x, me, all);
    bool good = !comm_reduce_parts(comm, COMM_WORLD, x, first, len, DT_F32,
                                   NULL, NULL, &err);
    for (int64_t i = 0; good && i < all; i++) {
        bool mine = i >= first[me] && i < first[me] + len[me];
        good = x[i] == (mine ? sum_of(g, i) : (float)value_of(me, i));
    }
    char name[80];
    snprintf(name, sizeof name, "reduce of parts around %lld, no other "
             "element touched", (long long)n);
    all_ok(good, name);
    good = !comm_gather_parts(comm, COMM_WORLD, x, first, len, DT_F32, NULL,
                              NULL, &err);
    for (int64_t i = 0; good && i < all; i++) {
        bool moved = false;
        for (int r = 0; r < RANKS; r++)
            moved |= i >= first[r] && i < first[r] + len[r];
        good = x[i] == (moved ? sum_of(g, i) : (float)value_of(me, i));
    }
    all_ok(good, "and gather of them");
    free(x);
}

static void test_others(void)
{
    struct err err = ERR_INIT;
    double d[5];
    bool good = true;
    for (int root = 0; root < RANKS; root++) {
        for (int i = 0; i < 5; i++)
            d[i] = me == root ? value_of(root, i) : -1;
        good &= !comm_broadcast(comm, COMM_WORLD, root, d, 5, DT_F64, NULL,
                                NULL, &err);
        for (int i = 0; i < 5; i++)
            good &= d[i] == value_of(root, i);
    }
    all_ok(good, "broadcast from each rank");
    int64_t v[2] = {me, 1};
    good = !comm_all_reduce(comm, COMM_WORLD, v, 2, DT_I64, NULL, NULL, &err);
    all_ok(good && v[0] == 6 && v[1] == 4, "integers");
    float x = (float)me;
    good = me % 2 == 0
               ? !comm_send(comm, COMM_WORLD, me + 1, &x, 1, DT_F32, NULL,
                            NULL, &err)
               : !comm_recv(comm, COMM_WORLD, me - 1, &x, 1, DT_F32, NULL,
                            NULL, &err) && x == (float)(me - 1);
    all_ok(good, "send and receive");
    char bytes[3] = "ab";
    good = comm_all_reduce(comm, COMM_DATA, bytes, 3, DT_U8, NULL, NULL,
                           &err) == -1;
    all_ok(good && strstr(err.msg, "cannot add U8"), "bytes are not added");
}

/* The first to leave takes all with it, so rank 0, which tells, goes first, also
 * where cores are scarce. */
static void leave(int code)
{
    fflush(stdout);
    clock_sleep_s(me == 0 ? 1 : 6);
    _exit(code);
}

/* Rank 2 comes too late: the others give up at their limit. */
static void run_late(const struct comm_place *place, struct comm_spec *spec)
{
    struct err err = ERR_INIT;
    spec->wireup_limit_s = 1.5;
    if (me == 2)
        clock_sleep_s(8);
    double begin_s = clock_mono_s();
    comm = comm_open(place, spec, &err);
    if (me == 0) {
        ok(!comm, "a rank that does not come fails the wire-up");
        ok(clock_mono_s() - begin_s < 4, "at its limit");
        printf("# %s\n", err.msg);
    }
    leave(KB_EXIT_WIREUP);
}

/* Rank 3 aborts while the others wait for it in a collective. */
static void run_die(struct kb_beat *beat)
{
    struct err err = ERR_INIT;
    float x[3] = {0};
    if (me == 3) {
        clock_sleep_s(0.5);
        comm_abort(comm); /* stays alive, or mpirun would kill all */
    } else if (!comm_all_reduce(comm, COMM_WORLD, x, 3, DT_F32, NULL, NULL,
                                &err)) {
        printf("# no error\n");
    }
    if (me == 0) {
        ok(err.class && comm_peer_lost(comm),
           "a peer's loss ends a collective");
        is_int(beat->coll_entered, 1, "the beat says: entered");
        is_int(beat->coll_done, 0, "and not left");
        printf("# %s\n", err.msg);
    }
    leave(KB_EXIT_PEER);
}

static int run_rank(const char *mode)
{
    struct comm_place place;
    struct err err = ERR_INIT;
    struct kb_beat beat = {0};
    struct comm_spec spec = {.kind = DEVICE_CPU, .data = 2, .tensor = 2,
                             .pipeline = 1, .wireup_limit_s = 20,
                             .beat = &beat};
    if (comm_find_place(&place, &err)) {
        printf("# %s\n", err.msg);
        return 1;
    }
    me = place.rank;
    if (!strcmp(mode, "late"))
        run_late(&place, &spec);
    comm = comm_open(&place, &spec, &err);
    if (!comm) {
        printf("# rank %d: %s\n", me, err.msg);
        return 1;
    }
    if (!strcmp(mode, "die"))
        run_die(&beat);
    static const int64_t sizes[] = {1, 3, 4, 1000, 65537, 2097152 - 4,
                                    2097151, 5000011};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        test_all_reduce(COMM_WORLD, sizes[i]);
    test_all_reduce(COMM_DATA, 12345);
    test_all_reduce(COMM_TENSOR, 777);
    test_all_reduce(COMM_PIPELINE, 5);
    test_reduce_scatter(1, false);
    test_reduce_scatter(1009, true);
    test_reduce_scatter(1500007, false);
    test_parts(1);
    test_parts(1009);
    test_parts(1000003);
    test_others();
    comm_close(comm);
    return me == 0 && tap_failed;
}

/* Run the ranks; their TAP lines come through. The number of them. */
static int start(const char *mode, const char *self)
{
    char command[4600];
    snprintf(command, sizeof command,
             "OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo "
             "OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_plm_rsh_agent=false "
             "timeout -k 2 80 mpirun --allow-run-as-root --oversubscribe "
             "--host localhost:%d -n %d %s %s 2>&1",
             RANKS, RANKS, self, mode);
    FILE *out = popen(command, "r");
    char line[1200];
    int lines = 0;
    while (out && fgets(line, sizeof line, out)) {
        char *name = strstr(line, " - ");
        line[strcspn(line, "\n")] = 0;
        if (name && (!strncmp(line, "ok", 2) || !strncmp(line, "not", 3))) {
            ok(!strncmp(line, "ok", 2), "%s: %s", mode, name + 3);
            lines++;
        } else if (strncmp(line, "1..", 3)) {
            printf("# %s\n", line);
        }
    }
    if (out)
        pclose(out);
    return lines;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_rank(argv[1]);
    if (system("command -v mpirun > /dev/null"))
        return tap_skip_all("no mpirun");
    char self[4000];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    is_int(start("sums", self), 27, "every check was made");
    is_int(start("late", self), 2, "every check was made");
    is_int(start("die", self), 3, "every check was made");
    return tap_done();
}
