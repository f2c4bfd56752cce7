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
    /* shared rows; else size 1, row0 0 and one chunk's shares in scratch */
    int size, rank, row0;
    double (*shares)[HEAD_SHARE]; /* [size, rows] */
    int64_t rows;
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

static bool is_masked(const struct head *p, int64_t i)
{
    return p->mask && !p->mask[i];
}

/* The label's row, where it lies here. */
static bool label_here(const struct head *p, int64_t i, int *ret)
{
    *ret = p->labels[i] - p->row0;
    return *ret >= 0 && *ret < p->V;
}

/* This rank's numbers of a token; logits become exp(logit - largest). */
static void head_share(void *ctx, int64_t i, int worker)
{
    const struct head *p = ctx;
    real *x = p->logits + i * p->Vp;
    double *share = p->shares[p->rank * p->rows + i];
    int best, label;

    (void)worker;
    share[0] = -INFINITY;
    share[1] = share[2] = 0;
    share[3] = -1;
    if (is_masked(p, i) || p->V == 0)
        return;
    best = row_argmax(x, p->V);
    if (label_here(p, i, &label))
        share[2] = x[label];
    real m = x[best];
    share[0] = m;
    share[1] = row_exp_sum(x, m, p->V);
    share[3] = p->row0 + best;
}

struct joined {
    double m, sum, label_logit;
    int best;
};

/* All ranks' numbers of a token, in their order. */
static struct joined join(const struct head *p, int64_t i)
{
    const double *first = p->shares[i];
    struct joined r = {first[0], first[1], first[2], (int)first[3]};
    for (int k = 1; k < p->size; k++) {
        const double *s = p->shares[k * p->rows + i];
        if (s[0] > r.m) {
            r.m = s[0];
            r.best = (int)s[3];
        }
    }
    if (p->size == 1)
        return r;
    r.sum = r.label_logit = 0;
    for (int k = 0; k < p->size; k++) {
        const double *s = p->shares[k * p->rows + i];
        r.sum += s[1] > 0 ? s[1] * exp(s[0] - r.m) : 0;
        r.label_logit += s[2];
    }
    return r;
}

/* d(loss + z lse^2)/dlogit = p (1 + 2 z lse) - [label] */
static void head_finish(void *ctx, int64_t i, int worker)
{
    const struct head *p = ctx;
    real *x = p->logits + i * p->Vp;
    int label;

    (void)worker;
    memset(p->row[i], 0, sizeof p->row[i]);
    if (is_masked(p, i)) {
        if (p->grad)
            memset(x, 0, p->Vp * sizeof *x);
        return;
    }
    struct joined all = join(p, i);
    double lse = all.m + exact_log(all.sum);
    p->row[i][0] = lse - all.label_logit + p->z * lse * lse;
    p->row[i][1] = 1;
    p->row[i][2] = p->z * lse * lse;
    p->row[i][3] = all.best == p->labels[i];
    if (!p->grad)
        return;
    double own = p->shares[p->rank * p->rows + i][0];
    double factor = p->scale * (1 + 2 * p->z * lse) / all.sum;
    if (p->size > 1)
        factor *= exp(own - all.m);
    row_scale(x, (real)factor, p->V);
    if (label_here(p, i, &label))
        x[label] -= (real)p->scale;
    memset(x + p->V, 0, (p->Vp - p->V) * sizeof *x);
}

static void head_row(void *ctx, int64_t i, int worker)
{
    head_share(ctx, i, worker);
    head_finish(ctx, i, worker);
}

/* Logits of a chunk to losses and gradients, with the other ranks if any. */
static enum kstatus head_chunk(struct head *p, const struct head_peers *peers)
{
    if (!peers) {
        pool_run(head_row, p, p->rows);
        return K_OK;
    }
    pool_run(head_share, p, p->rows);
    enum kstatus k = peers->gather(peers->ctx, peers->shares,
                                   p->rows * HEAD_SHARE);
    if (k == K_OK)
        pool_run(head_finish, p, p->rows);
    return k;
}

size_t cpu_head_ws(int Vp)
{
    return CHUNK * ((size_t)Vp * sizeof(real) +
                    (4 + HEAD_SHARE) * sizeof(double));
}

enum kstatus cpu_head_loss(struct exec *ex, double *sums, void *dx,
                           const void *x, const struct weight *w,
                           const int32_t *labels, const uint8_t *mask,
                           double scale, double z, int64_t N, int V,
                           const struct head_peers *peers)
{
    int Vp = w->out, C = w->in, all = peers ? peers->V : V;
    double *scratch = ex->ws;
    struct head p = {.row = (double (*)[4])scratch,
                     .shares = (double (*)[HEAD_SHARE])(scratch + CHUNK * 4),
                     .logits = (real *)(scratch + CHUNK * (4 + HEAD_SHARE)),
                     .scale = scale, .z = z, .V = V, .Vp = Vp, .grad = dx,
                     .size = 1, .row0 = w->row0};

    if (w->in_out || V > Vp)
        return K_INVALID;
    if (cpu_head_ws(Vp) > ex->ws_bytes)
        return K_NOMEM;
    for (int64_t n = 0; n < N; n++)
        if ((!mask || mask[n]) && (labels[n] < 0 || labels[n] >= all))
            return K_INVALID;
    if (peers) {
        p.size = peers->size;
        p.rank = peers->rank;
        p.shares = (double (*)[HEAD_SHARE])peers->shares;
    }
    for (int64_t n0 = 0; n0 < N; n0 += CHUNK) {
        int64_t rows = N - n0 < CHUNK ? N - n0 : CHUNK;
        const real *xs = (const real *)x + n0 * C;
        p.labels = labels + n0;
        p.mask = mask ? mask + n0 : NULL;
        cpu_matmul(false, true, rows, Vp, C, xs, C, w->data, C, 0, p.logits,
                   Vp, NULL, NULL);
        p.rows = rows;
        enum kstatus k = head_chunk(&p, peers);
        if (k != K_OK)
            return k;
        for (int64_t i = 0; i < rows && p.rank == 0; i++)
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
