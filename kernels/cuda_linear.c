/* cuda_linear - linear layers out of products (cuda_product.c), and what those
 * could not fuse done after them. */
#include "kernels/cuda.h"

/* A product that must work, with what could not be fused done after it. */
static enum kstatus product_or_fail(struct exec *ex, const struct product *p)
{
    enum kstatus s = cuda_product(ex, p);

    if (s == K_UNSUPPORTED)
        return cuda_failed(ex, K_UNSUPPORTED, "product",
                           "cublasLt has no algorithm for it");
    return s;
}

/* A pass over memory takes about this long. */
static float pass_ms(const struct exec *ex, int64_t n)
{
    return 0.004f + (float)n * (float)dtype_bytes(ex->act) / 3.8e9f;
}

/* Is it quicker fused than as plain product and a pass over n numbers? Not
 * timed: what the library has fused is taken. */
static bool fused_pays(struct exec *ex, const struct product *fused,
                       const struct product *plain, int64_t pass_n)
{
    float fused_ms = cuda_product_ms(ex, fused), plain_ms;

    if (fused_ms <= 0)
        return fused_ms == 0;
    plain_ms = cuda_product_ms(ex, plain);
    return plain_ms <= 0 || fused_ms < plain_ms + pass_ms(ex, pass_n);
}

enum kstatus cuda_linear_fwd(struct exec *ex, void *y, void *aux,
                             const void *x, const struct weight *w,
                             const struct weight *b, int64_t N,
                             enum epilogue epi)
{
    struct product p = {.tb = !w->in_out, .M = N, .N = w->out, .K = w->in,
                        .A = x, .lda = w->in, .B = w->data,
                        .ldb = w->in_out ? w->out : w->in, .C = y,
                        .ldc = w->out, .out = ex->act,
                        .bias = b ? b->data : NULL};
    struct product fused = p;
    enum kstatus s = K_UNSUPPORTED;

    if (epi == EPI_GELU && (!aux || aux == y))
        return K_INVALID;
    if (epi == EPI_GELU) {
        fused.gelu_aux = aux;
        p.C = aux;
        if (w->out % 8 == 0 && fused_pays(ex, &fused, &p, 2 * N * w->out))
            s = cuda_product(ex, &fused);
        if (s != K_UNSUPPORTED)
            return s;
    }
    if (w->out % 8 == 0)
        s = cuda_product(ex, &p);
    if (s == K_UNSUPPORTED) {
        p.bias = NULL;
        s = product_or_fail(ex, &p);
        if (!s && b)
            s = cuda_bias(ex, p.C, b->data, N, w->out);
    }
    return s || epi != EPI_GELU ? s : cuda_gelu(ex, y, aux, N * w->out);
}

/* Room in scratch for a product's column sums. */
static float *sums_room(struct exec *ex, struct product *p, int width)
{
    p->scratch_used = ((size_t)width * sizeof(float) + 255) / 256 * 256;
    return cuda_scratch(ex, p->scratch_used);
}

/* dx of GELU's output times gelu', and the bias gradient before the GELU. */
static enum kstatus linear_dgelu(struct exec *ex, struct product *p,
                                 const struct weight *b)
{
    struct product plain = *p;
    void *db = b ? b->grad : NULL;
    int64_t n = p->M * p->N;
    enum kstatus s = K_UNSUPPORTED;

    plain.dgelu_aux = NULL;
    /* unfused: dx is read and written again, and what GELU saw read; fused:
     * dx is read again for the sums */
    if (p->N % 8 == 0 && fused_pays(ex, p, &plain, db ? 2 * n : 3 * n))
        s = cuda_product(ex, p);
    if (!s && db)
        return cuda_column_sums(ex, db, p->C, p->M, (int)p->N);
    if (s != K_UNSUPPORTED)
        return s;
    s = product_or_fail(ex, &plain);
    return s ? s : cuda_gelu_bwd(ex, p->C, p->dgelu_aux, db, p->M, (int)p->N);
}

static enum kstatus linear_dx(struct exec *ex, void *dx, const void *gelu_aux,
                              const struct weight *gelu_b, bool add,
                              const void *dy, const struct weight *w,
                              int64_t N)
{
    struct product p = {.tb = w->in_out, .M = N, .N = w->in, .K = w->out,
                        .A = dy, .lda = w->out, .B = w->data,
                        .ldb = w->in_out ? w->out : w->in, .C = dx,
                        .ldc = w->in, .out = ex->act, .add = add,
                        .dgelu_aux = gelu_aux};

    return gelu_aux ? linear_dgelu(ex, &p, gelu_b) : product_or_fail(ex, &p);
}

static enum kstatus linear_dw(struct exec *ex, const void *dy, const void *x,
                              const struct weight *w, const struct weight *b,
                              int64_t N)
{
    struct product p = {.ta = true, .K = N, .C = w->grad, .out = ex->grad,
                        .add = true};
    enum kstatus s;

    p.M = w->in_out ? w->in : w->out;
    p.N = w->in_out ? w->out : w->in;
    p.A = w->in_out ? x : dy;
    p.B = w->in_out ? dy : x;
    p.lda = p.M;
    p.ldb = p.ldc = p.N;
    if (b && b->grad && w->out % 8 == 0 && w->in % 8 == 0 &&
        !ex->deterministic) {
        struct product fused = p;
        fused.bias_grad_of_a = !w->in_out;
        fused.bias_grad = sums_room(ex, &fused, w->out);
        if (fused.bias_grad && cuda_product_ms(ex, &fused) > 0 &&
            fused_pays(ex, &fused, &p, N * w->out)) {
            s = cuda_product(ex, &fused);
            return s ? s : cuda_add_partials(ex, b->grad, fused.bias_grad, 1,
                                             w->out);
        }
    }
    s = product_or_fail(ex, &p);
    if (!s && b && b->grad)
        s = cuda_column_sums(ex, b->grad, dy, N, w->out);
    return s;
}

enum kstatus cuda_linear_bwd(struct exec *ex, void *dx, const void *gelu_aux,
                             const struct weight *gelu_b, bool dx_add,
                             const void *dy, const void *x,
                             const struct weight *w, const struct weight *b,
                             int64_t N)
{
    enum kstatus s = K_OK;

    if (gelu_aux && (dx_add || gelu_aux == dx))
        return K_INVALID;
    if (dx)
        s = linear_dx(ex, dx, gelu_aux, gelu_b, dx_add, dy, w, N);
    if (!s && w->grad)
        s = linear_dw(ex, dy, x, w, b, N);
    else if (!s && b && b->grad)
        s = cuda_column_sums(ex, b->grad, dy, N, w->out);
    return s;
}
