/* build - see build.h. The calling thread reads, and takes finished batches
 * off in order and writes them; the workers do what lies between. */
#include "runner/data/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/data/batch_work.h"
#include "runner/data/build_state.h"
#include "runner/data/input.h"
#include "runner/data/tokens.h"

static const double progress_each_s = 0.25;
static const size_t batch_bytes = 1u << 20;

struct work {
    const struct build *build;
    struct tokenizer *tokenizer;
    struct pool *pool;
    struct batch_docs *batch; /* being filled, or NULL */
    struct tokens_writer *out;
    struct input *in;
    int file;
    int64_t line;             /* of the file, to be read next */
    int64_t done_bytes;       /* of the files before */
    double start_s, told_s, kept_s;
    bool lasts;               /* a kill loses little */
    struct build_state state; /* as on disk */
    struct build_counts counts;
};

static void tell(struct work *w, bool now)
{
    double mono_s = clock_mono_s();
    w->counts.taken_bytes = w->done_bytes + (w->in ? input_taken(w->in) : 0);
    w->counts.wall_s = mono_s - w->start_s;
    double each_s = w->build->progress_each_s > 0 ? w->build->progress_each_s
                                                  : progress_each_s;
    if (!w->build->on_progress || (!now && mono_s - w->told_s < each_s))
        return;
    w->told_s = mono_s;
    w->build->on_progress(w->build->ctx, &w->counts);
}

/* ---- Writing ------------------------------------------------------------ */

static const char *file_name(const struct work *w, int file)
{
    const char *name = w->build->files[file];
    return strcmp(name, "-") ? name : "standard input";
}

static int write_bad(struct work *w, const struct doc *doc, struct err *err)
{
    const struct build *b = w->build;
    w->counts.bad++;
    if (b->on_bad)
        b->on_bad(b->ctx, file_name(w, doc->file), doc->line, doc->why);
    if (w->counts.bad <= b->bad_max)
        return 0;
    return err_set_class(err, ERR_REQUEST,
                         "data: more than %" PRId64 " bad documents, the last "
                         "in '%s'; mend the files or allow more with "
                         "--max-bad", b->bad_max, file_name(w, doc->file));
}

static int write_batch(struct work *w, const struct batch_docs *batch,
                       struct err *err)
{
    const int32_t *ids = batch->ids.data;
    if (batch->err.class != ERR_NONE) {
        *err = batch->err;
        return -1;
    }
    for (size_t i = 0; i < batch->docs_n; i++) {
        const struct doc *doc = &batch->doc[i];
        if (doc->why) {
            if (write_bad(w, doc, err))
                return -1;
            continue;
        }
        if (w->out &&
            ((doc->ids_n &&
              tokens_add(w->out, ids, (int64_t)doc->ids_n, err)) ||
             tokens_end_document(w->out, err)))
            return -1;
        ids += doc->ids_n;
        w->counts.documents++;
        w->counts.empty += doc->ids_n == 0;
        w->counts.tokens += (int64_t)doc->ids_n;
        w->counts.text_bytes += (int64_t)doc->text_bytes;
    }
    return 0;
}

/* Note on disk how far it is: behind batch. */
static int keep(struct work *w, const struct batch_docs *batch,
                struct err *err)
{
    double mono_s = clock_mono_s();
    if (!w->lasts || mono_s - w->kept_s < w->build->keep_each_s)
        return 0;
    w->kept_s = mono_s;
    w->state.place = batch->end;
    w->state.counts = w->counts;
    return tokens_keep(w->out, &w->state.mark, err) ||
                   build_state_save(&w->state, w->build->output, err)
               ? -1
               : 0;
}

static int finish_batch(struct work *w, const struct batch_docs *batch,
                        struct err *err)
{
    int rc = write_batch(w, batch, err) || keep(w, batch, err) ? -1 : 0;
    pool_give_back(w->pool);
    return rc;
}

