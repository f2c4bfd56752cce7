/* journal - events and metrics for people and dashboards.
 *
 * journal.jsonl: events, one JSON object a line, written by the supervisor of
 * the attempt alone. metrics.jsonl: one line a logged step, by rank 0 alone.
 * Trackers (TensorBoard, MLflow) follow metrics and never fail the run.
 * Readers merge the attempts; the last attempt wins a step; a torn last line is
 * ignored.
 */
#ifndef KB_JOURNAL_JOURNAL_H
#define KB_JOURNAL_JOURNAL_H

#include <jansson.h>

#include "runner/base/contract.h"
#include "runner/base/err.h"

struct journal;
/* For writing; the file is made 0600. run_dir/attempts/NNNN must exist. */
struct journal *journal_open(const char *run_dir, int attempt,
                             const char *file, struct err *err);
void journal_close(struct journal *journal);
/* Takes fields (may be NULL). Adds event, time, attempt. A full disk is told
 * in err and loses the record, never the run. */
int journal_event(struct journal *journal, enum kb_event event,
                  json_t *fields, struct err *err);

/* One logged step, as Megatron's line and more. */
struct metrics {
    int64_t step, steps;
    int64_t consumed_samples, consumed_tokens;
    double iteration_ms, tokens_per_s, tokens_per_s_rank;
    double tflops_half, tflops_full;  /* per rank, both counts */
    double lr, loss, grad_norm;
    double z, accuracy;               /* NAN: not measured */
    int global_batch;
    int64_t skipped, nan;
    double eta_s;
    double valid_loss;                /* NAN: none at this step */
    double ckpt_wait_ms, data_wait_ms;
    double loss_scale, overflows;     /* NAN: not fp16 */
    double wall_s;
};
int journal_metrics(struct journal *journal, const struct metrics *m,
                    struct err *err);
/* The log line for people, into buf. */
void metrics_line(const struct metrics *m, char *buf, size_t buf_bytes);

/* Merged reading: calls on_record for each record of all attempts in order of
 * attempt and line. file: KB_JOURNAL or KB_METRICS. The record is borrowed. */
typedef int (*journal_record_f)(void *ctx, int attempt, const json_t *record);
int journal_read(const char *run_dir, const char *file,
                 journal_record_f on_record, void *ctx, struct err *err);

/* One attempt's; a file that is not there has no records. */
int journal_read_attempt(const char *run_dir, int attempt, const char *file,
                         journal_record_f on_record, void *ctx,
                         struct err *err);
/* The numbers of the attempts, ascending, into *ret (free()); their count,
 * or -1. */
int journal_attempts(const char *run_dir, int **ret, struct err *err);

/* TensorBoard event file in run_dir/tb. The first scalar of an attempt after
 * the first makes readers forget what older ones wrote from that step on. */
struct tboard;
struct tboard *tboard_open(const char *run_dir, int attempt, struct err *err);
void tboard_close(struct tboard *tb);
int tboard_scalar(struct tboard *tb, const char *tag, int64_t step,
                  double wall_s, float value);
int tboard_metrics(struct tboard *tb, const struct metrics *m);
int tboard_flush(struct tboard *tb, struct err *err);

#endif
