/* cases - the table of operations: how each is run, on which shapes, within
 * which error. Serves check, gradient, determinism and bench. */
#include "tests/kernels/lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ES(lab) ((double)dtype_bytes((lab)->ex.act))
#define OPS lab->ex.ops
#define EX &lab->ex

/* variant bits: 1 in_out, 2 no bias, 4 gelu, 8 dx_add */
static void linear_case(struct lab *lab, const struct dims *d)
{
    int64_t N = d->N;
    int in = d->C, out = d->F, wx, ww, wb;
    bool gelu = d->variant & 4, add = d->variant & 8;
    double flop = 2.0 * N * in * out;
    void *x = lab_in(lab, N * in, 1, &wx);
    struct weight w = lab_weight(lab, out, in, d->variant & 1,
                                 1 / sqrt(in), &ww);
    struct weight b = lab_weight(lab, out, 1, false, 0.5, &wb);
    const struct weight *bias = d->variant & 2 ? NULL : &b;
    void *y = lab_out(lab, N * out, lab->ex.act);
    void *aux = gelu ? lab_out(lab, N * out, lab->ex.act) : NULL;

    LAB_RUN(lab, "linear_fwd", flop,
            ES(lab) * (N * in + N * out + (double)in * out),
            OPS->linear_fwd(EX, y, aux, x, &w, bias, N,
                            gelu ? EPI_GELU : EPI_NONE));
    if (gelu) {
        lab_got(lab, "y", y, N * out, lab->ex.act);
        y = aux; /* whose gradient linear_bwd takes */
    }
    void *dy = lab_fwd(lab, gelu ? "aux" : "y", y, N * out);
    void *dx = lab_out(lab, N * in, lab->ex.act);
    if (add) {
        int unused;
        dx = lab_in(lab, N * in, 0.1, &unused);
    }
    LAB_RUN(lab, "linear_bwd", 2 * flop, 0,
            OPS->linear_bwd(EX, dx, NULL, NULL, add, dy, x, &w, bias, N));
    if (lab->bench)
        LAB_RUN(lab, bias ? "dw+db" : "dw", flop, 0,
                OPS->linear_bwd(EX, NULL, NULL, NULL, false, dy, x, &w, bias,
                                N));
    if (add)
        lab_got(lab, "dx", dx, N * in, lab->ex.act);
    else
        lab_grad(lab, "dx", dx, N * in, wx);
    lab_wgrad(lab, "dw", &w, ww);
    if (bias)
        lab_wgrad(lab, "db", bias, wb);
}

/* Two layers with GELU between: fc and proj, the backward fused. */
static void mlp_case(struct lab *lab, const struct dims *d)
{
    int64_t N = d->N;
    int wx, w1, wb1, w2, wb2, C = d->C, F = d->F;
    bool in_out = d->variant & 1;
    double flop = 2.0 * N * C * F;
    void *x = lab_in(lab, N * C, 1, &wx);
    struct weight fc = lab_weight(lab, F, C, in_out, 1 / sqrt(C), &w1);
    struct weight fb = lab_weight(lab, F, 1, false, 0.5, &wb1);
    struct weight pr = lab_weight(lab, C, F, in_out, 1 / sqrt(F), &w2);
    struct weight pb = lab_weight(lab, C, 1, false, 0.5, &wb2);
    void *aux = lab_out(lab, N * F, lab->ex.act);
    void *g = lab_out(lab, N * F, lab->ex.act);
    void *y = lab_out(lab, N * C, lab->ex.act);

    LAB_RUN(lab, "fc+gelu", flop, 0,
            OPS->linear_fwd(EX, g, aux, x, &fc, &fb, N, EPI_GELU));
    LAB_RUN(lab, "proj", flop, 0,
            OPS->linear_fwd(EX, y, NULL, g, &pr, &pb, N, EPI_NONE));
    lab_got(lab, "gelu", g, N * F, lab->ex.act);
    void *again = lab_out(lab, N * F, lab->ex.act);
    LAB_RUN(lab, "gelu_fwd", 0, ES(lab) * 2 * N * F,
            OPS->gelu_fwd(EX, again, aux, N * F));
    lab_got(lab, "gelu again", again, N * F, lab->ex.act);
    void *dy = lab_fwd(lab, "y", y, N * C);
    void *dfc = lab_out(lab, N * F, lab->ex.act);
    void *dx = lab_out(lab, N * C, lab->ex.act);
    LAB_RUN(lab, "proj_bwd+dgelu", 2 * flop, 0,
            OPS->linear_bwd(EX, dfc, aux, &fb, false, dy, g, &pr, &pb, N));
    LAB_RUN(lab, "fc_bwd", 2 * flop, 0,
            OPS->linear_bwd(EX, dx, NULL, NULL, false, dfc, x, &fc, NULL, N));
    lab_grad(lab, "dx", dx, N * C, wx);
    lab_wgrad(lab, "dfc", &fc, w1);
    lab_wgrad(lab, "dfb", &fb, wb1);
    lab_wgrad(lab, "dproj", &pr, w2);
    lab_wgrad(lab, "dpb", &pb, wb2);
}

