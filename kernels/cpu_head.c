/* cpu_head - head and cross-entropy, CHUNK tokens at a time: logits of a chunk
 * live in scratch, become their gradient in place, and are gone. */
#include "kernels/cpu.h"

#define CHUNK 256

struct head {
    real *logits;      /* [CHUNK, Vp] */
    double (*row)[4];  /* [CHUNK]: loss, tokens, z, correct */
    const int32_t *labels;
    const uint8_t *mask;
    double scale, z;
    int V, Vp;
    bool grad;
};

CLONES static int row_argmax(const real *x, int n)
{
    real m[LANES], best;
    int i = 0;

    for (int j = 0; j < LANES; j++)
        m[j] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
    best = m[0];
    for (int j = 1; j < LANES; j++)
        best = m[j] > best ? m[j] : best;
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    for (i = 0; i < n; i++)
        if (x[i] == best)
            return i;
    return 0; /* not a number */
}

/* x = exp(x - m); returns the sum, in blocks, so that 100,000 terms do not
 * lose the small ones. */
CLONES static real row_exp_sum(real *x, real m, int n)
{
    real total = 0;

    for (int b = 0; b < n; b += 4096) {
        int end = b + 4096 < n ? b + 4096 : n, i = b;
        real s[LANES] = {0};
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++) {
                x[i + j] = real_exp(x[i + j] - m);
                s[j] += x[i + j];
            }
        for (int j = 0; i < end; i++, j++) {
            x[i] = real_exp(x[i] - m);
            s[j] += x[i];
        }
        total += lanes_sum(s);
    }
    return total;
}

CLONES static void row_scale(real *x, real f, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= f;
}

/* d(loss + z lse^2)/dlogit = p (1 + 2 z lse) - [label] */
static void head_row(void *ctx, int64_t i, int worker)
{
    const struct head *p = ctx;
    real *x = p->logits + i * p->Vp;
    int best;
    double lse, sum, label_logit;

    (void)worker;
    memset(p->row[i], 0, sizeof p->row[i]);
    if (p->mask && !p->mask[i]) {
        if (p->grad)
            memset(x, 0, p->Vp * sizeof *x);
        return;
    }
    best = row_argmax(x, p->V);
    label_logit = x[p->labels[i]];
    real m = x[best];
    sum = row_exp_sum(x, m, p->V);
    lse = m + exact_log(sum);
    p->row[i][0] = lse - label_logit + p->z * lse * lse;
    p->row[i][1] = 1;
    p->row[i][2] = p->z * lse * lse;
    p->row[i][3] = best == p->labels[i];
    if (!p->grad)
        return;
    row_scale(x, (real)(p->scale * (1 + 2 * p->z * lse) / sum), p->V);
    x[p->labels[i]] -= (real)p->scale;
    memset(x + p->V, 0, (p->Vp - p->V) * sizeof *x);
}

size_t cpu_head_ws(int Vp)
{
    return CHUNK * ((size_t)Vp * sizeof(real) + 4 * sizeof(double));
}

enum kstatus cpu_head_loss(struct exec *ex, double *sums, void *dx,
                           const void *x, const struct weight *w,
                           const int32_t *labels, const uint8_t *mask,
                           double scale, double z, int64_t N, int V)
{
    int Vp = w->out, C = w->in;
    struct head p = {.row = ex->ws,
                     .logits = (real *)((char *)ex->ws +
                                        CHUNK * 4 * sizeof(double)),
                     .scale = scale, .z = z, .V = V, .Vp = Vp, .grad = dx};

    if (w->in_out || V > Vp)
        return K_INVALID;
    if (cpu_head_ws(Vp) > ex->ws_bytes)
        return K_NOMEM;
    for (int64_t n = 0; n < N; n++)
        if ((!mask || mask[n]) && (labels[n] < 0 || labels[n] >= V))
            return K_INVALID;
    for (int64_t n0 = 0; n0 < N; n0 += CHUNK) {
        int64_t rows = N - n0 < CHUNK ? N - n0 : CHUNK;
        const real *xs = (const real *)x + n0 * C;
        p.labels = labels + n0;
        p.mask = mask ? mask + n0 : NULL;
        cpu_matmul(false, true, rows, Vp, C, xs, C, w->data, C, 0, p.logits,
                   Vp, NULL, NULL);
        pool_run(head_row, &p, rows);
        for (int64_t i = 0; i < rows; i++)
            for (int j = 0; j < 4; j++)
                sums[j] += p.row[i][j];
        if (!dx)
            continue;
        cpu_matmul(false, false, rows, C, Vp, p.logits, Vp, w->data, C, 0,
                   (real *)dx + n0 * C, C, NULL, NULL);
        if (w->grad)
            cpu_matmul(true, false, Vp, C, rows, p.logits, Vp, xs, C, 1,
                       w->grad, C, NULL, NULL);
    }
    return K_OK;
}

enum kstatus cpu_head_logits(struct exec *ex, void *logits, const void *x,
                             const struct weight *w, int64_t N, int V)
{
    (void)ex;
    if (w->in_out || V > w->out)
        return K_INVALID;
    cpu_matmul(false, true, N, V, w->in, x, w->in, w->data, w->in, 0, logits,
               V, NULL, NULL);
    return K_OK;
}
