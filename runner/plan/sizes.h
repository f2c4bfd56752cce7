/* sizes - how large each tensor of a model is: weights, and what forward keeps
 * for backward. The one source for plan's memory rows and for the model, which
 * carves the device's arena by it. In memory only: names are the model's.
 */
#ifndef KB_PLAN_SIZES_H
#define KB_PLAN_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/plan/shape.h"

/* One packed weight of a layer, or of the top: qkv [(H+2K)*D, C] holds q, k
 * and v after one another, up [2F, C] gate and up of SwiGLU. */
enum place {
    P_NORM1, P_NORM1_B, P_QKV, P_QKV_B, P_QNORM, P_KNORM, P_O, P_O_B,
    P_NORM2, P_NORM2_B, P_UP, P_UP_B, P_DOWN, P_DOWN_B,
    P_LAYER_N,
    P_WTE = P_LAYER_N, P_WPE, P_NORMF, P_NORMF_B, P_HEAD,
    P_N
};
/* Rows and columns of [out, in]; out 0: this shape has no such weight; in 1
 * for vectors. The vocabulary is the padded one. */
void place_dims(const struct shape *s, enum place place, int *ret_out,
                int *ret_in);
bool place_is_vector(enum place place);

/* Parameters that a rank owns at most when the optimizer's state is cut over
 * `ranks`; 1: all of them. Each bucket of gradients (final norm and untied
 * head; a layer; the embeddings) is cut evenly, at the beginning of a row of
 * one of its tensors, in a vector at a multiple of SIZES_VECTOR_ROW. */
#define SIZES_VECTOR_ROW 64
int64_t sizes_owned(const struct shape *s, int ranks);

/* One activation of a layer, N tokens. sum1 = residual stream before the
 * layer, y1 its norm; sum2 and y2 the same before the feed-forward block. */
enum act_id {
    A_SUM1,     /* [N, C] */
    A_Y1,       /* [N, C] */
    A_MEAN1,    /* [N] stat, LayerNorm only */
    A_RSTD1,    /* [N] stat */
    A_QKV,      /* [N, (H+2K)*D] */
    A_PRE,      /* [N, (H+K)*D], QK norm only */
    A_QK_RSTD,  /* [N, H+K] stat, QK norm only */
    A_O,        /* [N, H*D] */
    A_LSE,      /* [H, N] stat */
    A_SUM2,     /* [N, C] */
    A_Y2,       /* [N, C] */
    A_MEAN2, A_RSTD2,
    A_UP,       /* GELU: before it [N, F]; SwiGLU: gate and up [N, 2F] */
    A_ACT,      /* [N, F] */
    A_N
};
/* act, stat: bytes of an element. 0: this shape has no such activation. */
int64_t act_bytes(const struct shape *s, enum act_id id, int64_t N, int act,
                  int stat);

/* What backward finds stored of a layer. */
enum keep { KEEP_NOTHING, KEEP_INPUT, KEEP_COSTLY, KEEP_ALL };
bool act_kept(enum act_id id, enum keep keep);
/* Of the rank's layer: the first `whole` keep their input alone, the next
 * `cheap` what is costly to compute again, the others all. */
enum keep layer_keep(int layer, int whole, int cheap);

/* Scratch shared by all layers. Without training only delta. */
#define SIZES_SHARE_NUMBERS 4
enum scratch_id {
    S_DELTA,    /* [N, C]: what a block adds; dy in backward */
    S_DRES,     /* [N, C]: gradient of the residual stream, own tokens */
    S_WHOLE,    /* [N, C]: the same of all tokens, tensor parallel only */
    S_SHARES,   /* [tensor, N, 4] F64: head_loss of all tensor ranks */
    S_WIDE,     /* [N, max(F, H*D)] */
    S_PACKED,   /* [N, max(2F for SwiGLU, (H+2K)*D)] */
    S_N
};
int64_t scratch_bytes(const struct shape *s, enum scratch_id id, int64_t N,
                      int act, bool train);

/* What the largest operation needs beside its operands, for B sequences of T
 * tokens; the kernels say it exactly (ops_workspace_bytes) and must not need
 * more. act: bytes of an element. */
int64_t operations_bytes(const struct shape *s, bool cuda, int64_t B,
                         int64_t T, int act, bool deterministic);

/* Blocks of the arena are rounded up to this. */
#define SIZES_ALIGN 256
int64_t sizes_align(int64_t bytes);

#endif
