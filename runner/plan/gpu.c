/* gpu - see gpu.h. */
#include "runner/plan/gpu.h"

#include "runner/plan/plan.h"

#include <string.h>

#define MIB ((int64_t)1 << 20)

/* usable: total of cudaMemGetInfo. libraries: what NVML shows of a rank of one
 * after some steps, less the arena. nccl: more of a rank that has peers.
 * Measured: the first row, without nccl; all else is an estimate. */
static const struct gpu_row {
    const char *name;
    int cuda_version;
    int64_t usable_mib, libraries_mib, nccl_mib;
} rows[] = {
    {"H200", 13000, 143156, 640, 600},
    {"H200", 12000, 143156, 640, 600},
    {"H100 80GB", 13000, 81079, 620, 600},
    {"A100-SXM4-80GB", 13000, 81038, 550, 500},
};
#define ROWS_N ((int)(sizeof rows / sizeof *rows))

/* A row of this model and the newest version that is not newer, else any. */
static const struct gpu_row *row_of(const char *name, int cuda_version)
{
    const struct gpu_row *best = NULL;
    for (int i = 0; i < ROWS_N; i++) {
        if (!*name || !strstr(name, rows[i].name))
            continue;
        if (!best)
            best = &rows[i];
        if (!cuda_version || rows[i].cuda_version <= cuda_version)
            return &rows[i];
    }
    return best;
}

int64_t plan_gpu_bytes(const char *name)
{
    const struct gpu_row *row = row_of(name, 0);
    return row ? row->usable_mib * MIB : 0;
}

int64_t gpu_library_bytes(const char *name, int cuda_version, int ranks)
{
    const struct gpu_row *row = row_of(name, cuda_version);
    if (!row)
        row = &rows[0];
    return (row->libraries_mib + (ranks > 1 ? row->nccl_mib : 0)) * MIB;
}
