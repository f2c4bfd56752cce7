/* cpu_linear - matrix products by OpenBLAS on one thread a tile, and what is
 * fused to them: bias, GELU, its derivative. */
#include "kernels/cpu.h"

#include <cblas.h>

#define TILE_ROWS 512
#define TILE_COLS 256

void cpu_gemm(bool ta, bool tb, int64_t M, int64_t N, int64_t K, real alpha,
              const real *A, int64_t lda, const real *B, int64_t ldb,
              real beta, real *C, int64_t ldc)
{
    enum CBLAS_TRANSPOSE at = ta ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE bt = tb ? CblasTrans : CblasNoTrans;
#ifdef KB_REAL_F64
    cblas_dgemm(CblasRowMajor, at, bt, (int)M, (int)N, (int)K, alpha, A,
                (int)lda, B, (int)ldb, beta, C, (int)ldc);
#else
    cblas_sgemm(CblasRowMajor, at, bt, (int)M, (int)N, (int)K, alpha, A,
                (int)lda, B, (int)ldb, beta, C, (int)ldc);
#endif
}

struct matmul {
    bool ta, tb;
    int64_t M, N, K, lda, ldb, ldc, tile_rows, tile_cols, cols_n;
    const real *A, *B;
    real *C, beta;
    CPU_NAME(tile_done) done;
    void *ctx;
};

static void matmul_tile(void *ctx, int64_t i, int worker)
{
    const struct matmul *p = ctx;
    int64_t m = i / p->cols_n * p->tile_rows, n = i % p->cols_n * p->tile_cols;
    int64_t mn = p->M - m < p->tile_rows ? p->M - m : p->tile_rows;
    int64_t nn = p->N - n < p->tile_cols ? p->N - n : p->tile_cols;

    (void)worker;
    if (mn <= 0 || nn <= 0)
        return;
    cpu_gemm(p->ta, p->tb, mn, nn, p->K, 1, p->A + (p->ta ? m : m * p->lda),
             p->lda, p->B + (p->tb ? n * p->ldb : n), p->ldb, p->beta,
             p->C + m * p->ldc + n, p->ldc);
    if (p->done)
        p->done(p->ctx, m, mn, n, nn);
}

/* Tiles by shape alone; their number across is a multiple of 4 so that few
 * threads share them evenly. */
void cpu_matmul(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                const real *A, int64_t lda, const real *B, int64_t ldb,
                real beta, real *C, int64_t ldc, CPU_NAME(tile_done) done,
                void *ctx)
{
    struct matmul p = {ta, tb, M, N, K, lda, ldb, ldc, TILE_ROWS, 0, 0,
                       A, B, C, beta, done, ctx};
    int64_t across = (N + TILE_COLS - 1) / TILE_COLS;

    if (M <= 0 || N <= 0)
        return;
    if (M * N * K >= 1 << 18)
        across = (across + 3) / 4 * 4;
    p.tile_cols = ((N + across - 1) / across + 15) / 16 * 16;
    p.cols_n = (N + p.tile_cols - 1) / p.tile_cols;
    pool_run(matmul_tile, &p, (M + TILE_ROWS - 1) / TILE_ROWS * p.cols_n);
}

/* gelu(x) = x s, s = 1 / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3): the
 * tanh form, since (1 + tanh u) / 2 = s. */
#define GELU_A ((real)1.5957691216057308) /* 2 sqrt(2/pi) */
#define GELU_B ((real)0.044715)

CLONES static void gelu_row(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        real v = x[i];
        real u = GELU_A * (v + GELU_B * v * v * v);
        y[i] = v / (1 + real_exp(-u));
    }
}

CLONES static void gelu_bwd_row(real *dx, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        real v = x[i];
        real u = GELU_A * (v + GELU_B * v * v * v);
        real s = 1 / (1 + real_exp(-u));
        real du = GELU_A * (1 + 3 * GELU_B * v * v);
        dx[i] *= s + v * s * (1 - s) * du;
    }
}

CLONES static void bias_row(real *y, const real *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += b[i];
}

struct linear {
    real *y, *aux;
    const real *b, *gelu_aux;
    int64_t width;
};

static void linear_fwd_done(void *ctx, int64_t m, int64_t mn, int64_t n,
                            int64_t nn)
{
    const struct linear *p = ctx;

    for (int64_t i = m; i < m + mn; i++) {
        real *y = p->y + i * p->width + n;
        if (p->b)
            bias_row(y, p->b + n, nn);
        if (p->aux) {
            real *aux = p->aux + i * p->width + n;
            memcpy(aux, y, nn * sizeof *y);
            gelu_row(y, aux, nn);
        }
    }
}

