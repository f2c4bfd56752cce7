/* main_generate - koboshi-generate, which `koboshi generate` starts: text that
 * continues a prompt, from a run's checkpoint. A program of its own, as it
 * needs BLAS and MPI, and `koboshi plan` must start at once without them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/base/str.h"
#include "runner/serve/serve.h"

struct args {
    const char *run_dir, *prompt;
    int64_t step, tokens, top_k, seed, threads;
    double temperature, top_p;
    bool help, quiet;
};

static const char usage[] =
    "usage: koboshi generate --run-dir DIR [options]\n"
    "Continues a prompt with a model of a run, sampled token by token.\n\n"
    "  --run-dir DIR       the run\n"
    "  --step N            its checkpoint of step N (the newest valid one)\n"
    "  --prompt TEXT       what to continue; - reads standard input (\"\")\n"
    "  --tokens N          tokens to add at most (128)\n"
    "  --temperature T     0: always the likeliest token (0.8)\n"
    "  --top-k K           only among the K likeliest; 0: all (0)\n"
    "  --top-p P           only among the likeliest that make up P (1)\n"
    "  --seed S            of the choice (0)\n"
    "  --threads N         of the processor (all cores)\n"
    "  --quiet             the continuation alone, without the prompt\n"
    "  --help              this\n";

enum kind { TEXT, WHOLE, REAL, FLAG };


/* Flags: name, kind, where. */
static const struct row {
    const char *flag;
    enum kind kind;
    size_t at;
} rows[] = {
    {"--run-dir", TEXT, offsetof(struct args, run_dir)},
    {"--prompt", TEXT, offsetof(struct args, prompt)},
    {"--step", WHOLE, offsetof(struct args, step)},
    {"--tokens", WHOLE, offsetof(struct args, tokens)},
    {"--top-k", WHOLE, offsetof(struct args, top_k)},
    {"--seed", WHOLE, offsetof(struct args, seed)},
    {"--threads", WHOLE, offsetof(struct args, threads)},
    {"--temperature", REAL, offsetof(struct args, temperature)},
    {"--top-p", REAL, offsetof(struct args, top_p)},
    {"--quiet", FLAG, offsetof(struct args, quiet)},
    {"--help", FLAG, offsetof(struct args, help)},
};

static const struct row *row_of(const char *flag, size_t flag_n)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].flag) == flag_n &&
            strncmp(rows[i].flag, flag, flag_n) == 0)
            return &rows[i];
    return NULL;
}

static int take(struct args *a, const char *flag, const char *value,
                struct err *err)
{
    const struct row *row = row_of(flag, strcspn(flag, "="));
    void *to = (char *)a + row->at;
    int bad = 0;
    switch (row->kind) {
    case TEXT: *(const char **)to = value; break;
    case WHOLE: bad = str_to_i64(value, to); break;
    case REAL: bad = str_to_double(value, to); break;
    case FLAG: *(bool *)to = true; break;
    }
    return bad ? err_set_class(err, ERR_REQUEST, "%s: '%s' is not a number",
                               row->flag, value)
               : 0;
}

static int parse(int argc, char **argv, struct args *a, struct err *err)
{
    for (int i = 1; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        const struct row *row = row_of(argv[i], n);
        const char *value = argv[i][n] ? argv[i] + n + 1 : NULL;
        if (!row)
            return err_set_class(err, ERR_REQUEST,
                                 "unknown option '%s'; see --help", argv[i]);
        if (row->kind != FLAG && !value && ++i < argc)
            value = argv[i];
        if (row->kind != FLAG && !value)
            return err_set_class(err, ERR_REQUEST, "%s needs a value",
                                 row->flag);
        if (take(a, row->flag, value, err) != 0)
            return -1;
    }
    if (!a->help && !a->run_dir)
        return err_set_class(err, ERR_REQUEST, "--run-dir is needed");
    if (a->tokens < 1 || a->tokens > 1 << 20 || a->step < -1 ||
        a->top_k < 0 || a->top_k > 1 << 24 || a->threads < 0 ||
        a->threads > 1024)
        return err_set_class(err, ERR_REQUEST, "a number is out of range; see "
                             "--help");
    return 0;
}

