/* cuda_choose - which of cuBLASLt's algorithms a product takes: in
 * deterministic mode the heuristic's first, else the quickest of those that it
 * offers, timed at the first use of the shape.
 *
 * A card that trains runs at its power limit, not at its highest clock, and
 * the clock moves by a tenth from one moment to the next. So the offers run in
 * turn, again and again without a rest, until the clock has come down; then
 * each is timed in every turn, and the least median wins: all see the same
 * clock, and it is the one that they will have.
 *
 * A product that adds is timed into scratch, or, where there is no room, in
 * place: what it adds to is kept on the host meanwhile.
 */
#include <stdlib.h>

#include "kernels/cuda_product.h"

#define OFFERS PRODUCT_OFFERS
#define HOPELESS 1.12f /* times the quickest of a first look: not looked at */
#define SETTLE_MS 40
#define TURNS 15
#define NEVER 1e30f

struct candidate {
    cublasLtMatmulAlgo_t algo;
    size_t ws_bytes;
    float ms;
};

struct choice {
    struct candidate at[OFFERS];
    int n;
};

static bool run(struct exec *ex, struct entry *e, const struct product *p,
                void *out, const struct candidate *c, int times)
{
    for (int i = 0; i < times; i++)
        if (cuda_product_launch(ex, e, p, out, &c->algo, c->ws_bytes))
            return false;
    return true;
}

/* Milliseconds of one call, the mean of some after some that do not count. */
static float time_calls(struct exec *ex, struct entry *e,
                        const struct product *p, void *out,
                        const struct candidate *c, int before, int timed)
{
    struct cuda_products *t = cuda_state(ex)->products;
    cudaStream_t stream = (cudaStream_t)ex->stream;
    float ms = NEVER;

    if (!run(ex, e, p, out, c, before) ||
        cudaEventRecord(t->from, stream) != cudaSuccess ||
        !run(ex, e, p, out, c, timed) ||
        cudaEventRecord(t->to, stream) != cudaSuccess ||
        cudaEventSynchronize(t->to) != cudaSuccess ||
        cudaEventElapsedTime(&ms, t->from, t->to) != cudaSuccess)
        return NEVER;
    return ms / (float)timed;
}

static int by_ms(const void *a, const void *b)
{
    float x = ((const struct candidate *)a)->ms;
    float y = ((const struct candidate *)b)->ms;

    return (x > y) - (x < y);
}

/* By time, the quickest first, without those over limit times it. */
static void sort(struct choice *c, float limit)
{
    qsort(c->at, (size_t)c->n, sizeof *c->at, by_ms);
    while (c->n && (c->at[c->n - 1].ms >= NEVER ||
                    c->at[c->n - 1].ms > limit * c->at[0].ms))
        c->n--;
}

static void set_alignment(cublasLtMatmulPreference_t pref, uint32_t align)
{
    static const cublasLtMatmulPreferenceAttributes_t attributes[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        cublasLtMatmulPreferenceSetAttribute(pref, attributes[i], &align,
                                             sizeof align);
}

static void add_offers(struct exec *ex, struct entry *e, struct choice *c)
{
    struct cuda_products *t = cuda_state(ex)->products;
    cublasLtMatmulHeuristicResult_t r[OFFERS];
    int n = 0;

    set_alignment(t->pref, (uint32_t)e->key.aligned);
    if (cublasLtMatmulAlgoGetHeuristic(t->lt, e->desc, e->a, e->b, e->c, e->c,
                                       t->pref, OFFERS, r, &n))
        return;
    for (int i = 0; i < n; i++)
        if (!r[i].state && r[i].workspaceSize <= CUDA_LT_BYTES)
            c->at[c->n++] = (struct candidate){.algo = r[i].algo,
                                               .ws_bytes = r[i].workspaceSize};
}

static float median(float *x, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k && x[k] < x[k - 1]; k--) {
            float t = x[k];
            x[k] = x[k - 1];
            x[k - 1] = t;
        }
    return x[n / 2];
}

