/* cpu_attention - causal attention in blocks of query rows: for each block one
 * strip of scores [BLOCK, keys it may see] in scratch, products by gemm.
 *
 * Forward tasks are (sequence, head, block). Backward tasks are (sequence, key
 * head), since dk and dv are sums over blocks and over the heads of a group.
 */
#include "kernels/cpu.h"

#define BLOCK 64

struct attn {
    const struct attn_args *a;
    const struct attn_grad *g;
    real *ws;
    int64_t strip;  /* elements of a worker's scratch */
    int blocks;     /* of the longest sequence */
    int sequences;
};

struct span {
    int64_t q0, k0; /* first token in q and in k */
    int Tq, Tk;
};

static struct span attn_span(const struct attn_args *a, int sequence)
{
    if (a->cu_seqlens) {
        int32_t from = a->cu_seqlens[sequence];
        int T = a->cu_seqlens[sequence + 1] - from;
        return (struct span){from, from, T, T};
    }
    return (struct span){(int64_t)sequence * a->Tq, sequence * a->k_seq,
                         a->Tq, a->Tk};
}

/* lse is [B, H, Tq]; with documents [H, N]. */
static int64_t lse_at(const struct attn_args *a, struct span s, int sequence,
                      int h)
{
    if (a->cu_seqlens)
        return (int64_t)h * a->cu_seqlens[a->docs] + s.q0;
    return ((int64_t)sequence * a->H + h) * a->Tq;
}

CLONES static real row_max(const real *x, int n)
{
    real m[LANES], r;
    int i = 0;

    for (int j = 0; j < LANES; j++)
        m[j] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
    r = m[0];
    for (int j = 1; j < LANES; j++)
        r = m[j] > r ? m[j] : r;
    for (; i < n; i++)
        r = x[i] > r ? x[i] : r;
    return r;
}

/* x = exp(x - m); returns the sum. */
CLONES static real row_exp(real *x, real m, int n)
{
    real s[LANES] = {0};
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            x[i + j] = real_exp(x[i + j] - m);
            s[j] += x[i + j];
        }
    for (int j = 0; i < n; i++, j++) {
        x[i] = real_exp(x[i] - m);
        s[j] += x[i];
    }
    return lanes_sum(s);
}

CLONES static void row_scale(real *x, real f, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= f;
}

static void attn_fwd_task(void *ctx, int64_t task, int worker)
{
    const struct attn *p = ctx;
    const struct attn_args *a = p->a;
    int block = p->blocks - 1 - (int)(task / ((int64_t)p->sequences * a->H));
    int rest = (int)(task % ((int64_t)p->sequences * a->H));
    int sequence = rest / a->H, h = rest % a->H, kh = h / (a->H / a->K);
    struct span s = attn_span(a, sequence);
    int r0 = block * BLOCK, rows = s.Tq - r0 < BLOCK ? s.Tq - r0 : BLOCK;
    real *S = p->ws + worker * p->strip;
    const real *q, *k, *v;
    real *o;
    int keys; /* that the block's last row sees */

    if (rows <= 0)
        return;
    keys = s.Tk - s.Tq + r0 + rows;
    q = (const real *)a->q + (s.q0 + r0) * a->q_row + h * a->D;
    k = (const real *)a->k + s.k0 * a->k_row + kh * a->D;
    v = (const real *)a->v + s.k0 * a->v_row + kh * a->D;
    o = (real *)a->o + (s.q0 + r0) * a->o_row + h * a->D;
    cpu_gemm(false, true, rows, keys, a->D, a->scale, q, a->q_row, k,
             a->k_row, 0, S, keys);
    for (int i = 0; i < rows; i++) {
        real *row = S + (int64_t)i * keys;
        int n = keys - rows + i + 1;
        real m = row_max(row, n), sum = row_exp(row, m, n);
        row_scale(row, 1 / sum, n);
        for (int j = n; j < keys; j++)
            row[j] = 0;
        if (a->lse)
            ((real *)a->lse)[lse_at(a, s, sequence, h) + r0 + i] =
                m + (real)exact_log(sum);
    }
    cpu_gemm(false, false, rows, a->D, keys, 1, S, keys, v, a->v_row, 0, o,
             a->o_row);
}

/* P = exp(S - lse), zero behind n; dS = P (dP - delta) in place of dP. */
CLONES static void row_bwd(real *S, real *dP, real lse, real delta, int n,
                           int keys)
{
    for (int j = 0; j < n; j++) {
        S[j] = real_exp(S[j] - lse);
        dP[j] = S[j] * (dP[j] - delta);
    }
    for (int j = n; j < keys; j++)
        S[j] = dP[j] = 0;
}

