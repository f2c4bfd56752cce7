/* learn - see learn.h: counts the text's pieces, has the merges made, writes
 * the file. */
#include "runner/data/learn.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/data/bpe_load.h"
#include "runner/data/input.h"
#include "runner/data/jsonl.h"
#include "runner/data/pretok.h"
#include "runner/data/text.h"

#define END_TEXT "<|endoftext|>"
enum { BYTES_N = 256 };

struct piece {
    size_t at, n; /* in bytes */
    int64_t times;
};

struct counting {
    const struct learn *learn;
    enum pretok pretok;
    struct text bytes;
    struct piece *piece; /* [pieces_n] */
    size_t pieces_n, pieces_cap;
    int32_t *slot;       /* [slots_n] of pieces, -1 free */
    size_t slots_n;
    int64_t text_bytes;
};

/* ---- Pieces ------------------------------------------------------------- */

static size_t slot_of(const struct counting *c, const char *p, size_t n)
{
    size_t i = XXH3_64bits(p, n) & (c->slots_n - 1);
    for (;; i = (i + 1) & (c->slots_n - 1)) {
        const struct piece *have = &c->piece[c->slot[i] < 0 ? 0 : c->slot[i]];
        if (c->slot[i] < 0 || (have->n == n &&
                               !memcmp(c->bytes.data + have->at, p, n)))
            return i;
    }
}

static int grow(struct counting *c, struct err *err)
{
    if (2 * (c->pieces_n + 1) < c->slots_n)
        return 0;
    size_t n = c->slots_n ? 2 * c->slots_n : 1 << 16;
    struct piece *piece = realloc(c->piece, n / 2 * sizeof *piece);
    c->piece = piece ? piece : c->piece;
    int32_t *slot = malloc(n * sizeof *slot);
    if (!piece || !slot) {
        free(slot);
        return err_set(err, "data: out of memory for the pieces");
    }
    free(c->slot);
    c->slot = slot;
    c->slots_n = n;
    memset(slot, -1, n * sizeof *slot);
    for (size_t i = 0; i < c->pieces_n; i++)
        slot[slot_of(c, c->bytes.data + piece[i].at, piece[i].n)] =
            (int32_t)i;
    return 0;
}

static int count_text(struct counting *c, const char *p, size_t text_n,
                      struct err *err)
{
    const char *end = p + text_n;
    c->text_bytes += (int64_t)text_n;
    for (size_t n; p < end; p += n) {
        n = pretok_next(c->pretok, p, end);
        if (grow(c, err))
            return -1;
        size_t slot = slot_of(c, p, n);
        if (c->slot[slot] < 0) {
            c->piece[c->pieces_n] = (struct piece){c->bytes.n, n, 0};
            if (text_add(&c->bytes, p, n, err))
                return -1;
            c->slot[slot] = (int32_t)c->pieces_n++;
        }
        c->piece[c->slot[slot]].times++;
    }
    return 0;
}

/* ---- Files -------------------------------------------------------------- */

static int count_lines(struct counting *c, struct input *in, const char *file,
                       struct err *err)
{
    struct text line = TEXT_INIT, text = TEXT_INIT;
    char why[JSONL_WHY_BYTES];
    int got = INPUT_LINE, rc = 0;
    for (int64_t i = 1; !rc && got != INPUT_END; i++) {
        line.n = 0;
        got = input_line(in, c->learn->document_max_bytes, &line, err);
        if (got < 0)
            rc = -1;
        else if (got == INPUT_LINE && line.n &&
                 jsonl_text(line.data, line.n, c->learn->key, true, &text,
                            why))
            rc = err_set_class(err, ERR_REQUEST, "data: bad document: %s:%"
                               PRId64 ": %s", file, i, why);
        else if (got == INPUT_LINE && line.n)
            rc = count_text(c, text.data, text.n, err);
    }
    text_release(&line);
    text_release(&text);
    return rc;
}

static int count_file(struct counting *c, const char *file, struct err *err)
{
    struct text all = TEXT_INIT;
    struct input *in = input_open(file, err);
    int rc = -1;
    if (in && input_is_jsonl(file)) {
        rc = count_lines(c, in, file, err);
    } else if (in) {
        int got = input_rest(in, c->learn->document_max_bytes, &all, err);
        rc = got == INPUT_LONG
                 ? err_set_class(err, ERR_REQUEST, "data: '%s' is longer than "
                                 "%zu bytes (--max-document)", file,
                                 c->learn->document_max_bytes)
             : got < 0 ? -1 : count_text(c, all.data, all.n, err);
    }
    input_close(in);
    text_release(&all);
    return rc;
}

/* ---- The vocabulary ----------------------------------------------------- */

/* Bytes are numbered as the characters that stand for them are: those that
 * print first. */
static void number_bytes(int32_t of[BYTES_N], char **text)
{
    char to[8];
    uint32_t code[BYTES_N];
    int32_t next = 0;
    bpe_alphabet(code);
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < BYTES_N; b++) {
            if ((code[b] < BYTES_N) == (pass == 1))
                continue;
            to[utf8_put(code[b], to)] = 0;
            text[next] = strdup(to);
            of[b] = next++;
        }
}

