/* acts - activations and scratch carved by plan's sizes. */
#include "runner/model/layers.h"

/* Those that are kept (kept), or the others (not kept). */
void acts_carve(const struct shape *s, int64_t N, enum dtype act,
                enum dtype stat, enum keep keep, bool kept,
                struct carver *carver, struct acts *ret)
{
    for (int id = 0; id < A_N; id++) {
        int64_t bytes = act_bytes(s, (enum act_id)id, N, (int)dtype_bytes(act),
                                  (int)dtype_bytes(stat));
        if (bytes == 0 || act_kept((enum act_id)id, keep) != kept)
            continue;
        void *p = carve(carver, bytes);
        if (ret)
            ret->at[id] = p;
    }
}

void scratch_carve(const struct shape *s, int64_t N, enum dtype act,
                   bool train, struct carver *carver, struct scratch *ret)
{
    for (int id = 0; id < S_N; id++) {
        void *p = carve(carver, scratch_bytes(s, (enum scratch_id)id, N,
                                              (int)dtype_bytes(act), train));
        if (ret)
            ret->at[id] = p;
    }
}