static real row_dot(const real *x, const real *y, int n)
{
    real s = 0;

    for (int i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

static void attn_bwd_block(const struct attn *p, struct span s, int sequence,
                           int h, int r0, real *S)
{
    const struct attn_args *a = p->a;
    const struct attn_grad *g = p->g;
    int rows = s.Tq - r0 < BLOCK ? s.Tq - r0 : BLOCK, D = a->D;
    int keys = s.Tk - s.Tq + r0 + rows, kh = h / (a->H / a->K);
    int64_t q_at = (s.q0 + r0) * a->q_row + h * D;
    int64_t o_at = (s.q0 + r0) * a->o_row + h * D;
    int64_t k_at = s.k0 * a->k_row + kh * D, v_at = s.k0 * a->v_row + kh * D;
    const real *q = (const real *)a->q + q_at, *k = (const real *)a->k + k_at;
    const real *v = (const real *)a->v + v_at;
    const real *o = (const real *)a->o + o_at;
    const real *d_o = (const real *)g->dout + o_at;
    real *dP = S + (int64_t)BLOCK * keys;

    cpu_gemm(false, true, rows, keys, D, a->scale, q, a->q_row, k, a->k_row,
             0, S, keys);
    cpu_gemm(false, true, rows, keys, D, 1, d_o, a->o_row, v, a->v_row, 0, dP,
             keys);
    for (int i = 0; i < rows; i++)
        row_bwd(S + (int64_t)i * keys, dP + (int64_t)i * keys,
                ((const real *)a->lse)[lse_at(a, s, sequence, h) + r0 + i],
                row_dot(o + i * a->o_row, d_o + i * a->o_row, D),
                keys - rows + i + 1, keys);
    cpu_gemm(true, false, keys, D, rows, 1, S, keys, d_o, a->o_row, 1,
             (real *)g->dv + v_at, a->v_row);
    cpu_gemm(true, false, keys, D, rows, a->scale, dP, keys, q, a->q_row, 1,
             (real *)g->dk + k_at, a->k_row);
    cpu_gemm(false, false, rows, D, keys, a->scale, dP, keys, k, a->k_row, 0,
             (real *)g->dq + q_at, a->q_row);
}

static void attn_bwd_task(void *ctx, int64_t task, int worker)
{
    const struct attn *p = ctx;
    const struct attn_args *a = p->a;
    int sequence = (int)(task / a->K), kh = (int)(task % a->K);
    int group = a->H / a->K;
    struct span s = attn_span(a, sequence);

    for (int j = 0; j < s.Tk; j++) {
        memset((real *)p->g->dk + (s.k0 + j) * a->k_row + kh * a->D, 0,
               a->D * sizeof(real));
        memset((real *)p->g->dv + (s.k0 + j) * a->v_row + kh * a->D, 0,
               a->D * sizeof(real));
    }
    for (int h = kh * group; h < (kh + 1) * group; h++)
        for (int r0 = 0; r0 < s.Tq; r0 += BLOCK)
            attn_bwd_block(p, s, sequence, h, r0,
                           p->ws + worker * p->strip);
}

static enum kstatus attn_init(struct attn *p, struct exec *ex,
                              const struct attn_args *a)
{
    int longest_k = a->cu_seqlens ? a->doc_max : a->Tk;
    int longest_q = a->cu_seqlens ? a->doc_max : a->Tq;

    if (a->H % a->K || (!a->cu_seqlens && a->Tk < a->Tq))
        return K_INVALID;
    p->a = a;
    p->ws = ex->ws;
    p->strip = 2ll * BLOCK * longest_k;
    p->sequences = a->cu_seqlens ? a->docs : a->B;
    p->blocks = (longest_q + BLOCK - 1) / BLOCK;
    if (cpu_attn_ws(longest_k) > ex->ws_bytes)
        return K_NOMEM;
    return K_OK;
}

size_t cpu_attn_ws(int64_t T)
{
    return POOL_WORKERS_MAX * 2 * BLOCK * (size_t)T * sizeof(real);
}

enum kstatus cpu_attn_fwd(struct exec *ex, const struct attn_args *a)
{
    struct attn p = {0};
    enum kstatus status = attn_init(&p, ex, a);

    if (!status)
        pool_run(attn_fwd_task, &p,
                 (int64_t)p.blocks * p.sequences * a->H);
    return status;
}

enum kstatus cpu_attn_bwd(struct exec *ex, const struct attn_args *a,
                          const struct attn_grad *g)
{
    struct attn p = {.g = g};
    enum kstatus status = a->lse ? attn_init(&p, ex, a) : K_INVALID;

    if (!status)
        pool_run(attn_bwd_task, &p, (int64_t)p.sequences * a->K);
    return status;
}
