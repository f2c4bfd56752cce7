/* build - see build.h. */
#include "runner/data/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/clock.h"
#include "runner/data/input.h"
#include "runner/data/jsonl.h"
#include "runner/data/tokenizer.h"
#include "runner/data/tokens.h"

static const double progress_each_s = 0.25;

struct work {
    const struct build *build;
    struct tokenizer *tokenizer;
    struct tokens_writer *out;
    struct input *in;
    int64_t line;               /* of in, 0: no lines */
    int64_t done_bytes;         /* of the files before */
    struct text raw, text;
    struct ids ids;
    double start_s, told_s;
    struct build_counts counts;
};

static void tell(struct work *w, bool now)
{
    double mono_s = clock_mono_s();
    w->counts.taken_bytes = w->done_bytes + (w->in ? input_taken(w->in) : 0);
    w->counts.wall_s = mono_s - w->start_s;
    if (!w->build->on_progress || (!now && mono_s - w->told_s <
                                               progress_each_s))
        return;
    w->told_s = mono_s;
    w->build->on_progress(w->build->ctx, &w->counts);
}

static int bad(struct work *w, const char *why, struct err *err)
{
    w->counts.bad++;
    if (w->build->on_bad)
        w->build->on_bad(w->build->ctx, input_name(w->in), w->line, why);
    if (w->counts.bad <= w->build->bad_max)
        return 0;
    return err_set_class(err, ERR_REQUEST,
                         "data: more than %" PRId64 " bad documents, the last "
                         "in '%s'; mend the files or allow more with "
                         "--max-bad", w->build->bad_max, input_name(w->in));
}

static int too_long(struct work *w, struct err *err)
{
    char why[96];
    snprintf(why, sizeof why, "longer than %zu bytes (--max-document)",
             w->build->document_max_bytes);
    return bad(w, why, err);
}

/* w->text is a document's text. */
static int add_document(struct work *w, struct err *err)
{
    size_t valid = utf8_valid(w->text.data, w->text.n);
    if (valid < w->text.n && !w->build->replace_invalid) {
        char why[96];
        snprintf(why, sizeof why, "not UTF-8 at byte %zu of the text", valid);
        return bad(w, why, err);
    }
    if (valid < w->text.n && utf8_repair(&w->text, err))
        return -1;
    w->ids.n = 0;
    if (tokenizer_encode(w->tokenizer, w->text.data, w->text.n, &w->ids, err))
        return -1;
    if (w->ids.n && w->build->append_eod) {
        if (ids_reserve(&w->ids, 1, err))
            return -1;
        w->ids.data[w->ids.n++] = tokenizer_eod(w->tokenizer);
    }
    if (w->ids.n && tokens_add(w->out, w->ids.data, (int64_t)w->ids.n, err))
        return -1;
    w->counts.documents++;
    w->counts.empty += w->ids.n == 0;
    w->counts.tokens += (int64_t)w->ids.n;
    w->counts.text_bytes += (int64_t)w->text.n;
    return tokens_end_document(w->out, err);
}

static bool is_blank(const struct text *line)
{
    for (size_t i = 0; i < line->n; i++)
        if (!strchr(" \t\r", line->data[i]) || !line->data[i])
            return false;
    return true;
}

static int add_lines(struct work *w, struct err *err)
{
    const struct build *b = w->build;
    char why[JSONL_WHY_BYTES];
    for (w->line = 1;; w->line++) {
        w->raw.n = 0;
        int got = input_line(w->in, b->document_max_bytes, &w->raw, err);
        if (got < 0)
            return -1;
        if (got == INPUT_END)
            return 0;
        int rc = 0;
        if (got == INPUT_LONG)
            rc = too_long(w, err);
        else if (is_blank(&w->raw))
            continue;
        else if (jsonl_text(w->raw.data, w->raw.n, b->key, b->replace_invalid,
                            &w->text, why))
            rc = bad(w, why, err);
        else
            rc = add_document(w, err);
        if (rc)
            return -1;
        tell(w, false);
    }
}

static int add_whole(struct work *w, struct err *err)
{
    w->line = 0;
    w->text.n = 0;
    int got = input_rest(w->in, w->build->document_max_bytes, &w->text, err);
    if (got < 0)
        return -1;
    return got == INPUT_LONG ? too_long(w, err) : add_document(w, err);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), end_n = strlen(end);
    return n >= end_n && !strcmp(name + n - end_n, end);
}

static bool is_jsonl(const struct build *b, const char *file)
{
    if (b->format != BUILD_AUTO)
        return b->format == BUILD_JSONL;
    return ends_with(file, ".jsonl") || ends_with(file, ".json");
}

static int add_file(struct work *w, const char *file, struct err *err)
{
    w->in = input_open(file, err);
    if (!w->in)
        return -1;
    int rc = is_jsonl(w->build, file) ? add_lines(w, err) : add_whole(w, err);
    tell(w, false);
    w->done_bytes += input_taken(w->in);
    input_close(w->in);
    w->in = NULL;
    return rc;
}

/* Sizes for the progress, and a first look: a file that is not there ends
 * the build before any work. */
static int measure_files(struct work *w, struct err *err)
{
    for (int i = 0; i < w->build->files_n; i++) {
        struct input *in = input_open(w->build->files[i], err);
        if (!in)
            return -1;
        int64_t size = input_size(in);
        if (size < 0 || w->counts.total_bytes < 0)
            w->counts.total_bytes = -1;
        else
            w->counts.total_bytes += size;
        input_close(in);
    }
    return 0;
}

static int open_ends(struct work *w, struct err *err)
{
    w->tokenizer = tokenizer_open(w->build->tokenizer, err);
    if (!w->tokenizer)
        return -1;
    if (w->build->append_eod && tokenizer_eod(w->tokenizer) < 0)
        return err_set_class(err, ERR_REQUEST,
                             "data: tokenizer '%s' has no end-of-document "
                             "token; build without --append-eod",
                             w->build->tokenizer);
    if (measure_files(w, err))
        return -1;
    w->out = tokens_create(w->build->output, tokenizer_vocab(w->tokenizer),
                           err);
    return w->out ? 0 : -1;
}

int build_run(const struct build *build, struct build_counts *ret,
              struct err *err)
{
    struct work w = {.build = build, .start_s = clock_mono_s()};
    int rc = open_ends(&w, err);
    for (int i = 0; i < build->files_n && !rc; i++)
        rc = add_file(&w, build->files[i], err);
    if (!rc) {
        rc = tokens_finish(w.out, err);
        w.out = NULL;
        tell(&w, true);
    }
    tokens_abandon(w.out);
    tokenizer_close(w.tokenizer);
    input_close(w.in);
    text_release(&w.raw);
    text_release(&w.text);
    ids_release(&w.ids);
    *ret = w.counts;
    return rc;
}
