/* mlflow_rest - see mlflow_rest.h. */
#include "runner/journal/mlflow_rest.h"

#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"

static const long connect_ms = 5000, whole_ms = 15000;
enum { REPLY_BYTES = 4 << 20 };

static int on_turn(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                   curl_off_t d)
{
    const struct mlflow_rest *rest = ctx;
    return atomic_load(rest->abandon);
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *ctx)
{
    struct sbuf *reply = ctx;
    if (reply->len + n > REPLY_BYTES)
        return 0;
    sbuf_add(reply, bytes, n);
    return n;
}

int mlflow_rest_open(struct mlflow_rest *rest, const char *uri,
                     const atomic_bool *abandon, struct err *err)
{
    *rest = (struct mlflow_rest){.abandon = abandon};
    rest->base = strdup(uri);
    rest->curl = curl_easy_init();
    if (!rest->base || !rest->curl) {
        mlflow_rest_close(rest);
        return err_set(err, "mlflow: out of memory");
    }
    for (size_t n = strlen(uri); n && rest->base[n - 1] == '/';)
        rest->base[--n] = 0;
    return 0;
}

void mlflow_rest_close(struct mlflow_rest *rest)
{
    if (rest->curl)
        curl_easy_cleanup(rest->curl);
    free(rest->base);
    rest->curl = NULL;
    rest->base = NULL;
}

/* An answer's error_code, or "". Borrowed from the answer. */
static const char *error_code(const json_t *answer)
{
    const char *code =
        json_string_value(json_object_get(answer, "error_code"));
    return code ? code : "";
}

static enum rest_result judge(CURLcode rc, long status, const char *path,
                              const json_t *answer, struct err *err)
{
    if (rc != CURLE_OK) {
        err_set(err, "mlflow: cannot reach the server: %s",
                curl_easy_strerror(rc));
        return REST_AGAIN;
    }
    if (status >= 200 && status < 300)
        return REST_OK;
    const char *message =
        json_string_value(json_object_get(answer, "message"));
    err_set(err, "mlflow: %s answered %ld %s%s%.300s", path, status,
            error_code(answer), message ? ": " : "", message ? message : "");
    if (!strcmp(error_code(answer), "RESOURCE_DOES_NOT_EXIST"))
        return REST_ABSENT;
    return status == 429 || status == 408 || status >= 500 ? REST_AGAIN
                                                           : REST_REFUSED;
}

/* One request; takes body (NULL: GET). *ret_answer is an object or NULL. */
static enum rest_result call(struct mlflow_rest *rest, const char *path,
                             json_t *body, json_t **ret_answer,
                             struct err *err)
{
    struct sbuf url = SBUF_INIT, reply = SBUF_INIT;
    struct curl_slist *headers = NULL;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    bool post = body != NULL;
    long status = 0;
    enum rest_result result = REST_AGAIN;
    *ret_answer = NULL;
    json_decref(body);
    sbuf_printf(&url, "%s/api/2.0/mlflow/%s", rest->base, path);
    headers = curl_slist_append(NULL, "Content-Type: application/json");
    if ((post && !text) || url.failed || !headers) {
        err_set(err, "mlflow: out of memory");
        goto out;
    }
    CURL *c = rest->curl;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, url.data);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, whole_ms);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS,
                     (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &reply);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_turn);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, rest);
    if (post)
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, text);
    CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    json_t *answer = json_loads(reply.data, 0, NULL);
    if (!json_is_object(answer)) {
        json_decref(answer);
        answer = NULL;
    }
    result = judge(rc, status, path, answer, err);
    *ret_answer = answer;
out:
    curl_slist_free_all(headers);
    sbuf_release(&url);
    sbuf_release(&reply);
    free(text);
    return result;
}

/* The text at outer.inner of an answer, to be freed. */
static enum rest_result take_id(json_t *answer, const char *outer,
                                const char *inner, char **ret,
                                struct err *err)
{
    const json_t *at = answer;
    if (outer)
        at = json_object_get(at, outer);
    const char *id = json_string_value(json_object_get(at, inner));
    *ret = id && *id ? strdup(id) : NULL;
    if (*ret)
        return REST_OK;
    err_set(err, "mlflow: an answer without '%s'; is it an MLflow server",
            inner);
    return REST_AGAIN;
}