/* variant bits: 1 RMS, 2 no delta, 4 no bias, 8 add to dres, 16 the bias of
 * what delta comes from */
static void norm_case(struct lab *lab, const struct dims *d)
{
    int64_t n = (int64_t)d->N * d->C;
    int wr, wd, ww, wb, wl, unused;
    bool rms = d->variant & 1, add = d->variant & 8;
    enum norm_kind kind = rms ? NORM_RMS : NORM_LAYER;
    void *res = lab_in(lab, n, 1, &wr), *delta = lab_in(lab, n, 0.5, &wd);
    struct weight w = lab_weight(lab, d->C, 1, false, 0, &ww);
    struct weight b = lab_weight(lab, d->C, 1, false, 0.5, &wb);
    const struct weight *bias = d->variant & 4 || rms ? NULL : &b;
    struct weight below = lab_weight(lab, d->C, 1, false, 0.5, &wl);
    void *y = lab_out(lab, n, lab->ex.act), *sum = res;
    void *mean = lab_out(lab, d->N, lab->ex.stat);
    void *rstd = lab_out(lab, d->N, lab->ex.stat);

    if (d->variant & 2)
        delta = NULL;
    else
        sum = lab_out(lab, n, lab->ex.act);
    LAB_RUN(lab, "norm_fwd", 0, ES(lab) * n * (delta ? 4 : 2),
            OPS->norm_fwd(EX, y, sum, mean, rstd, res, delta, &w, bias, kind,
                          1e-5, d->N, d->C));
    if (delta)
        lab_got(lab, "sum", sum, n, lab->ex.act);
    lab_got(lab, "rstd", rstd, d->N, lab->ex.stat);
    void *dy = lab_fwd(lab, "y", y, n);
    void *dres = add ? lab_in(lab, n, 0.5, &unused)
                     : lab_out(lab, n, lab->ex.act);
    LAB_RUN(lab, "norm_bwd", 0, ES(lab) * n * (add ? 4 : 3),
            OPS->norm_bwd(EX, dres, !add, dy, sum, mean, rstd, &w, bias,
                          d->variant & 16 ? &below : NULL, kind, d->N, d->C));
    if (add)
        lab_got(lab, "dres", dres, n, lab->ex.act);
    else
        lab_grad(lab, "dres", dres, n, wr);
    lab_wgrad(lab, "dw", &w, ww);
    if (bias)
        lab_wgrad(lab, "db", bias, wb);
    if (d->variant & 16)
        lab_wgrad(lab, "below", &below, ~wl);
}

/* variant bits: 1 norm, 2 rope */
static void qk_case(struct lab *lab, const struct dims *d)
{
    int N = d->N, H = d->H, K = d->K, D = d->D, wx, wq, wk;
    int64_t n = (int64_t)N * (H + 2 * K) * D;
    bool norm = d->variant & 1, rope = d->variant & 2;
    void *qkv = lab_in(lab, n, 1, &wx);
    struct weight qw = lab_weight(lab, D, 1, false, 0, &wq);
    struct weight kw = lab_weight(lab, D, 1, false, 0, &wk);
    void *pre = lab_out(lab, (int64_t)N * (H + K) * D, lab->ex.act);
    void *rstd = lab_out(lab, (int64_t)N * (H + K), lab->ex.stat);
    int32_t *pos = malloc(N * sizeof *pos);
    double *freq = malloc(D * sizeof *freq);
    float *freq32 = malloc(D * sizeof *freq32);

    for (int i = 0; i < N; i++)
        pos[i] = i * 37 % 4099;
    for (int i = 0; i < D / 2; i++)
        freq[i] = freq32[i] = (float)pow(10000, -2.0 * i / D);
    void *dpos = lab_host(lab, pos, N * sizeof *pos);
    void *dfreq = lab->ex.stat == DT_F64
                      ? lab_host(lab, freq, D / 2 * sizeof *freq)
                      : lab_host(lab, freq32, D / 2 * sizeof *freq32);
    free(pos);
    free(freq);
    free(freq32);
    LAB_RUN(lab, "qk_fwd", 0,
            ES(lab) * N * D * (double)(H + K) * (norm ? 3 : 2),
            OPS->qk_fwd(EX, qkv, norm ? pre : NULL, norm ? rstd : NULL,
                        norm ? &qw : NULL, norm ? &kw : NULL, 1e-6, dpos,
                        rope ? dfreq : NULL, N, H, K, D));
    void *dqkv = lab_fwd(lab, "qkv", qkv, n);
    LAB_RUN(lab, "qk_bwd", 0,
            ES(lab) * N * D * (double)(H + K) * (norm ? 3 : 2),
            OPS->qk_bwd(EX, dqkv, norm ? pre : NULL, norm ? rstd : NULL,
                        norm ? &qw : NULL, norm ? &kw : NULL, dpos,
                        rope ? dfreq : NULL, N, H, K, D));
    lab_grad(lab, "dqkv", dqkv, n, wx);
    if (norm) {
        lab_wgrad(lab, "dqw", &qw, wq);
        lab_wgrad(lab, "dkw", &kw, wk);
    }
}

