/* bpe_chars - see bpe_chars.h. */
#include "runner/data/bpe_chars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/json.h"

#define SPACE "\xe2\x96\x81" /* U+2581 */
enum { SPACE_BYTES = 3 };

static bool is_space(const char *p, const char *end)
{
    return end - p >= SPACE_BYTES && !memcmp(p, SPACE, SPACE_BYTES);
}

/* ---- The file ----------------------------------------------------------- */

static const char *type_of(const json_t *part)
{
    return json_string_or(part, "type", "");
}

static int unknown(struct err *err, const char *path, const char *what,
                   const char *name)
{
    return err_set_class(err, ERR_REQUEST, "data: bad tokenizer: '%s': a %s "
                         "that is not known here: '%s'", path, what, name);
}

bool bpe_chars_fit(const json_t *root)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    return !json_is_object(pre) || !strcmp(type_of(pre), "Metaspace");
}

static bool replaces(const json_t *part, const char *from, const char *to)
{
    const json_t *pattern = json_object_get(part, "pattern");
    return !strcmp(type_of(part), "Replace") &&
           !strcmp(json_string_or(pattern, "String", ""), from) &&
           !strcmp(json_string_or(part, "content", ""), to);
}

static int take_normalizer(struct bpe_chars *c, const json_t *part,
                           const char *path, struct err *err)
{
    size_t i;
    json_t *inner;
    if (!json_is_object(part))
        return 0;
    c->normalizes = true;
    if (!strcmp(type_of(part), "Prepend") &&
        !strcmp(json_string_or(part, "prepend", ""), SPACE)) {
        c->prepends = true;
        return 0;
    }
    if (replaces(part, " ", SPACE)) {
        c->spaces = true;
        return 0;
    }
    if (strcmp(type_of(part), "Sequence"))
        return unknown(err, path, "normalizer", type_of(part));
    json_array_foreach (json_object_get(part, "normalizers"), i, inner)
        if (take_normalizer(c, inner, path, err))
            return -1;
    return 0;
}

static int take_metaspace(struct bpe_chars *c, const json_t *part,
                          const char *path, struct err *err)
{
    static const char *const schemes[] = {"never", "first", "always"};
    bool old = json_is_false(json_object_get(part, "add_prefix_space"));
    const char *scheme = json_string_or(part, "prepend_scheme",
                                        old ? "never" : "always");
    if (!json_is_object(part))
        return 0;
    if (strcmp(json_string_or(part, "replacement", SPACE), SPACE))
        return unknown(err, path, "replacement",
                       json_string_or(part, "replacement", ""));
    int i = 0;
    while (i < 3 && strcmp(schemes[i], scheme))
        i++;
    if (i == 3)
        return unknown(err, path, "prepend_scheme", scheme);
    c->front = (enum chars_front)i;
    c->spaces = true;
    c->cut = json_is_false(json_object_get(part, "split")) ? CHARS_CUT_NONE
                                                           : CHARS_CUT_EACH;
    return 0;
}

/* What it has besides these is for other tokens than ours. */
static void take_decoder(struct bpe_chars *c, const json_t *part)
{
    size_t i;
    json_t *inner;
    if (!strcmp(type_of(part), "Metaspace")) {
        c->back_spaces = true;
        c->strip = c->front != CHARS_FRONT_NONE;
    }
    c->back_spaces |= replaces(part, SPACE, " ");
    c->strip |= !strcmp(type_of(part), "Strip") &&
                !strcmp(json_string_or(part, "content", ""), " ") &&
                json_i64_or(part, "start", 0) == 1;
    json_array_foreach (json_object_get(part, "decoders"), i, inner)
        take_decoder(c, inner);
}

static int take_model(struct bpe_chars *c, const json_t *model,
                      const char *path, struct err *err)
{
    static const char *const options[] = {
        "dropout", "continuing_subword_prefix", "end_of_word_suffix",
        "ignore_merges"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const json_t *v = json_object_get(model, options[i]);
        if (json_is_true(v) || json_number_value(v) != 0 ||
            (json_is_string(v) && *json_string_value(v)))
            return unknown(err, path, "model option", options[i]);
    }
    const char *name = json_string_or(model, "unk_token", "");
    if (!str_copy(c->unknown_text, sizeof c->unknown_text, name))
        return unknown(err, path, "unk_token", name);
    c->fallback = json_is_true(json_object_get(model, "byte_fallback"));
    c->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    return 0;
}

int bpe_chars_take(struct bpe_chars *c, const json_t *root, const char *path,
                   struct err *err)
{
    *c = (struct bpe_chars){.on = true};
    if (take_normalizer(c, json_object_get(root, "normalizer"), path, err) ||
        take_metaspace(c, json_object_get(root, "pre_tokenizer"), path, err) ||
        take_model(c, json_object_get(root, "model"), path, err))
        return -1;
    take_decoder(c, json_object_get(root, "decoder"));
    return 0;
}

/* Has a token a space behind something else? Then merges go over words. */
static bool goes_over_words(const struct bpe *bpe)
{
    for (int32_t id = 0; id < bpe_vocab(bpe); id++) {
        size_t n;
        const char *p = bpe_bytes(bpe, id, &n), *end = p ? p + n : p;
        for (bool other = false; p && p < end;) {
            bool space = is_space(p, end);
            if (space && other)
                return true;
            other |= !space;
            p += space ? SPACE_BYTES : 1;
        }
    }
    return false;
}

