/* cpu_update - square sums and AdamW over many tensors. A task is CHUNK
 * elements of one tensor; partial sums go to scratch and are added in order. */
#include "kernels/cpu.h"

#define CHUNK 65536

static int64_t chunks(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

size_t cpu_update_ws(int64_t n)
{
    return (size_t)chunks(n) * 3 * sizeof(double);
}

struct squares {
    const void *data;
    double *part;
    int64_t n;
    bool f64;
};

CLONES static double squares_f32(const float *x, int64_t n)
{
    double s[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += (double)x[i + j] * x[i + j];
    for (int j = 0; i < n; i++, j++)
        s[j] += (double)x[i] * x[i];
    for (int w = LANES / 2; w; w /= 2)
        for (int j = 0; j < w; j++)
            s[j] += s[j + w];
    return s[0];
}

CLONES static double squares_f64(const double *x, int64_t n)
{
    double s[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += x[i + j] * x[i + j];
    for (int j = 0; i < n; i++, j++)
        s[j] += x[i] * x[i];
    for (int w = LANES / 2; w; w /= 2)
        for (int j = 0; j < w; j++)
            s[j] += s[j + w];
    return s[0];
}

static void squares_task(void *ctx, int64_t task, int worker)
{
    const struct squares *p = ctx;
    int64_t from = task * CHUNK, n = p->n - from < CHUNK ? p->n - from : CHUNK;

    (void)worker;
    p->part[task] = p->f64 ? squares_f64((const double *)p->data + from, n)
                           : squares_f32((const float *)p->data + from, n);
}

enum kstatus cpu_sum_squares(struct exec *ex, double *sum, void *const *data,
                             const int64_t *n, int tensors_n,
                             enum dtype dtype)
{
    double total = 0;

    if (dtype != DT_F32 && dtype != DT_F64)
        return K_UNSUPPORTED;
    for (int t = 0; t < tensors_n; t++) {
        struct squares p = {data[t], ex->ws, n[t], dtype == DT_F64};
        double tensor = 0;
        if (cpu_update_ws(n[t]) > ex->ws_bytes)
            return K_NOMEM;
        pool_run(squares_task, &p, chunks(n[t]));
        for (int64_t i = 0; i < chunks(n[t]); i++)
            tensor += p.part[i];
        total += tensor;
    }
    *sum = total;
    return K_OK;
}

#ifdef KB_REAL_F64
#define SQRT sqrt
#else
#define SQRT sqrtf
#endif

struct adamw {
    real *param, *master, *m, *v;
    const real *grad;
    int64_t n;
    double (*part)[3]; /* NULL: no statistics */
    real lr, beta1, beta2, eps, correction1, correction2, decay, factor;
};

/* restrict: the loop is vectorised only when the five arrays are known to be
 * apart; a parameter that is its own master is not written twice. */
CLONES static void adamw_rows(const struct adamw *p, int64_t from, int64_t to)
{
    real *restrict master = p->master, *restrict m = p->m, *restrict v = p->v;
    const real *restrict grad = p->grad;
    real c1 = 1 / p->correction1, c2 = 1 / p->correction2;
    real keep = 1 - p->lr * p->decay, lr = p->lr, eps = p->eps;
    real beta1 = p->beta1, beta2 = p->beta2, factor = p->factor;

    for (int64_t i = from; i < to; i++) {
        real g = grad[i] * factor;
        real mi = beta1 * m[i] + (1 - beta1) * g;
        real vi = beta2 * v[i] + (1 - beta2) * g * g;
        m[i] = mi;
        v[i] = vi;
        master[i] = master[i] * keep - lr * (mi * c1 / (SQRT(vi * c2) + eps));
    }
    if (p->param != p->master)
        memcpy(p->param + from, p->master + from,
               (size_t)(to - from) * sizeof *p->param);
}

/* Before the update: old = master. One pass more, only when asked for. */
static void adamw_stats(const struct adamw *p, int64_t from, int64_t to,
                        const real *old, double ret[3])
{
    double s[3] = {0};

    for (int64_t i = from; i < to; i++) {
        double u = (double)p->master[i] - old[i - from];
        double g = (double)p->grad[i] * p->factor;
        double v = (double)p->v[i] / p->correction2;
        s[0] += u * u;
        s[1] += (double)old[i - from] * old[i - from];
        s[2] += v > 0 ? g * g / v : 0;
    }
    memcpy(ret, s, sizeof s);
}

#define STATS_BLOCK 512

static void adamw_task(void *ctx, int64_t task, int worker)
{
    const struct adamw *p = ctx;
    int64_t from = task * CHUNK;
    int64_t to = p->n - from < CHUNK ? p->n : from + CHUNK;
    real old[STATS_BLOCK];

    (void)worker;
    if (!p->part) {
        adamw_rows(p, from, to);
        return;
    }
    memset(p->part[task], 0, sizeof p->part[task]);
    for (int64_t i = from; i < to; i += STATS_BLOCK) {
        int64_t end = to - i < STATS_BLOCK ? to : i + STATS_BLOCK;
        double s[3];
        memcpy(old, p->master + i, (end - i) * sizeof *old);
        adamw_rows(p, i, end);
        adamw_stats(p, i, end, old, s);
        for (int j = 0; j < 3; j++)
            p->part[task][j] += s[j];
    }
}

enum kstatus cpu_adamw(struct exec *ex, const struct adamw_tensor *tensors,
                       int tensors_n, const struct adamw_scalars *scalars,
                       const double *factor, double *stats)
{
    if (stats)
        memset(stats, 0, tensors_n * 3 * sizeof *stats);
    if (!isfinite(*factor) || *factor == 0)
        return K_OK;
    for (int t = 0; t < tensors_n; t++) {
        const struct adamw_tensor *a = &tensors[t];
        struct adamw p = {.param = a->param, .master = a->master, .m = a->m,
                          .v = a->v, .grad = a->grad, .n = a->n,
                          .part = stats ? ex->ws : NULL,
                          .lr = (real)scalars->lr,
                          .beta1 = (real)scalars->beta1,
                          .beta2 = (real)scalars->beta2,
                          .eps = (real)scalars->eps,
                          .correction1 = (real)scalars->correction1,
                          .correction2 = (real)scalars->correction2,
                          .decay = a->decay, .factor = (real)*factor};
        if (stats && cpu_update_ws(a->n) > ex->ws_bytes)
            return K_NOMEM;
        pool_run(adamw_task, &p, chunks(a->n));
        for (int64_t i = 0; stats && i < chunks(a->n); i++)
            for (int j = 0; j < 3; j++)
                stats[3 * t + j] += p.part[i][j];
    }
    return K_OK;
}
