/* verb_data - `koboshi data`: its arguments, and token files from text. */
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/cli/verb_data.h"
#include "runner/cli/verbs.h"

static const char usage[] =
    "usage: koboshi data build --tokenizer T --output PREFIX [options]\n"
    "                          FILE...\n"
    "       koboshi data inspect [--tokenizer T] PREFIX\n"
    "       koboshi data verify [--tokenizer T | --vocab N] PREFIX\n"
    "       koboshi data decode --tokenizer T [--document N] PREFIX\n"
    "       koboshi data count --tokenizer T [options] FILE...\n"
    "       koboshi data train-tokenizer --output FILE --vocab N\n"
    "                          [--pattern P] FILE...\n"
    "       koboshi data merge --output PREFIX PREFIX...\n"
    "       koboshi data split --output PREFIX --shares S PREFIX\n"
    "       koboshi data dedup-report [--tokenizer T] [--ngram N] PREFIX\n"
    "\n"
    "build    text (JSONL: a document a line; else a document a file; .gz,\n"
    "         .zst, .xz and .bz2 are unpacked; - is standard input; a\n"
    "         pattern as 'in/*.jsonl' all that it matches) to\n"
    "         PREFIX.bin and PREFIX.idx, which Megatron-LM reads too\n"
    "  --tokenizer T       byte, or the folder or file of a BPE: vocab.json\n"
    "                      with merges.txt, tokenizer.json, a file of\n"
    "                      tiktoken under its usual name, or\n"
    "                      SentencePiece's .model\n"
    "  --output PREFIX     where the two files go\n"
    "  --append-eod        end each document with the end-of-document token\n"
    "  --key NAME          of the text in JSONL (text)\n"
    "  --format F          auto, jsonl or text (auto: by the file's name)\n"
    "  --invalid-utf8 W    bad: leave the document out; replace: by U+FFFD\n"
    "                      (bad)\n"
    "  --max-bad N         bad documents that are left out before the build\n"
    "                      gives up (100)\n"
    "  --max-document N    bytes of a line or a text file (67108864)\n"
    "  --workers N         threads that encode (as many as processors)\n"
    "  --quiet             no progress\n"
    "inspect  counts, lengths, and with a tokenizer the first and last text\n"
    "verify   every entry of the index, every token under the vocabulary\n"
    "decode   the text of document N, or of all\n"
    "count    documents and tokens of text, as build, without output\n"
    "train-tokenizer  a byte-level BPE of N tokens, as tokenizer.json, with\n"
    "         the pattern gpt2, llama3, qwen2 or o200k (llama3)\n"
    "merge    the documents of all, one after the other\n"
    "split    by shares of the documents, as 98,1,1: PREFIX-0, PREFIX-1...\n"
    "dedup-report  runs of N tokens (64) that come more than once: they make\n"
    "         losses jump\n";

enum option_id { OPT_TOKENIZER = 256, OPT_OUTPUT, OPT_EOD, OPT_KEY, OPT_FORMAT,
                 OPT_INVALID, OPT_MAX_BAD, OPT_MAX_DOCUMENT, OPT_QUIET,
                 OPT_VOCAB, OPT_DOCUMENT, OPT_WORKERS, OPT_SHARES, OPT_NGRAM,
                 OPT_PATTERN };

static const struct option options[] = {
    {"tokenizer", required_argument, NULL, OPT_TOKENIZER},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"append-eod", no_argument, NULL, OPT_EOD},
    {"key", required_argument, NULL, OPT_KEY},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"invalid-utf8", required_argument, NULL, OPT_INVALID},
    {"max-bad", required_argument, NULL, OPT_MAX_BAD},
    {"max-document", required_argument, NULL, OPT_MAX_DOCUMENT},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"vocab", required_argument, NULL, OPT_VOCAB},
    {"document", required_argument, NULL, OPT_DOCUMENT},
    {"shares", required_argument, NULL, OPT_SHARES},
    {"pattern", required_argument, NULL, OPT_PATTERN},
    {"ngram", required_argument, NULL, OPT_NGRAM},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* What progress printing remembers. */
struct progress {
    bool terminal, shown;
    double next_s;
};

static int number(const char *name, const char *text, int64_t *ret,
                  struct err *err)
{
    if (!str_to_i64(text, ret) && *ret >= 0)
        return 0;
    return err_set_class(err, ERR_REQUEST, "--%s: not a number: '%s'", name,
                         text);
}

