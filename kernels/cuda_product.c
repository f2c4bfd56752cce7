/* cuda_product - matrix products by cuBLASLt. Descriptors and algorithms are
 * made once a shape. cuBLASLt thinks in columns: a row-major product C = A B is
 * asked for as C' = B' A'. Which algorithm: what tuned.h was given for the
 * shape, else what cuda_choose.c finds.
 */
#include "kernels/cuda_product.h"
#include "kernels/tuned.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kstatus lt_status(const struct exec *ex, const char *what,
                              cublasStatus_t s)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return K_OK;
    return cuda_failed(ex, s == CUBLAS_STATUS_NOT_SUPPORTED ? K_UNSUPPORTED
                                                            : K_DEVICE,
                       what, cublasLtGetStatusString(s));
}

enum kstatus cuda_products_open(struct exec *ex)
{
    struct cuda_products *p = calloc(1, sizeof *p);
    uint64_t bytes = CUDA_LT_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE |
                       CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    enum kstatus s;

    if (!p)
        return K_NOMEM;
    cuda_state(ex)->products = p;
    if ((s = lt_status(ex, "cublasLtCreate", cublasLtCreate(&p->lt))) ||
        (s = lt_status(ex, "cublasLtMatmulPreferenceCreate",
                       cublasLtMatmulPreferenceCreate(&p->pref))))
        return s;
    cublasLtMatmulPreferenceSetAttribute(
        p->pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
        sizeof bytes);
    if (ex->deterministic)
        cublasLtMatmulPreferenceSetAttribute(
            p->pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
            sizeof schemes);
    if ((s = cuda_status(ex, "cudaEventCreate", cudaEventCreate(&p->from))) ||
        (s = cuda_status(ex, "cudaEventCreate", cudaEventCreate(&p->to))))
        return s;
    for (int i = 0; i <= PRODUCT_OFFERS && !s; i++)
        s = cuda_status(ex, "cudaEventCreate", cudaEventCreate(&p->turn[i]));
    return s;
}

static void entry_free(struct entry *e)
{
    if (e->desc)
        cublasLtMatmulDescDestroy(e->desc);
    if (e->a)
        cublasLtMatrixLayoutDestroy(e->a);
    if (e->b)
        cublasLtMatrixLayoutDestroy(e->b);
    if (e->c)
        cublasLtMatrixLayoutDestroy(e->c);
    free(e);
}

static void forget(struct cuda_products *p)
{
    for (int i = 0; i < BUCKETS; i++) {
        for (struct entry *e = p->table[i], *next; e; e = next) {
            next = e->next;
            entry_free(e);
        }
        p->table[i] = NULL;
    }
}

void cuda_products_close(struct exec *ex)
{
    struct cuda_products *p = cuda_state(ex)->products;

    if (!p)
        return;
    forget(p);
    free(p->known);
    if (p->pref)
        cublasLtMatmulPreferenceDestroy(p->pref);
    if (p->lt)
        cublasLtDestroy(p->lt);
    if (p->from)
        cudaEventDestroy(p->from);
    if (p->to)
        cudaEventDestroy(p->to);
    for (int i = 0; i <= PRODUCT_OFFERS; i++)
        if (p->turn[i])
            cudaEventDestroy(p->turn[i]);
    free(p);
}

static cudaDataType_t cuda_type(enum dtype dtype)
{
    return dtype == DT_BF16  ? CUDA_R_16BF
           : dtype == DT_F16 ? CUDA_R_16F
                             : CUDA_R_32F;
}

static struct product_key key_of(const struct exec *ex, const struct product *p)
{
    struct product_key k;
    uintptr_t any = (uintptr_t)p->A | (uintptr_t)p->B | (uintptr_t)p->C;

    memset(&k, 0, sizeof k);
    k.M = p->M;
    k.N = p->N;
    k.K = p->K;
    k.lda = p->lda;
    k.ldb = p->ldb;
    k.ldc = p->ldc;
    k.act = ex->act;
    k.out = p->out;
    k.ta = p->ta;
    k.tb = p->tb;
    k.add = p->add;
    k.bias = p->bias != NULL;
    k.gelu = p->gelu_aux != NULL;
    k.dgelu = p->dgelu_aux != NULL;
    k.bias_grad = p->bias_grad ? 1 + p->bias_grad_of_a : 0;
    k.aligned = any % 256 == 0 ? 256 : any % 16 == 0 ? 16 : any & -any & 15;
    return k;
}