/* variant: 0 packed qkv, B sequences; 1 documents; 2 decode (Tk > Tq, apart) */
static void attn_case(struct lab *lab, const struct dims *d)
{
    int H = d->H, K = d->K, D = d->D, wq, wkv, docs = 0, longest = 0;
    int64_t Nq = (int64_t)d->B * d->T;
    struct attn_args a = {.H = H, .K = K, .D = D, .B = d->B, .Tq = d->T,
                          .Tk = d->T, .k_seq = d->T,
                          .scale = 1 / sqrtf((float)D), .o_row = H * D};
    double pairs = (double)d->B * d->T * (d->T + 1) / 2;
    int64_t k_n = 0, q_n = Nq * (H + 2 * K) * D;
    int32_t cu[65];
    char *qkv, *kv = NULL;

    if (d->variant == 2) {
        a.Tk = d->Tk;
        a.k_seq = d->Tk + 3;
        q_n = Nq * H * D;
        k_n = d->B * a.k_seq * 2 * K * D;
        a.q_row = H * D;
        a.k_row = a.v_row = 2 * K * D;
        kv = lab_in(lab, k_n, 1, &wkv);
        pairs = (double)d->B * (d->T * (d->Tk - d->T) +
                                (double)d->T * (d->T + 1) / 2);
    } else {
        a.q_row = a.k_row = a.v_row = (H + 2 * K) * D;
    }
    qkv = lab_in(lab, q_n, 1, &wq);
    size_t es = dtype_bytes(lab->ex.act);
    a.q = qkv;
    a.k = kv ? kv : qkv + (size_t)H * D * es;
    a.v = (const char *)a.k + (size_t)K * D * es;
    if (d->variant == 1) {
        cu[0] = 0;
        pairs = 0;
        while (cu[docs] < Nq && docs < 64) {
            int len = docs == 0 ? 1 : (docs * 53) % (d->T - 1) + 1;
            if (lab->bench)
                len = d->T - docs * 7 % (d->T / 2);
            if (cu[docs] + len > Nq || docs == 63)
                len = (int)Nq - cu[docs];
            cu[docs + 1] = cu[docs] + len;
            pairs += len * (len + 1.0) / 2;
            longest = len > longest ? len : longest;
            docs++;
        }
        a.cu_seqlens = lab_host(lab, cu, (docs + 1) * sizeof *cu);
        a.docs = docs;
        a.doc_max = longest;
        a.B = 1;
        a.Tq = a.Tk = (int)Nq;
        a.k_seq = Nq;
    }
    a.o = lab_out(lab, Nq * H * D, lab->ex.act);
    a.lse = lab_out(lab, Nq * H, lab->ex.stat);
    LAB_RUN(lab, "attn_fwd", 4 * pairs * H * D, 0, OPS->attn_fwd(EX, &a));
    lab_got(lab, "lse", a.lse, Nq * H, lab->ex.stat);
    struct attn_grad g = {.dout = lab_fwd(lab, "o", a.o, Nq * H * D)};
    if (d->variant == 2)
        return;
    char *dqkv = lab_out(lab, q_n, lab->ex.act);
    g.dq = dqkv;
    g.dk = dqkv + (size_t)H * D * es;
    g.dv = dqkv + (size_t)(H + K) * D * es;
    LAB_RUN(lab, "attn_bwd", 10 * pairs * H * D, 0, OPS->attn_bwd(EX, &a, &g));
    lab_grad(lab, "dqkv", dqkv, q_n, wq);
}

static void swiglu_case(struct lab *lab, const struct dims *d)
{
    int64_t N = d->N, F = d->F;
    int wx;
    void *x = lab_in(lab, N * 2 * F, 2, &wx);
    void *y = lab_out(lab, N * F, lab->ex.act);

    LAB_RUN(lab, "swiglu_fwd", 0, ES(lab) * N * F * 3,
            OPS->swiglu_fwd(EX, y, x, N, d->F));
    void *dy = lab_fwd(lab, "y", y, N * F);
    void *dx = lab_out(lab, N * 2 * F, lab->ex.act);
    LAB_RUN(lab, "swiglu_bwd", 0, ES(lab) * N * F * 5,
            OPS->swiglu_bwd(EX, dx, dy, x, N, d->F));
    lab_grad(lab, "dx", dx, N * 2 * F, wx);
}