/* Every candidate once; ms NULL: not timed. */
static bool turn(struct exec *ex, struct entry *e, const struct product *p,
                 void *out, const struct choice *c, float *ms)
{
    cudaEvent_t *at = cuda_state(ex)->products->turn;
    cudaStream_t stream = (cudaStream_t)ex->stream;
    bool good = true;

    if (ms)
        good = cudaEventRecord(at[0], stream) == cudaSuccess;
    for (int i = 0; i < c->n && good; i++) {
        good = run(ex, e, p, out, &c->at[i], 1);
        if (ms && good)
            good = cudaEventRecord(at[i + 1], stream) == cudaSuccess;
    }
    if (!ms || !good)
        return good;
    good = cudaEventSynchronize(at[c->n]) == cudaSuccess;
    for (int i = 0; i < c->n && good; i++)
        good = cudaEventElapsedTime(&ms[i], at[i], at[i + 1]) == cudaSuccess;
    return good;
}

/* What one of them cannot do is not timed: the first look's order stays. */
static void time_settled(struct exec *ex, struct entry *e,
                         const struct product *p, void *out, struct choice *c)
{
    float ms[TURNS][OFFERS], one[TURNS], all = 0;

    for (int i = 0; i < c->n; i++)
        all += c->at[i].ms;
    for (int r = (int)(SETTLE_MS / (all + 0.1f)); r >= 0; r--)
        if (!turn(ex, e, p, out, c, NULL))
            return;
    for (int r = 0; r < TURNS; r++)
        if (!turn(ex, e, p, out, c, ms[r]))
            return;
    for (int i = 0; i < c->n; i++) {
        for (int r = 0; r < TURNS; r++)
            one[r] = ms[r][i];
        c->at[i].ms = median(one, TURNS);
    }
    sort(c, NEVER);
}

static void time_all(struct exec *ex, struct entry *e,
                     const struct product *p, void *out, struct choice *c)
{
    for (int i = 0; i < c->n; i++) /* the first call loads code */
        c->at[i].ms = time_calls(ex, e, p, out, &c->at[i], 1, 2);
    sort(c, HOPELESS);
    if (c->n > 1)
        time_settled(ex, e, p, out, c);
}

static bool time_in_place(struct exec *ex, struct entry *e,
                          const struct product *p, size_t bytes,
                          struct choice *c)
{
    cudaStream_t stream = (cudaStream_t)ex->stream;
    void *kept = malloc(bytes);
    bool done = false;

    if (!kept)
        return false;
    if (cudaStreamSynchronize(stream) == cudaSuccess &&
        cudaMemcpy(kept, p->C, bytes, cudaMemcpyDeviceToHost) == cudaSuccess) {
        time_all(ex, e, p, p->C, c);
        /* if this fails the device does; the next call says so */
        done = cudaStreamSynchronize(stream) == cudaSuccess &&
               cudaMemcpy(p->C, kept, bytes, cudaMemcpyHostToDevice) ==
                   cudaSuccess;
    }
    free(kept);
    return done;
}

static bool timed(struct exec *ex, struct entry *e, const struct product *p,
                  struct choice *c)
{
    size_t bytes = (size_t)(p->M * p->ldc) * dtype_bytes(p->out);
    char *room;

    if (!p->add) {
        time_all(ex, e, p, p->C, c);
        return true;
    }
    room = cuda_scratch(ex, p->scratch_used + bytes);
    if (!room)
        return time_in_place(ex, e, p, bytes, c);
    time_all(ex, e, p, room + p->scratch_used, c);
    return true;
}

void cuda_product_choose(struct exec *ex, struct entry *e,
                         const struct product *p)
{
    struct choice c = {.n = 0};
    struct candidate first;

    add_offers(ex, e, &c);
    if (!c.n)
        return;
    first = c.at[0];
    if (ex->deterministic || cuda_state(ex)->products->untimed || c.n < 2 ||
        !timed(ex, e, p, &c) || !c.n)
        c.at[0] = first;
    e->algo = c.at[0].algo;
    e->ws_bytes = c.at[0].ws_bytes;
    e->ms = c.at[0].ms;
    e->usable = true;
}
