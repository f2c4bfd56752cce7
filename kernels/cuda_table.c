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
        s = cuda_status(ex, "cudaDeviceGetAttribute",
                        cudaDeviceGetAttribute(
                            &state->major, cudaDevAttrComputeCapabilityMajor,
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

#ifdef HAVE_SDPA
size_t cudnnGetVersion(void); /* cudnn.h is sdpa_cudnn.cpp's alone */
#endif

size_t cuda_attention_version(void)
{
#ifdef HAVE_SDPA
    return cudnnGetVersion();
#else
    return 0;
#endif
}

static enum kstatus own_fwd(struct exec *ex, const struct attn_args *a)
{
    enum kstatus s = cuda_attn_flash_fwd(ex, a);

    return s == K_UNSUPPORTED ? cuda_attn_plain_fwd(ex, a) : s;
}

static enum kstatus own_bwd(struct exec *ex, const struct attn_args *a,
                            const struct attn_grad *g)
{
    enum kstatus s = cuda_attn_flash_bwd(ex, a, g);

    return s == K_UNSUPPORTED ? cuda_attn_plain_bwd(ex, a, g) : s;
}

/* cuDNN where it takes the shape, else our tensor-core kernels, else the plain
 * ones. */
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
    return own_fwd(ex, a);
}

#ifdef HAVE_SDPA
/* Some sequences at a time: deterministic, cuDNN's scratch grows with T^2. */
static enum kstatus sdpa_slices(struct exec *ex, const struct attn_args *a,
                                const struct attn_grad *g)
{
    struct sdpa *sdpa = cuda_state(ex)->sdpa;
    size_t e = dtype_bytes(ex->act);
    int slice = cuda_attn_slice(a->B, a->Tq, a->H, a->D, ex->deterministic);
    enum kstatus s = K_OK;

    if (a->cu_seqlens || a->Tq != a->Tk || a->k_seq != a->Tk)
        return K_UNSUPPORTED;
    for (int b = 0; b < a->B && !s; b += slice) {
        size_t n = (size_t)b * a->Tq * e;
        struct attn_args part = *a;
        struct attn_grad grad = {
            .dout = (const char *)g->dout + n * a->o_row,
            .dq = (char *)g->dq + n * a->q_row,
            .dk = (char *)g->dk + n * a->k_row,
            .dv = (char *)g->dv + n * a->v_row};
        part.B = slice;
        part.q = (const char *)a->q + n * a->q_row;
        part.k = (const char *)a->k + n * a->k_row;
        part.v = (const char *)a->v + n * a->v_row;
        part.o = (char *)a->o + n * a->o_row;
        part.lse = (float *)a->lse + (size_t)b * a->H * a->Tq;
        s = sdpa_backward(sdpa, ex, &part, &grad);
    }
    return s;
}
#endif

static enum kstatus attn_bwd(struct exec *ex, const struct attn_args *a,
                             const struct attn_grad *g)
{
#ifdef HAVE_SDPA
    enum kstatus s = a->lse ? sdpa_slices(ex, a, g) : K_INVALID;

    if (s && s != K_UNSUPPORTED)
        return cuda_failed(ex, s, "attn_bwd",
                           sdpa_error(cuda_state(ex)->sdpa));
    if (!s)
        return K_OK;
#endif
    return own_bwd(ex, a, g);
}

extern const struct ops ops_cuda_table;
const struct ops ops_cuda_table = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .workspace_bytes = cuda_workspace_bytes,
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
    .gelu_fwd = cuda_gelu,
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
