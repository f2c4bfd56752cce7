/* cpu_qk - QK norm (RMSNorm of each query and key head) and RoPE, in place on
 * packed qkv. */
#include "kernels/cpu.h"

#define ROWS 16

struct qk {
    real *qkv, *pre, *rstd;
    const real *cpre, *crstd, *qw, *kw, *inv_freq;
    real *dqw, *dkw, eps;
    const int32_t *positions;
    int64_t N;
    int H, K, D;
};

/* sin and cos of an angle in radians: reduced to a turn in double, so that
 * long sequences keep their precision. */
static void rope_angle(int32_t position, real inv_freq, real *ret_sin,
                       real *ret_cos)
{
    double turns = (double)position * inv_freq * 0.15915494309189535, s, c;

    turns = turns - floor(turns);
    exact_sincos((uint32_t)(uint64_t)(turns * 4294967296.0 + 0.5), &s, &c);
    *ret_sin = (real)s;
    *ret_cos = (real)c;
}

/* inverse: the transposed rotation, for gradients. */
static void rope_row(real *head, const real *sn, const real *cs, int D,
                     bool inverse)
{
    for (int d = 0; d < D / 2; d++) {
        real a = head[d], b = head[d + D / 2];
        real s = inverse ? -sn[d] : sn[d];
        head[d] = a * cs[d] - b * s;
        head[d + D / 2] = b * cs[d] + a * s;
    }
}

#define HEAD_MAX 512

static void qk_fwd_task(void *ctx, int64_t task, int worker)
{
    const struct qk *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;
    int D = p->D, heads = p->H + p->K;
    real sn[HEAD_MAX / 2], cs[HEAD_MAX / 2];

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        for (int d = 0; p->inv_freq && d < D / 2; d++)
            rope_angle(p->positions[n], p->inv_freq[d], &sn[d], &cs[d]);
        for (int h = 0; h < heads; h++) {
            real *x = p->qkv + (n * (p->H + 2 * p->K) + h) * D;
            const real *w = h < p->H ? p->qw : p->kw;
            if (w) {
                real ss = 0, rstd;
                for (int d = 0; d < D; d++)
                    ss += x[d] * x[d];
                rstd = 1 / (real)sqrt(ss / D + p->eps);
                p->rstd[n * heads + h] = rstd;
                memcpy(p->pre + (n * heads + h) * D, x, D * sizeof *x);
                for (int d = 0; d < D; d++)
                    x[d] = x[d] * rstd * w[d];
            }
            if (p->inv_freq)
                rope_row(x, sn, cs, D, false);
        }
    }
}

static enum kstatus qk_check(const struct qk *p, bool norm, const void *pre,
                             const void *rstd)
{
    if (p->D > HEAD_MAX || p->D % 2 || (p->inv_freq && !p->positions) ||
        (norm && (!p->qw || !p->kw || !pre || !rstd)))
        return K_INVALID;
    return K_OK;
}

enum kstatus cpu_qk_fwd(struct exec *ex, void *qkv, void *pre, void *rstd,
                        const struct weight *qw, const struct weight *kw,
                        double eps, const int32_t *positions,
                        const void *inv_freq, int64_t N, int H, int K, int D)
{
    struct qk p = {.qkv = qkv, .pre = pre, .rstd = rstd,
                   .qw = qw ? qw->data : NULL, .kw = kw ? kw->data : NULL,
                   .inv_freq = inv_freq, .eps = (real)eps,
                   .positions = positions, .N = N, .H = H, .K = K, .D = D};

    (void)ex;
    if (qk_check(&p, qw || kw, pre, rstd))
        return K_INVALID;
    pool_run(qk_fwd_task, &p, (N + ROWS - 1) / ROWS);
    return K_OK;
}

static void rope_bwd_task(void *ctx, int64_t task, int worker)
{
    const struct qk *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;
    int D = p->D, heads = p->H + p->K;
    real sn[HEAD_MAX / 2], cs[HEAD_MAX / 2];

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++) {
        for (int d = 0; d < D / 2; d++)
            rope_angle(p->positions[n], p->inv_freq[d], &sn[d], &cs[d]);
        for (int h = 0; h < heads; h++)
            rope_row(p->qkv + (n * (p->H + 2 * p->K) + h) * D, sn, cs, D,
                     true);
    }
}

/* One task of 16 columns of dqw or dkw: tokens, then heads, in order. Needs
 * the gradient behind the norm, so it runs before qk_norm_task. */
static void qk_param_task(void *ctx, int64_t task, int worker)
{
    const struct qk *p = ctx;
    int parts = (p->D + 15) / 16, heads = p->H + p->K;
    bool q = task < parts;
    int d0 = (int)(task % parts) * 16;
    int d1 = d0 + 16 < p->D ? d0 + 16 : p->D;
    real *dw = q ? p->dqw : p->dkw;

    (void)worker;
    if (!dw)
        return;
    real sum[16] = {0};
    for (int64_t n = 0; n < p->N; n++)
        for (int h = q ? 0 : p->H; h < (q ? p->H : heads); h++) {
            const real *dy = p->qkv + (n * (p->H + 2 * p->K) + h) * p->D;
            const real *x = p->cpre + (n * heads + h) * p->D;
            real rstd = p->crstd[n * heads + h];
            for (int d = d0; d < d1; d++)
                sum[d - d0] += dy[d] * (x[d] * rstd);
        }
    for (int d = d0; d < d1; d++)
        dw[d] += sum[d - d0];
}

static void qk_norm_task(void *ctx, int64_t task, int worker)
{
    const struct qk *p = ctx;
    int64_t n1 = (task + 1) * ROWS < p->N ? (task + 1) * ROWS : p->N;
    int D = p->D, heads = p->H + p->K;

    (void)worker;
    for (int64_t n = task * ROWS; n < n1; n++)
        for (int h = 0; h < heads; h++) {
            real *dy = p->qkv + (n * (p->H + 2 * p->K) + h) * D, dot = 0;
            const real *x = p->cpre + (n * heads + h) * D;
            const real *w = h < p->H ? p->qw : p->kw;
            real rstd = p->crstd[n * heads + h];
            for (int d = 0; d < D; d++)
                dot += dy[d] * w[d] * (x[d] * rstd);
            dot /= D;
            for (int d = 0; d < D; d++)
                dy[d] = rstd * (dy[d] * w[d] - x[d] * rstd * dot);
        }
}

enum kstatus cpu_qk_bwd(struct exec *ex, void *dqkv, const void *pre,
                        const void *rstd, const struct weight *qw,
                        const struct weight *kw, const int32_t *positions,
                        const void *inv_freq, int64_t N, int H, int K, int D)
{
    struct qk p = {.qkv = dqkv, .cpre = pre, .crstd = rstd,
                   .qw = qw ? qw->data : NULL, .kw = kw ? kw->data : NULL,
                   .dqw = qw ? qw->grad : NULL, .dkw = kw ? kw->grad : NULL,
                   .inv_freq = inv_freq, .positions = positions, .N = N,
                   .H = H, .K = K, .D = D};
    int64_t rows = (N + ROWS - 1) / ROWS;

    (void)ex;
    if (qk_check(&p, qw || kw, pre, rstd))
        return K_INVALID;
    if (inv_freq)
        pool_run(rope_bwd_task, &p, rows);
    if (qw) {
        pool_run(qk_param_task, &p, 2 * ((D + 15) / 16));
        pool_run(qk_norm_task, &p, rows);
    }
    return K_OK;
}
