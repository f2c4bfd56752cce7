/* requests - what ranks put, wait for and gather at rank 0's server; see
 * server.h. */
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"
#include "runner/comm/server.h"
#include "runner/comm/server_private.h"

/* ---- Replies ----------------------------------------------------------- */

static struct peer *peer_of(struct server *s, int rank)
{
    for (int i = 0; i < s->peers_n; i++)
        if (s->peers[i]->rank == rank)
            return s->peers[i];
    return NULL;
}

static void reply(struct server *s, int rank, uint32_t id,
                  enum wire_status status, const void *data, size_t bytes)
{
    struct peer *peer = peer_of(s, rank);
    struct frame f = {.type = WIRE_REPLY, .id = id, .status = status};
    if (peer)
        wire_send(&peer->wire, f, NULL, data, bytes);
}

static void reply_text(struct server *s, int rank, uint32_t id,
                       enum wire_status status, const char *text)
{
    reply(s, rank, id, status, text, strlen(text));
}

/* ---- Put and get ------------------------------------------------------- */

static struct item *find_item(struct server *s, int rank, const char *key)
{
    struct item *item = s->items;
    while (item && (item->rank != rank || strcmp(item->key, key)))
        item = item->next;
    return item;
}

/* Answer those who waited for this item. */
static void serve_getters(struct server *s, const struct item *item)
{
    for (struct getter **at = &s->getters; *at;) {
        struct getter *g = *at;
        if (g->from != item->rank || strcmp(g->key, item->key)) {
            at = &g->next;
            continue;
        }
        reply(s, g->rank, g->id, WIRE_OK, item->data, item->bytes);
        *at = g->next;
        free(g);
    }
}

void request_put(struct server *s, struct peer *peer, const struct frame *f,
                 const char *key, const void *data)
{
    if (find_item(s, peer->rank, key)) {
        reply_text(s, peer->rank, f->id, WIRE_FAILED, "was already put");
        return;
    }
    struct item *item = calloc(1, sizeof *item + f->data_bytes);
    if (!item) {
        reply_text(s, peer->rank, f->id, WIRE_FAILED, "rank 0 has no memory");
        return;
    }
    item->rank = peer->rank;
    str_copy(item->key, sizeof item->key, key);
    item->bytes = f->data_bytes;
    memcpy(item->data, data, f->data_bytes);
    item->next = s->items;
    s->items = item;
    reply(s, peer->rank, f->id, WIRE_OK, NULL, 0);
    serve_getters(s, item);
}

void request_get(struct server *s, struct peer *peer, const struct frame *f,
                 const char *key)
{
    const struct item *item = find_item(s, f->rank, key);
    if (item) {
        reply(s, peer->rank, f->id, WIRE_OK, item->data, item->bytes);
        return;
    }
    if (f->rank < 0 || f->rank >= s->size || s->gone[f->rank]) {
        reply_text(s, peer->rank, f->id, WIRE_PEER_LOST, "it is gone");
        return;
    }
    struct getter *g = calloc(1, sizeof *g);
    if (!g) {
        reply_text(s, peer->rank, f->id, WIRE_FAILED, "rank 0 has no memory");
        return;
    }
    g->rank = peer->rank;
    g->from = f->rank;
    g->id = f->id;
    str_copy(g->key, sizeof g->key, key);
    g->limit_ms = f->limit_ms;
    g->deadline_s = clock_mono_s() + f->limit_ms * 1e-3;
    g->next = s->getters;
    s->getters = g;
}

/* Getters whose time is over (lost < 0), or that wait for a lost rank. */
static void fail_getters(struct server *s, double now_s, int lost)
{
    for (struct getter **at = &s->getters; *at;) {
        struct getter *g = *at;
        bool late = lost < 0 && g->deadline_s <= now_s;
        if (!late && (lost < 0 || g->from != lost)) {
            at = &g->next;
            continue;
        }
        struct sbuf text = SBUF_INIT;
        if (late)
            sbuf_printf(&text, "it was not put within %.1f s%s",
                        g->limit_ms * 1e-3,
                        s->known[g->from] ? "" : ", and that rank never came");
        else
            sbuf_puts(&text, "it is gone");
        reply(s, g->rank, g->id, late ? WIRE_FAILED : WIRE_PEER_LOST,
              text.data, text.len);
        sbuf_release(&text);
        *at = g->next;
        free(g);
    }
}

/* ---- Gather ------------------------------------------------------------ */

static void meeting_destroy(struct meeting *m)
{
    if (!m)
        return;
    free(m->failed);
    free(m->ids);
    free(m->come);
    free(m->waits);
    free(m->data);
    free(m);
}