enum kstatus cpu_linear_fwd(struct exec *ex, void *y, void *aux,
                            const void *x, const struct weight *w,
                            const struct weight *b, int64_t N,
                            enum epilogue epi)
{
    struct linear p = {.y = y, .b = b ? b->data : NULL, .width = w->out};

    (void)ex;
    if (epi == EPI_GELU) {
        if (!aux || aux == y)
            return K_INVALID;
        p.aux = aux;
    }
    cpu_matmul(false, !w->in_out, N, w->out, w->in, x, w->in, w->data,
               w->in_out ? w->out : w->in, 0, y, w->out,
               p.b || p.aux ? linear_fwd_done : NULL, &p);
    return K_OK;
}

struct gelu {
    real *y;
    const real *x;
    int64_t n;
};
#define GELU_TASK 4096

static void gelu_task(void *ctx, int64_t task, int worker)
{
    const struct gelu *p = ctx;
    int64_t from = task * GELU_TASK, left = p->n - from;

    (void)worker;
    gelu_row(p->y + from, p->x + from, left < GELU_TASK ? left : GELU_TASK);
}

enum kstatus cpu_gelu_fwd(struct exec *ex, void *y, const void *x, int64_t n)
{
    struct gelu p = {.y = y, .x = x, .n = n};

    (void)ex;
    pool_run(gelu_task, &p, (n + GELU_TASK - 1) / GELU_TASK);
    return K_OK;
}

static void linear_bwd_done(void *ctx, int64_t m, int64_t mn, int64_t n,
                            int64_t nn)
{
    const struct linear *p = ctx;

    for (int64_t i = m; i < m + mn; i++)
        gelu_bwd_row(p->y + i * p->width + n, p->gelu_aux + i * p->width + n,
                     nn);
}

/* Column sums: COLS columns a task, rows in order, in blocks so that a long
 * sum does not lose its small terms. */
#define COLS 64
#define ROWS_BLOCK 256

struct col_sum {
    const real *dy;
    real *db;
    int64_t N, width;
};

CLONES static void col_sum_task(void *ctx, int64_t task, int worker)
{
    const struct col_sum *p = ctx;
    int64_t c = task * COLS, cn = p->width - c < COLS ? p->width - c : COLS;
    real total[COLS] = {0};

    (void)worker;
    for (int64_t n0 = 0; n0 < p->N; n0 += ROWS_BLOCK) {
        int64_t n1 = n0 + ROWS_BLOCK < p->N ? n0 + ROWS_BLOCK : p->N;
        real part[COLS] = {0};
        for (int64_t n = n0; n < n1; n++) {
            const real *row = p->dy + n * p->width + c;
            if (cn == COLS) {
                for (int i = 0; i < COLS; i++)
                    part[i] += row[i];
            } else {
                for (int i = 0; i < cn; i++)
                    part[i] += row[i];
            }
        }
        for (int i = 0; i < COLS; i++)
            total[i] += part[i];
    }
    for (int i = 0; i < cn; i++)
        p->db[c + i] += total[i];
}

void cpu_column_sums(real *db, const real *dy, int64_t N, int64_t width)
{
    struct col_sum s = {dy, db, N, width};

    pool_run(col_sum_task, &s, (width + COLS - 1) / COLS);
}

enum kstatus cpu_linear_bwd(struct exec *ex, void *dx, const void *gelu_aux,
                            const struct weight *gelu_b, bool dx_add,
                            const void *dy, const void *x,
                            const struct weight *w, const struct weight *b,
                            int64_t N)
{
    struct linear p = {.y = dx, .gelu_aux = gelu_aux, .width = w->in};

    (void)ex;
    if (gelu_aux && (dx_add || gelu_aux == dx))
        return K_INVALID;
    if (dx)
        cpu_matmul(false, w->in_out, N, w->in, w->out, dy, w->out, w->data,
                   w->in_out ? w->out : w->in, dx_add ? 1 : 0, dx, w->in,
                   gelu_aux ? linear_bwd_done : NULL, &p);
    if (dx && gelu_aux && gelu_b && gelu_b->grad)
        cpu_column_sums(gelu_b->grad, dx, N, w->in);
    if (w->grad && w->in_out)
        cpu_matmul(true, false, w->in, w->out, N, x, w->in, dy, w->out, 1,
                   w->grad, w->out, NULL, NULL);
    else if (w->grad)
        cpu_matmul(true, false, w->out, w->in, N, dy, w->out, x, w->in, 1,
                   w->grad, w->in, NULL, NULL);
    if (b && b->grad)
        cpu_column_sums(b->grad, dy, N, w->out);
    return K_OK;
}
