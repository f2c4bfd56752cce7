/* batch - what a model is fed: one micro-batch of token sequences. */
#ifndef KB_PLAN_BATCH_H
#define KB_PLAN_BATCH_H

#include <stdint.h>

struct batch {
    int B, T;
    int32_t *tokens;      /* [B, T] */
    int32_t *labels;      /* [B, T]: tokens shifted by one */
    uint8_t *loss_mask;   /* [B, T], NULL: all count */
    int32_t *positions;   /* [B, T] */
    int32_t *cu_seqlens;  /* [docs + 1] or NULL: whole sequences attend */
    int docs, doc_max;
};

#endif
