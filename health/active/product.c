/* product - matrix products of integers in one type, again and again, with the
 * one right result.
 *
 * D = A B' with small integers: every sum is exact. The first product is held
 * against both matrices (checks.h), every later one against the bits of the
 * first, the last one in full again. Tensor cores of some GPUs add fp8 with 14
 * bits: fp8's integers are so small that their sums keep to those.
 */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "health/active/gpu.h"
#include "runner/base/clock.h"

enum { SIDE = 8192, BATCH = 16, BATCHES_MAX = 64 };
#define WORKSPACE_BYTES ((size_t)64 << 20)
#define RUNS_MAX (BATCH * BATCHES_MAX)

static const struct type_row {
    const char *name;
    cudaDataType_t type;
    int bytes, most;
    int capability; /* at least */
} types[CHECKS_CELL_N] = {
    [CHECKS_BF16] = {"bf16", CUDA_R_16BF, 2, 45, 80},
    [CHECKS_FP8] = {"fp8", CUDA_R_8F_E4M3, 1, 3, 89},
    [CHECKS_FP32] = {"fp32", CUDA_R_32F, 4, 45, 0},
};

struct product {
    struct gpu_active *gpu;
    enum checks_cell cell;
    const struct type_row *type;
    void *a, *b, *workspace;
    float *d;
    unsigned long long *sums, *bits; /* [SIDE], [BATCH] */
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t in, out;
    cublasLtMatmulHeuristicResult_t plan;
    event_t from[BATCH], to[BATCH];
    double ms[RUNS_MAX];
    int runs, differ;
    unsigned long long first_bits;
};

/* ---- Setting up ------------------------------------------------------- */

static int describe(struct product *p)
{
    cublasOperation_t turned = CUBLAS_OP_T;
    int8_t fast = 0;
    size_t workspace = WORKSPACE_BYTES;
    cublasLtMatmulPreference_t wish = NULL;
    int found = 0;
    if (cublasLtCreate(&p->lt) ||
        cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                       &turned, sizeof turned) ||
        cublasLtMatmulDescSetAttribute(p->desc,
                                       CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                       sizeof fast) ||
        cublasLtMatrixLayoutCreate(&p->in, p->type->type, SIDE, SIDE, SIDE) ||
        cublasLtMatrixLayoutCreate(&p->out, CUDA_R_32F, SIDE, SIDE, SIDE) ||
        cublasLtMatmulPreferenceCreate(&wish) ||
        cublasLtMatmulPreferenceSetAttribute(
            wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
            sizeof workspace))
        return -1;
    cublasStatus_t rc = cublasLtMatmulAlgoGetHeuristic(
        p->lt, p->desc, p->in, p->in, p->out, p->out, wish, 1, &p->plan,
        &found);
    cublasLtMatmulPreferenceDestroy(wish);
    return rc || !found ? -1 : 0;
}

static void release(struct product *p)
{
    if (p->in)
        cublasLtMatrixLayoutDestroy(p->in);
    if (p->out)
        cublasLtMatrixLayoutDestroy(p->out);
    if (p->desc)
        cublasLtMatmulDescDestroy(p->desc);
    if (p->lt)
        cublasLtDestroy(p->lt);
}

static void *carve(char **at, size_t bytes)
{
    void *block = *at;
    *at += (bytes + 255) / 256 * 256;
    return block;
}

static int prepare(struct product *p)
{
    struct gpu_active *gpu = p->gpu;
    size_t cells = (size_t)SIDE * SIDE;
    char *at = gpu->arena;
    p->a = carve(&at, cells * (size_t)p->type->bytes);
    p->b = carve(&at, cells * (size_t)p->type->bytes);
    p->d = carve(&at, cells * sizeof *p->d);
    p->sums = carve(&at, SIDE * sizeof *p->sums);
    p->bits = carve(&at, BATCH * sizeof *p->bits);
    p->workspace = carve(&at, WORKSPACE_BYTES);
    int rc = checks_clear(gpu->wrong, gpu->stream);
    if (!rc)
        rc = checks_fill(p->cell, p->a, (int64_t)cells, 1, p->type->most,
                         gpu->stream);
    if (!rc)
        rc = checks_fill(p->cell, p->b, (int64_t)cells, 2, p->type->most,
                         gpu->stream);
    if (!rc)
        rc = checks_sums(p->cell, p->a, SIDE, SIDE, p->sums, gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "filling matrices");
    for (int i = 0; i < BATCH; i++) {
        p->from[i] = device_event_create(gpu->device);
        p->to[i] = device_event_create(gpu->device);
        if (!p->from[i] || !p->to[i])
            return gpu_fault(gpu, (int)cudaGetLastError(), "making events");
    }
    return 0;
}

/* ---- Running ---------------------------------------------------------- */

static int multiply(struct product *p)
{
    float one = 1, zero = 0;
    cublasStatus_t rc = cublasLtMatmul(
        p->lt, p->desc, &one, p->a, p->in, p->b, p->in, &zero, p->d, p->out,
        p->d, p->out, &p->plan.algo, p->workspace, WORKSPACE_BYTES,
        p->gpu->stream);
    int code = (int)cudaGetLastError();
    if (rc == CUBLAS_STATUS_SUCCESS && !code)
        return 0;
    return gpu_fault(p->gpu, code, cublasLtGetStatusString(rc));
}

