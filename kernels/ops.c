/* ops - what is about all tables: which exist, scratch, threads. */
#include "kernels/ops.h"

#include <cblas.h>
#include <strings.h>

#include "kernels/pool.h"

/* Only in programs that link libkb_cuda.a. */
extern const struct ops ops_cuda_table __attribute__((weak));

const struct ops *ops_cuda(void)
{
    return &ops_cuda_table;
}

size_t ops_workspace_bytes(const struct ops *ops, enum dtype act, int64_t N,
                           int C, int F, int H, int K, int D, int Vp, int B,
                           int T, bool deterministic)
{
    return ops->workspace_bytes(act, N, C, F, H, K, D, Vp, B, T,
                                deterministic);
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

const char *ops_cpu_core_best(void)
{
    static const char *const old[] = {"Prescott", "Core2", "Penryn",
                                      "Dunnington", "Nehalem", "Atom",
                                      "generic", "Unknown"};
    const char *found = openblas_get_corename();
    bool is_old = false;

    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        is_old |= !strcasecmp(found, old[i]);
#if defined(__x86_64__)
    if (is_old && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (is_old && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return found;
}
