/* mlflow - see mlflow.h. The thread's turn: get a run on the server, deliver
 * older attempts' rest, deliver ours; on trouble wait longer each time. */
#include "runner/journal/mlflow.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/journal/journal.h"
#include "runner/journal/mlflow_rest.h"

static const double wait_least_s = 1, wait_most_s = 60;
/* A turn that long apart from wakes, so that many lines make one request. */
static const double gather_s = 2;

struct mlflow {
    char run_dir[PATH_MAX];
    int attempt;
    char *uri, *experiment, *run_name; /* owned */
    json_t *params;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    /* under the lock */
    bool woken, stopping, ended, told;
    const char *state;
    char trouble[400];
    /* the thread's own */
    struct mlflow_rest rest;
    char *run_id;
    char place[PATH_MAX]; /* the URI without user and password */
    json_t *offsets;      /* attempt to bytes, beside the files */
    bool refused; /* the server will never take it: stay quiet */
    double wait_s;
    atomic_bool abandon;
};

static void tell(struct mlflow *m, const char *trouble)
{
    pthread_mutex_lock(&m->lock);
    if (strcmp(m->trouble, trouble)) {
        str_copy(m->trouble, sizeof m->trouble, trouble);
        m->told = false;
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- What is remembered ------------------------------------------------- */

static int memory_path(const struct mlflow *m, int attempt, char *dst,
                       size_t dst_bytes)
{
    int n = attempt ? snprintf(dst, dst_bytes,
                               "%s/" KB_TRACKER_DIR "/mlflow-%04d.json",
                               m->run_dir, attempt)
                    : snprintf(dst, dst_bytes,
                               "%s/" KB_TRACKER_DIR "/mlflow.json",
                               m->run_dir);
    return n < 0 || (size_t)n >= dst_bytes ? -1 : 0;
}

static json_t *recall(const struct mlflow *m, int attempt)
{
    char path[PATH_MAX];
    if (memory_path(m, attempt, path, sizeof path) || !file_exists(path))
        return NULL;
    return json_load_path(path, 1 << 16, NULL);
}

/* Takes record. */
static int remember(struct mlflow *m, int attempt, json_t *record,
                    struct err *err)
{
    char path[PATH_MAX], dir[PATH_MAX];
    int rc = memory_path(m, attempt, path, sizeof path) ||
             file_join(dir, sizeof dir, m->run_dir, KB_TRACKER_DIR, err) ||
             file_make_dirs(dir, 0700, err) ||
             json_save_path(record, path, 0600, err);
    json_decref(record);
    return rc ? -1 : 0;
}

/* Kept in memory too, so that a disk that takes no file makes no doubles. */
static int64_t delivered(const struct mlflow *m, int attempt)
{
    char key[16];
    snprintf(key, sizeof key, "%d", attempt);
    json_t *record = recall(m, attempt);
    int64_t bytes = json_i64_or(record, "delivered", 0);
    int64_t known = json_i64_or(m->offsets, key, 0);
    json_decref(record);
    return known > bytes ? known : bytes;
}

static int remember_delivered(struct mlflow *m, int attempt, int64_t bytes,
                              struct err *err)
{
    char key[16];
    snprintf(key, sizeof key, "%d", attempt);
    json_object_set_new(m->offsets, key, json_integer(bytes));
    return remember(m, attempt, json_pack("{s:I}", "delivered",
                                          (json_int_t)bytes), err);
}

/* ---- The run on the server ---------------------------------------------- */

static enum rest_result take_old_run(struct mlflow *m, struct err *err)
{
    json_t *record = recall(m, 0);
    const char *id = json_string_or(record, "run_id", "");
    enum rest_result result = REST_ABSENT;
    if (*id && !strcmp(json_string_or(record, "uri", ""), m->place) &&
        !strcmp(json_string_or(record, "experiment", ""), m->experiment)) {
        result = mlflow_rest_state(&m->rest, id, "RUNNING", err);
        if (result == REST_OK)
            m->run_id = strdup(id);
    }
    json_decref(record);
    return result;
}

static void add_param(json_t *list, const char *key, const char *value)
{
    char cut[MLFLOW_VALUE_BYTES];
    if (json_array_size(list) == MLFLOW_PARAMS_MAX || !*value)
        return;
    str_copy(cut, sizeof cut, value);
    json_array_append_new(list, json_pack("{s:s, s:s}", "key", key, "value",
                                          cut));
}

static enum rest_result send_params(struct mlflow *m, struct err *err)
{
    const char *key;
    json_t *value, *list = json_array();
    json_object_foreach (m->params, key, value)
        add_param(list, key, json_string_value(value)
                                 ? json_string_value(value)
                                 : "");
    if (!json_array_size(list)) {
        json_decref(list);
        return REST_OK;
    }
    return mlflow_rest_log(&m->rest, m->run_id, NULL, list, err);
}

static enum rest_result make_new_run(struct mlflow *m, struct err *err)
{
    char *experiment_id = NULL;
    enum rest_result result =
        mlflow_rest_experiment(&m->rest, m->experiment, &experiment_id, err);
    if (result == REST_OK)
        result = mlflow_rest_run(&m->rest, experiment_id, m->run_name,
                                 &m->run_id, err);
    free(experiment_id);
    if (result != REST_OK)
        return result == REST_ABSENT ? REST_REFUSED : result;
    /* Without this the next attempt would make a second run: no more. */
    remember(m, 0, json_pack("{s:s, s:s, s:s}", "uri", m->place, "experiment",
                             m->experiment, "run_id", m->run_id), err);
    struct err ignored = ERR_INIT;
    if (send_params(m, &ignored) != REST_OK)
        tell(m, ignored.msg);
    return REST_OK;
}

static enum rest_result get_run(struct mlflow *m, struct err *err)
{
    if (m->run_id)
        return REST_OK;
    struct err absent = ERR_INIT;
    enum rest_result result = take_old_run(m, &absent);
    if (result == REST_ABSENT)
        return make_new_run(m, err);
    if (result != REST_OK)
        err_set(err, "%s", absent.msg);
    return result;
}

/* ---- Delivering --------------------------------------------------------- */

static bool is_point(const char *key, const json_t *value)
{
    static const char *const others[] = {"step", "steps", "time", "attempt"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(key, others[i]))
            return false;
    return json_is_number(value);
}

/* A line's numbers as points; "step" and "time" are theirs. */
static void add_points(json_t *points, const json_t *record)
{
    const char *key;
    json_t *value;
    json_int_t step = json_i64_or(record, "step", 0);
    json_int_t time_ms = (json_int_t)(json_double_or(record, "time", 0) * 1e3);
    json_object_foreach ((json_t *)record, key, value) {
        if (!is_point(key, value))
            continue;
        json_array_append_new(
            points, json_pack("{s:s, s:f, s:I, s:I}", "key", key, "value",
                              json_number_value(value), "timestamp", time_ms,
                              "step", step));
    }
}

/* Whole lines behind *at as points, as many as a request may have; *at goes
 * behind them. NULL: nothing new. */
static json_t *read_points(const struct mlflow *m, int attempt, int64_t *at)
{
    enum { LINE_MAX_POINTS = 32 };
    char path[PATH_MAX], *line = NULL;
    size_t cap = 0;
    ssize_t n;
    json_t *points = NULL;
    snprintf(path, sizeof path, "%.4000s/" KB_ATTEMPT_FMT "/" KB_METRICS,
             m->run_dir, attempt);
    FILE *f = fopen(path, "re");
    if (!f || fseeko(f, *at, SEEK_SET))
        goto out;
    while ((n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
        json_t *record = json_loadb(line, (size_t)n, 0, NULL);
        if (!points)
            points = json_array();
        if (json_is_object(record))
            add_points(points, record);
        json_decref(record);
        *at += n;
        if (json_array_size(points) + LINE_MAX_POINTS > MLFLOW_METRICS_MAX)
            break;
    }
out:
    if (f)
        fclose(f);
    free(line);
    return points;
}

static enum rest_result deliver(struct mlflow *m, int attempt,
                                struct err *err)
{
    int64_t at = delivered(m, attempt);
    for (;;) {
        json_t *points = read_points(m, attempt, &at);
        if (!points)
            return REST_OK;
        enum rest_result result =
            json_array_size(points)
                ? mlflow_rest_log(&m->rest, m->run_id, points, NULL, err)
                : (json_decref(points), REST_OK);
        if (result == REST_AGAIN || result == REST_ABSENT)
            return result;
        /* What is refused once is refused always: go on behind it. */
        if (remember_delivered(m, attempt, at, err) ||
            result == REST_REFUSED)
            return REST_AGAIN;
    }
}

static enum rest_result turn(struct mlflow *m, struct err *err)
{
    int *attempts = NULL;
    enum rest_result result = get_run(m, err);
    int n = result == REST_OK ? journal_attempts(m->run_dir, &attempts, NULL)
                              : 0;
    for (int i = 0; i < n && result == REST_OK; i++)
        if (attempts[i] <= m->attempt)
            result = deliver(m, attempts[i], err);
    free(attempts);
    if (result == REST_ABSENT) { /* somebody deleted the run */
        free(m->run_id);
        m->run_id = NULL;
        remember(m, 0, json_object(), err);
        result = REST_AGAIN;
    }
    return result;
}

/* ---- The thread --------------------------------------------------------- */

static void wait_for(struct mlflow *m, double s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double end_s = (double)until.tv_sec + (double)until.tv_nsec / 1e9 + s;
    until.tv_sec = (time_t)end_s;
    until.tv_nsec = (long)((end_s - floor(end_s)) * 1e9);
    pthread_mutex_lock(&m->lock);
    int rc = 0;
    while (!m->stopping && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&m->change, &m->lock, &until);
    pthread_mutex_unlock(&m->lock);
}

/* Sleeps until there is something to do; true: it is time to end. */
static bool rest_until_woken(struct mlflow *m, bool trouble)
{
    m->wait_s = trouble ? fmin(fmax(2 * m->wait_s, wait_least_s), wait_most_s)
                        : 0;
    wait_for(m, trouble ? m->wait_s : gather_s);
    pthread_mutex_lock(&m->lock);
    while (!m->woken && !m->stopping && !trouble)
        pthread_cond_wait(&m->change, &m->lock);
    m->woken = false;
    bool stopping = m->stopping;
    pthread_mutex_unlock(&m->lock);
    return stopping;
}

static void last_word(struct mlflow *m)
{
    struct err err = ERR_INIT;
    if (m->refused || turn(m, &err) != REST_OK || !m->state ||
        mlflow_rest_state(&m->rest, m->run_id, m->state, &err) == REST_OK)
        return;
    tell(m, err.msg);
}

static void *work(void *ctx)
{
    struct mlflow *m = ctx;
    for (bool end = false; !end;) {
        struct err err = ERR_INIT;
        enum rest_result result = m->refused ? REST_OK : turn(m, &err);
        m->refused = m->refused || result == REST_REFUSED;
        if (result != REST_OK)
            tell(m, err.msg);
        end = rest_until_woken(m, result == REST_AGAIN);
    }
    last_word(m);
    pthread_mutex_lock(&m->lock);
    m->ended = true;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static void destroy(struct mlflow *m)
{
    mlflow_rest_close(&m->rest);
    json_decref(m->params);
    json_decref(m->offsets);
    free(m->uri);
    free(m->experiment);
    free(m->run_name);
    free(m->run_id);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->change);
    free(m);
}

static bool take_place(char *dst, size_t dst_bytes, const char *uri)
{
    const char *host = strstr(uri, "://");
    host = host ? host + 3 : uri;
    size_t n = strcspn(host, "/");
    const char *at = memrchr(host, '@', n);
    int len = snprintf(dst, dst_bytes, "%.*s%s", (int)(host - uri), uri,
                       at ? at + 1 : host);
    return len >= 0 && (size_t)len < dst_bytes;
}

/* The run's signals are for the thread that trains. */
static int start_thread(struct mlflow *m)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&m->thread, NULL, work, m);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

struct mlflow *mlflow_start(const struct mlflow_spec *spec, struct err *err)
{
    struct mlflow *m = calloc(1, sizeof *m);
    pthread_condattr_t monotonic;
    if (!m) {
        err_set(err, "mlflow: out of memory");
        return NULL;
    }
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    m->attempt = spec->attempt;
    m->uri = strdup(spec->uri);
    m->experiment = strdup(spec->experiment);
    m->run_name = strdup(spec->run_name);
    m->params = spec->params ? json_deep_copy(spec->params) : json_object();
    m->offsets = json_object();
    bool fits = str_copy(m->run_dir, sizeof m->run_dir, spec->run_dir);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    fits = fits && take_place(m->place, sizeof m->place, spec->uri);
    if (!m->uri || !m->experiment || !m->run_name || !m->params ||
        !m->offsets || !fits ||
        mlflow_rest_open(&m->rest, m->uri, &m->abandon, err) ||
        start_thread(m)) {
        err_set(err, "mlflow: cannot start");
        destroy(m);
        return NULL;
    }
    return m;
}

void mlflow_wake(struct mlflow *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->woken = true;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
}

bool mlflow_news(struct mlflow *m, char *buf, size_t buf_bytes)
{
    pthread_mutex_lock(&m->lock);
    bool news = m->trouble[0] && !m->told;
    m->told = true;
    if (news)
        str_copy(buf, buf_bytes, m->trouble);
    pthread_mutex_unlock(&m->lock);
    return news;
}

/* Waits for the end until a monotonic time; true: it came. */
static bool wait_ended(struct mlflow *m, double until_s)
{
    struct timespec until = {.tv_sec = (time_t)until_s,
                             .tv_nsec = (long)((until_s - floor(until_s)) *
                                               1e9)};
    int rc = 0;
    pthread_mutex_lock(&m->lock);
    while (!m->ended && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&m->change, &m->lock, &until);
    bool ended = m->ended;
    pthread_mutex_unlock(&m->lock);
    return ended;
}

void mlflow_stop(struct mlflow *m, const char *state, double limit_s)
{
    if (!m)
        return;
    double now_s = clock_mono_s();
    pthread_mutex_lock(&m->lock);
    m->state = state;
    m->stopping = m->woken = true;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    bool ended = wait_ended(m, now_s + limit_s);
    if (!ended) {
        /* A transfer sees this within a second; a file server may not. */
        atomic_store(&m->abandon, true);
        ended = wait_ended(m, now_s + limit_s + 2);
    }
    if (!ended) {
        pthread_detach(m->thread); /* its memory is left to it */
        return;
    }
    pthread_join(m->thread, NULL);
    destroy(m);
}
