/* cpu_embed - rows of the embedding tables, and their gradients: a task owns
 * some columns and takes all tokens in order. */
#include "kernels/cpu.h"

#define ROWS 32
#define COLS 64

struct embed {
    real *x, *dwte, *dwpe;
    const real *dx, *wte, *wpe;
    const int32_t *tokens, *positions;
    int64_t N;
    int C;
    int row0, rows;      /* of wte: tokens of other rows count as zero */
};

/* The token's row here, or -1. */
static int row_of(const struct embed *p, int64_t n)
{
    int row = p->tokens[n] - p->row0;
    return row >= 0 && row < p->rows ? row : -1;
}

CLONES static void fwd_task(void *ctx, int64_t task, int worker)
{
    const struct embed *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        int row = row_of(p, n);
        const real *t = p->wte + (int64_t)(row < 0 ? 0 : row) * p->C;
        real *x = p->x + n * p->C;
        if (row < 0)
            memset(x, 0, p->C * sizeof *x);
        else
            memcpy(x, t, p->C * sizeof *x);
        if (!p->wpe)
            continue;
        const real *o = p->wpe + (int64_t)p->positions[n] * p->C;
        for (int i = 0; i < p->C; i++)
            x[i] += o[i];
    }
}

CLONES static void bwd_task(void *ctx, int64_t task, int worker)
{
    const struct embed *p = ctx;
    int c = (int)task * COLS, cn = p->C - c < COLS ? p->C - c : COLS;

    (void)worker;
    for (int64_t n = 0; n < p->N; n++) {
        const real *dx = p->dx + n * p->C + c;
        int row = row_of(p, n);
        if (p->dwte && row >= 0) {
            real *t = p->dwte + (int64_t)row * p->C + c;
            for (int i = 0; i < cn; i++)
                t[i] += dx[i];
        }
        if (p->dwpe) {
            real *o = p->dwpe + (int64_t)p->positions[n] * p->C + c;
            for (int i = 0; i < cn; i++)
                o[i] += dx[i];
        }
    }
}

/* A token that the table does not hold is the caller's error, not a crash. */
static bool in_range(const int32_t *index, int64_t N, int rows)
{
    for (int64_t n = 0; n < N; n++)
        if (index[n] < 0 || index[n] >= rows)
            return false;
    return true;
}

static enum kstatus embed_check(const struct embed *p,
                                const struct weight *wte,
                                const struct weight *wpe)
{
    int rows = wte->rows_all ? wte->rows_all : wte->out;
    if (!in_range(p->tokens, p->N, rows))
        return K_INVALID;
    if (wpe && (!p->positions || !in_range(p->positions, p->N, wpe->out)))
        return K_INVALID;
    return K_OK;
}

enum kstatus cpu_embed_fwd(struct exec *ex, void *x, const int32_t *tokens,
                           const int32_t *positions, const struct weight *wte,
                           const struct weight *wpe, int64_t N, int C)
{
    struct embed p = {.x = x, .wte = wte->data, .wpe = wpe ? wpe->data : NULL,
                      .tokens = tokens, .positions = positions, .N = N,
                      .C = C, .row0 = wte->row0, .rows = wte->out};

    (void)ex;
    if (embed_check(&p, wte, wpe))
        return K_INVALID;
    pool_run(fwd_task, &p, (N + ROWS - 1) / ROWS);
    return K_OK;
}

enum kstatus cpu_embed_bwd(struct exec *ex, const void *dx,
                           const int32_t *tokens, const int32_t *positions,
                           const struct weight *wte, const struct weight *wpe,
                           int64_t N, int C)
{
    struct embed p = {.dx = dx, .dwte = wte->grad,
                      .dwpe = wpe ? wpe->grad : NULL, .tokens = tokens,
                      .positions = positions, .N = N, .C = C,
                      .row0 = wte->row0, .rows = wte->out};

    (void)ex;
    if (embed_check(&p, wte, wpe))
        return K_INVALID;
    pool_run(bwd_task, &p, (C + COLS - 1) / COLS);
    return K_OK;
}