/* A flipped bit in the last product, where somebody wants to see a finding. */
static int corrupt(struct product *p)
{
    if (!gpu_corrupts(p->gpu, p->type->name))
        return 0;
    return checks_flip(p->d, 12345678, 0x00400000, p->gpu->stream);
}

/* BATCH products; the bits of each. */
static int run_batch(struct product *p)
{
    struct gpu_active *gpu = p->gpu;
    unsigned long long bits[BATCH];
    int rc = (int)cudaMemsetAsync(p->bits, 0, sizeof bits, gpu->stream);
    for (int i = 0; i < BATCH && !rc; i++) {
        device_event_record(gpu->device, p->from[i], gpu->stream);
        if (multiply(p))
            return -1;
        device_event_record(gpu->device, p->to[i], gpu->stream);
        if (p->runs && i == BATCH - 1)
            rc = corrupt(p);
        if (!rc)
            rc = checks_bits(p->d, (int64_t)SIDE * SIDE * 4, p->bits + i,
                             gpu->stream);
    }
    if (!rc)
        rc = (int)cudaMemcpyAsync(bits, p->bits, sizeof bits,
                                  cudaMemcpyDeviceToHost, gpu->stream);
    if (!rc)
        rc = (int)cudaStreamSynchronize(gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "running products");
    if (!p->runs)
        p->first_bits = bits[0];
    for (int i = 0; i < BATCH; i++) {
        p->differ += bits[i] != p->first_bits;
        p->ms[p->runs++] =
            device_event_ms(gpu->device, p->from[i], p->to[i]);
    }
    return 0;
}

/* Count wrong rows; of the first one the cells. */
static int check(struct product *p, json_t *said)
{
    struct gpu_active *gpu = p->gpu;
    struct checks_wrong rows, cells;
    int rc = checks_clear(gpu->wrong, gpu->stream);
    if (!rc)
        rc = checks_rows(p->cell, p->b, p->d, p->sums, SIDE, SIDE, SIDE,
                         gpu->wrong, gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "checking products");
    if (gpu_wrong(gpu, &rows))
        return -1;
    if (!rows.n) {
        json_object_set_new(said, "wrong", json_integer(0));
        return 0;
    }
    rc = checks_clear(gpu->wrong, gpu->stream);
    if (!rc)
        rc = checks_row(p->cell, p->a, p->b, p->d, (int64_t)rows.first, SIDE,
                        SIDE, gpu->wrong, gpu->stream);
    if (rc)
        return gpu_fault(gpu, rc, "checking a row");
    if (gpu_wrong(gpu, &cells))
        return -1;
    gpu_add_wrong(said, &cells);
    json_object_set_new(said, "wrong_rows",
                        json_integer((json_int_t)rows.n));
    json_object_set_new(said, "row", json_integer((json_int_t)rows.first));
    if (!cells.n) /* of the row's sum only: not to be overlooked */
        json_object_set_new(said, "wrong", json_integer(1));
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of the later half: clocks and heat have settled. */
static double median_ms(struct product *p)
{
    int from = p->runs / 2, n = p->runs - from;
    qsort(p->ms + from, (size_t)n, sizeof *p->ms, by_size);
    return p->ms[from + n / 2];
}

static int run(struct product *p, double time_s, json_t *said)
{
    double until = clock_mono_s() + time_s;
    if (prepare(p) || run_batch(p) || check(p, said))
        return -1;
    while (clock_mono_s() < until && p->runs + BATCH <= RUNS_MAX)
        if (run_batch(p))
            return -1;
    /* What was wrong at first stays said. */
    return json_integer_value(json_object_get(said, "wrong"))
               ? 0
               : check(p, said);
}

static void tell(struct product *p, json_t *said)
{
    char bits[24];
    double ms = median_ms(p), flop = 2.0 * SIDE * SIDE * SIDE;
    snprintf(bits, sizeof bits, "%016llx", p->first_bits);
    json_object_set_new(said, "type", json_string(p->type->name));
    json_object_set_new(said, "runs", json_integer(p->runs));
    json_object_set_new(said, "differ", json_integer(p->differ));
    json_object_set_new(said, "bits", json_string(bits));
    json_object_set_new(said, "tflops", json_real(flop / ms / 1e9));
    gpu_say(p->gpu, "product", said);
}

int product_run(struct gpu_active *gpu, enum checks_cell cell, double time_s)
{
    const struct type_row *type = &types[cell];
    if (gpu->capability < type->capability)
        return gpu_skip(gpu, type->name, "the GPU has no such products");
    struct product *p = calloc(1, sizeof *p);
    json_t *said = json_object();
    int rc = -1;
    if (!p || !said)
        goto out;
    p->gpu = gpu;
    p->cell = cell;
    p->type = type;
    if (describe(p)) {
        rc = gpu_skip(gpu, type->name, "cuBLASLt has no such product");
        goto out;
    }
    rc = run(p, time_s, said);
    if (!rc) {
        tell(p, said);
        said = NULL;
    }
out:
    json_decref(said);
    if (p)
        release(p);
    free(p);
    return rc;
}
