/* Tests of runner/journal/mlflow.c and mlflow_rest.c against a small server
 * on the loopback that keeps what it is told. */
#include "runner/journal/mlflow.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/journal/journal.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

/* ---- The server --------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    int listener, port;
    int unwell_n;      /* so many answers more are 503 */
    int hang;          /* answer nothing */
    int exists, race;  /* the experiment; made between look and make */
    int deleted;       /* the experiment was */
    int runs_n, no_run;
    int refuse_n;      /* so many batches more are 400 */
    int requests_n, batches_n, points_n, params_n, most_points;
    double last_loss;
    long long last_step;
    char state[16];
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char absent[] = "{\"error_code\":\"RESOURCE_DOES_NOT_EXIST\","
                             "\"message\":\"no\"}";

static int take_batch(json_t *body, char *answer)
{
    json_t *metrics = json_object_get(body, "metrics"), *point;
    size_t i;
    if (server.refuse_n > 0) {
        server.refuse_n--;
        strcpy(answer, "{\"error_code\":\"INVALID_PARAMETER_VALUE\"}");
        return 400;
    }
    server.batches_n++;
    server.params_n += (int)json_array_size(json_object_get(body, "params"));
    server.points_n += (int)json_array_size(metrics);
    if ((int)json_array_size(metrics) > server.most_points)
        server.most_points = (int)json_array_size(metrics);
    json_array_foreach (metrics, i, point) {
        if (strcmp(json_string_or(point, "key", ""), "loss"))
            continue;
        server.last_loss = json_double_or(point, "value", -1);
        server.last_step = json_i64_or(point, "step", -1);
    }
    return 200;
}

static int answer_to(const char *path, json_t *body, char *answer)
{
    strcpy(answer, "{}");
    server.requests_n++;
    if (server.unwell_n > 0) {
        server.unwell_n--;
        return 503;
    }
    if (strstr(path, "experiments/get-by-name")) {
        if (!server.exists) {
            strcpy(answer, absent);
            server.exists = server.race;
            return 404;
        }
        sprintf(answer, "{\"experiment\":{\"experiment_id\":\"5\","
                        "\"lifecycle_stage\":\"%s\"}}",
                server.deleted ? "deleted" : "active");
        return strstr(path, "=my%20runs") ? 200 : 500;
    }
    if (strstr(path, "experiments/create")) {
        if (server.exists) {
            strcpy(answer, "{\"error_code\":\"RESOURCE_ALREADY_EXISTS\"}");
            return 400;
        }
        server.exists = 1;
        strcpy(answer, "{\"experiment_id\":\"5\"}");
        return 200;
    }
    if (strstr(path, "runs/create")) {
        sprintf(answer, "{\"run\":{\"info\":{\"run_id\":\"r%d\"}}}",
                ++server.runs_n);
        return 200;
    }
    if (server.no_run && strstr(path, "runs/")) {
        server.no_run = 0;
        strcpy(answer, absent);
        return 404;
    }
    if (strstr(path, "runs/update"))
        snprintf(server.state, sizeof server.state, "%s",
                 json_string_or(body, "status", "?"));
    return strstr(path, "runs/log-batch") ? take_batch(body, answer) : 200;
}

