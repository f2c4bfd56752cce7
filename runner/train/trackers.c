/* trackers - where rank 0's metrics go. Only metrics.jsonl is needed; the
 * others follow it and never fail or delay the run. */
#include <stdio.h>

#include "runner/base/log.h"
#include "runner/train/train.h"

#define STOP_LIMIT_S 5.0

/* What a person would look for in a table of runs. */
static json_t *run_params(const struct plan *p)
{
    const struct shape *s = &p->shape;
    const struct { const char *name; double value; } rows[] = {
        {"parameters", (double)p->params_n}, {"layers", s->L},
        {"hidden_size", s->C}, {"heads", s->H}, {"kv_heads", s->K},
        {"ffn_size", s->F}, {"vocab_size", s->V}, {"seq_len", p->seq_len},
        {"global_batch", p->global_batch}, {"steps", (double)p->steps},
        {"lr", p->lr}, {"min_lr", p->min_lr}, {"beta2", p->beta2},
        {"weight_decay", p->weight_decay}, {"clip", p->clip},
        {"seed", (double)p->seed}, {"ranks", p->world},
    };
    json_t *params = json_pack("{s:s, s:s}", "plan", p->hash, "run_dir",
                               p->run_dir);
    for (size_t i = 0; params && i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.9g", rows[i].value);
        json_object_set_new(params, rows[i].name, json_string(text));
    }
    return params;
}

static void mlflow_open(struct train *t)
{
    struct err why = ERR_INIT;
    json_t *params = run_params(&t->plan);
    struct mlflow_spec spec = {
        .run_dir = t->plan.run_dir, .attempt = t->options.attempt,
        .uri = t->plan.mlflow_uri, .experiment = t->plan.mlflow_experiment,
        .run_name = t->plan.name, .params = params,
    };
    t->mlflow = mlflow_start(&spec, &why);
    if (!t->mlflow)
        log_warn("%s", why.msg);
    json_decref(params);
}

int trackers_open(struct train *t, struct err *err)
{
    struct err why = ERR_INIT;
    if (t->place.rank != 0)
        return 0;
    t->metrics = journal_open(t->plan.run_dir, t->options.attempt, KB_METRICS,
                              err);
    if (!t->metrics)
        return -1;
    if (t->plan.tensorboard &&
        !(t->tboard = tboard_open(t->plan.run_dir, t->options.attempt, &why)))
        log_warn("%s", why.msg);
    if (*t->plan.mlflow_uri)
        mlflow_open(t);
    return 0;
}

void trackers_record(struct train *t, const struct metrics *m)
{
    struct err err = ERR_INIT;
    char news[512];
    if (t->metrics && journal_metrics(t->metrics, m, &err) != 0)
        log_warn("%s", err.msg);
    if (t->tboard && tboard_metrics(t->tboard, m) == 0)
        tboard_flush(t->tboard, NULL);
    if (!t->mlflow)
        return;
    mlflow_wake(t->mlflow);
    while (mlflow_news(t->mlflow, news, sizeof news))
        log_warn("%s", news);
}

void trackers_close(struct train *t, const char *state)
{
    char news[512];
    journal_close(t->metrics);
    tboard_close(t->tboard);
    if (t->mlflow && mlflow_news(t->mlflow, news, sizeof news))
        log_warn("%s", news);
    mlflow_stop(t->mlflow, state, STOP_LIMIT_S);
    t->metrics = NULL;
    t->tboard = NULL;
    t->mlflow = NULL;
}
