/* cuda_sizes - the scratch of the CUDA operations, from shapes alone: built
 * without CUDA too, so that a plan made anywhere can be held against it.
 * Private to kernels, but for cuda_workspace_bytes.
 */
#ifndef KB_KERNELS_CUDA_SIZES_H
#define KB_KERNELS_CUDA_SIZES_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first part of ex->ws belongs to the matrix products. */
#define CUDA_LT_BYTES ((size_t)64 << 20)
/* Logits of a chunk of the head take at most this. */
#define CUDA_HEAD_BYTES ((int64_t)1 << 30)
/* Deterministic attention backward goes by so many sequences that it needs at
 * most this, or one by one. */
#define CUDA_ATTN_BYTES ((int64_t)1 << 29)
/* Sorted tokens of a block in the embedding's backward. */
#define CUDA_EMBED_CHUNK 32

/* Tokens of a chunk of the head: a multiple of 128, chunks alike. */
int64_t cuda_head_rows_n(enum dtype act, int64_t N, int Vp);
size_t cuda_head_rows_bytes(int64_t rows); /* four doubles a row */
size_t cuda_head_ws(enum dtype act, int64_t N, int Vp);
size_t cuda_embed_sort_bytes(int64_t N);
size_t cuda_embed_ws(int64_t N, int C);
/* Sequences that cuDNN's backward takes at a time: a divisor of B. */
int cuda_attn_slice(int B, int T, int H, int D, bool deterministic);
size_t cuda_attn_ws(int B, int T, int H, int K, int D, bool deterministic);

/* ops_cuda()'s workspace_bytes. */
size_t cuda_workspace_bytes(enum dtype act, int64_t N, int C, int F, int H,
                            int K, int D, int Vp, int B, int T,
                            bool deterministic);

#ifdef __cplusplus
}
#endif
#endif
