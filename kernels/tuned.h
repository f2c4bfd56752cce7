/* tuned - the algorithms of matrix products: found at the first use of a shape,
 * handed to others, and used again in a later run, so that it starts quickly
 * and computes the same bits.
 *
 * What comes from outside is only a proposal: the library is asked whether the
 * algorithm is one of this product's before it is used.
 */
#ifndef KB_KERNELS_TUNED_H
#define KB_KERNELS_TUNED_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What tells products apart; compared as bytes. */
struct product_key {
    int64_t M, N, K, lda, ldb, ldc;
    int32_t act, out, ta, tb, add, bias, gelu, dgelu, bias_grad, aligned;
};
struct tuned {
    struct product_key key;
    uint64_t algo[8];       /* the library's own form */
    float ms;               /* when it was timed; 0: it was not */
    int32_t unused;
};

struct tuning {
    /* Model of the GPU and versions of driver and libraries: algorithms of
     * another key are not to be used. */
    void (*id)(const struct exec *ex, char *text, size_t text_bytes);
    /* The algorithms in use, at most max of them; returns how many. */
    int (*get)(const struct exec *ex, struct tuned *ret, int max);
    /* Products chosen so far are forgotten; known ones (copied) are used for
     * their shapes from now on. timed: others are timed at their first use,
     * else the library's first is taken. */
    enum kstatus (*set)(struct exec *ex, const struct tuned *known, int n,
                        bool timed);
    /* Of the known ones: those that the library did not take. */
    int (*refused)(const struct exec *ex);
};
/* Only in programs that link libkb_cuda.a: absent, its address is NULL. */
extern const struct tuning tuning_cuda __attribute__((weak));
/* NULL: nothing to tune on this device. */
const struct tuning *exec_tuning(const struct exec *ex);

#ifdef __cplusplus
}
#endif
#endif