/* Skewed, as text is: token 0 is every third. */
static int32_t *some_tokens(int N, int V)
{
    int32_t *t = malloc(N * sizeof *t);

    for (int i = 0; i < N; i++)
        t[i] = i % 3 ? (int32_t)((uint32_t)i * 2654435761u % (uint32_t)V) : 0;
    return t;
}

/* Rows `first` to `first + rows` of a weight, as another rank would hold. */
static struct weight rows_part(const struct lab *lab, const struct weight *w,
                               int first, int rows)
{
    struct weight part = *w;
    size_t skip = (size_t)first * w->in;
    part.data = (char *)w->data + skip * dtype_bytes(lab->ex.act);
    part.grad = (char *)w->grad + skip * dtype_bytes(lab->ex.grad);
    part.out = rows;
    part.row0 = first;
    part.rows_all = w->out;
    return part;
}

/* The table's rows on two ranks, uneven; x and dx are the whole's. */
static void embed_parts(struct lab *lab, const struct dims *d, void *x,
                        const void *dx, const int32_t *tok,
                        const int32_t *pos, const struct weight *wte,
                        const struct weight *pw)
{
    int64_t N = d->N, C = d->C;
    int cut = d->V / 3;
    struct weight a = rows_part(lab, wte, 0, cut);
    struct weight b = rows_part(lab, wte, cut, d->V - cut);
    void *one = dx ? NULL : lab_out(lab, N * C, lab->ex.act);
    void *parts[2] = {x, one};
    if (dx) {
        LAB_RUN(lab, "embed_bwd of rows", 0, 0,
                OPS->embed_bwd(EX, dx, tok, pos, &a, pw, N, d->C));
        LAB_RUN(lab, "embed_bwd of rows", 0, 0,
                OPS->embed_bwd(EX, dx, tok, pos, &b, NULL, N, d->C));
        return;
    }
    LAB_RUN(lab, "embed_fwd of rows", 0, 0,
            OPS->embed_fwd(EX, x, tok, pos, &a, pw, N, d->C));
    LAB_RUN(lab, "embed_fwd of rows", 0, 0,
            OPS->embed_fwd(EX, one, tok, pos, &b, NULL, N, d->C));
    LAB_RUN(lab, "sum of rows", 0, 0,
            OPS->sum_in_order(EX, x, parts, 2, N * C, lab->ex.act));
}

/* variant bits: 1 no positions, 2 rows shared */
static void embed_case(struct lab *lab, const struct dims *d)
{
    int64_t N = d->N, C = d->C;
    int wt, wp;
    struct weight wte = lab_weight(lab, d->V, d->C, false, 1, &wt);
    struct weight wpe = lab_weight(lab, d->T, d->C, false, 1, &wp);
    const struct weight *pw = d->variant & 1 ? NULL : &wpe;
    int32_t *tok = some_tokens(d->N, d->V), *pos = malloc(N * sizeof *pos);

    for (int i = 0; i < N; i++)
        pos[i] = i % d->T;
    void *dtok = lab_host(lab, tok, N * sizeof *tok);
    void *dpos = lab_host(lab, pos, N * sizeof *pos);
    free(tok);
    free(pos);
    void *x = lab_out(lab, N * C, lab->ex.act);
    if (d->variant & 2)
        embed_parts(lab, d, x, NULL, dtok, dpos, &wte, pw);
    else
        LAB_RUN(lab, "embed_fwd", 0, ES(lab) * N * C * 2,
                OPS->embed_fwd(EX, x, dtok, dpos, &wte, pw, N, d->C));
    void *dx = lab_fwd(lab, "x", x, N * C);
    if (d->variant & 2)
        embed_parts(lab, d, x, dx, dtok, dpos, &wte, pw);
    else
        LAB_RUN(lab, "embed_bwd", 0, ES(lab) * N * C * 3,
                OPS->embed_bwd(EX, dx, dtok, dpos, &wte, pw, N, d->C));
    lab_wgrad(lab, "dwte", &wte, wt);
    if (pw)
        lab_wgrad(lab, "dwpe", pw, wp);
}

/* Two ranks played one after the other: what each gave is kept for the other.
 * One chunk of tokens, so that there is one exchange. */
struct exchange {
    struct lab *lab;
    int rank;
    bool known[2];
    double *kept[2];
};

