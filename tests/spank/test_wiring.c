/* wiring: torchrun's names from a step. */
#include "spank/wiring.h"

#include "tests/tap.h"

static const char *value(const struct wiring *w, const char *name)
{
    for (int i = 0; i < WIRING_N; i++)
        if (!strcmp(w->name[i], name))
            return w->value[i];
    return NULL;
}

static void check_compute(void)
{
    struct wiring_facts facts = {.job = 7, .step = 2, .rank = 5, .world = 8,
                                 .local_rank = 1, .local_world = 4,
                                 .node_rank = 1,
                                 .nodes = "nodeB[001,003],nodeC"};
    struct wiring w;
    char port[16];
    wiring_compute(&facts, &w);
    is_str(value(&w, "RANK"), "5", "RANK");
    is_str(value(&w, "WORLD_SIZE"), "8", "WORLD_SIZE");
    is_str(value(&w, "LOCAL_RANK"), "1", "LOCAL_RANK");
    is_str(value(&w, "LOCAL_WORLD_SIZE"), "4", "LOCAL_WORLD_SIZE");
    is_str(value(&w, "NODE_RANK"), "1", "NODE_RANK");
    is_str(value(&w, "MASTER_ADDR"), "nodeB001", "MASTER_ADDR");
    snprintf(port, sizeof port, "%d", wiring_port(7, 2));
    is_str(value(&w, "MASTER_PORT"), port, "MASTER_PORT");
    facts.nodes = NULL;
    wiring_compute(&facts, &w);
    is_str(value(&w, "MASTER_ADDR"), "", "not known, not guessed");
    facts.nodes = "broken[";
    wiring_compute(&facts, &w);
    is_str(value(&w, "MASTER_ADDR"), "", "a list that cannot be read");
}

static void check_ports(void)
{
    int low = 1 << 20, high = 0, equal = 0;
    for (uint32_t job = 1; job < 3000; job++) {
        for (uint32_t step = 0; step < 20; step++) {
            int port = wiring_port(job, step);
            low = port < low ? port : low;
            high = port > high ? port : high;
            equal += port == wiring_port(job, step + 1);
            equal += port == wiring_port(job + 1, step);
        }
    }
    ok(low >= 1024 && high < 32768, "outside the kernel's ports: %d to %d",
       low, high);
    ok(equal < 20, "neighbours differ, but for %d of 120000", equal);
    is_int(wiring_port(9, 9), wiring_port(9, 9), "the same on every node");
}

int main(void)
{
    check_compute();
    check_ports();
    ok(wiring_is_rank_step(0) && wiring_is_rank_step(4000), "steps of srun");
    ok(!wiring_is_rank_step(0xfffffffb), "not the batch script");
    ok(!wiring_is_rank_step(0xfffffffa) && !wiring_is_rank_step(0xfffffffc),
       "not Slurm's own steps");
    ok(wiring_mark_has("7.2:RANK,WORLD_SIZE", "RANK"), "in the mark");
    ok(wiring_mark_has("7.2:RANK,WORLD_SIZE", "WORLD_SIZE"), "the last one");
    ok(!wiring_mark_has("7.2:LOCAL_RANK", "RANK"), "whole names only");
    ok(!wiring_mark_has("7.2:RANKS", "RANK"), "no beginnings");
    ok(!wiring_mark_has("", "RANK") && !wiring_mark_has(NULL, "RANK"),
       "no mark");
    return tap_done();
}
