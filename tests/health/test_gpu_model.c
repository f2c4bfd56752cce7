/* gpu_model: the table is whole, and names that NVML gives find their row. */
#include "health/gpu_model.h"

#include "tests/tap.h"

static const struct {
    const char *name, *row; /* NULL: none */
} names[] = {
    {"NVIDIA H100 80GB HBM3", "H100 80GB HBM3"},
    {"NVIDIA H100 PCIe", "H100 PCIe"},
    {"NVIDIA H100 NVL", "H100 NVL"},
    {"NVIDIA H200", "H200"},
    {"NVIDIA H200 NVL", "H200 NVL"},
    {"NVIDIA H20", "H20"},
    {"NVIDIA B200", "B200"},
    {"NVIDIA GB200", "GB200"},
    {"NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"},
    {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
    {"NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"},
    {"NVIDIA A100 80GB PCIe", "A100 80GB PCIe"},
    {"NVIDIA L40S", "L40S"},
    {"NVIDIA L40", "L40"},
    {"NVIDIA L4", "L4"},
    {"NVIDIA GH200 480GB", "GH200 480GB"},
    {"NVIDIA GeForce RTX 4090", NULL},
    {"NVIDIA H2000", NULL},
    {"NVIDIA XH200", NULL},
    {"", NULL},
};

/* What may be so, in the columns' units. */
static const struct {
    double low, high;
} possible[GPU_FIGURE_N] = {
    [GPU_FIGURE_BF16] = {50, 5000},    [GPU_FIGURE_FP8] = {100, 10000},
    [GPU_FIGURE_FP32] = {10, 200},     [GPU_FIGURE_MEMORY] = {200, 10000},
    [GPU_FIGURE_HOST_IN] = {10, 1000}, [GPU_FIGURE_HOST_OUT] = {10, 1000},
    [GPU_FIGURE_PEER] = {10, 2000},    [GPU_FIGURE_REDUCE] = {10, 2000},
};

static void check_row(const struct gpu_model *row)
{
    int bad = 0;
    for (int f = 0; f < GPU_FIGURE_N; f++) {
        double peak = row->peak[f], share = row->share[f];
        bad += peak && (peak < possible[f].low || peak > possible[f].high);
        bad += peak && (share < 0.2 || share > 0.9);
    }
    bad += row->peak[GPU_FIGURE_FP8] &&
           row->peak[GPU_FIGURE_FP8] < 1.9 * row->peak[GPU_FIGURE_BF16];
    ok(!bad, "%s: peaks and shares are possible ones", row->name);
    ok(gpu_model_find(row->name) == row, "%s finds itself", row->name);
}

int main(void)
{
    for (int i = 0; i < gpu_models_n; i++)
        check_row(&gpu_models[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct gpu_model *row = gpu_model_find(names[i].name);
        is_str(row ? row->name : "none",
               names[i].row ? names[i].row : "none", names[i].name);
    }
    ok(gpu_model_floor(NULL, GPU_FIGURE_BF16) == 0, "no model, no floor");
    double floor = gpu_model_floor(gpu_model_find("NVIDIA H200"),
                                   GPU_FIGURE_BF16);
    ok(floor > 500 && floor < 760, "H200 bf16: a healthy one does 770: %g",
       floor);
    ok(gpu_model_floor(gpu_model_find("NVIDIA A100-SXM4-80GB"),
                       GPU_FIGURE_FP8) == 0,
       "A100 has no fp8");
    return tap_done();
}