static enum rest_result find_experiment(struct mlflow_rest *rest,
                                        const char *name, char **ret_id,
                                        struct err *err)
{
    struct sbuf path = SBUF_INIT;
    json_t *answer = NULL;
    char *escaped = curl_easy_escape(rest->curl, name, 0);
    sbuf_printf(&path, "experiments/get-by-name?experiment_name=%s",
                escaped ? escaped : "");
    enum rest_result result = call(rest, path.data, NULL, &answer, err);
    const json_t *found = json_object_get(answer, "experiment");
    const char *stage =
        json_string_value(json_object_get(found, "lifecycle_stage"));
    if (result == REST_OK && stage && !strcmp(stage, "deleted")) {
        err_set(err, "mlflow: experiment '%s' is deleted on the server; "
                     "restore it or name another", name);
        result = REST_REFUSED;
    } else if (result == REST_OK) {
        result = take_id(answer, "experiment", "experiment_id", ret_id, err);
    }
    json_decref(answer);
    curl_free(escaped);
    sbuf_release(&path);
    return result;
}

enum rest_result mlflow_rest_experiment(struct mlflow_rest *rest,
                                        const char *name, char **ret_id,
                                        struct err *err)
{
    json_t *answer = NULL;
    struct err absent = ERR_INIT;
    enum rest_result result = find_experiment(rest, name, ret_id, &absent);
    if (result != REST_ABSENT) {
        if (result != REST_OK)
            err_set(err, "%s", absent.msg);
        return result;
    }
    struct err refused = ERR_INIT;
    result = call(rest, "experiments/create", json_pack("{s:s}", "name", name),
                  &answer, &refused);
    if (result == REST_OK)
        result = take_id(answer, NULL, "experiment_id", ret_id, err);
    else if (!strcmp(error_code(answer), "RESOURCE_ALREADY_EXISTS"))
        result = find_experiment(rest, name, ret_id, err); /* a race */
    else
        err_set(err, "%s", refused.msg);
    json_decref(answer);
    return result;
}

enum rest_result mlflow_rest_run(struct mlflow_rest *rest,
                                 const char *experiment_id,
                                 const char *run_name, char **ret_id,
                                 struct err *err)
{
    json_t *answer = NULL;
    json_t *body = json_pack(
        "{s:s, s:s, s:I, s:[{s:s, s:s}, {s:s, s:s}]}", "experiment_id",
        experiment_id, "run_name", run_name, "start_time",
        (json_int_t)(clock_wall_s() * 1e3), "tags", "key",
        "mlflow.source.name", "value", "koboshi-train", "key",
        "mlflow.runName", "value", run_name);
    enum rest_result result = call(rest, "runs/create", body, &answer, err);
    const json_t *run = json_object_get(answer, "run");
    if (result == REST_OK)
        result = take_id(json_object_get(run, "info"), NULL, "run_id", ret_id,
                         err);
    json_decref(answer);
    return result;
}

enum rest_result mlflow_rest_state(struct mlflow_rest *rest,
                                   const char *run_id, const char *state,
                                   struct err *err)
{
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s, s:s}", "run_id", run_id, "status", state);
    if (strcmp(state, "RUNNING"))
        json_object_set_new(body, "end_time",
                            json_integer((json_int_t)(clock_wall_s() * 1e3)));
    enum rest_result result = call(rest, "runs/update", body, &answer, err);
    json_decref(answer);
    return result;
}

enum rest_result mlflow_rest_log(struct mlflow_rest *rest, const char *run_id,
                                 json_t *metrics, json_t *params,
                                 struct err *err)
{
    json_t *answer = NULL;
    json_t *body = json_pack("{s:s}", "run_id", run_id);
    if (metrics)
        json_object_set_new(body, "metrics", metrics);
    if (params)
        json_object_set_new(body, "params", params);
    enum rest_result result = call(rest, "runs/log-batch", body, &answer, err);
    json_decref(answer);
    return result;
}