static unsigned hash(const struct product_key *k)
{
    const unsigned char *b = (const unsigned char *)k;
    unsigned h = 2166136261u;

    for (size_t i = 0; i < sizeof *k; i++)
        h = (h ^ b[i]) * 16777619u;
    return h % BUCKETS;
}

static cublasLtEpilogue_t epilogue_of(const struct product *p)
{
    if (p->gelu_aux)
        return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                       : CUBLASLT_EPILOGUE_GELU_AUX;
    if (p->dgelu_aux)
        return CUBLASLT_EPILOGUE_DGELU;
    if (p->bias_grad) /* in columns, A and B change places */
        return p->bias_grad_of_a ? CUBLASLT_EPILOGUE_BGRADB
                                 : CUBLASLT_EPILOGUE_BGRADA;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

#define SET(e, attr, value)                                                    \
    cublasLtMatmulDescSetAttribute((e)->desc, CUBLASLT_MATMUL_DESC_##attr,     \
                                   &(value), sizeof(value))

/* What changes from call to call with one shape. */
static void set_pointers(struct entry *e, const struct product *p)
{
    const void *aux = p->gelu_aux ? p->gelu_aux : p->dgelu_aux;
    const void *bias = p->bias_grad ? (const void *)p->bias_grad : p->bias;

    if (aux)
        SET(e, EPILOGUE_AUX_POINTER, aux);
    if (bias)
        SET(e, BIAS_POINTER, bias);
}

static enum kstatus describe(struct exec *ex, struct entry *e,
                             const struct product *p)
{
    cublasOperation_t opa = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t opb = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epi = epilogue_of(p);
    cudaDataType_t act = cuda_type(ex->act), f32 = CUDA_R_32F;
    int64_t ldc = p->ldc;
    enum kstatus s;

    if ((s = lt_status(ex, "cublasLtMatmulDescCreate",
                       cublasLtMatmulDescCreate(&e->desc, CUBLAS_COMPUTE_32F,
                                                CUDA_R_32F))) ||
        (s = lt_status(ex, "cublasLtMatrixLayoutCreate",
                       cublasLtMatrixLayoutCreate(
                           &e->a, act, p->tb ? p->K : p->N,
                           p->tb ? p->N : p->K, p->ldb))) ||
        (s = lt_status(ex, "cublasLtMatrixLayoutCreate",
                       cublasLtMatrixLayoutCreate(
                           &e->b, act, p->ta ? p->M : p->K,
                           p->ta ? p->K : p->M, p->lda))) ||
        (s = lt_status(ex, "cublasLtMatrixLayoutCreate",
                       cublasLtMatrixLayoutCreate(&e->c, cuda_type(p->out),
                                                  p->N, p->M, p->ldc))))
        return s;
    SET(e, TRANSA, opa);
    SET(e, TRANSB, opb);
    SET(e, EPILOGUE, epi);
    if (p->gelu_aux || p->dgelu_aux)
        SET(e, EPILOGUE_AUX_LD, ldc);
    if (p->bias)
        SET(e, BIAS_DATA_TYPE, act);
    if (p->bias_grad)
        SET(e, BIAS_DATA_TYPE, f32);
    set_pointers(e, p);
    return K_OK;
}

cublasStatus_t cuda_product_launch(struct exec *ex, struct entry *e,
                                   const struct product *p, void *out,
                                   const cublasLtMatmulAlgo_t *algo, size_t ws)
{
    const float alpha = 1, beta = p->add ? 1 : 0;

    return cublasLtMatmul(cuda_state(ex)->products->lt, e->desc, &alpha, p->B,
                          e->a, p->A, e->b, &beta, p->C, e->c, out, e->c, algo,
                          ex->ws, ws, (cudaStream_t)ex->stream);
}

/* The algorithm that was handed in, if the library takes it for this. */
static bool take_known(struct exec *ex, struct entry *e)
{
    struct cuda_products *t = cuda_state(ex)->products;
    cublasLtMatmulHeuristicResult_t r;
    const struct tuned *known = NULL;

    for (int i = 0; i < t->known_n && !known; i++)
        if (!memcmp(&t->known[i].key, &e->key, sizeof e->key))
            known = &t->known[i];
    if (!known)
        return false;
    memcpy(&e->algo, known->algo, sizeof e->algo);
    memset(&r, 0, sizeof r);
    if (cublasLtMatmulAlgoCheck(t->lt, e->desc, e->a, e->b, e->c, e->c,
                                &e->algo, &r) ||
        r.state || r.workspaceSize > CUDA_LT_BYTES) {
        t->refused++;
        return false;
    }
    e->ws_bytes = r.workspaceSize;
    e->ms = known->ms;
    e->usable = true;
    return true;
}

static struct entry *find(struct exec *ex, const struct product *p,
                          enum kstatus *ret)
{
    struct cuda_products *t = cuda_state(ex)->products;
    struct product_key key = key_of(ex, p);
    struct entry **head = &t->table[hash(&key)], *e;

    *ret = K_OK;
    for (e = *head; e; e = e->next)
        if (!memcmp(&e->key, &key, sizeof key))
            return e;
    if (!(e = calloc(1, sizeof *e))) {
        *ret = K_NOMEM;
        return NULL;
    }
    e->key = key;
    *ret = describe(ex, e, p);
    if (*ret == K_OK && !take_known(ex, e))
        cuda_product_choose(ex, e, p);
    e->next = *head;
    *head = e;
    return e;
}

enum kstatus cuda_product(struct exec *ex, const struct product *p)
{
    enum kstatus s;
    struct entry *e;

    if (p->M <= 0 || p->N <= 0)
        return K_OK;
    if (ex->ws_bytes < CUDA_LT_BYTES)
        return cuda_failed(ex, K_NOMEM, "product", "scratch too small");
    e = find(ex, p, &s);
    if (s)
        return s;
    if (!e->usable)
        return K_UNSUPPORTED;
    set_pointers(e, p);
    return lt_status(ex, "cublasLtMatmul",
                     cuda_product_launch(ex, e, p, p->C, &e->algo,
                                         e->ws_bytes));
}

float cuda_product_ms(struct exec *ex, const struct product *p)
{
    enum kstatus s;
    struct entry *e = find(ex, p, &s);

    return s || !e->usable ? -1 : e->ms;
}

/* ---- Handed on (tuned.h) ------------------------------------------------- */
static void tuned_id(const struct exec *ex, char *text, size_t text_bytes)
{
    struct cudaDeviceProp prop;
    int driver = 0, runtime = 0;

    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (cudaGetDeviceProperties(&prop, ex->device->index) != cudaSuccess)
        snprintf(prop.name, sizeof prop.name, "unknown GPU");
    snprintf(text, text_bytes,
             "%s, %d multiprocessors, CUDA %d, driver's %d, cuBLASLt %zu%s%zu",
             prop.name, prop.multiProcessorCount, runtime, driver,
             cublasLtGetVersion(), cuda_attention_version() ? ", cuDNN " : " ",
             cuda_attention_version());
}

static int tuned_get(const struct exec *ex, struct tuned *ret, int max)
{
    const struct cuda_products *p = cuda_state(ex)->products;
    int n = 0;

    for (int i = 0; i < BUCKETS; i++)
        for (const struct entry *e = p->table[i]; e; e = e->next) {
            if (!e->usable)
                continue;
            if (n < max) {
                memset(&ret[n], 0, sizeof ret[n]);
                ret[n].key = e->key;
                memcpy(ret[n].algo, &e->algo, sizeof e->algo);
                ret[n].ms = e->ms;
            }
            n++;
        }
    return n;
}

static enum kstatus tuned_set(struct exec *ex, const struct tuned *known,
                              int n, bool timed)
{
    struct cuda_products *p = cuda_state(ex)->products;
    struct tuned *copy = calloc((size_t)n + 1, sizeof *copy);

    static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof copy->algo,
                  "the library's form of an algorithm");
    if (!copy)
        return K_NOMEM;
    if (n)
        memcpy(copy, known, (size_t)n * sizeof *copy);
    if (device_sync(ex->device, ex->stream) != K_OK) { /* products in use */
        free(copy);
        return K_DEVICE;
    }
    forget(p);
    free(p->known);
    p->known = copy;
    p->known_n = n;
    p->refused = 0;
    p->untimed = !timed;
    return K_OK;
}

static int tuned_refused(const struct exec *ex)
{
    return cuda_state(ex)->products->refused;
}

const struct tuning tuning_cuda = {
    .id = tuned_id,
    .get = tuned_get,
    .set = tuned_set,
    .refused = tuned_refused,
};