static int choice(const char *name, const char *text, const char *const *words,
                  int *ret, struct err *err)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text)) {
            *ret = i;
            return 0;
        }
    return err_set_class(err, ERR_REQUEST, "--%s: unknown word: '%s'", name,
                         text);
}

static int take_option(struct args *a, int id, const char *value,
                       struct err *err)
{
    static const char *const formats[] = {"auto", "jsonl", "text", NULL};
    static const char *const invalid[] = {"bad", "replace", NULL};
    int64_t n;
    int word = 0;
    switch (id) {
    case OPT_TOKENIZER:
        a->tokenizer = a->build.tokenizer = value;
        return 0;
    case OPT_OUTPUT:
        a->build.output = value;
        return 0;
    case OPT_EOD:
        a->build.append_eod = true;
        return 0;
    case OPT_KEY:
        a->build.key = value;
        return 0;
    case OPT_FORMAT:
        if (choice("format", value, formats, &word, err))
            return -1;
        a->build.format = (enum build_format)word;
        return 0;
    case OPT_INVALID:
        if (choice("invalid-utf8", value, invalid, &word, err))
            return -1;
        a->build.replace_invalid = word == 1;
        return 0;
    case OPT_MAX_BAD:
        return number("max-bad", value, &a->build.bad_max, err);
    case OPT_MAX_DOCUMENT:
        if (number("max-document", value, &n, err))
            return -1;
        a->build.document_max_bytes = (size_t)n;
        return 0;
    case OPT_WORKERS:
        if (number("workers", value, &n, err))
            return -1;
        if (n < 1 || n > 1023)
            return err_set_class(err, ERR_REQUEST,
                                 "--workers: must be 1 to 1023");
        a->build.workers = (int)n;
        return 0;
    case OPT_QUIET:
        a->quiet = true;
        return 0;
    case OPT_VOCAB:
        return number("vocab", value, &a->vocab, err);
    case OPT_DOCUMENT:
        return number("document", value, &a->document, err);
    case OPT_SHARES:
        a->shares = value;
        return 0;
    case OPT_PATTERN:
        a->pattern = value;
        return 0;
    case OPT_NGRAM:
        return number("ngram", value, &a->run, err);
    case 'h':
        a->help = true;
        return 0;
    default:
        return err_set_class(err, ERR_REQUEST, "see koboshi data --help");
    }
}

/* argv[0] is the action. */
static int take_args(int argc, char **argv, struct args *ret, struct err *err)
{
    struct args a = {.vocab = -1, .document = -1, .run = 64,
                     .pattern = "llama3"};
    a.build = (struct build){.key = "text", .bad_max = 100,
                             .document_max_bytes = 64u << 20,
                             .keep_each_s = 5};
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "h", options, NULL)) != -1)
        if (take_option(&a, id, optarg, err))
            return -1;
    a.rest = argv + optind;
    a.rest_n = argc - optind;
    *ret = a;
    return 0;
}

static int processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

static void print_bad(void *ctx, const char *file, int64_t line,
                      const char *why)
{
    struct progress *p = ctx;
    if (p->terminal && p->shown)
        fprintf(stderr, "\r\033[K");
    p->shown = false;
    if (line)
        fprintf(stderr, "koboshi data: bad document: %s:%" PRId64 ": %s\n",
                file, line, why);
    else
        fprintf(stderr, "koboshi data: bad document: %s: %s\n", file, why);
}

static void print_note(void *ctx, const char *what)
{
    struct progress *p = ctx;
    if (p->terminal && p->shown)
        fprintf(stderr, "\r\033[K");
    p->shown = false;
    fprintf(stderr, "koboshi data: %s\n", what);
}

static void print_progress(void *ctx, const struct build_counts *c)
{
    struct progress *p = ctx;
    char left[24] = "";
    double mb = (double)(c->taken_bytes - c->resumed_bytes) / 1e6;
    double mb_s = c->wall_s > 0 ? mb / c->wall_s : 0;
    if (!p->terminal && c->wall_s < p->next_s)
        return;
    p->next_s = c->wall_s + 5;
    p->shown = true;
    if (c->total_bytes > 0 && mb_s > 0)
        clock_human((double)(c->total_bytes - c->taken_bytes) / mb_s / 1e6,
                    left, sizeof left);
    fprintf(stderr, "%s%" PRId64 " documents, %" PRId64 " tokens, %.1f MB/s",
            p->terminal ? "\r\033[K" : "koboshi data: ", c->documents,
            c->tokens, mb_s);
    if (left[0])
        fprintf(stderr, ", %.0f %%, %s left",
                100.0 * (double)c->taken_bytes / (double)c->total_bytes, left);
    if (!p->terminal)
        fputc('\n', stderr);
}