static enum kstatus exchange(void *ctx, double *shares, int64_t n)
{
    struct exchange *x = ctx;
    struct device *device = x->lab->ex.device;
    int me = x->rank, other = 1 - me;
    size_t bytes = (size_t)n * sizeof *shares;
    enum kstatus k = device_copy(device, x->kept[me], shares + me * n, bytes,
                                 x->lab->ex.stream);
    x->known[me] = true;
    if (k != K_OK || !x->known[other])
        return k == K_OK ? K_UNSUPPORTED : k; /* this rank comes again */
    return device_copy(device, shares + other * n, x->kept[other], bytes,
                       x->lab->ex.stream);
}

/* As the whole does it: dx is the sum of both ranks' parts. */
static enum kstatus head_parts(struct lab *lab, const struct dims *d,
                               double *sums, void *dx, const void *x,
                               const struct weight *w, const int32_t *label,
                               const uint8_t *mask, double scale, double z)
{
    int64_t N = d->N, shares_n = 2 * N * HEAD_SHARE;
    int cut = d->Vp / 2, real = d->V - cut;
    struct weight part[2] = {rows_part(lab, w, 0, cut),
                             rows_part(lab, w, cut, d->Vp - cut)};
    int V[2] = {real < 0 ? d->V : cut, real < 0 ? 0 : real};
    struct exchange ex = {lab, 0, {false, false},
                          {lab_out(lab, shares_n, DT_F64),
                           lab_out(lab, shares_n, DT_F64)}};
    void *parts[2] = {dx, dx ? lab_out(lab, N * d->C, lab->ex.act) : NULL};
    struct head_peers peers = {.size = 2, .V = d->V, .gather = exchange,
                               .shares = lab_out(lab, shares_n, DT_F64),
                               .ctx = &ex};
    static const int order[] = {1, 0, 1};
    enum kstatus k = K_OK;
    for (int i = 0; i < 3 && k == K_OK; i++) {
        int r = peers.rank = ex.rank = order[i];
        k = OPS->head_loss(EX, sums, parts[r], x, &part[r], label, mask,
                           scale, z, N, V[r], &peers);
        if (i == 0 && k == K_UNSUPPORTED)
            k = K_OK;
    }
    if (k == K_OK && dx)
        k = OPS->sum_in_order(EX, dx, parts, 2, N * d->C, lab->ex.act);
    return k;
}

/* variant bits: 1 mask, 2 z-loss, 4 forward only, 8 rows on two ranks */
static void head_case(struct lab *lab, const struct dims *d)
{
    int64_t N = d->N, C = d->C;
    int wx, ww;
    double scale = lab->bench ? 1.0 / (double)N : 0.7;
    double z = d->variant & 2 ? 1e-2 : 0, host[4] = {0};
    void *x = lab_in(lab, N * C, 1, &wx);
    struct weight w = lab_weight(lab, d->Vp, d->C, false, 1 / sqrt(d->C), &ww);
    int32_t *label = some_tokens(d->N, d->V);
    uint8_t *mask = malloc(N);

    for (int i = 0; i < N; i++) {
        mask[i] = i % 5 != 2;
        if (d->variant & 1 && !mask[i])
            label[i] = -1;
    }
    void *dlabel = lab_host(lab, label, N * sizeof *label);
    void *dmask = d->variant & 1 ? lab_host(lab, mask, N) : NULL;
    double *sums = lab_host(lab, host, sizeof host);
    free(label);
    free(mask);
    void *dx = d->variant & 4 ? NULL : lab_out(lab, N * C, lab->ex.act);
    LAB_RUN(lab, "head_loss", (dx ? 6.0 : 2.0) * N * C * d->V, 0,
            d->variant & 8
                ? head_parts(lab, d, sums, dx, x, &w, dlabel, dmask, scale, z)
                : OPS->head_loss(EX, sums, dx, x, &w, dlabel, dmask, scale, z,
                                 N, d->V, NULL));
    if (lab->bench)
        return;
    lab_got(lab, "sums", sums, 3, DT_F64);
    device_copy_out(lab->ex.device, host, sums, sizeof host, lab->ex.stream);
    device_sync(lab->ex.device, lab->ex.stream);
    lab_add_loss(lab, scale * host[0]);
    if (dx) {
        lab_grad(lab, "dx", dx, N * C, wx);
        lab_wgrad(lab, "dw", &w, ww);
    }
    enum dtype lt = lab->ex.stat;
    void *logits = lab_out(lab, N * d->V, lt);
    LAB_RUN(lab, "head_logits", 2.0 * N * C * d->V, 0,
            OPS->head_logits(EX, logits, x, &w, N, d->V));
    lab_got(lab, "logits", logits, N * d->V, lt);
}