/* Writes what is done; wait: the oldest at least. */
static int drain(struct work *w, bool wait, struct err *err)
{
    struct batch_docs *batch;
    int rc = 0;
    for (; !rc && (batch = pool_take(w->pool, wait)); wait = false)
        rc = finish_batch(w, batch, err);
    tell(w, false);
    return rc;
}

/* ---- Reading ------------------------------------------------------------ */

static void submit(struct work *w)
{
    if (w->batch) {
        w->batch->end = (struct build_place){
            w->file, w->in ? input_offset(w->in) : 0, w->line};
        pool_submit(w->pool);
    }
    w->batch = NULL;
}

/* A batch with room for a document. */
static int need_batch(struct work *w, struct err *err)
{
    if (w->batch && w->batch->raw.n < batch_bytes)
        return 0;
    submit(w);
    if (drain(w, false, err))
        return -1;
    w->batch = pool_begin(w->pool);
    if (!w->batch && drain(w, true, err))
        return -1;
    if (!w->batch)
        w->batch = pool_begin(w->pool);
    return 0;
}

static int flush(struct work *w, struct err *err)
{
    submit(w);
    struct batch_docs *batch;
    while ((batch = pool_take(w->pool, true))) {
        if (finish_batch(w, batch, err))
            return -1;
        tell(w, false);
    }
    return 0;
}

static bool is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r')
            return false;
    return true;
}

/* One line or the whole file into the batch; *ret_got as input's. */
static int add_document(struct work *w, bool jsonl, int *ret_got,
                        struct err *err)
{
    size_t most = w->build->document_max_bytes;
    if (need_batch(w, err))
        return -1;
    struct batch_docs *b = w->batch;
    struct doc doc = {.at = b->raw.n, .file = w->file,
                      .line = jsonl ? w->line : 0, .jsonl = jsonl};
    int got = jsonl ? input_line(w->in, most, &b->raw, err)
                    : input_rest(w->in, most, &b->raw, err);
    if (got < 0)
        return -1;
    w->line++;
    *ret_got = got;
    if (got == INPUT_LONG) {
        char why[96];
        snprintf(why, sizeof why, "longer than %zu bytes (--max-document)",
                 most);
        return batch_add_bad(b, doc, why, err);
    }
    doc.n = b->raw.n - doc.at;
    if (got == INPUT_END || (jsonl && is_blank(b->raw.data + doc.at, doc.n)))
        return 0;
    return batch_add(b, doc, err);
}

static bool is_jsonl(const struct build *b, const char *file)
{
    return b->format == BUILD_AUTO ? input_is_jsonl(file)
                                   : b->format == BUILD_JSONL;
}

/* From offset and line on, which a killed build had reached. */
static int add_file(struct work *w, int file, int64_t offset, int64_t line,
                    struct err *err)
{
    const char *name = w->build->files[file];
    bool jsonl = is_jsonl(w->build, name);
    int got = INPUT_LINE, rc = 0;
    w->file = file;
    w->line = line;
    w->in = input_open(name, err);
    if (!w->in || (offset && input_skip(w->in, offset, err)))
        return -1;
    while (!rc && got != INPUT_END && (jsonl || w->line == 1))
        rc = add_document(w, jsonl, &got, err);
    w->done_bytes += input_taken(w->in);
    input_close(w->in);
    w->in = NULL;
    return rc;
}

/* ---- All ---------------------------------------------------------------- */

/* Sizes for the progress, and a first look: a file that is not there ends
 * the build before any work. */
static int measure_files(struct work *w, struct err *err)
{
    w->lasts = w->build->output != NULL;
    for (int i = 0; i < w->build->files_n; i++) {
        int64_t size;
        if (input_measure(w->build->files[i], &size, err))
            return -1;
        w->lasts = w->lasts && size >= 0;
        if (size < 0 || w->counts.total_bytes < 0)
            w->counts.total_bytes = -1;
        else
            w->counts.total_bytes += size;
    }
    return 0;
}

static void note(struct work *w, const char *what)
{
    if (w->build->on_note)
        w->build->on_note(w->build->ctx, what);
}

