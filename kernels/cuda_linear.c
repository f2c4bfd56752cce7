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
    enum kstatus s = K_UNSUPPORTED;

    if (epi == EPI_GELU && (!aux || aux == y))
        return K_INVALID;
    if (epi == EPI_GELU)
        p.gelu_aux = aux;
    if (w->out % 8 == 0)
        s = cuda_product(ex, &p);
    if (s != K_UNSUPPORTED)
        return s;
    p.bias = NULL;
    p.gelu_aux = NULL;
    if (epi == EPI_GELU)
        p.C = aux;
    s = product_or_fail(ex, &p);
    if (!s && b)
        s = cuda_bias(ex, p.C, b->data, N, w->out);
    if (!s && epi == EPI_GELU)
        s = cuda_gelu(ex, y, aux, N * w->out);
    return s;
}

static enum kstatus linear_dx(struct exec *ex, void *dx, const void *gelu_aux,
                              bool add, const void *dy, const struct weight *w,
                              int64_t N)
{
    struct product p = {.tb = w->in_out, .M = N, .N = w->in, .K = w->out,
                        .A = dy, .lda = w->out, .B = w->data,
                        .ldb = w->in_out ? w->out : w->in, .C = dx,
                        .ldc = w->in, .out = ex->act, .add = add,
                        .dgelu_aux = gelu_aux};
    enum kstatus s = K_UNSUPPORTED;

    if (!gelu_aux)
        return product_or_fail(ex, &p);
    if (w->in % 8 == 0)
        s = cuda_product(ex, &p);
    if (s != K_UNSUPPORTED)
        return s;
    p.dgelu_aux = NULL;
    s = product_or_fail(ex, &p);
    return s ? s : cuda_gelu_bwd(ex, dx, gelu_aux, N * w->in);
}

/* Does the sum over tokens of dy come cheaper with the product than by a pass
 * of its own? Fused, cuBLASLt may have no split of K, which small weights need;
 * the pass reads dy at about 3.5 TB/s. Not timed: no. */
static bool fused_bias_pays(struct exec *ex, const struct product *p,
                            int64_t N, int64_t out)
{
    struct product plain = *p;
    float pass_ms = 0.008f + (float)(N * out) *
                                 (float)dtype_bytes(ex->act) / 3.5e9f;
    float fused_ms = cuda_product_ms(ex, p), plain_ms;

    if (fused_ms <= 0)
        return false;
    plain.bias_grad = NULL;
    plain_ms = cuda_product_ms(ex, &plain);
    return plain_ms < 0 || (plain_ms > 0 && fused_ms < plain_ms + pass_ms);
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
        p.bias_grad_of_a = !w->in_out;
        p.scratch_used =
            ((size_t)w->out * sizeof(float) + 255) / 256 * 256;
        p.bias_grad = cuda_scratch(ex, p.scratch_used);
        if (p.bias_grad && fused_bias_pays(ex, &p, N, w->out)) {
            s = cuda_product(ex, &p);
            return s ? s : cuda_add_partials(ex, b->grad, p.bias_grad, 1,
                                             w->out);
        }
        p.bias_grad = NULL;
    }
    s = product_or_fail(ex, &p);
    if (!s && b && b->grad)
        s = cuda_column_sums(ex, b->grad, dy, N, w->out);
    return s;
}

enum kstatus cuda_linear_bwd(struct exec *ex, void *dx, const void *gelu_aux,
                             bool dx_add, const void *dy, const void *x,
                             const struct weight *w, const struct weight *b,
                             int64_t N)
{
    enum kstatus s = K_OK;

    if (gelu_aux && (dx_add || gelu_aux == dx))
        return K_INVALID;
    if (dx)
        s = linear_dx(ex, dx, gelu_aux, dx_add, dy, w, N);
    if (!s && w->grad)
        s = linear_dw(ex, dy, x, w, b, N);
    else if (!s && b && b->grad)
        s = cuda_column_sums(ex, b->grad, dy, N, w->out);
    return s;
}