/* Three steps on three tensors (odd sizes), with norm and statistics. */
static void adamw_case(struct lab *lab, const struct dims *d)
{
    int64_t n[3] = {(int64_t)d->N * d->C, d->C, 5};
    struct adamw_tensor t[3];
    void *grads[3];
    double host[3] = {0.9, 0, NAN};
    int unused, mixed = lab->ex.stat != lab->ex.act;
    int tensors_n = lab->bench ? 1 : 3;

    for (int i = 0; i < tensors_n; i++) {
        struct weight w = lab_weight(lab, (int)n[i], 1, false, 1, &unused);
        t[i] = (struct adamw_tensor){.param = w.data, .n = n[i],
                                     .grad = w.grad, .decay = i ? 0 : 0.1f};
        t[i].master = mixed ? lab_out(lab, n[i], lab->ex.stat) : w.data;
        if (mixed)
            OPS->cast(EX, t[i].master, lab->ex.stat, w.data, lab->ex.act,
                      n[i]);
        t[i].m = lab_out(lab, n[i], lab->ex.stat);
        t[i].v = lab_out(lab, n[i], lab->ex.stat);
        OPS->fill_value(EX, t[i].m, lab->ex.stat, n[i], 0);
        OPS->fill_value(EX, t[i].v, lab->ex.stat, n[i], 0);
        grads[i] = w.grad;
    }
    double *factor = lab_host(lab, host, sizeof host);
    double *stats = lab_out(lab, 9, DT_F64), *norm = lab_out(lab, 1, DT_F64);
    LAB_RUN(lab, "sum_squares", 0, 4.0 * n[0],
            OPS->sum_squares(EX, norm, grads, n, tensors_n, lab->ex.grad));
    lab_got(lab, "squares", norm, 1, DT_F64);
    for (int step = 1; step <= (lab->bench ? 1 : 3); step++) {
        struct adamw_scalars s = {1e-2, 0.9, 0.95, 1e-8, 1 - pow(0.9, step),
                                  1 - pow(0.95, step)};
        void *ds = lab_host(lab, &s, sizeof s);
        LAB_RUN(lab, "adamw", 0, (24 + 2.0 * (mixed ? 3 : 2)) * n[0],
                OPS->adamw(EX, t, tensors_n, ds, factor,
                           lab->bench ? NULL : stats));
        if (lab->bench)
            return;
        /* skipped: zero, and not a number */
        double *out2 = lab_out(lab, 9, DT_F64);
        OPS->adamw(EX, t, 3, ds, factor + 1 + step % 2, out2);
        lab_got(lab, "skipped", out2, 9, DT_F64);
    }
    lab_got(lab, "stats", stats, 9, DT_F64);
    for (int i = 0; i < 3; i++) {
        lab_got(lab, "param", t[i].param, n[i], lab->ex.act);
        lab_got(lab, "master", t[i].master, n[i], lab->ex.stat);
        lab_got(lab, "m", t[i].m, n[i], lab->ex.stat);
        lab_got(lab, "v", t[i].v, n[i], lab->ex.stat);
    }
}

static void fill_case(struct lab *lab, const struct dims *d)
{
    int64_t n = (int64_t)d->N * d->C;
    enum dtype types[] = {DT_F32, DT_BF16, DT_F16};
    static const char *const names[] = {"f32", "bf16", "f16"};

    for (int i = 0; i < 3; i++) {
        void *x = lab_out(lab, n, types[i]), *y = lab_out(lab, n, DT_F32);
        LAB_RUN(lab, "fill_normal", 0, (double)dtype_bytes(types[i]) * n,
                OPS->fill_normal(EX, x, types[i], 42, 7, n, 0.02));
        lab_got(lab, names[i], x, n, types[i]);
        LAB_RUN(lab, "cast", 0, (double)(4 + dtype_bytes(types[i])) * n,
                OPS->cast(EX, y, DT_F32, x, types[i], n));
        OPS->fill_value(EX, x, types[i], n, 0.25);
        void *z = lab_out(lab, n, types[i]);
        OPS->cast(EX, z, types[i], y, DT_F32, n);
        lab_got(lab, "cast", z, n, types[i]);
        void *srcs[3] = {x, z, z};
        void *sum = lab_out(lab, n, types[i]);
        LAB_RUN(lab, "sum_in_order", 0, 4.0 * dtype_bytes(types[i]) * n,
                OPS->sum_in_order(EX, sum, srcs, 3, n, types[i]));
        lab_got(lab, "sum", sum, n, types[i]);
    }
}

static const struct dims linear_shapes[] = {
    {.N = 7, .C = 5, .F = 3}, {.N = 7, .C = 5, .F = 3, .variant = 1},
    {.N = 130, .C = 72, .F = 96}, {.N = 130, .C = 72, .F = 96, .variant = 3},
    {.N = 64, .C = 128, .F = 512, .variant = 4},
    {.N = 65, .C = 128, .F = 320, .variant = 5},
    {.N = 33, .C = 40, .F = 24, .variant = 8},
    {.N = 1, .C = 64, .F = 64, .variant = 2},
    {.N = 600, .C = 264, .F = 272, .variant = 9}, {0}};
