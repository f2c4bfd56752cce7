/* gpu_model - the table of models; see gpu_model.h.
 *
 * Peaks are those of NVIDIA's data sheets, dense (half of "with sparsity"):
 * H100 (SXM, PCIe, NVL), H200, A100 (40 and 80 GB), GH200, DGX B200, GB200,
 * L40S, L40, A40, A10, L4. Links: PCI generation 5 x16 is 64 GB/s a way, 4 is
 * 32; NVLink is the total of the data sheet by two. Shares: what was measured
 * on H200 (bench/RESULTS.md) less a fifth; the host's and the peers' as
 * Azure's node checks have them (48 of 64, 335 of 450 for H100); cards of 350
 * W and less do not hold their clocks in products. */
#include "health/gpu_model.h"

#include <stddef.h>
#include <string.h>

const char *const gpu_figure_names[GPU_FIGURE_N] = {
    [GPU_FIGURE_BF16] = "bf16",
    [GPU_FIGURE_FP8] = "fp8",
    [GPU_FIGURE_FP32] = "fp32",
    [GPU_FIGURE_MEMORY] = "memory",
    [GPU_FIGURE_HOST_IN] = "host_in",
    [GPU_FIGURE_HOST_OUT] = "host_out",
    [GPU_FIGURE_PEER] = "peer",
    [GPU_FIGURE_REDUCE] = "reduce",
};

const char *gpu_figure_unit(enum gpu_figure figure)
{
    return figure <= GPU_FIGURE_FP32 ? "TFLOP/s" : "GB/s";
}

/* Shares of the columns below. */
#define BOARD {0.6, 0.5, 0.6, 0.75, 0.7, 0.7, 0.7, 0.5}
#define CARD {0.4, 0.35, 0.5, 0.7, 0.65, 0.65, 0.6, 0.3}

/*   bf16   fp8  fp32 memory in  out peer reduce */
const struct gpu_model gpu_models[] = {
    {"H100 80GB HBM3", {989, 1979, 67, 3350, 64, 64, 450, 450}, BOARD},
    {"H100 PCIe", {756, 1513, 51, 2000, 64, 64, 0, 0}, CARD},
    {"H100 NVL", {835, 1671, 60, 3900, 64, 64, 0, 0}, CARD},
    {"H800", {989, 1979, 67, 3350, 64, 64, 200, 200}, BOARD},
    {"H200", {989, 1979, 67, 4800, 64, 64, 450, 450}, BOARD},
    {"H200 NVL", {835, 1671, 60, 4800, 64, 64, 0, 0}, CARD},
    {"H20", {148, 296, 44, 4000, 64, 64, 450, 450}, BOARD},
    {"GH200 120GB", {989, 1979, 67, 4000, 450, 450, 0, 0},
     {0.6, 0.5, 0.6, 0.75, 0.5, 0.4, 0, 0}},
    {"GH200 480GB", {989, 1979, 67, 4000, 450, 450, 0, 0},
     {0.6, 0.5, 0.6, 0.75, 0.5, 0.4, 0, 0}},
    {"GH200 144G HBM3e", {989, 1979, 67, 4900, 450, 450, 0, 0},
     {0.6, 0.5, 0.6, 0.75, 0.5, 0.4, 0, 0}},
    {"B200", {2250, 4500, 75, 7700, 64, 64, 900, 900}, BOARD},
    {"GB200", {2500, 5000, 80, 8000, 450, 450, 900, 900},
     {0.6, 0.5, 0.6, 0.7, 0.3, 0.3, 0.7, 0.5}},
    {"A100-SXM4-40GB", {312, 0, 19.5, 1555, 32, 32, 300, 300}, BOARD},
    {"A100-SXM4-80GB", {312, 0, 19.5, 2039, 32, 32, 300, 300}, BOARD},
    {"A100-PCIE-40GB", {312, 0, 19.5, 1555, 32, 32, 0, 0}, CARD},
    {"A100 80GB PCIe", {312, 0, 19.5, 1935, 32, 32, 0, 0}, CARD},
    {"A800-SXM4-80GB", {312, 0, 19.5, 2039, 32, 32, 200, 200}, BOARD},
    {"L40S", {362, 733, 91.6, 864, 32, 32, 0, 0}, CARD},
    {"L40", {181, 362, 90.5, 864, 32, 32, 0, 0}, CARD},
    {"L4", {121, 242, 30.3, 300, 32, 32, 0, 0}, CARD},
    {"A40", {149.7, 0, 37.4, 696, 32, 32, 0, 0}, CARD},
    {"A10", {125, 0, 31.2, 600, 32, 32, 0, 0}, CARD},
};
const int gpu_models_n = sizeof gpu_models / sizeof *gpu_models;

/* "L4" is no part of "L40": a name ends where its word ends. */
static int has_name(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = text; (p = strstr(p, name)); p++)
        if ((p == text || p[-1] == ' ') && (!p[n] || p[n] == ' '))
            return 1;
    return 0;
}

const struct gpu_model *gpu_model_find(const char *name)
{
    const struct gpu_model *best = NULL;
    for (int i = 0; i < gpu_models_n; i++)
        if (has_name(name, gpu_models[i].name) &&
            (!best || strlen(gpu_models[i].name) > strlen(best->name)))
            best = &gpu_models[i];
    return best;
}

double gpu_model_floor(const struct gpu_model *model, enum gpu_figure figure)
{
    return model ? model->peak[figure] * model->share[figure] : 0;
}
