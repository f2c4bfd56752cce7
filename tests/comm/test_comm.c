/* Tests of runner/comm: groups, ordered sums, proofs, and a single rank. */
#include "runner/comm/comm.h"

#include <stdlib.h>

#include "runner/base/clock.h"
#include "runner/comm/proof.h"
#include "runner/comm/tables.h"
#include "tests/tap.h"

static void test_groups(void)
{
    struct groups g;
    struct err err = ERR_INIT;
    struct comm_spec cube = {.data = 3, .tensor = 2, .pipeline = 4};
    struct comm_spec square = {.data = 2, .tensor = 2, .pipeline = 1};
    struct comm_spec twins = {.data = 2, .tensor = 6, .pipeline = 2,
                              .twins = 3};
    /* rank 13 of data 3 x tensor 2 x pipeline 4 */
    ok(!groups_build(&g, 13, 24, &cube, &err), "groups of 24 ranks");
    is_int(g.ranks[COMM_WORLD].rank, 13, "place in the world");
    is_int(g.ranks[COMM_TENSOR].world[0], 12, "tensor ranks are neighbours");
    is_int(g.ranks[COMM_TENSOR].rank, 1, "place among them");
    is_int(g.ranks[COMM_DATA].size, 3, "three data ranks");
    is_int(g.ranks[COMM_DATA].world[0], 13, "the first of them");
    is_int(g.ranks[COMM_DATA].world[2], 17, "the last of them");
    is_int(g.ranks[COMM_PIPELINE].world[3], 19, "the last stage");
    is_int(g.ranks[COMM_PIPELINE].rank, 2, "our stage");
    is_int(g.ranks[COMM_ENDS].size, 1, "which is no end");
    groups_release(&g);
    groups_build(&g, 22, 24, &twins, &err);
    is_int(g.ranks[COMM_ENDS].world[0], 10, "an end: the first stage");
    is_int(g.ranks[COMM_ENDS].rank, 1, "we are the last one");
    is_int(g.ranks[COMM_TWINS].world[0], 21, "twins are neighbours");
    is_int(g.ranks[COMM_TWINS].size, 3, "three of them");
    groups_release(&g);

    bool whole = true, apart = true;
    int64_t seen[24] = {0};
    int column[24] = {0};
    for (int r = 0; r < 24; r++) {
        struct err e = ERR_INIT;
        groups_build(&g, r, 24, &cube, &e);
        for (int k = 0; k < COMM_GROUP_N; k++)
            whole &= g.ranks[k].world[g.ranks[k].rank] == r;
        seen[r] = g.id[COMM_DATA];
        column[r] = g.ranks[COMM_DATA].world[0];
        for (int s = 0; s < r; s++)
            apart &= (seen[s] == seen[r]) == (column[s] == column[r]);
        groups_release(&g);
    }
    ok(whole, "every rank finds itself in each of its groups");
    ok(apart, "two data groups never have the same id");
    is_int(groups_build(&g, 0, 5, &square, &err), -1, "2 x 2 are not 5 ranks");
    is_int(err.class, ERR_REQUEST, "which is the user's to change");
}

static void test_sum(void)
{
    enum { N = 1031, RANKS = 5 };
    static float src[RANKS][N], want[N], got[N];
    const void *srcs[RANKS];
    for (int r = 0; r < RANKS; r++) {
        srcs[r] = src[r];
        for (int i = 0; i < N; i++)
            src[r][i] = (float)(rand() - RAND_MAX / 2) * 1e-9f;
    }
    for (int i = 0; i < N; i++) {
        want[i] = src[0][i];
        for (int r = 1; r < RANKS; r++)
            want[i] += src[r][i];
    }
    ok(!sum_ordered(got, srcs, RANKS, N, DT_F32) &&
           !memcmp(got, want, sizeof want),
       "the sum in rank order");
    ok(!sum_ordered(src[3], srcs, RANKS, N, DT_F32) &&
           !memcmp(src[3], want, sizeof want),
       "also into one of the sources");
    is_int(sum_ordered(got, srcs, RANKS, N, DT_U8), -1, "bytes are not added");
}

