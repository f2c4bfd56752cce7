/* model - a transformer's layers over kernels/ops, GPT-2 and Llama families.
 *
 * Parameters are a table (params.h): name, shape, where. Activations live in
 * slots sized by the plan. Model code calls its tensor group's collectives
 * everywhere from the first day; at size 1 they do nothing.
 */
#ifndef KB_MODEL_MODEL_H
#define KB_MODEL_MODEL_H

#include <jansson.h>

#include "kernels/ops.h"
#include "runner/base/err.h"
#include "runner/base/str.h"
#include "kernels/view.h"
#include "runner/comm/comm.h"
#include "runner/plan/batch.h"
#include "runner/plan/plan.h"

struct model;

/* One tensor of Hugging Face's naming that this rank holds (all or a box). */
struct param {
    char name[VIEW_NAME_BYTES];
    int dims;
    int64_t shape[2];         /* global, Hugging Face's */
    /* This rank's box; extent[1] is memory's row, which holds columns of
     * several places where one tensor is q, k and v after one another. */
    int64_t offset[2], extent[2];
    int cols_n;
    struct view_cols cols[VIEW_COLS];
    int64_t n;                /* elements here */
    void *data;               /* ex->act; rows contiguous */
    void *grad;               /* ex->grad, or NULL (no training) */
    bool decay;               /* weight decay applies: 2-D, not a norm, bias */
    bool shared;              /* another rank of the tensor or pipeline group
                               * has the same, saves it and counts it */
    int bucket;               /* order in which gradients become ready */
};

enum model_mode { MODEL_TRAIN, MODEL_EVAL, MODEL_DECODE };

/* train: gradients and activation slots are allocated too. slots: activation
 * slots (1 for the trivial schedule). Arena memory only. comm may be NULL. */
struct model *model_create(const struct plan *plan, struct comm *comm,
                           struct exec *ex, bool train, int slots,
                           struct err *err);
void model_destroy(struct model *model);
int model_params(const struct model *model, struct param **ret); /* count */
/* Arena bytes that model_create takes: plan's memory rows come from here. */
int64_t model_arena_bytes(const struct plan *plan, bool train, int slots);
/* Weights by seed, tensor name and global index: knows no layout. */
int model_init_weights(struct model *model, uint64_t seed, struct err *err);
/* All gradients to zero, before a step's first micro-batch. */
int model_zero_grads(struct model *model, struct err *err);

/* Called in an order fixed by the plan when all gradients of a bucket are
 * complete for the last micro-batch. */
typedef void (*grad_ready_f)(void *ctx, int bucket);

/* Batch arrays in device memory. in, out, dout, din: activations and their
 * gradients across pipeline stages, model_message elements of act, NULL at the
 * ends: in and dout lie in the model's inboxes. sums [4] F64 device (see
 * head_loss), added to on the last stage: by forward in MODEL_EVAL, by backward
 * in MODEL_TRAIN (the loss comes with its gradient). scale: d(total)/d(loss of
 * a token). */
int model_forward(struct model *model, int chunk, int slot,
                  enum model_mode mode, const struct batch *batch,
                  const void *in, void *out, double *sums, struct err *err);
int model_backward(struct model *model, int chunk, int slot,
                   const struct batch *batch, const void *dout, void *din,
                   double *sums, double scale, grad_ready_f ready, void *ctx,
                   struct err *err);
/* After the step's last backward: the embedding's gradients, which a tied head
 * on another stage adds to. */
int model_backward_end(struct model *model, grad_ready_f ready, void *ctx,
                       struct err *err);
/* Where the input of a chunk's forward is put, by slot; and of a backward. */
void *model_inbox(const struct model *model, int slot);
void *model_back_inbox(const struct model *model);
int64_t model_message(const struct model *model, const struct batch *batch);

/* ---- Generation: the same forward with a key/value cache ---------------- */
struct kv_cache;
struct kv_cache *model_cache_create(struct model *model, int B, int T_cache,
                                    struct err *err);
void model_cache_destroy(struct kv_cache *cache); /* the arena keeps its part */
/* Arena bytes that a cache takes; act: what the model's weights are. */
int64_t model_cache_bytes(const struct plan *plan, enum dtype act, int B,
                          int T_cache);
/* tokens [B, T] continue each sequence at `past`; logits [B, V] of the last
 * position in host memory, float. */
int model_decode(struct model *model, struct kv_cache *cache, int B, int T,
                 int past, const int32_t *tokens, float *logits,
                 struct err *err);

/* ---- Export -------------------------------------------------------------- */
/* Hugging Face's config.json for this shape (GPT-2, Llama, Qwen 2, Qwen 3);
 * dtype as "float32". NULL with ERR_REQUEST where none of their classes has
 * such a model. Owned by the caller. */
json_t *model_hf_config(const struct shape *shape, const char *dtype,
                        struct err *err);

/* ---- Import -------------------------------------------------------------- */
struct hf_tensor {
    char name[VIEW_NAME_BYTES];
    int dims;
    int64_t shape[2];
};
/* A config.json of GPT-2, Llama, Qwen 2, Qwen 3 or Mistral to a shape. Each
 * key is used, known to be harmless, or refused by name (ERR_REQUEST). notes: a
 * line for what training does otherwise (dropout). */
int model_hf_shape(const json_t *config, struct shape *ret, struct sbuf *notes,
                   struct err *err);
/* The tensors that such a model has, under their names; count, -1: no memory.
 * To be freed. */
int model_hf_tensors(const struct shape *shape, struct hf_tensor **ret);
/* Does a file hold this beside them: buffers, and a tied head's copy. */
bool model_hf_ignored(const struct shape *shape, const char *name);

#endif