static struct meeting *meeting_of(struct server *s, int32_t number,
                                  size_t bytes)
{
    struct meeting *m = s->meetings;
    while (m && m->number != number)
        m = m->next;
    if (m)
        return m;
    size_t size = (size_t)s->size;
    m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->number = number;
    m->bytes = bytes;
    m->deadline_s = 1e300;
    m->ids = calloc(size, sizeof *m->ids);
    m->come = calloc(size, sizeof *m->come);
    m->waits = calloc(size, sizeof *m->waits);
    m->data = malloc(size * bytes + 1);
    if (!m->ids || !m->come || !m->waits || !m->data) {
        meeting_destroy(m);
        return NULL;
    }
    m->next = s->meetings;
    s->meetings = m;
    return m;
}

/* Answer all who wait in the meeting; forget it once all have come. */
static void meeting_answer(struct server *s, struct meeting *m)
{
    for (int r = 0; r < s->size; r++) {
        if (!m->waits[r])
            continue;
        m->waits[r] = false;
        if (m->failed)
            reply_text(s, r, m->ids[r], m->status, m->failed);
        else
            reply(s, r, m->ids[r], WIRE_OK, m->data,
                  m->bytes * (size_t)s->size);
    }
    if (m->come_n < s->size)
        return;
    for (struct meeting **at = &s->meetings; *at; at = &(*at)->next) {
        if (*at == m) {
            *at = m->next;
            break;
        }
    }
    meeting_destroy(m);
}

/* "ranks 3, 7" of those who did not come, the first few. */
static void name_missing(const struct server *s, const struct meeting *m,
                         struct sbuf *text)
{
    int missing = s->size - m->come_n, named = 0;
    sbuf_puts(text, missing == 1 ? "rank" : "ranks");
    for (int r = 0; r < s->size && named < 8; r++) {
        if (m->come[r])
            continue;
        sbuf_printf(text, "%s %d", named++ ? "," : "", r);
    }
    if (missing > named)
        sbuf_printf(text, " and %d more", missing - named);
}

static void meeting_fail(struct server *s, struct meeting *m, int lost)
{
    struct sbuf text = SBUF_INIT;
    if (lost >= 0) {
        sbuf_printf(&text, "rank %d is gone", lost);
    } else {
        name_missing(s, m, &text);
        sbuf_printf(&text, " did not come within %.1f s", m->limit_ms * 1e-3);
    }
    m->failed = sbuf_take(&text);
    m->status = lost >= 0 ? WIRE_PEER_LOST : WIRE_FAILED;
    m->deadline_s = 1e300;
    if (m->failed)
        meeting_answer(s, m);
}

void request_gather(struct server *s, struct peer *peer,
                    const struct frame *f, const void *data)
{
    int rank = peer->rank;
    struct meeting *m = meeting_of(s, f->rank, f->data_bytes);
    if (!m || m->come[rank] || m->bytes != f->data_bytes) {
        reply_text(s, rank, f->id, WIRE_FAILED,
                   m ? "the ranks do not call the same: sizes or order differ"
                     : "rank 0 has no memory");
        return;
    }
    m->come[rank] = m->waits[rank] = true;
    m->come_n++;
    m->ids[rank] = f->id;
    memcpy(m->data + m->bytes * (size_t)rank, data, m->bytes);
    double deadline_s = clock_mono_s() + f->limit_ms * 1e-3;
    if (!m->failed && deadline_s < m->deadline_s) {
        m->deadline_s = deadline_s;
        m->limit_ms = f->limit_ms;
    }
    if (m->failed || m->come_n == s->size) {
        meeting_answer(s, m);
        return;
    }
    for (int r = 0; r < s->size; r++) {
        if (s->gone[r] && !m->come[r]) {
            meeting_fail(s, m, r);
            return;
        }
    }
}

static void fail_meetings(struct server *s, double now_s, int lost)
{
    struct meeting *next;
    for (struct meeting *m = s->meetings; m; m = next) {
        next = m->next;
        if (m->failed)
            continue;
        if (lost >= 0 ? !m->come[lost] : m->deadline_s <= now_s)
            meeting_fail(s, m, lost);
    }
}

/* ---- Both -------------------------------------------------------------- */

void requests_fail(struct server *s, double now_s, int lost)
{
    fail_getters(s, now_s, lost);
    fail_meetings(s, now_s, lost);
}

double requests_deadline(const struct server *s, double until_s)
{
    for (const struct getter *g = s->getters; g; g = g->next)
        if (g->deadline_s < until_s)
            until_s = g->deadline_s;
    for (const struct meeting *m = s->meetings; m; m = m->next)
        if (m->deadline_s < until_s)
            until_s = m->deadline_s;
    return until_s;
}

void requests_release(struct server *s)
{
    while (s->items) {
        struct item *next = s->items->next;
        free(s->items);
        s->items = next;
    }
    while (s->getters) {
        struct getter *next = s->getters->next;
        free(s->getters);
        s->getters = next;
    }
    while (s->meetings) {
        struct meeting *next = s->meetings->next;
        meeting_destroy(s->meetings);
        s->meetings = next;
    }
}
