/* cpu_table - the CPU's table of operations: ops_cpu_f32 or ops_cpu_f64. */
#include "kernels/cpu.h"

static enum kstatus cpu_open(struct exec *ex)
{
    if (ex->act != REAL_DTYPE || ex->grad != REAL_DTYPE ||
        ex->stat != REAL_DTYPE)
        return K_INVALID;
    ex->deterministic = true;
    return K_OK;
}

static void cpu_close(struct exec *ex)
{
    (void)ex;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t cpu_workspace(enum dtype act, int64_t N, int C, int F, int H,
                            int K, int D, int Vp, int B, int T,
                            bool deterministic)
{
    int64_t widest = Vp;

    (void)act, (void)N, (void)H, (void)K, (void)D, (void)B;
    (void)deterministic;
    if (widest < 4ll * C)
        widest = 4ll * C;
    if (widest < 2ll * F)
        widest = 2ll * F;
    return max(max(cpu_attn_ws(T), cpu_head_ws(Vp)),
               cpu_update_ws(widest * C));
}

const struct ops CPU_NAME(ops_cpu) = {
    .name = sizeof(real) == 8 ? "cpu-f64" : "cpu-f32",
    .open = cpu_open,
    .close = cpu_close,
    .workspace_bytes = cpu_workspace,
    .linear_fwd = cpu_linear_fwd,
    .linear_bwd = cpu_linear_bwd,
    .norm_fwd = cpu_norm_fwd,
    .norm_bwd = cpu_norm_bwd,
    .qk_fwd = cpu_qk_fwd,
    .qk_bwd = cpu_qk_bwd,
    .attn_fwd = cpu_attn_fwd,
    .attn_bwd = cpu_attn_bwd,
    .swiglu_fwd = cpu_swiglu_fwd,
    .swiglu_bwd = cpu_swiglu_bwd,
    .gelu_fwd = cpu_gelu_fwd,
    .embed_fwd = cpu_embed_fwd,
    .embed_bwd = cpu_embed_bwd,
    .head_loss = cpu_head_loss,
    .head_logits = cpu_head_logits,
    .sum_squares = cpu_sum_squares,
    .adamw = cpu_adamw,
    .sum_in_order = cpu_sum_in_order,
    .cast = cpu_cast,
    .fill_normal = cpu_fill_normal,
    .fill_value = cpu_fill_value,
};
