/* mlflow_rest - single calls of MLflow's REST interface. */
#ifndef KB_JOURNAL_MLFLOW_REST_H
#define KB_JOURNAL_MLFLOW_REST_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdatomic.h>

#include "runner/base/err.h"

enum { MLFLOW_METRICS_MAX = 1000, MLFLOW_PARAMS_MAX = 100,
       MLFLOW_VALUE_BYTES = 500 };

struct mlflow_rest {
    CURL *curl;
    char *base;            /* URI without a slash at its end, owned */
    const atomic_bool *abandon; /* ends a transfer */
};

int mlflow_rest_open(struct mlflow_rest *rest, const char *uri,
                     const atomic_bool *abandon, struct err *err);
void mlflow_rest_close(struct mlflow_rest *rest);

/* What came of a call: REST_AGAIN may work later, REST_REFUSED never. */
enum rest_result { REST_OK, REST_AGAIN, REST_REFUSED, REST_ABSENT };

/* The id of an experiment of that name, made if need be; to be freed. */
enum rest_result mlflow_rest_experiment(struct mlflow_rest *rest,
                                        const char *name, char **ret_id,
                                        struct err *err);
enum rest_result mlflow_rest_run(struct mlflow_rest *rest,
                                 const char *experiment_id,
                                 const char *run_name, char **ret_id,
                                 struct err *err);
/* state as RUNNING or FINISHED; REST_ABSENT: there is no such run. */
enum rest_result mlflow_rest_state(struct mlflow_rest *rest,
                                   const char *run_id, const char *state,
                                   struct err *err);
/* Takes metrics and params (arrays, may be NULL). */
enum rest_result mlflow_rest_log(struct mlflow_rest *rest, const char *run_id,
                                 json_t *metrics, json_t *params,
                                 struct err *err);

#endif
