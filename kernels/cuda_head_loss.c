/* cuda_head_loss - head and cross-entropy in chunks of tokens; logits of one
 * chunk live in scratch. */
#include "kernels/cuda.h"

struct chunk {
    const char *x;
    char *dx;
    void *logits;
    double *row;
    int64_t rows;
    size_t scratch_used;
};

static enum kstatus chunk_logits(struct exec *ex, const struct chunk *c,
                                 const struct weight *w)
{
    struct product p = {.tb = true, .M = c->rows, .N = w->out, .K = w->in,
                        .A = c->x, .lda = w->in, .B = w->data, .ldb = w->in,
                        .C = c->logits, .ldc = w->out, .out = ex->act};

    return cuda_product(ex, &p);
}

static enum kstatus chunk_grads(struct exec *ex, const struct chunk *c,
                                const struct weight *w)
{
    struct product dx = {.M = c->rows, .N = w->in, .K = w->out,
                         .A = c->logits, .lda = w->out, .B = w->data,
                         .ldb = w->in, .C = c->dx, .ldc = w->in,
                         .out = ex->act};
    struct product dw = {.ta = true, .M = w->out, .N = w->in, .K = c->rows,
                         .A = c->logits, .lda = w->out, .B = c->x,
                         .ldb = w->in, .C = w->grad, .ldc = w->in,
                         .out = ex->grad, .add = true,
                         .scratch_used = c->scratch_used};
    enum kstatus s = cuda_product(ex, &dx);

    return s || !w->grad ? s : cuda_product(ex, &dw);
}

/* Logits of a chunk to losses and gradients, with the other ranks if any. */
static enum kstatus chunk_rows(struct exec *ex, const struct chunk *c,
                               const struct weight *w, const int32_t *labels,
                               const uint8_t *mask, double scale, double z,
                               int V, const struct head_peers *peers)
{
    int rows = (int)c->rows;
    if (!peers)
        return cuda_head_rows(ex, c->logits, c->row, labels, mask, scale, z,
                              rows, V, w->out, c->dx != NULL);
    double *own = peers->shares + (size_t)peers->rank * (size_t)rows *
                                      HEAD_SHARE;
    enum kstatus s = cuda_head_share(ex, c->logits, own, labels, mask, rows, V,
                                     w->out, w->row0);
    if (!s)
        s = peers->gather(peers->ctx, peers->shares, c->rows * HEAD_SHARE);
    if (!s)
        s = cuda_head_join(ex, c->logits, c->row, peers->shares, peers, labels,
                           mask, scale, z, rows, V, w->out, w->row0,
                           c->dx != NULL);
    return s;
}

enum kstatus cuda_head_loss(struct exec *ex, double *sums, void *dx,
                            const void *x, const struct weight *w,
                            const int32_t *labels, const uint8_t *mask,
                            double scale, double z, int64_t N, int V,
                            const struct head_peers *peers)
{
    size_t row_bytes = dtype_bytes(ex->act) * (size_t)w->in;
    int64_t most = cuda_head_rows_n(ex->act, N, w->out);
    struct chunk c = {.scratch_used = cuda_head_ws(ex->act, N, w->out)};
    enum kstatus s = K_OK;

    if (w->in_out || V > w->out)
        return K_INVALID;
    if (!(c.row = cuda_scratch(ex, c.scratch_used)))
        return cuda_failed(ex, K_NOMEM, "head_loss", "scratch too small");
    c.logits = (char *)c.row + cuda_head_rows_bytes(most);
    for (int64_t n = 0; n < N && !s; n += most) {
        c.rows = N - n < most ? N - n : most;
        c.x = (const char *)x + n * row_bytes;
        c.dx = dx ? (char *)dx + n * row_bytes : NULL;
        if ((s = chunk_logits(ex, &c, w)))
            break;
        s = chunk_rows(ex, &c, w, labels + n, mask ? mask + n : NULL, scale, z,
                       V, peers);
        if (!s && (!peers || peers->rank == 0))
            s = cuda_head_sums(ex, sums, c.row, (int)c.rows);
        if (!s && dx)
            s = chunk_grads(ex, &c, w);
    }
    if (s == K_UNSUPPORTED)
        cuda_failed(ex, s, "head_loss", "cublasLt has no algorithm for it");
    return s;
}

enum kstatus cuda_head_logits(struct exec *ex, void *logits, const void *x,
                              const struct weight *w, int64_t N, int V)
{
    struct product p = {.tb = true, .M = N, .N = V, .K = w->in, .A = x,
                        .lda = w->in, .B = w->data, .ldb = w->in, .C = logits,
                        .ldc = V, .out = DT_F32};

    if (w->in_out || V > w->out)
        return K_INVALID;
    return cuda_product(ex, &p);
}
