/* params - private to model: weights as they lie in memory, and the table of
 * Hugging Face's tensors that are slices of them.
 *
 * A place is one packed weight of a layer or of the top (plan/sizes.h). A part
 * is a run of rows of it that Hugging Face names. Packed: qkv [(H+2K)*D, C]
 * holds q, k and v after one another, gate_up [2F, C] gate and up; GPT-2's
 * c_attn and c_fc are one tensor in Hugging Face's files too, and lie [in,
 * out].
 */
#ifndef KB_MODEL_PARAMS_H
#define KB_MODEL_PARAMS_H

#include "runner/model/model.h"
#include "runner/plan/sizes.h"

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

/* First row and number of rows of a part. */
void part_rows(const struct shape *s, enum place place, enum part part,
               int *ret_first, int *ret_rows);

/* The matrix lies [in, out]. */
bool place_in_out(const struct shape *s, enum place place);

/* Carves the arena, or (device NULL) counts what it would take. */
struct carver {
    struct device *device;
    int64_t bytes;     /* so far, each block rounded up to 256 */
    bool failed;       /* the arena was full */
};
void *carve(struct carver *carver, int64_t bytes);

/* Gradients that ranks of a group have parts of, side by side in memory. */
struct sum_run {
    enum comm_group group;
    int bucket;
    void *grad;
    int64_t n;
};

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

/* Which part of the whole model this rank has: where its boxes lie. */
struct whereabouts {
    const struct shape *whole, *share;
    int tensor, tensor_rank, replicas;
    bool tied_copy;            /* the embedding here is the first stage's */
    const int *layer_number;   /* [share L]: in the whole model */
};
/* The table for them; count, or -1 when memory ran out. */
int params_list(const struct whereabouts *at, const struct weights *weights,
                enum dtype act, enum dtype grad, struct param **ret);
/* What must be summed over other groups before the data group: of norms and
 * such the tensor group, of repeated key and value heads those that have them,
 * of a tied embedding both ends. Count, or -1 when memory ran out. */
int sums_list(const struct whereabouts *at, const struct weights *weights,
              enum dtype grad, struct sum_run **ret);

#endif
