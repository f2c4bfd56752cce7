/* cuda_table - the CUDA table of operations, its state and its scratch. */
#include "kernels/cuda.h"

#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_SDPA
#include "kernels/sdpa.h"
#endif

void *cuda_scratch(const struct exec *ex, size_t bytes)
{
    if (ex->ws_bytes < CUDA_LT_BYTES || bytes > ex->ws_bytes - CUDA_LT_BYTES)
        return NULL;
    return (char *)ex->ws + CUDA_LT_BYTES;
}

enum kstatus cuda_failed(const struct exec *ex, enum kstatus status,
                         const char *what, const char *why)
{
    snprintf(ex->device->error, sizeof ex->device->error, "%s: %s", what, why);
    return status;
}

enum kstatus cuda_status(const struct exec *ex, const char *what,
                         cudaError_t error)
{
    if (error == cudaSuccess)
        return K_OK;
    return cuda_failed(ex, K_DEVICE, what, cudaGetErrorString(error));
}

enum kstatus cuda_launched(const struct exec *ex, const char *what)
{
    return cuda_status(ex, what, cudaGetLastError());
}

static void cuda_close(struct exec *ex)
{
    if (!ex->backend)
        return;
#ifdef HAVE_SDPA
    sdpa_destroy(cuda_state(ex)->sdpa);
#endif
    cuda_products_close(ex);
    free(ex->backend);
    ex->backend = NULL;
}

static enum kstatus cuda_open(struct exec *ex)
{
    struct cuda_state *state = calloc(1, sizeof *state);
    enum kstatus s;

    if (!state)
        return K_NOMEM;
    ex->backend = state;
    s = cuda_status(ex, "cudaDeviceGetAttribute",
                    cudaDeviceGetAttribute(&state->sms,
                                           cudaDevAttrMultiProcessorCount,
                                           ex->device->index));
    if (!s)
        s = cuda_products_open(ex);
    if (s)
        cuda_close(ex);
#ifdef HAVE_SDPA
    else
        state->sdpa = sdpa_create();
#endif
    return s;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Partial sums of the norms, biases and updates are far below the rest; 32 MiB
 * bound them for any card of up to 256 multiprocessors and C up to 8192. */
static size_t cuda_workspace(enum dtype act, int64_t N, int C, int F, int H,
                             int K, int D, int Vp, int B, int T)
{
    size_t s = (size_t)32 << 20;

    (void)K, (void)B, (void)T;
    s = max(s, cuda_head_ws(act, N, Vp));
    s = max(s, cuda_embed_ws(N, C));
    s = max(s, cuda_attn_ws(N, H));
#ifdef HAVE_SDPA
    if (act == DT_BF16 || act == DT_F16)
        s = max(s, sdpa_workspace_bytes(B, T, H, K, D, 0));
#endif
    /* room to time a product that adds to the largest gradient of a layer */
    s = max(s, sizeof(float) * C * (size_t)(2 * F > 4 * C ? 2 * F : 4 * C));
    return CUDA_LT_BYTES + s;
}

/* cuDNN where it takes the shape, else the plain kernels. */
static enum kstatus attn_fwd(struct exec *ex, const struct attn_args *a)
{
#ifdef HAVE_SDPA
    struct sdpa *sdpa = cuda_state(ex)->sdpa;
    enum kstatus s = sdpa_forward(sdpa, ex, a);

    if (s && s != K_UNSUPPORTED)
        return cuda_failed(ex, s, "attn_fwd", sdpa_error(sdpa));
    if (!s)
        return K_OK;
#endif
    return cuda_attn_plain_fwd(ex, a);
}

static enum kstatus attn_bwd(struct exec *ex, const struct attn_args *a,
                             const struct attn_grad *g)
{
#ifdef HAVE_SDPA
    struct sdpa *sdpa = cuda_state(ex)->sdpa;
    enum kstatus s = sdpa_backward(sdpa, ex, a, g);

    if (s && s != K_UNSUPPORTED)
        return cuda_failed(ex, s, "attn_bwd", sdpa_error(sdpa));
    if (!s)
        return K_OK;
#endif
    return cuda_attn_plain_bwd(ex, a, g);
}

extern const struct ops ops_cuda_table;
const struct ops ops_cuda_table = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .workspace_bytes = cuda_workspace,
    .linear_fwd = cuda_linear_fwd,
    .linear_bwd = cuda_linear_bwd,
    .norm_fwd = cuda_norm_fwd,
    .norm_bwd = cuda_norm_bwd,
    .qk_fwd = cuda_qk_fwd,
    .qk_bwd = cuda_qk_bwd,
    .attn_fwd = attn_fwd,
    .attn_bwd = attn_bwd,
    .swiglu_fwd = cuda_swiglu_fwd,
    .swiglu_bwd = cuda_swiglu_bwd,
    .embed_fwd = cuda_embed_fwd,
    .embed_bwd = cuda_embed_bwd,
    .head_loss = cuda_head_loss,
    .head_logits = cuda_head_logits,
    .sum_squares = cuda_sum_squares,
    .adamw = cuda_adamw,
    .sum_in_order = cuda_sum_in_order,
    .cast = cuda_cast,
    .fill_normal = cuda_fill_normal,
    .fill_value = cuda_fill_value,
};
