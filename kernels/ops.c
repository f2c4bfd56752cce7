/* ops - what is about all tables: which exist, scratch, threads. */
#include "kernels/ops.h"

#include <cblas.h>

#include "kernels/pool.h"

/* Only in programs that link libkb_cuda.a. */
extern const struct ops ops_cuda_table __attribute__((weak));

const struct ops *ops_cuda(void)
{
    return &ops_cuda_table;
}

size_t ops_workspace_bytes(const struct ops *ops, enum dtype act, int64_t N,
                           int C, int F, int H, int K, int D, int Vp, int B,
                           int T)
{
    return ops->workspace_bytes(act, N, C, F, H, K, D, Vp, B, T);
}

/* BLAS itself stays on the calling thread: operations cut their products. */
void ops_cpu_threads(int threads)
{
    openblas_set_num_threads(1);
    pool_resize(threads);
}

const char *ops_cpu_core(void)
{
    return openblas_get_corename();
}
