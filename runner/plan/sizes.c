/* sizes - how large each tensor of a model is; see sizes.h. */
#include "runner/plan/sizes.h"

#include "runner/plan/share.h"

int64_t sizes_align(int64_t bytes)
{
    return (bytes + SIZES_ALIGN - 1) / SIZES_ALIGN * SIZES_ALIGN;
}

bool place_is_vector(enum place place)
{
    switch (place) {
    case P_QKV: case P_O: case P_UP: case P_DOWN:
    case P_WTE: case P_WPE: case P_HEAD:
        return false;
    default:
        return true;
    }
}

void place_dims(const struct shape *s, enum place place, int *ret_out,
                int *ret_in)
{
    bool norm_b = s->bias_norm && s->norm == SHAPE_LAYERNORM;
    int qkv = (s->H + 2 * s->K) * s->D;
    int up = s->act == SHAPE_SWIGLU ? 2 * s->F : s->F;
    int out = 0, in = 1;

    switch (place) {
    case P_NORM1: case P_NORM2: out = s->C; break;
    case P_NORM1_B: case P_NORM2_B: out = norm_b ? s->C : 0; break;
    case P_NORMF: out = s->no_head ? 0 : s->C; break;
    case P_NORMF_B: out = norm_b && !s->no_head ? s->C : 0; break;
    case P_QKV: out = qkv, in = s->C; break;
    case P_QKV_B: out = s->bias_qkv ? qkv : 0; break;
    case P_QNORM: case P_KNORM: out = s->qk_norm ? s->D : 0; break;
    case P_O: out = s->C, in = s->H * s->D; break;
    case P_O_B: out = s->bias_o ? s->C : 0; break;
    case P_UP: out = up, in = s->C; break;
    case P_UP_B: out = s->bias_ffn ? up : 0; break;
    case P_DOWN: out = s->C, in = s->F; break;
    case P_DOWN_B: out = s->bias_ffn ? s->C : 0; break;
    case P_WTE: /* a tied head is it, on the last stage too */
        out = s->no_embed && !(s->tied && !s->no_head) ? 0 : s->Vp, in = s->C;
        break;
    case P_WPE:
        out = s->pos == SHAPE_LEARNED && !s->no_embed ? s->T_max : 0;
        in = s->C;
        break;
    case P_HEAD: out = s->tied || s->no_head ? 0 : s->Vp, in = s->C; break;
    default: break;
    }
    *ret_out = out;
    *ret_in = in;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* One bucket's part, at most: an even one, and less than a row more. A row of
 * a layer's matrix may be its input or its output, by the family. */
static int64_t bucket_owned(const struct shape *s, enum place first,
                            enum place end, int ranks)
{
    int64_t n = 0, row = SIZES_VECTOR_ROW;
    for (int place = first; place < (int)end; place++) {
        int out, in;
        place_dims(s, (enum place)place, &out, &in);
        if (out && (place == P_WTE || place == P_HEAD))
            out = s->V;
        n += (int64_t)out * in;
        if (out && !place_is_vector((enum place)place))
            row = larger(row, place < P_LAYER_N ? larger(out, in) : in);
    }
    int64_t most = (n + ranks - 1) / ranks + row;
    return ranks == 1 || most > n ? n : most;
}

int64_t sizes_owned(const struct shape *s, int ranks)
{
    return bucket_owned(s, P_NORMF, P_N, ranks) +
           bucket_owned(s, 0, P_LAYER_N, ranks) * s->L +
           bucket_owned(s, P_WTE, P_NORMF, ranks);
}

int64_t act_bytes(const struct shape *s, enum act_id id, int64_t N, int act,
                  int stat)
{
    int64_t HD = (int64_t)s->H * s->D, KD = (int64_t)s->K * s->D;

    switch (id) {
    case A_SUM1: case A_SUM2: return share_tokens(s, N) * s->C * act;
    case A_Y1: case A_Y2: return N * s->C * act;
    case A_MEAN1: case A_MEAN2:
        return s->norm == SHAPE_LAYERNORM ? share_tokens(s, N) * stat : 0;
    case A_RSTD1: case A_RSTD2: return share_tokens(s, N) * stat;
    case A_QKV: return N * (HD + 2 * KD) * act;
    case A_PRE: return s->qk_norm ? N * (HD + KD) * act : 0;
    case A_QK_RSTD: return s->qk_norm ? N * (s->H + s->K) * stat : 0;
    case A_O: return N * HD * act;
    case A_LSE: return N * s->H * stat;
    case A_UP: return N * s->F * (s->act == SHAPE_SWIGLU ? 2 : 1) * act;
    case A_ACT: return N * s->F * act;
    default: return 0;
    }
}

bool act_kept(enum act_id id, enum keep keep)
{
    switch (keep) {
    case KEEP_ALL:
        return true;
    case KEEP_COSTLY: /* norms, GELU, SwiGLU are cheap to compute again */
        return id != A_Y1 && id != A_Y2 && id != A_ACT;
    case KEEP_INPUT:
        return id == A_SUM1;
    default:
        return false;
    }
}

enum keep layer_keep(int layer, int whole, int cheap)
{
    return layer < whole           ? KEEP_INPUT
           : layer < whole + cheap ? KEEP_COSTLY
                                   : KEEP_ALL;
}

int64_t scratch_bytes(const struct shape *s, enum scratch_id id, int64_t N,
                      int act, bool train)
{
    int64_t HD = (int64_t)s->H * s->D, KD = (int64_t)s->K * s->D;
    int64_t up = s->act == SHAPE_SWIGLU ? 2 * (int64_t)s->F : 0;

    if (!train && id != S_DELTA && id != S_SHARES)
        return 0;
    switch (id) {
    case S_DELTA: return N * s->C * act;
    case S_DRES: return share_tokens(s, N) * s->C * act;
    case S_WHOLE: return s->tensor > 1 ? N * s->C * act : 0;
    case S_SHARES:
        return s->tensor > 1 && !s->no_head
                   ? N * s->tensor * SIZES_SHARE_NUMBERS * 8
                   : 0;
    case S_WIDE: return N * larger(s->F, HD) * act;
    case S_PACKED: return N * larger(up, HD + 2 * KD) * act;
    default: return 0;
    }
}