/* What the killed build did counts as done. */
static void take_state(struct work *w, const struct build_state *state)
{
    char what[128];
    int64_t total = w->counts.total_bytes, size;
    w->state = *state;
    w->counts = state->counts;
    w->counts.total_bytes = total;
    for (int i = 0; i < state->place.file && i < w->build->files_n; i++)
        if (!input_measure(w->build->files[i], &size, NULL))
            w->done_bytes += size;
    w->counts.resumed_bytes = w->done_bytes;
    if (state->place.file < w->build->files_n &&
        !input_packed_suffix(w->build->files[state->place.file]))
        w->counts.resumed_bytes += state->place.offset;
    snprintf(what, sizeof what, "going on where a build that was killed was: "
                                "%" PRId64 " documents, %" PRId64 " tokens",
             w->counts.documents, w->counts.tokens);
    note(w, what);
}

static int open_lasting(struct work *w, struct err *err)
{
    const struct build *b = w->build;
    int64_t vocab = tokenizer_vocab(w->tokenizer);
    struct build_state state;
    bool other;
    w->state.job = build_job(b, w->tokenizer);
    int rc = 1;
    if (build_state_load(b->output, w->state.job, &state, &other))
        rc = tokens_create_lasting(b->output, vocab, &state.mark, &w->out,
                                   err);
    if (!rc)
        take_state(w, &state);
    if (rc <= 0)
        return rc;
    if (tokens_create_lasting(b->output, vocab, NULL, &w->out, err))
        return -1;
    build_state_remove(b->output);
    if (other)
        note(w, "what a killed build with other files or options left is "
                "thrown away");
    return 0;
}

static int open_ends(struct work *w, struct err *err)
{
    const struct build *b = w->build;
    w->tokenizer = tokenizer_open(b->tokenizer, err);
    if (!w->tokenizer)
        return -1;
    if (b->append_eod && tokenizer_eod(w->tokenizer) < 0)
        return err_set_class(err, ERR_REQUEST,
                             "data: tokenizer '%s' has no end-of-document "
                             "token; build without --append-eod",
                             b->tokenizer);
    if (measure_files(w, err))
        return -1;
    w->pool = pool_create(b, w->tokenizer, b->workers > 0 ? b->workers : 1,
                          err);
    if (!w->pool)
        return -1;
    if (!b->output)
        return 0;
    if (w->lasts)
        return open_lasting(w, err);
    w->out = tokens_create(b->output, tokenizer_vocab(w->tokenizer), err);
    return w->out ? 0 : -1;
}

/* What is left of a build that failed: nothing if its input or a wish was
 * bad; else (a full disk, say) it may go on later. */
static void give_up(struct work *w, const struct err *err)
{
    bool later = w->lasts && w->state.mark.marks_n &&
                 err->class != ERR_REQUEST;
    if (later) {
        tokens_leave(w->out);
        note(w, "what was written stays; the same command goes on there");
    } else if (w->out) {
        tokens_abandon(w->out);
        if (w->lasts)
            build_state_remove(w->build->output);
    }
    w->out = NULL;
}

int build_run(const struct build *build, struct build_counts *ret,
              struct err *err)
{
    struct work w = {.build = build, .start_s = clock_mono_s()};
    w.kept_s = w.start_s;
    int rc = open_ends(&w, err);
    struct build_place from = w.state.place;
    for (int i = from.file; i < build->files_n && !rc; i++)
        rc = i == from.file && from.line
                 ? add_file(&w, i, from.offset, from.line, err)
                 : add_file(&w, i, 0, 1, err);
    w.file = build->files_n; /* behind all */
    if (!rc)
        rc = flush(&w, err);
    if (!rc) {
        rc = w.out ? tokens_finish(w.out, err) : 0;
        w.out = NULL;
        if (!rc && w.lasts)
            build_state_remove(build->output);
        tell(&w, true);
    } else {
        give_up(&w, err);
    }
    pool_destroy(w.pool);
    tokenizer_close(w.tokenizer);
    input_close(w.in);
    *ret = w.counts;
    return rc;
}
