/* mlflow - a run's metrics to an MLflow server.
 *
 * A thread of its own reads metrics.jsonl as rank 0 writes it and delivers
 * what is new; how far it came is kept in run_dir/tracker, so that a later
 * attempt delivers what an earlier one could not. Nothing here fails or
 * delays the run: starting does no network, waking never waits, stopping
 * waits at most as long as told. The run's id is kept too: all attempts are
 * one run on the server.
 *
 *   tracker/mlflow.json       {"uri", "experiment", "run_id"}
 *   tracker/mlflow-0001.json  {"delivered": BYTES of attempt 1's metrics}
 *
 * A step that is done again by a later attempt is there twice, with two times:
 * MLflow only appends.
 */
#ifndef KB_JOURNAL_MLFLOW_H
#define KB_JOURNAL_MLFLOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runner/base/err.h"

struct mlflow;

struct mlflow_spec {
    const char *run_dir;
    int attempt;
    const char *uri;        /* http://HOST:PORT, user:password@ allowed */
    const char *experiment; /* made when it is not there */
    const char *run_name;
    const json_t *params;   /* object of texts, told once a run; or NULL */
};

/* Copies the spec. NULL when there is no memory or thread to be had. */
struct mlflow *mlflow_start(const struct mlflow_spec *spec, struct err *err);
/* There is a new line in metrics.jsonl. */
void mlflow_wake(struct mlflow *m);
/* True once for each new trouble, with a sentence for the log. */
bool mlflow_news(struct mlflow *m, char *buf, size_t buf_bytes);
/* Deliver what is left, set the run's state on the server (FINISHED, FAILED,
 * KILLED; NULL: leave it running, another attempt goes on) and end, within
 * limit_s. NULL is allowed for m. */
void mlflow_stop(struct mlflow *m, const char *state, double limit_s);

#endif