static void test_proof(void)
{
    unsigned char key[16], text[15];
    for (int i = 0; i < 16; i++)
        key[i] = (unsigned char)i;
    for (int i = 0; i < 15; i++)
        text[i] = (unsigned char)i;
    ok(proof_siphash(key, text, 15) == 0xa129ca6149be45e5u,
       "SipHash-2-4's published vector");
    unsigned char secret[CONTROL_SECRET_BYTES] = {1}, nonce[16] = {2};
    uint64_t a = proof_make(secret, nonce, 3, 4);
    ok(a != proof_make(secret, nonce, 2, 4), "the proof is the rank's own");
    secret[31] = 9;
    ok(a != proof_make(secret, nonce, 3, 4), "and needs the whole secret");
}

static int sleeper(void *arg)
{
    clock_sleep_s(*(double *)arg);
    return 42;
}

static void test_bounded(void)
{
    static double quick = 0.01, slow = 1.5;
    int value = 0;
    ok(!bounded_call(sleeper, &quick, 2, &value) && value == 42,
       "a call that comes back gives its value");
    double begin_s = clock_mono_s();
    is_int(bounded_call(sleeper, &slow, 0.1, &value), -1,
           "one that does not is left");
    ok(clock_mono_s() - begin_s < 1, "at its limit");
}

static void test_place(void)
{
    struct comm_place place;
    struct err err = ERR_INIT;
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    ok(!comm_find_place(&place, &err), "a place without anything");
    is_str(place.how, "single", "is a single rank's");
    setenv("RANK", "5", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    ok(!comm_find_place(&place, &err), "a place from the environment");
    ok(place.rank == 5 && place.size == 8 && place.local_rank == 1 &&
           place.local_size == 4 && place.node_rank == 1,
       "all of it");
    setenv("RANK", "8", 1);
    is_int(comm_find_place(&place, &err), -1, "rank 8 of 8 is refused");
    err = ERR_INIT;
    setenv("RANK", "x", 1);
    is_int(comm_find_place(&place, &err), -1, "as is one that is no number");
    is_int(err.class, ERR_REQUEST, "by name");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
}

static void test_single(void)
{
    struct err err = ERR_INIT;
    struct comm_place place = {.size = 1, .local_size = 1, .how = "single"};
    struct kb_beat beat = {0};
    struct comm_spec spec = {.kind = DEVICE_CPU, .data = 1, .tensor = 1,
                             .pipeline = 1, .wireup_limit_s = 1,
                             .beat = &beat};
    struct comm *comm = comm_open(&place, &spec, &err);
    if (!ok(comm, "a single rank opens"))
        return;
    float x[3] = {1, 2, 3}, y[3] = {0};
    struct comm_ticket ticket;
    ok(!comm_all_reduce(comm, COMM_WORLD, x, 3, DT_F32, NULL, &ticket, &err) &&
           x[1] == 2,
       "its sum is itself");
    ok(!comm_wait(comm, &ticket, NULL, &err), "nothing to wait for");
    ok(!comm_all_gather(comm, COMM_DATA, y, x, 3, DT_F32, NULL, NULL, &err) &&
           y[2] == 3,
       "a gather copies");
    is_int(beat.coll_entered, 0, "no collective was entered");
    int64_t v[2] = {4, 5};
    ok(!comm_agree(comm, v, 2, COMM_SUM, 1, &err) && v[1] == 5, "agrees");
    ok(!comm_barrier(comm, 1, &err), "meets itself");
    int32_t i = 7, j = 0;
    ok(!comm_put(comm, "k", &i, sizeof i, &err) &&
           !comm_get(comm, 0, "k", &j, sizeof j, 1, &err) && j == 7,
       "gets what it put");
    is_int(comm_put(comm, "k", &i, sizeof i, &err), -1, "once each");
    is_int(comm_get(comm, 0, "no", &j, sizeof j, 1, &err), -1,
           "what never comes is an error");
    is_int(comm_get(comm, 1, "k", &j, sizeof j, 1, &err), -1, "no rank 1");
    comm_close(comm);
    spec.data = 2;
    err = ERR_INIT;
    ok(!comm_open(&place, &spec, &err) && err.class == ERR_REQUEST,
       "two data ranks of one are refused");
}

int main(void)
{
    test_groups();
    test_sum();
    test_proof();
    test_bounded();
    test_place();
    test_single();
    return tap_done();
}