static struct learn_word *make_words(const struct counting *c,
                                     const int32_t of[BYTES_N],
                                     int32_t *symbol)
{
    struct learn_word *word = malloc((c->pieces_n + 1) * sizeof *word);
    for (size_t i = 0; word && i < c->pieces_n; i++) {
        const struct piece *p = &c->piece[i];
        for (size_t k = 0; k < p->n; k++)
            symbol[p->at + k] = of[(unsigned char)c->bytes.data[p->at + k]];
        word[i] = (struct learn_word){symbol + p->at, (int32_t)p->n,
                                      p->times};
    }
    return word;
}

static json_t *pre_tokenizer(enum pretok pretok)
{
    if (pretok == PRETOK_GPT2)
        return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                         "add_prefix_space", 0, "trim_offsets", 1,
                         "use_regex", 1);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b},"
                     " {s:s, s:b, s:b, s:b}]}",
                     "type", "Sequence", "pretokenizers", "type", "Split",
                     "pattern", "Regex", pretok_regex(pretok), "behavior",
                     "Isolated", "invert", 0, "type", "ByteLevel",
                     "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     0);
}

static int write_json(const struct counting *c, char **text, int32_t vocab,
                      const struct learn_merge *merges, int32_t merges_n,
                      struct err *err)
{
    struct sbuf line = SBUF_INIT;
    json_t *tokens = json_object(), *list = json_array();
    for (int32_t i = 0; i < vocab; i++)
        json_object_set_new(tokens, text[i], json_integer(i));
    json_object_set_new(tokens, END_TEXT, json_integer(vocab));
    for (int32_t i = 0; i < merges_n; i++) {
        sbuf_clear(&line);
        sbuf_printf(&line, "%s %s", text[merges[i].left],
                    text[merges[i].right]);
        json_array_append_new(list, json_string(line.data));
    }
    json_t *root = json_pack(
        "{s:s, s:n, s:n, s:[{s:i, s:s, s:b, s:b, s:b, s:b, s:b}], s:n, s:o,"
        " s:n, s:{s:s, s:b, s:b, s:b},"
        " s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}}",
        "version", "1.0", "truncation", "padding", "added_tokens", "id",
        (int)vocab, "content", END_TEXT, "single_word", 0, "lstrip", 0,
        "rstrip", 0, "normalized", 0, "special", 1, "normalizer",
        "pre_tokenizer", pre_tokenizer(c->pretok), "post_processor",
        "decoder", "type", "ByteLevel", "add_prefix_space", 0,
        "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "dropout",
        "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
        "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0, "vocab", tokens,
        "merges", list);
    char *out = root && !line.failed ? json_dumps(root, JSON_INDENT(1)) : NULL;
    int rc = out ? file_replace(c->learn->output, out, strlen(out), 0666, err)
                 : err_set(err, "data: out of memory for the tokenizer");
    free(out);
    json_decref(root);
    sbuf_release(&line);
    return rc;
}

static int learn_and_write(struct counting *c, struct learn_counts *ret,
                           struct err *err)
{
    int32_t of[BYTES_N], merges_n = 0, vocab = 0;
    struct learn_merge *merges = NULL;
    char **text = calloc((size_t)c->learn->vocab, sizeof(*text));
    int32_t *symbol = malloc((c->bytes.n + 1) * sizeof *symbol);
    struct learn_word *word = NULL;
    int rc = -1;
    if (text)
        number_bytes(of, text);
    if (text && symbol && text[BYTES_N - 1])
        word = make_words(c, of, symbol);
    if (!word)
        err_set(err, "data: out of memory for the pieces");
    else if (!learn_bpe(word, (int64_t)c->pieces_n, BYTES_N,
                        c->learn->vocab - 1, text, &merges, &merges_n, &vocab,
                        err))
        rc = write_json(c, text, vocab, merges, merges_n, err);
    ret->vocab = vocab + 1;
    for (int32_t i = 0; text && i < c->learn->vocab; i++)
        free(text[i]);
    free(text);
    free(symbol);
    free(word);
    free(merges);
    return rc;
}

int learn_run(const struct learn *learn, struct learn_counts *ret,
              struct err *err)
{
    static const char *const names[] = {"gpt2", "llama3", "qwen2",
                                        "o200k"};
    static const enum pretok of[] = {PRETOK_GPT2, PRETOK_LLAMA3, PRETOK_QWEN2,
                                     PRETOK_O200K};
    struct counting c = {.learn = learn, .pretok = PRETOK_N};
    int rc = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcmp(names[i], learn->pattern))
            c.pretok = of[i];
    if (c.pretok == PRETOK_N)
        return err_set_class(err, ERR_REQUEST,
                             "data: no such pattern: '%s'; give gpt2, llama3, "
                             "qwen2 or o200k", learn->pattern);
    if (learn->vocab <= BYTES_N || learn->vocab > 1 << 20)
        return err_set_class(err, ERR_REQUEST, "data: a vocabulary of %d: give "
                             "257 to 1048576", learn->vocab);
    for (int i = 0; i < learn->files_n && !rc; i++)
        rc = count_file(&c, learn->files[i], err);
    if (!rc)
        rc = learn_and_write(&c, ret, err);
    ret->text_bytes = c.text_bytes;
    ret->pieces = (int64_t)c.pieces_n;
    free(c.piece);
    free(c.slot);
    text_release(&c.bytes);
    return rc;
}
