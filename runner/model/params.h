/* params - private to model: weights as they lie in memory, and the table of
 * Hugging Face's tensors that are slices of them.
 *
 * A place is one packed weight of a layer or of the top. A part is a run of
 * rows of it that Hugging Face names. Packed: qkv [(H+2K)*D, C] holds q, k and
 * v after one another, gate_up [2F, C] gate and up; GPT-2's c_attn and c_fc
 * are one tensor in Hugging Face's files too, and lie [in, out].
 */
#ifndef KB_MODEL_PARAMS_H
#define KB_MODEL_PARAMS_H

#include "runner/model/model.h"

enum place {
    P_NORM1, P_NORM1_B, P_QKV, P_QKV_B, P_QNORM, P_KNORM, P_O, P_O_B,
    P_NORM2, P_NORM2_B, P_UP, P_UP_B, P_DOWN, P_DOWN_B,
    P_LAYER_N,
    P_WTE = P_LAYER_N, P_WPE, P_NORMF, P_NORMF_B, P_HEAD,
    P_N
};

/* Which rows of a place. */
enum part { PART_ALL, PART_Q, PART_K, PART_V, PART_GATE, PART_UP };

struct part_name {
    enum shape_names names;
    enum place place;
    enum part part;
    const char *fmt;   /* %d: layer */
};
/* Hugging Face's names (hf_names.c), ended by fmt NULL. */
extern const struct part_name hf_part_names[];

/* Rows and columns in memory; out 0: this shape has no such weight. in 1 and
 * *ret_in_out false for vectors. */
void place_dims(const struct shape *s, enum place place, int *ret_out,
                int *ret_in, bool *ret_in_out);
bool place_is_vector(enum place place);
/* First row and number of rows of a part. */
void part_rows(const struct shape *s, enum place place, enum part part,
               int *ret_first, int *ret_rows);

/* Carves the arena, or (device NULL) counts what it would take. */
struct carver {
    struct device *device;
    int64_t bytes;     /* so far, each block rounded up to 256 */
    bool failed;       /* the arena was full */
};
void *carve(struct carver *carver, int64_t bytes);

struct weights {
    struct weight top[P_N];             /* P_WTE.. used */
    struct weight (*layer)[P_LAYER_N];  /* [L] */
    int buckets;
    void *data, *grad;                  /* the regions; grad NULL: none */
    int64_t data_bytes, grad_bytes;
};
/* Walks all weights in the order in which their gradients become ready (final
 * norm and untied head, layers from the last, embedding) and carves data, then
 * gradients. weights may be NULL to count only. */
void weights_carve(const struct shape *s, enum dtype act, enum dtype grad,
                   bool train, struct carver *carver, struct weights *weights);
/* The table for them; count, or -1 when memory ran out. */
int params_list(const struct shape *s, const struct weights *weights,
                enum dtype act, enum dtype grad, struct param **ret);

#endif