/* The prompt, or all of standard input. */
static int read_prompt(const struct args *a, struct sbuf *out, struct err *err)
{
    char piece[4096];
    size_t n;
    if (strcmp(a->prompt, "-") != 0) {
        sbuf_puts(out, a->prompt);
    } else {
        while ((n = fread(piece, 1, sizeof piece, stdin)) > 0)
            sbuf_add(out, piece, n);
    }
    return out->failed ? err_set_class(err, ERR_REQUEST,
                                       "the prompt is too long")
                       : 0;
}

/* The text of n tokens less that of the first `before`: some tokenizers leave
 * out a space where text begins. */
static int print_tokens(struct serve *s, const int32_t *ids, size_t n,
                        size_t before, struct err *err)
{
    struct tokenizer *t = serve_tokenizer(s);
    struct sbuf text = SBUF_INIT, seen = SBUF_INIT;
    int rc = tokenizer_decode(t, ids, before, &seen, err) != 0 ||
                     tokenizer_decode(t, ids, n, &text, err) != 0
                 ? -1
                 : 0;
    if (rc == 0 && text.len > seen.len) {
        fwrite(text.data + seen.len, 1, text.len - seen.len, stdout);
        fflush(stdout);
    }
    sbuf_release(&text);
    sbuf_release(&seen);
    return rc;
}

static int continue_text(const struct args *a, struct serve *s,
                         struct sampler *sampler, const struct ids *prompt,
                         struct err *err)
{
    const float *logits;
    int32_t last[2] = {0, prompt->data[prompt->n - 1]};
    if (!a->quiet && print_tokens(s, prompt->data, prompt->n, 0, err) != 0)
        return -1;
    if (serve_feed(s, prompt->data, (int)prompt->n, &logits, err) != 0)
        return -1;
    for (int64_t i = 0; i < a->tokens; i++) {
        last[0] = last[1];
        last[1] = sampler_next(sampler, logits);
        if (last[1] == serve_eod(s))
            break;
        if (print_tokens(s, last, 2, 1, err) != 0)
            return -1;
        if (i + 1 < a->tokens && serve_feed(s, &last[1], 1, &logits, err) != 0)
            return -1;
    }
    putchar('\n');
    return 0;
}

/* Tokens are counted before the model is opened: the cache is that long. The
 * run's tokenizer is only known after, so that the prompt's bytes serve as
 * bound: no tokenizer makes more tokens than bytes. */
static int generate(const struct args *a, struct err *err)
{
    struct sbuf text = SBUF_INIT;
    struct ids prompt = IDS_INIT;
    struct serve *s = NULL;
    struct sampler *sampler = NULL;
    int rc = -1;
    if (read_prompt(a, &text, err) != 0)
        goto out;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct serve_spec spec = {
        .run_dir = a->run_dir, .step = a->step,
        .tokens_max = (int)(text.len + 1 + (size_t)a->tokens),
        .threads = a->threads > 0 ? (int)a->threads
                                  : cores > 16 ? 16 : (int)cores,
    };
    if (!(s = serve_open(&spec, err)) ||
        tokenizer_encode(serve_tokenizer(s), text.data, text.len, &prompt,
                         err) != 0)
        goto out;
    if (prompt.n == 0) { /* something must come first */
        if (ids_reserve(&prompt, 1, err) != 0)
            goto out;
        prompt.data[prompt.n++] = serve_eod(s) >= 0 ? serve_eod(s) : 0;
    }
    struct sampler_spec how = {a->temperature, (int)a->top_k, a->top_p,
                               (uint64_t)a->seed};
    sampler = sampler_create(&how, serve_vocab(s), err);
    if (sampler)
        rc = continue_text(a, s, sampler, &prompt, err);
out:
    sampler_destroy(sampler);
    serve_close(s);
    ids_release(&prompt);
    sbuf_release(&text);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {.prompt = "", .step = -1, .tokens = 128,
                     .temperature = 0.8, .top_p = 1};
    struct err err = ERR_INIT;
    if (parse(argc, argv, &a, &err) == 0 && !a.help)
        generate(&a, &err);
    if (a.help && err.class == ERR_NONE)
        fputs(usage, stdout);
    if (err.class != ERR_NONE)
        fprintf(stderr, "koboshi generate: %s\n", err.msg);
    return contract_exit_code(&err);
}