/* Reads one request; the body is what Content-Length says. */
static void serve_one(int fd)
{
    static char text[1 << 21];
    size_t have = 0, need = 0;
    char *end = NULL;
    while (have < sizeof text - 1) {
        ssize_t n = read(fd, text + have, sizeof text - 1 - have);
        if (n <= 0)
            return;
        have += (size_t)n;
        text[have] = 0;
        end = strstr(text, "\r\n\r\n");
        const char *length = strcasestr(text, "content-length:");
        if (end && length && length < end)
            need = strtoul(length + 15, NULL, 10);
        if (end && have >= (size_t)(end + 4 - text) + need)
            break;
        if (end && strcasestr(text, "expect: 100") && have ==
                                                 (size_t)(end + 4 - text))
            dprintf(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    char path[512] = "", answer[512];
    sscanf(text, "%*s %511s", path);
    json_t *body = json_loads(end + 4, 0, NULL);
    pthread_mutex_lock(&server.lock);
    int status = answer_to(path, body, answer);
    pthread_mutex_unlock(&server.lock);
    json_decref(body);
    dprintf(fd, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n%s", status, strlen(answer), answer);
}

static void *serve(void *ctx)
{
    for (;;) {
        int fd = accept(server.listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        pthread_mutex_lock(&server.lock);
        int hang = server.hang;
        pthread_mutex_unlock(&server.lock);
        if (!hang) /* else it is left open and never answered */
            serve_one(fd);
        if (!hang)
            close(fd);
    }
}

static void start_server(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    pthread_t thread;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server.listener, (struct sockaddr *)&a, sizeof a) ||
        listen(server.listener, 8) ||
        getsockname(server.listener, (struct sockaddr *)&a, &len) ||
        pthread_create(&thread, NULL, serve, NULL))
        abort();
    pthread_detach(thread);
    server.port = ntohs(a.sin_port);
}

static int seen(const int *what)
{
    pthread_mutex_lock(&server.lock);
    int v = *what;
    pthread_mutex_unlock(&server.lock);
    return v;
}

static void set(int *what, int v)
{
    pthread_mutex_lock(&server.lock);
    *what = v;
    pthread_mutex_unlock(&server.lock);
}

/* ---- The run ------------------------------------------------------------ */

enum { POINTS_A_STEP = 16 };
static const char *run_dir;

static struct mlflow *start(int attempt)
{
    static char uri[64];
    struct err err = ERR_INIT;
    snprintf(uri, sizeof uri, "http://u:secret@127.0.0.1:%d/", server.port);
    json_t *params = json_pack("{s:s, s:s}", "optim.lr", "3e-4", "empty", "");
    struct mlflow_spec spec = {.run_dir = run_dir, .attempt = attempt,
                               .uri = uri, .experiment = "my runs",
                               .run_name = "demo", .params = params};
    struct mlflow *m = mlflow_start(&spec, &err);
    json_decref(params);
    return m;
}

static void log_steps(int attempt, int first, int n, struct mlflow *m)
{
    struct err err = ERR_INIT;
    struct journal *j = journal_open(run_dir, attempt, KB_METRICS, &err);
    for (int i = 0; i < n; i++) {
        struct metrics row = {.step = first + i, .steps = 100,
                              .loss = 10.0 - (first + i) * .01, .z = NAN,
                              .accuracy = NAN, .valid_loss = NAN,
                              .loss_scale = NAN, .overflows = NAN,
                              .wall_s = 1700000000.0 + first + i};
        if (journal_metrics(j, &row, &err))
            abort();
        mlflow_wake(m);
    }
    journal_close(j);
}

static void make_run(const char *name)
{
    static char kept[PATH_MAX];
    struct err err = ERR_INIT;
    snprintf(kept, sizeof kept, "%s", scratch(name));
    run_dir = kept;
    for (int a = 1; a <= 3; a++) {
        char dir[PATH_MAX + 32];
        snprintf(dir, sizeof dir, "%s/attempts/%04d", run_dir, a);
        if (file_make_dirs(dir, 0700, &err))
            abort();
    }
}

static int wait_points(int want)
{
    for (int i = 0; i < 100 && seen(&server.points_n) < want; i++)
        clock_sleep_s(.1);
    return seen(&server.points_n) == want;
}

static void test_deliver(void)
{
    char news[400];
    make_run("deliver");
    struct mlflow *m = start(1);
    ok(m != NULL, "started");
    log_steps(1, 1, 100, m);
    ok(wait_points(100 * POINTS_A_STEP), "100 steps are delivered");
    ok(server.most_points <= 1000, "at most 1000 points a request");
    is_int(server.runs_n, 1, "one run");
    is_int(server.params_n, 1, "its parameters");
    is_int(server.last_step, 100, "the last step");
    is_near(server.last_loss, 9.0, 1e-9, "its loss");
    ok(!mlflow_news(m, news, sizeof news), "no trouble");
    mlflow_stop(m, NULL, 5);
    is_str(server.state, "", "the run's state is left for the next attempt");

    /* Steps that were written but not delivered, then a second attempt. */
    log_steps(1, 101, 5, NULL);
    m = start(2);
    log_steps(2, 103, 4, m);
    ok(wait_points(109 * POINTS_A_STEP), "the next attempt delivers the rest");
    is_int(server.runs_n, 1, "into the same run");
    is_int(server.params_n, 1, "parameters are told once");
    mlflow_stop(m, "FINISHED", 5);
    is_str(server.state, "FINISHED", "the end is told");
    struct err err = ERR_INIT;
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/tracker/mlflow.json", run_dir);
    char *text = file_read(path, 10000, NULL, &err);
    ok(text && !strstr(text, "secret"), "no password is kept");
    free(text);
}

static void test_trouble(void)
{
    char news[400] = "";
    make_run("trouble");
    set(&server.points_n, 0);
    set(&server.exists, 0);
    set(&server.race, 1);
    set(&server.unwell_n, 1);
    struct mlflow *m = start(1);
    log_steps(1, 1, 3, m);
    for (int i = 0; i < 50 && !mlflow_news(m, news, sizeof news); i++)
        clock_sleep_s(.05);
    ok(strstr(news, "503"), "an unwell server is told");
    ok(wait_points(3 * POINTS_A_STEP), "and asked again");
    is_int(server.runs_n, 2, "an experiment that another made is taken");
    set(&server.refuse_n, 1);
    log_steps(1, 4, 2, m);
    for (int i = 0; i < 80 && seen(&server.refuse_n); i++)
        clock_sleep_s(.05);
    log_steps(1, 6, 1, m);
    for (int i = 0; i < 100 && seen(&server.points_n) < 4 * POINTS_A_STEP; i++)
        clock_sleep_s(.05);
    ok(!server.refuse_n && server.last_step == 6,
       "a refused request is left behind");
    set(&server.no_run, 1);
    log_steps(1, 7, 1, m);
    for (int i = 0; i < 100 && seen(&server.runs_n) < 3; i++)
        clock_sleep_s(.1);
    is_int(server.runs_n, 3, "a run that was deleted is made again");
    mlflow_stop(m, "FAILED", 5);
    is_str(server.state, "FAILED", "failure is told");

    make_run("deleted");
    set(&server.deleted, 1);
    m = start(1);
    *news = 0;
    for (int i = 0; i < 50 && !mlflow_news(m, news, sizeof news); i++)
        clock_sleep_s(.05);
    ok(strstr(news, "is deleted on the server"), "a deleted experiment");
    mlflow_stop(m, "FINISHED", 1);
    set(&server.deleted, 0);
}

static void test_bounds(void)
{
    make_run("bounds");
    set(&server.hang, 1);
    struct mlflow *m = start(1);
    double start_s = clock_mono_s();
    log_steps(1, 1, 50, m);
    clock_sleep_s(.2);
    mlflow_stop(m, "FINISHED", .5);
    ok(clock_mono_s() - start_s < 4, "a server that hangs delays nothing");
    set(&server.hang, 0);
    int port = server.port;
    server.port = 1; /* nobody listens there */
    start_s = clock_mono_s();
    m = start(2);
    clock_sleep_s(.1);
    char news[400] = "";
    for (int i = 0; i < 50 && !mlflow_news(m, news, sizeof news); i++)
        clock_sleep_s(.05);
    ok(strstr(news, "cannot reach"), "no server is told");
    mlflow_stop(m, "FINISHED", 5);
    ok(clock_mono_s() - start_s < 5, "and costs no time at the end");
    server.port = port;
    mlflow_stop(NULL, NULL, 1);
}

int main(void)
{
    start_server();
    test_deliver();
    test_trouble();
    test_bounds();
    return tap_done();
}
