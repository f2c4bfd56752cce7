/* notice - a webhook told by libcurl's non-blocking interface; see notice.h.
 */
#include "runner/journal/notice.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"

#define QUEUE_MAX 32
#define TRIES_MAX 5
#define FIRST_PAUSE_S 1.0 /* doubles with each try */
static const long connect_ms = 5000, whole_ms = 15000;

struct notice {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char *queue[QUEUE_MAX]; /* owned; [0] is the one on its way */
    int queue_n, tries;
    bool moving;            /* easy is in multi */
    double next_s;          /* not before */
    int delivered, dropped;
    char problem[320];
};

static size_t drop_reply(char *bytes, size_t one, size_t n, void *ctx)
{
    return one * n;
}

static int add_header(struct notice *n, const char *name, const char *value)
{
    struct sbuf line = SBUF_INIT;
    sbuf_printf(&line, "%s: %s", name, value);
    struct curl_slist *more =
        line.failed ? NULL : curl_slist_append(n->headers, line.data);
    sbuf_release(&line);
    if (!more)
        return -1;
    n->headers = more;
    return 0;
}

static int set_up(struct notice *n, const char *url, const char *token)
{
    struct sbuf bearer = SBUF_INIT;
    int rc = add_header(n, "Content-Type", "application/json");
    if (!rc && token && *token) {
        sbuf_printf(&bearer, "Bearer %s", token);
        rc = bearer.failed ? -1 : add_header(n, "Authorization", bearer.data);
        sbuf_release(&bearer);
    }
    if (rc || curl_easy_setopt(n->easy, CURLOPT_URL, url))
        return -1;
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(n->easy, CURLOPT_PROTOCOLS_STR, "http,https");
#endif
    curl_easy_setopt(n->easy, CURLOPT_HTTPHEADER, n->headers);
    curl_easy_setopt(n->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(n->easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(n->easy, CURLOPT_TIMEOUT_MS, whole_ms);
    curl_easy_setopt(n->easy, CURLOPT_WRITEFUNCTION, drop_reply);
    return 0;
}

struct notice *notice_open(const char *url, const char *token, struct err *err)
{
    if (!str_starts(url, "http://") && !str_starts(url, "https://")) {
        err_set_class(err, ERR_REQUEST, "notice: not an http address: '%.200s'",
                      url);
        return NULL;
    }
    if (token && strpbrk(token, "\r\n")) {
        err_set_class(err, ERR_REQUEST, "notice: the token has a line end");
        return NULL;
    }
    struct notice *n = calloc(1, sizeof *n);
    if (n && !curl_global_init(CURL_GLOBAL_DEFAULT)) {
        n->multi = curl_multi_init();
        n->easy = curl_easy_init();
        if (n->multi && n->easy && !set_up(n, url, token))
            return n;
        notice_close(n, 0);
    } else {
        free(n);
    }
    err_set(err, "notice: out of memory");
    return NULL;
}

/* ---- The queue ----------------------------------------------------------- */

static void remove_at(struct notice *n, int i)
{
    free(n->queue[i]);
    n->queue_n--;
    memmove(&n->queue[i], &n->queue[i + 1],
            (size_t)(n->queue_n - i) * sizeof *n->queue);
}

void notice_send(struct notice *n, const char *text, const json_t *record)
{
    json_t *body = json_pack("{s:s}", "text", text);
    if (!body) { /* not UTF-8: the record, if any, still tells */
        body = json_pack("{s:s}", "text", "(text that is not UTF-8)");
    }
    if (body && record)
        json_object_set_new(body, "record", json_deep_copy(record));
    char *line = body ? json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(body);
    if (!line) {
        n->dropped++;
        return;
    }
    if (n->queue_n == QUEUE_MAX) { /* not the one that is on its way */
        remove_at(n, n->moving ? 1 : 0);
        n->dropped++;
    }
    n->queue[n->queue_n++] = line;
}

/* ---- Delivery ------------------------------------------------------------ */

static void begin(struct notice *n)
{
    curl_easy_setopt(n->easy, CURLOPT_POSTFIELDS, n->queue[0]);
    n->moving = !curl_multi_add_handle(n->multi, n->easy);
}

static void end(struct notice *n, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(n->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(n->multi, n->easy);
    n->moving = false;
    n->tries++;
    bool good = code == CURLE_OK && status >= 200 && status < 300;
    bool hopeless = code == CURLE_OK && status >= 300 && status < 500 &&
                    status != 408 && status != 429;
    if (good) {
        n->delivered++;
        n->problem[0] = 0;
    } else if (code != CURLE_OK) {
        snprintf(n->problem, sizeof n->problem,
                 "notice: cannot reach the webhook: %s",
                 curl_easy_strerror(code));
    } else {
        snprintf(n->problem, sizeof n->problem,
                 "notice: the webhook answered %ld", status);
    }
    if (!good && !hopeless && n->tries < TRIES_MAX) {
        n->next_s = clock_mono_s() + FIRST_PAUSE_S * (1 << (n->tries - 1));
        return;
    }
    n->dropped += !good;
    n->tries = 0;
    n->next_s = 0;
    remove_at(n, 0);
}

void notice_pump(struct notice *n)
{
    int running, left;
    if (!n->moving && n->queue_n && clock_mono_s() >= n->next_s)
        begin(n);
    if (!n->moving)
        return;
    curl_multi_perform(n->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(n->multi, &left));)
        if (m->msg == CURLMSG_DONE) {
            end(n, m->data.result);
            break; /* there is only one */
        }
}

void notice_close(struct notice *n, double wait_s)
{
    double until = clock_mono_s() + wait_s;
    if (!n)
        return;
    while (n->queue_n && clock_mono_s() < until) {
        notice_pump(n);
        if (n->queue_n)
            curl_multi_poll(n->multi, NULL, 0, 20, NULL);
    }
    if (n->moving)
        curl_multi_remove_handle(n->multi, n->easy);
    while (n->queue_n)
        remove_at(n, n->queue_n - 1);
    curl_easy_cleanup(n->easy);
    if (n->multi)
        curl_multi_cleanup(n->multi);
    curl_slist_free_all(n->headers);
    curl_global_cleanup();
    free(n);
}

int notice_waiting(const struct notice *n)
{
    return n->queue_n;
}

int notice_delivered(const struct notice *n)
{
    return n->delivered;
}

int notice_dropped(const struct notice *n)
{
    return n->dropped;
}

const char *notice_problem(const struct notice *n)
{
    return n->problem;
}
