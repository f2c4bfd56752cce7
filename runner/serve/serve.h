/* serve - a trained model that continues text.
 *
 * Loads a checkpoint of a run directory onto this host, with the run's own
 * configuration and tokenizer, and decodes with a key/value cache through the
 * model's own forward. One sequence at a time.
 */
#ifndef KB_SERVE_SERVE_H
#define KB_SERVE_SERVE_H

#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/tokenizer.h"
#include "runner/serve/sample.h"

struct serve;
struct serve_spec {
    const char *run_dir;
    int64_t step;       /* -1: the newest valid checkpoint */
    int tokens_max;     /* prompt and continuation together */
    int threads;        /* of the CPU operations */
};
/* A longer sequence than the model knows is ERR_REQUEST. */
struct serve *serve_open(const struct serve_spec *spec, struct err *err);
void serve_close(struct serve *serve);
struct tokenizer *serve_tokenizer(struct serve *serve); /* borrowed */
int serve_vocab(const struct serve *serve);
int serve_eod(const struct serve *serve);               /* -1: none */
/* n tokens that follow what was given before; *ret_logits [V] of the last one,
 * valid until the next call. */
int serve_feed(struct serve *serve, const int32_t *tokens, int n,
               const float **ret_logits, struct err *err);

#endif
