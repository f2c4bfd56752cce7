/* cpu_swiglu - y = silu(gate) * up on [gate | up]. */
#include "kernels/cpu.h"

#define ROWS 8

struct swiglu {
    real *y, *dgate_up;
    const real *gate_up, *dy;
    int64_t N;
    int F;
};

/* restrict and plain counts: else the loops are not vectorised. */
CLONES static void fwd_row(real *restrict y, const real *restrict gate,
                           const real *restrict up, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = gate[i] / (1 + real_exp(-gate[i])) * up[i];
}

CLONES static void bwd_row(real *restrict dgate, real *restrict dup,
                           const real *restrict dy, const real *restrict gate,
                           const real *restrict up, int n)
{
    for (int i = 0; i < n; i++) {
        real g = gate[i], u = up[i];
        real s = 1 / (1 + real_exp(-g));
        dgate[i] = dy[i] * u * (s + g * s * (1 - s));
        dup[i] = dy[i] * (g * s);
    }
}

static void fwd_task(void *ctx, int64_t task, int worker)
{
    const struct swiglu *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        const real *gate = p->gate_up + n * 2 * p->F;
        fwd_row(p->y + n * p->F, gate, gate + p->F, p->F);
    }
}

static void bwd_task(void *ctx, int64_t task, int worker)
{
    const struct swiglu *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        const real *gate = p->gate_up + n * 2 * p->F;
        real *dgate = p->dgate_up + n * 2 * p->F;
        bwd_row(dgate, dgate + p->F, p->dy + n * p->F, gate, gate + p->F,
                p->F);
    }
}

enum kstatus cpu_swiglu_fwd(struct exec *ex, void *y, const void *gate_up,
                            int64_t N, int F)
{
    struct swiglu p = {.y = y, .gate_up = gate_up, .N = N, .F = F};

    (void)ex;
    pool_run(fwd_task, &p, (N + ROWS - 1) / ROWS);
    return K_OK;
}

enum kstatus cpu_swiglu_bwd(struct exec *ex, void *dgate_up, const void *dy,
                            const void *gate_up, int64_t N, int F)
{
    struct swiglu p = {.dgate_up = dgate_up, .gate_up = gate_up, .dy = dy,
                       .N = N, .F = F};

    (void)ex;
    pool_run(bwd_task, &p, (N + ROWS - 1) / ROWS);
    return K_OK;
}
