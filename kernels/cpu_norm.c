/* cpu_norm - residual add with LayerNorm or RMSNorm, forward and backward. */
#include "kernels/cpu.h"

#define ROWS 16
#define COLS 64
#define ROWS_BLOCK 256

struct norm {
    real *y, *sum, *mean, *rstd, *dres, *dw, *db;
    const real *res, *delta, *w, *b, *dy, *csum, *cmean, *crstd;
    bool layer, set;
    real eps;
    int64_t N;
    int C;
};

CLONES static real row_sum(const real *x, int n)
{
    real s[LANES] = {0};
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += x[i + j];
    for (int j = 0; i < n; i++, j++)
        s[j] += x[i];
    return lanes_sum(s);
}

/* sum of (x - mean)^2 */
CLONES static real row_var(const real *x, real mean, int n)
{
    real s[LANES] = {0};
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += (x[i + j] - mean) * (x[i + j] - mean);
    for (int j = 0; i < n; i++, j++)
        s[j] += (x[i] - mean) * (x[i] - mean);
    return lanes_sum(s);
}

CLONES static void row_apply(real *y, const real *x, real mean, real rstd,
                             const real *w, const real *b, int n)
{
    if (b)
        for (int i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd * w[i] + b[i];
    else
        for (int i = 0; i < n; i++)
            y[i] = (x[i] - mean) * rstd * w[i];
}

CLONES static void row_add(real *sum, const real *a, const real *b, int n)
{
    for (int i = 0; i < n; i++)
        sum[i] = a[i] + b[i];
}

static void norm_fwd_task(void *ctx, int64_t task, int worker)
{
    const struct norm *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;
    int C = p->C;

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        const real *res = p->res + n * C, *x = res;
        real mean = 0, rstd;
        if (p->delta) {
            row_add(p->sum + n * C, res, p->delta + n * C, C);
            x = p->sum + n * C;
        } else if (p->sum && p->sum != p->res) {
            memcpy(p->sum + n * C, res, C * sizeof *res);
        }
        if (p->layer)
            mean = row_sum(x, C) / C;
        rstd = 1 / (real)sqrt(row_var(x, mean, C) / C + p->eps);
        row_apply(p->y + n * C, x, mean, rstd, p->w, p->b, C);
        if (p->mean && p->layer)
            p->mean[n] = mean;
        if (p->rstd)
            p->rstd[n] = rstd;
    }
}

enum kstatus cpu_norm_fwd(struct exec *ex, void *y, void *sum, void *mean,
                          void *rstd, const void *res, const void *delta,
                          const struct weight *w, const struct weight *b,
                          enum norm_kind kind, double eps, int64_t N, int C)
{
    struct norm p = {.y = y, .sum = sum, .mean = mean, .rstd = rstd,
                     .res = res, .delta = delta, .w = w->data,
                     .b = b ? b->data : NULL, .layer = kind == NORM_LAYER,
                     .eps = (real)eps, .N = N, .C = C};

    (void)ex;
    if (delta && !sum)
        return K_INVALID;
    pool_run(norm_fwd_task, &p, (N + ROWS - 1) / ROWS);
    return K_OK;
}

/* ret[0] = sum of dy w, ret[1] = sum of dy w xhat */
CLONES static void row_bwd_sums(const real *dy, const real *w, const real *x,
                                real mean, real rstd, int n, real ret[2])
{
    real a[LANES] = {0}, b[LANES] = {0};
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            real g = dy[i + j] * w[i + j];
            a[j] += g;
            b[j] += g * ((x[i + j] - mean) * rstd);
        }
    for (int j = 0; i < n; i++, j++) {
        real g = dy[i] * w[i];
        a[j] += g;
        b[j] += g * ((x[i] - mean) * rstd);
    }
    ret[0] = lanes_sum(a);
    ret[1] = lanes_sum(b);
}

CLONES static void row_bwd(real *dres, bool set, const real *dy,
                           const real *w, const real *x, real mean, real rstd,
                           real a, real b, int n)
{
    if (set)
        for (int i = 0; i < n; i++)
            dres[i] =
                rstd * (dy[i] * w[i] - a - (x[i] - mean) * rstd * b);
    else
        for (int i = 0; i < n; i++)
            dres[i] +=
                rstd * (dy[i] * w[i] - a - (x[i] - mean) * rstd * b);
}

static void norm_bwd_task(void *ctx, int64_t task, int worker)
{
    const struct norm *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;
    int C = p->C;

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        real mean = p->layer ? p->cmean[n] : 0, s[2];
        row_bwd_sums(p->dy + n * C, p->w, p->csum + n * C, mean, p->crstd[n],
                     C, s);
        row_bwd(p->dres + n * C, p->set, p->dy + n * C, p->w, p->csum + n * C,
                mean, p->crstd[n], p->layer ? s[0] / C : 0, s[1] / C, C);
    }
}

CLONES static void norm_param_task(void *ctx, int64_t task, int worker)
{
    const struct norm *p = ctx;
    int c = (int)task * COLS, cn = p->C - c < COLS ? p->C - c : COLS;
    real dw[COLS] = {0}, db[COLS] = {0};

    (void)worker;
    for (int64_t n0 = 0; n0 < p->N; n0 += ROWS_BLOCK) {
        int64_t n1 = n0 + ROWS_BLOCK < p->N ? n0 + ROWS_BLOCK : p->N;
        real w[COLS] = {0}, b[COLS] = {0};
        for (int64_t n = n0; n < n1; n++) {
            const real *dy = p->dy + n * p->C + c;
            const real *x = p->csum + n * p->C + c;
            real mean = p->layer ? p->cmean[n] : 0, rstd = p->crstd[n];
            for (int i = 0; i < cn; i++) {
                w[i] += dy[i] * ((x[i] - mean) * rstd);
                b[i] += dy[i];
            }
        }
        for (int i = 0; i < cn; i++) {
            dw[i] += w[i];
            db[i] += b[i];
        }
    }
    for (int i = 0; i < cn; i++) {
        if (p->dw)
            p->dw[c + i] += dw[i];
        if (p->db)
            p->db[c + i] += db[i];
    }
}

enum kstatus cpu_norm_bwd(struct exec *ex, void *dres, bool set,
                          const void *dy, const void *sum, const void *mean,
                          const void *rstd, const struct weight *w,
                          const struct weight *b, const struct weight *below,
                          enum norm_kind kind, int64_t N, int C)
{
    struct norm p = {.dres = dres, .set = set, .dy = dy, .csum = sum,
                     .cmean = mean, .crstd = rstd, .w = w->data,
                     .dw = w->grad, .db = b ? b->grad : NULL,
                     .layer = kind == NORM_LAYER, .N = N, .C = C};

    (void)ex;
    /* First the parameters: dres may be the buffer of dy. */
    if (p.dw || p.db)
        pool_run(norm_param_task, &p, (C + COLS - 1) / COLS);
    pool_run(norm_bwd_task, &p, (N + ROWS - 1) / ROWS);
    if (below && below->grad)
        cpu_column_sums(below->grad, dres, N, C);
    return K_OK;
}
