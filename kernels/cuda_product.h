/* cuda_product - a product's descriptors and algorithm, made once a shape, as
 * cuda_product.c and cuda_choose.c share them. Private to these two.
 */
#ifndef KB_KERNELS_CUDA_PRODUCT_H
#define KB_KERNELS_CUDA_PRODUCT_H

#include <cublasLt.h>

#include "kernels/cuda.h"
#include "kernels/tuned.h"

#define BUCKETS 64
#define PRODUCT_OFFERS 16 /* of the heuristic, at most; it has about 8 */

struct entry {
    struct entry *next;
    struct product_key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    size_t ws_bytes;
    float ms;    /* 0: not timed */
    bool usable;
};

struct cuda_products {
    cublasLtHandle_t lt;
    cublasLtMatmulPreference_t pref;
    struct entry *table[BUCKETS];
    cudaEvent_t from, to;
    cudaEvent_t turn[PRODUCT_OFFERS + 1];
    struct tuned *known; /* handed in, tuned.h */
    int known_n, refused;
    bool untimed;
};

/* cuda_product.c: the product into out (p->C, or as large) by an algorithm
 * that takes ws bytes. */
cublasStatus_t cuda_product_launch(struct exec *ex, struct entry *e,
                                   const struct product *p, void *out,
                                   const cublasLtMatmulAlgo_t *algo,
                                   size_t ws);
/* cuda_choose.c: fills e's algo, ws_bytes, ms and usable; e has descriptors. */
void cuda_product_choose(struct exec *ex, struct entry *e,
                         const struct product *p);

#endif
