/* acts - sizes of activations and scratch, and what is kept for backward. */
#include "runner/model/layers.h"

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t act_bytes(const struct shape *s, enum act_id id, int64_t N,
                  enum dtype act, enum dtype stat)
{
    int64_t HD = (int64_t)s->H * s->D, KD = (int64_t)s->K * s->D;
    int64_t a = (int64_t)dtype_bytes(act), t = (int64_t)dtype_bytes(stat);

    switch (id) {
    case A_SUM1: case A_Y1: case A_SUM2: case A_Y2:
        return N * s->C * a;
    case A_MEAN1: case A_MEAN2:
        return s->norm == SHAPE_LAYERNORM ? N * t : 0;
    case A_RSTD1: case A_RSTD2:
        return N * t;
    case A_QKV: return N * (HD + 2 * KD) * a;
    case A_PRE: return s->qk_norm ? N * (HD + KD) * a : 0;
    case A_QK_RSTD: return s->qk_norm ? N * (s->H + s->K) * t : 0;
    case A_O: return N * HD * a;
    case A_LSE: return N * s->H * t;
    case A_UP: return N * s->F * (s->act == SHAPE_SWIGLU ? 2 : 1) * a;
    case A_ACT: return N * s->F * a;
    default: return 0;
    }
}

bool act_kept(const struct shape *s, enum act_id id, enum keep keep)
{
    switch (keep) {
    case KEEP_ALL: return true;
    case KEEP_COSTLY: /* norms and SwiGLU are cheap to compute again */
        return id != A_Y1 && id != A_Y2 &&
               !(id == A_ACT && s->act == SHAPE_SWIGLU);
    case KEEP_INPUT: return id == A_SUM1;
    default: return false;
    }
}

/* Those that are kept (kept), or the others (not kept). */
void acts_carve(const struct shape *s, int64_t N, enum dtype act,
                enum dtype stat, enum keep keep, bool kept,
                struct carver *carver, struct acts *ret)
{
    for (int id = 0; id < A_N; id++) {
        int64_t bytes = act_bytes(s, (enum act_id)id, N, act, stat);
        if (bytes == 0 || act_kept(s, (enum act_id)id, keep) != kept)
            continue;
        void *p = carve(carver, bytes);
        if (ret)
            ret->at[id] = p;
    }
}

void scratch_carve(const struct shape *s, int64_t N, enum dtype act,
                   bool train, struct carver *carver, struct scratch *ret)
{
    int64_t a = (int64_t)dtype_bytes(act);
    int64_t HD = (int64_t)s->H * s->D, KD = (int64_t)s->K * s->D;
    int64_t up = s->act == SHAPE_SWIGLU ? 2 * (int64_t)s->F : 0;
    struct scratch made = {.delta = carve(carver, N * s->C * a)};

    if (train) {
        made.dres = carve(carver, N * s->C * a);
        made.wide = carve(carver, N * max64(s->F, HD) * a);
        made.packed = carve(carver, N * max64(up, HD + 2 * KD) * a);
    }
    if (ret)
        *ret = made;
}