static const struct dims mlp_shapes[] = {
    {.N = 96, .C = 64, .F = 256}, {.N = 96, .C = 64, .F = 256, .variant = 1},
    {.N = 33, .C = 27, .F = 51}, {0}};
static const struct dims norm_shapes[] = {
    {.N = 33, .C = 7}, {.N = 33, .C = 7, .variant = 16},
    {.N = 33, .C = 129, .variant = 1}, {.N = 410, .C = 768, .variant = 24},
    {.N = 70, .C = 256, .variant = 16}, {.N = 300, .C = 4096, .variant = 25},
    {.N = 300, .C = 768, .variant = 2}, {.N = 70, .C = 256, .variant = 9},
    {.N = 70, .C = 256, .variant = 8}, {.N = 5, .C = 4096, .variant = 1},
    {.N = 1, .C = 64, .variant = 4}, {.N = 520, .C = 1600, .variant = 8}, {0}};
static const struct dims qk_shapes[] = {
    {.N = 21, .H = 4, .K = 2, .D = 8, .variant = 3},
    {.N = 35, .H = 3, .K = 3, .D = 64, .variant = 2},
    {.N = 35, .H = 6, .K = 2, .D = 128, .variant = 3},
    {.N = 35, .H = 4, .K = 1, .D = 80, .variant = 3},
    {.N = 9, .H = 2, .K = 1, .D = 96, .variant = 1}, {0}};
static const struct dims attn_shapes[] = {
    {.B = 2, .T = 37, .H = 2, .K = 2, .D = 16},
    {.B = 1, .T = 200, .H = 3, .K = 3, .D = 64},
    {.B = 2, .T = 256, .H = 4, .K = 4, .D = 64},
    {.B = 2, .T = 128, .H = 4, .K = 2, .D = 128},
    {.B = 1, .T = 130, .H = 6, .K = 2, .D = 80},
    {.B = 1, .T = 65, .H = 4, .K = 1, .D = 96},
    {.B = 2, .T = 96, .H = 2, .K = 2, .D = 64, .variant = 1},
    {.B = 1, .T = 300, .H = 4, .K = 2, .D = 128, .variant = 1},
    {.B = 1, .T = 260, .H = 6, .K = 3, .D = 80, .variant = 1},
    {.B = 1, .T = 190, .H = 4, .K = 4, .D = 96, .variant = 1},
    {.B = 1, .T = 140, .H = 2, .K = 1, .D = 32, .variant = 1},
    {.B = 4, .T = 200, .H = 4, .K = 1, .D = 64, .variant = 1},
    {.B = 2, .T = 70, .Tk = 131, .H = 2, .K = 1, .D = 80, .variant = 2},
    {.B = 2, .T = 1, .Tk = 77, .H = 4, .K = 2, .D = 64, .variant = 2},
    {.B = 3, .T = 5, .Tk = 150, .H = 4, .K = 4, .D = 128, .variant = 2}, {0}};
static const struct dims swiglu_shapes[] = {
    {.N = 33, .F = 7}, {.N = 65, .F = 344}, {.N = 3, .F = 8192}, {0}};
static const struct dims embed_shapes[] = {
    {.N = 100, .C = 48, .V = 31, .T = 50},
    {.N = 700, .C = 7, .V = 5, .T = 700, .variant = 1},
    {.N = 2000, .C = 264, .V = 5000, .T = 1000},
    {.N = 100, .C = 48, .V = 31, .T = 50, .variant = 2},
    {.N = 700, .C = 7, .V = 5, .T = 700, .variant = 3}, {0}};
static const struct dims head_shapes[] = {
    {.N = 40, .C = 24, .V = 61, .Vp = 64},
    {.N = 300, .C = 64, .V = 1000, .Vp = 1024, .variant = 3},
    {.N = 64, .C = 128, .V = 5003, .Vp = 5120, .variant = 2},
    {.N = 33, .C = 32, .V = 96, .Vp = 96, .variant = 5},
    {.N = 40, .C = 24, .V = 61, .Vp = 64, .variant = 8},
    {.N = 200, .C = 64, .V = 1000, .Vp = 1024, .variant = 11},
    {.N = 50, .C = 32, .V = 30, .Vp = 64, .variant = 10},
    /* rows of two, four and eight blocks, and longer */
    {.N = 3, .C = 8, .V = 20001, .Vp = 20008},
    {.N = 5, .C = 8, .V = 50257, .Vp = 50304, .variant = 1},
    {.N = 3, .C = 8, .V = 60001, .Vp = 60032},
    {.N = 4, .C = 8, .V = 128200, .Vp = 128256, .variant = 3},
    {.N = 2, .C = 8, .V = 131077, .Vp = 131080, .variant = 4}, {0}};