int bpe_chars_finish(struct bpe_chars *c, struct bpe *bpe, struct err *err)
{
    char name[8];
    c->unknown = *c->unknown_text ? bpe_find(bpe, c->unknown_text,
                                             strlen(c->unknown_text))
                                  : -1;
    for (int b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        c->byte[b] = c->fallback ? bpe_find(bpe, name, 6) : -1;
    }
    if (c->cut == CHARS_CUT_NONE && bpe_find(bpe, SPACE, SPACE_BYTES) >= 0 &&
        !goes_over_words(bpe))
        c->cut = CHARS_CUT_WORDS;
    return bpe_finish_chars(bpe, err);
}

/* ---- Text to tokens ----------------------------------------------------- */

int bpe_chars_normalize(const struct bpe_chars *c, const char *p, size_t n,
                        bool first, struct text *out, struct err *err)
{
    const char *end = p + n;
    bool space = is_space(p, end) || (c->spaces && n && *p == ' ');
    bool front = n && (c->prepends ||
                       (!space && (c->front == CHARS_FRONT_ALWAYS ||
                                   (c->front == CHARS_FRONT_FIRST && first))));
    if (text_reserve(out, SPACE_BYTES * (n + 1), err) ||
        (front && text_add(out, SPACE, SPACE_BYTES, err)))
        return -1;
    for (; c->spaces && p < end; p++) {
        if (*p == ' ') {
            memcpy(out->data + out->n, SPACE, SPACE_BYTES);
            out->n += SPACE_BYTES;
        } else {
            out->data[out->n++] = *p;
        }
    }
    return p < end ? text_add(out, p, (size_t)(end - p), err) : 0;
}

size_t bpe_chars_next(const struct bpe_chars *c, const char *p,
                      const char *end)
{
    const char *at = p;
    if (c->cut == CHARS_CUT_NONE)
        return (size_t)(end - p);
    if (c->cut == CHARS_CUT_EACH)
        at += is_space(p, end) ? SPACE_BYTES : 0;
    else
        while (is_space(at, end))
            at += SPACE_BYTES;
    while (at < end && !is_space(at, end)) {
        const char *next = memchr(at + 1, SPACE[0], (size_t)(end - at) - 1);
        at = next ? next : end;
    }
    return (size_t)(at - p);
}

/* The bytes' tokens, if all have one; their number. */
static int fall_back(const struct bpe_chars *c, const char *p, int len,
                     int32_t *out)
{
    for (int i = 0; i < len; i++) {
        out[i] = c->byte[(unsigned char)p[i]];
        if (out[i] < 0)
            return 0;
    }
    return len;
}

int64_t bpe_chars_encode(const struct bpe_chars *c, const struct bpe *bpe,
                         struct bpe_work *work, const char *p, size_t n,
                         int32_t *out)
{
    const char *end = p + n;
    size_t got = 0;
    bool unknown_before = false;
    for (int len; p < end; p += len) {
        uint32_t code;
        len = utf8_get(p, end, &code);
        bool bad = len <= 0;
        if (bad)
            len = len ? -len : 1;
        int32_t id = bad ? -1 : bpe_find(bpe, p, (size_t)len);
        int more = 0;
        if (id >= 0)
            out[got + (size_t)more++] = id;
        else if (c->fallback)
            more = fall_back(c, p, len, out + got);
        bool lost = !more;
        if (lost && c->unknown >= 0 && !(unknown_before && c->fuse_unknown))
            out[got + (size_t)more++] = c->unknown;
        unknown_before = lost;
        got += (size_t)more;
    }
    return bpe_merge(bpe, work, out, got);
}

/* ---- Tokens to text ----------------------------------------------------- */

/* The byte of a token <0x00> .. <0xFF> of this vocabulary; -1: another. */
static int byte_of(const struct bpe_chars *c, int32_t id, const char *text,
                   size_t n)
{
    if (!c->fallback || n != 6 || memcmp(text, "<0x", 3))
        return -1;
    int b = (int)strtol((char[]){text[3], text[4], 0}, NULL, 16);
    return c->byte[b] == id ? b : -1;
}

static void add_text(const struct bpe_chars *c, const char *p, size_t n,
                     struct sbuf *out)
{
    const char *end = p + n;
    while (p < end) {
        size_t left = (size_t)(end - p);
        const char *next = c->back_spaces ? memmem(p, left, SPACE, SPACE_BYTES)
                                          : NULL;
        sbuf_add(out, p, (size_t)((next ? next : end) - p));
        if (next)
            sbuf_add(out, " ", 1);
        p = next ? next + SPACE_BYTES : end;
    }
}

void bpe_chars_decode(const struct bpe_chars *c, const struct bpe *bpe,
                      const int32_t *ids, size_t n, struct sbuf *out)
{
    size_t start = out->len;
    for (size_t i = 0; i < n; i++) {
        size_t bytes_n;
        const char *bytes = bpe_bytes(bpe, ids[i], &bytes_n);
        int b = bytes ? byte_of(c, ids[i], bytes, bytes_n) : -1;
        if (b >= 0)
            sbuf_add(out, &(char){(char)b}, 1);
        else if (bytes)
            add_text(c, bytes, bytes_n, out);
    }
    if (c->strip && !out->failed && out->len > start &&
        out->data[start] == ' ') {
        memmove(out->data + start, out->data + start + 1, out->len - start);
        out->len--;
    }
}
