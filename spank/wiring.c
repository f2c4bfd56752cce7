/* wiring - torchrun's names from a step's facts; see wiring.h. */
#include "spank/wiring.h"

#include <stdio.h>
#include <string.h>

#include "runner/base/contract.h"
#include "spank/hostlist.h"

enum {
    STEP_RESERVED = 0xfffffff0u, /* batch, extern, interactive, pending */
    PORT_FIRST = 16384,
    PORTS_N = 16000, /* the kernel's own begin at 32768 */
};

bool wiring_is_rank_step(uint32_t step)
{
    return step < STEP_RESERVED;
}

int wiring_port(uint32_t job, uint32_t step)
{
    /* Odd multipliers spread neighbours: job+1 and step+1 never meet. */
    uint32_t mixed = job * 2654435761u + step * 40503u;
    return PORT_FIRST + (int)((mixed >> 8) % PORTS_N);
}

static void add(struct wiring *w, int i, const char *name, uint32_t value)
{
    w->name[i] = name;
    snprintf(w->value[i], WIRING_VALUE_BYTES, "%u", (unsigned)value);
}

void wiring_compute(const struct wiring_facts *facts, struct wiring *ret)
{
    *ret = (struct wiring){0};
    add(ret, 0, KB_ENV_RANK, facts->rank);
    add(ret, 1, KB_ENV_WORLD_SIZE, facts->world);
    add(ret, 2, KB_ENV_LOCAL_RANK, facts->local_rank);
    add(ret, 3, KB_ENV_LOCAL_WORLD_SIZE, facts->local_world);
    add(ret, 4, KB_ENV_NODE_RANK, facts->node_rank);
    add(ret, 5, KB_ENV_MASTER_PORT,
        (uint32_t)wiring_port(facts->job, facts->step));
    ret->name[6] = KB_ENV_MASTER_ADDR;
    if (!facts->nodes ||
        hostlist_first(facts->nodes, ret->value[6], WIRING_VALUE_BYTES))
        ret->value[6][0] = 0;
}

bool wiring_mark_has(const char *mark, const char *name)
{
    const char *p = mark ? strchr(mark, ':') : NULL;
    size_t name_n = strlen(name);
    while (p) {
        p++;
        if (!strncmp(p, name, name_n) && (!p[name_n] || p[name_n] == ','))
            return true;
        p = strchr(p, ',');
    }
    return false;
}