static const struct dims adamw_shapes[] = {
    {.N = 30, .C = 7}, {.N = 1000, .C = 133}, {0}};
static const struct dims fill_shapes[] = {{.N = 77, .C = 13}, {0}};

/* gpt2-124m, gpt2-1558m, llama-1b, llama-8b and gpt3-7b, one micro-batch */
static const struct dims linear_bench[] = {
    {.N = 65536, .C = 768, .F = 2304, .variant = 1},
    {.N = 65536, .C = 768, .F = 2304, .variant = 3},
    {.N = 65536, .C = 768, .F = 768, .variant = 1},
    {.N = 16384, .C = 1600, .F = 4800, .variant = 1},
    {.N = 16384, .C = 2048, .F = 16384, .variant = 2},
    {.N = 8192, .C = 4096, .F = 4096, .variant = 2},
    {.N = 8192, .C = 4096, .F = 28672, .variant = 2}, {0}};
static const struct dims mlp_bench[] = {
    {.N = 32768, .C = 768, .F = 3072, .variant = 1},
    {.N = 16384, .C = 1600, .F = 6400, .variant = 1},
    {.N = 8192, .C = 4096, .F = 16384, .variant = 1}, {0}};
static const struct dims norm_bench[] = {
    {.N = 65536, .C = 768, .variant = 8}, {.N = 65536, .C = 768, .variant = 24},
    {.N = 32768, .C = 1600, .variant = 8},
    {.N = 32768, .C = 1600, .variant = 24},
    {.N = 32768, .C = 2048, .variant = 9},
    {.N = 32768, .C = 4096, .variant = 9}, {0}};
static const struct dims qk_bench[] = {
    {.N = 32768, .H = 32, .K = 8, .D = 128, .variant = 2},
    {.N = 32768, .H = 32, .K = 8, .D = 64, .variant = 2},
    {.N = 32768, .H = 32, .K = 8, .D = 128, .variant = 3}, {0}};
static const struct dims attn_bench[] = {
    {.B = 32, .T = 1024, .H = 12, .K = 12, .D = 64},
    {.B = 16, .T = 1024, .H = 25, .K = 25, .D = 64},
    {.B = 16, .T = 2048, .H = 32, .K = 8, .D = 64},
    {.B = 4, .T = 2048, .H = 32, .K = 32, .D = 128},
    {.B = 2, .T = 8192, .H = 32, .K = 8, .D = 128},
    {.B = 16, .T = 1024, .H = 12, .K = 12, .D = 64, .variant = 1},
    {.B = 8, .T = 2048, .H = 32, .K = 8, .D = 128, .variant = 1},
    {.B = 8, .T = 2048, .Tk = 2048, .H = 32, .K = 8, .D = 128, .variant = 2},
    {0}};
static const struct dims swiglu_bench[] = {
    {.N = 32768, .F = 8192}, {.N = 8192, .F = 14336}, {0}};
static const struct dims embed_bench[] = {
    {.N = 65536, .C = 768, .V = 50257, .T = 1024},
    {.N = 32768, .C = 4096, .V = 128256, .T = 1024, .variant = 1}, {0}};
static const struct dims head_bench[] = {
    {.N = 32768, .C = 768, .V = 50257, .Vp = 50304},
    {.N = 16384, .C = 1600, .V = 50257, .Vp = 50304},
    {.N = 16384, .C = 2048, .V = 128256, .Vp = 128256}, {0}};
static const struct dims adamw_bench[] = {{.N = 124000, .C = 1000}, {0}};
static const struct dims fill_bench[] = {{.N = 65536, .C = 1024}, {0}};

const struct op_row op_rows[] = {
    {"linear", linear_case, true, 4e-6, 8e-3, linear_shapes, linear_bench},
    {"mlp", mlp_case, true, 6e-6, 1.2e-2, mlp_shapes, mlp_bench},
    {"norm", norm_case, true, 3e-6, 8e-3, norm_shapes, norm_bench},
    {"qk", qk_case, true, 3e-6, 1e-2, qk_shapes, qk_bench},
    {"attn", attn_case, true, 4e-6, 1.2e-2, attn_shapes, attn_bench},
    {"swiglu", swiglu_case, true, 2e-6, 6e-3, swiglu_shapes, swiglu_bench},
    {"embed", embed_case, true, 2e-6, 8e-3, embed_shapes, embed_bench},
    {"head", head_case, true, 4e-6, 1.2e-2, head_shapes, head_bench},
    {"adamw", adamw_case, false, 4e-6, 8e-3, adamw_shapes, adamw_bench},
    {"fill", fill_case, false, 0, 0, fill_shapes, fill_bench},
};
const int op_rows_n = sizeof op_rows / sizeof *op_rows;
