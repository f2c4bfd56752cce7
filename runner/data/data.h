/* data - token files to batches, in Megatron's order.
 *
 * Which samples a step sees never depends on the number of ranks, micro-batch
 * or accumulation: step s of a global batch G takes positions consumed ..
 * consumed + G of the order. Data parallel rank r, micro-batch m takes
 * consumed + m * (micro * data) + r * micro and on.
 * Token files: tokens.h. Order: order.h. Tokenizers: tokenizer.h.
 */
#ifndef KB_DATA_DATA_H
#define KB_DATA_DATA_H

#include <jansson.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/plan/batch.h"
#include "runner/plan/plan.h"

struct data;
enum data_split { DATA_TRAIN, DATA_VALID, DATA_TEST };

/* samples_n: how many the run will draw (steps * global_batch). state: the
 * cursor of a checkpoint (data_state's object) or NULL; a changed corpus, blend
 * or sequence length is refused by name, or with data.continue_changed gone on
 * with, without repeating; a longer run keeps the index of what was seen and
 * appends. NULL on error. */
struct data *data_open(const struct plan *plan, enum data_split split,
                       int64_t samples_n, const json_t *state,
                       struct err *err);
void data_close(struct data *data);
int64_t data_samples(const struct data *data); /* drawable; 0: none */
/* Samples first .. first + batch->B of the order into host buffers that the
 * caller sized for B x T of the plan (cu_seqlens: B * T + 1, or NULL). A batch
 * of a smaller T takes the first T tokens of each sample. A token >= V is an
 * error that names file and document. */
int data_fill(struct data *data, int64_t first, struct batch *batch,
              struct err *err);
/* From now on a thread reads ahead for calls of data_fill with B samples that
 * go on by stride; data_skip comes before. data_waits: how often and how long
 * such calls found nothing read. */
int data_read_ahead(struct data *data, int B, int64_t stride,
                    struct err *err);
void data_waits(const struct data *data, int64_t *ret_n, double *ret_s);
/* Cursor for the manifest: order algorithm, seed, index size, consumed samples
 * per data set, skipped windows. Owned by the caller. */
json_t *data_state(const struct data *data, int64_t consumed);
/* Samples [first, first + n) of the order are never drawn: later ones move up.
 * Remembered in data_state. */
int data_skip(struct data *data, int64_t first, int64_t n, struct err *err);

#endif
