/* batch_work - see batch_work.h. The ring's slots go round: begun, submitted,
 * being worked on, done, taken, free. */
#include "runner/data/batch_work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/data/jsonl.h"

/* Buffers that grew past this for one giant are not kept. */
static const size_t keep_bytes = 8u << 20;

enum state { FREE, BEGUN, WAITING, WORKING, DONE, TAKEN };

struct slot {
    enum state state;
    struct batch_docs batch;
};

struct worker {
    struct pool *pool;
    struct tokenizer *tokenizer;
    struct text text;
    pthread_t thread;
    bool started;
};

struct pool {
    const struct build *build;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct slot *slot;      /* [slots_n] */
    int slots_n;
    int64_t head, tail, next; /* begun, to be taken, to be worked on */
    bool ending;
    struct worker *worker;  /* [workers_n] */
    int workers_n;
};

/* ---- Documents ---------------------------------------------------------- */

int batch_add(struct batch_docs *b, struct doc doc, struct err *err)
{
    if (b->docs_n == b->docs_cap) {
        size_t cap = b->docs_cap ? 2 * b->docs_cap : 256;
        struct doc *more = realloc(b->doc, cap * sizeof *more);
        if (!more)
            return err_set(err, "data: out of memory for documents");
        b->doc = more;
        b->docs_cap = cap;
    }
    b->doc[b->docs_n++] = doc;
    return 0;
}

int batch_add_bad(struct batch_docs *b, struct doc doc, const char *why,
                  struct err *err)
{
    doc.why = strdup(why);
    return doc.why ? batch_add(b, doc, err)
                   : err_set(err, "data: out of memory");
}

static void batch_clear(struct batch_docs *b)
{
    for (size_t i = 0; i < b->docs_n; i++)
        free((char *)b->doc[i].why);
    b->docs_n = 0;
    b->raw.n = 0;
    b->ids.n = 0;
    b->err = ERR_INIT;
    if (b->raw.cap > keep_bytes)
        text_release(&b->raw);
    if (b->ids.cap * sizeof *b->ids.data > 2 * keep_bytes)
        ids_release(&b->ids);
}

static void batch_release(struct batch_docs *b)
{
    batch_clear(b);
    text_release(&b->raw);
    ids_release(&b->ids);
    free(b->doc);
}

static void refuse(struct doc *doc, const char *why, struct err *err)
{
    doc->why = strdup(why);
    if (!doc->why)
        err_set(err, "data: out of memory");
}

/* The document's text into worker->text; false: it is bad. */
static bool take_text(struct worker *w, struct batch_docs *b, struct doc *doc)
{
    const struct build *build = w->pool->build;
    const char *raw = b->raw.data + doc->at;
    char why[DOC_WHY_BYTES];
    w->text.n = 0;
    if (doc->jsonl && jsonl_text(raw, doc->n, build->key,
                                 build->replace_invalid, &w->text, why)) {
        refuse(doc, why, &b->err);
        return false;
    }
    if (!doc->jsonl && text_add(&w->text, raw, doc->n, &b->err))
        return false;
    size_t valid = utf8_valid(w->text.data, w->text.n);
    if (valid == w->text.n)
        return true;
    if (build->replace_invalid)
        return !utf8_repair(&w->text, &b->err);
    snprintf(why, sizeof why, "not UTF-8 at byte %zu of the text", valid);
    refuse(doc, why, &b->err);
    return false;
}

static int encode(struct worker *w, struct batch_docs *b, struct doc *doc)
{
    size_t before = b->ids.n;
    if (!take_text(w, b, doc))
        return b->err.class == ERR_NONE ? 0 : -1;
    if (tokenizer_encode(w->tokenizer, w->text.data, w->text.n, &b->ids,
                         &b->err))
        return -1;
    if (b->ids.n > before && w->pool->build->append_eod) {
        if (ids_reserve(&b->ids, 1, &b->err))
            return -1;
        b->ids.data[b->ids.n++] = tokenizer_eod(w->tokenizer);
    }
    doc->ids_n = b->ids.n - before;
    doc->text_bytes = w->text.n;
    return 0;
}

static void work_batch(struct worker *w, struct batch_docs *b)
{
    for (size_t i = 0; i < b->docs_n; i++)
        if (!b->doc[i].why && encode(w, b, &b->doc[i]))
            break;
    if (w->text.cap > keep_bytes)
        text_release(&w->text);
}

/* ---- Threads ------------------------------------------------------------ */

static struct slot *slot_at(struct pool *p, int64_t number)
{
    return &p->slot[number % p->slots_n];
}

static void *work(void *ctx)
{
    struct worker *w = ctx;
    struct pool *p = w->pool;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ending && (p->next == p->head ||
                              slot_at(p, p->next)->state != WAITING))
            pthread_cond_wait(&p->work, &p->lock);
        if (p->ending)
            break;
        struct slot *slot = slot_at(p, p->next++);
        slot->state = WORKING;
        pthread_mutex_unlock(&p->lock);
        work_batch(w, &slot->batch);
        pthread_mutex_lock(&p->lock);
        slot->state = DONE;
        pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start_worker(struct pool *p, struct tokenizer *tokenizer,
                        struct err *err)
{
    struct worker *w = &p->worker[p->workers_n];
    w->pool = p;
    w->tokenizer = tokenizer_share(tokenizer, err);
    if (!w->tokenizer)
        return -1;
    p->workers_n++;
    int rc = pthread_create(&w->thread, NULL, work, w);
    if (rc)
        return err_set(err, "data: cannot start a thread: %s", strerror(rc));
    w->started = true;
    return 0;
}

struct pool *pool_create(const struct build *build,
                         struct tokenizer *tokenizer, int workers,
                         struct err *err)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    p->build = build;
    p->slots_n = 2 * workers + 2;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->slot = calloc((size_t)p->slots_n, sizeof *p->slot);
    p->worker = calloc((size_t)workers, sizeof *p->worker);
    if (!p->slot || !p->worker) {
        err_set(err, "data: out of memory");
        pool_destroy(p);
        return NULL;
    }
    for (int i = 0; i < workers; i++)
        if (start_worker(p, tokenizer, err)) {
            pool_destroy(p);
            return NULL;
        }
    return p;
}

void pool_destroy(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->workers_n; i++) {
        if (p->worker[i].started)
            pthread_join(p->worker[i].thread, NULL);
        tokenizer_close(p->worker[i].tokenizer);
        text_release(&p->worker[i].text);
    }
    for (int i = 0; p->slot && i < p->slots_n; i++)
        batch_release(&p->slot[i].batch);
    free(p->slot);
    free(p->worker);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    free(p);
}

struct batch_docs *pool_begin(struct pool *p)
{
    if (p->head - p->tail == p->slots_n)
        return NULL;
    struct slot *slot = slot_at(p, p->head);
    slot->state = BEGUN;
    return &slot->batch;
}

void pool_submit(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    slot_at(p, p->head++)->state = WAITING;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

struct batch_docs *pool_take(struct pool *p, bool wait)
{
    if (p->tail == p->head)
        return NULL;
    struct slot *slot = slot_at(p, p->tail);
    pthread_mutex_lock(&p->lock);
    while (wait && slot->state != DONE)
        pthread_cond_wait(&p->done, &p->lock);
    bool done = slot->state == DONE;
    if (done)
        slot->state = TAKEN;
    pthread_mutex_unlock(&p->lock);
    return done ? &slot->batch : NULL;
}

void pool_give_back(struct pool *p)
{
    struct slot *slot = slot_at(p, p->tail++);
    batch_clear(&slot->batch);
    slot->state = FREE;
}