/* ---- Files --------------------------------------------------------------- */

static int add_file(struct args *a, const char *name, struct err *err)
{
    char **more = realloc(a->file, ((size_t)a->files_n + 1) * sizeof *more);
    char *copy = strdup(name);
    if (more)
        a->file = more;
    if (!more || !copy) {
        free(copy);
        return err_set(err, "out of memory");
    }
    a->file[a->files_n++] = copy;
    return 0;
}

/* A name that is no file but a pattern stands for all that it matches. */
static int add_files(struct args *a, const char *name, struct err *err)
{
    glob_t found;
    if (!strpbrk(name, "*?[") || access(name, F_OK) == 0)
        return add_file(a, name, err);
    int rc = glob(name, 0, NULL, &found) == 0 ? 0
             : err_set_class(err, ERR_REQUEST, "no file matches '%s'", name);
    for (size_t i = 0; !rc && i < found.gl_pathc; i++)
        rc = add_file(a, found.gl_pathv[i], err);
    if (!rc)
        globfree(&found);
    return rc;
}

int take_files(struct args *a, struct err *err)
{
    for (int i = 0; i < a->rest_n; i++)
        if (add_files(a, a->rest[i], err))
            return -1;
    return 0;
}

static void release_files(struct args *a)
{
    for (int i = 0; i < a->files_n; i++)
        free(a->file[i]);
    free(a->file);
}

/* Without an output: count. */
static int build_or_count(struct args *a, struct err *err)
{
    struct progress progress = {.terminal = isatty(STDERR_FILENO),
                                .next_s = 5};
    struct build_counts counts;
    if (take_files(a, err))
        return -1;
    a->build.files = (const char *const *)a->file;
    a->build.files_n = a->files_n;
    if (!a->build.workers)
        a->build.workers = processors();
    a->build.on_bad = print_bad;
    a->build.on_note = print_note;
    a->build.on_progress = a->quiet ? NULL : print_progress;
    a->build.ctx = &progress;
    int rc = build_run(&a->build, &counts, err);
    if (progress.terminal && progress.shown)
        fprintf(stderr, "\r\033[K");
    if (rc)
        return -1;
    char took[24];
    printf("%s: %" PRId64 " documents (%" PRId64 " empty), %" PRId64
           " tokens, %" PRId64 " bytes of text, %" PRId64 " bad documents "
           "left out, %s\n",
           a->build.output ? a->build.output : "text", counts.documents,
           counts.empty, counts.tokens, counts.text_bytes, counts.bad,
           clock_human(counts.wall_s, took, sizeof took));
    return 0;
}

static int run_build(struct args *a, struct err *err)
{
    if (!a->tokenizer || !a->build.output || !a->rest_n)
        return err_set_class(err, ERR_REQUEST,
                             "build needs --tokenizer, --output and files");
    return build_or_count(a, err);
}

static int run_count(struct args *a, struct err *err)
{
    if (!a->tokenizer || a->build.output || !a->rest_n)
        return err_set_class(err, ERR_REQUEST,
                             "count needs --tokenizer and files, no --output");
    return build_or_count(a, err);
}

static const struct {
    const char *name;
    int (*run)(struct args *args, struct err *err);
} actions[] = {
    {"build", run_build},
    {"inspect", run_inspect},
    {"verify", run_verify},
    {"decode", run_decode},
    {"count", run_count},
    {"merge", run_merge},
    {"split", run_split},
    {"dedup-report", run_dedup_report},
    {"train-tokenizer", run_train_tokenizer},
};

int verb_data(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct args args = {0};
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage, stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (argc < 2 || strcmp(actions[i].name, argv[1]))
            continue;
        int rc = take_args(argc - 1, argv + 1, &args, &err);
        if (!rc && args.help)
            fputs(usage, stdout);
        else if (!rc)
            rc = actions[i].run(&args, &err);
        release_files(&args);
        if (!rc)
            return 0;
        fprintf(stderr, "koboshi data: %s\n", err.msg);
        return contract_exit_code(&err);
    }
    fprintf(stderr, "koboshi data: %s; one of build, inspect, verify, decode, "
                    "count, merge, split, dedup-report, train-tokenizer is "
                    "needed (koboshi data --help)\n",
            argc < 2 ? "no action" : "unknown action");
    return KB_EXIT_REQUEST;
}
