/* bpe_load - see bpe_load.h. */
#include "runner/data/bpe_load.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runner/base/file.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/data/text.h"

enum { FILE_BYTES_MAX = 256 << 20 };

/* ---- The alphabet -------------------------------------------------------
 * Byte-level vocabularies write each byte as a printable character: those
 * that are printable in Latin-1 as themselves, the others as U+0100 and on. */

struct alphabet {
    int byte[512]; /* of a code point; -1 none */
};

void bpe_alphabet(uint32_t code[256])
{
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
                         b >= 0xae;
        code[b] = printable ? b : next++;
    }
}

static void alphabet_make(struct alphabet *a)
{
    uint32_t code[256];
    bpe_alphabet(code);
    memset(a->byte, -1, sizeof a->byte);
    for (int b = 0; b < 256; b++)
        a->byte[code[b]] = b;
}

/* A token as written to its bytes; their number, or -1. */
static int alphabet_bytes(const struct alphabet *a, const char *written,
                          size_t n, char *dst, size_t dst_bytes)
{
    const char *p = written, *end = written + n;
    size_t out = 0;
    while (p < end) {
        uint32_t code;
        int len = utf8_get(p, end, &code);
        if (len < 0 || code >= 512 || a->byte[code] < 0 || out == dst_bytes)
            return -1;
        dst[out++] = (char)a->byte[code];
        p += len;
    }
    return (int)out;
}

static int bad(struct err *err, const char *path, const char *what,
               const char *subject)
{
    return err_set_class(err, ERR_REQUEST,
                         "data: bad tokenizer: '%s': %s%s%s%s", path, what,
                         *subject ? ": '" : "", subject,
                         *subject ? "'" : "");
}

/* ---- Vocabulary and merges ---------------------------------------------- */

struct load {
    const char *path;
    struct alphabet alphabet;
    struct bpe_model *m;
};

static bool is_added(const struct bpe_model *m, int32_t id)
{
    for (size_t i = 0; i < m->added_n; i++)
        if (m->added[i].id == id)
            return true;
    return false;
}

/* A token as the file writes it to its bytes; their number, or -1. */
static int token_bytes(const struct load *l, const char *written, size_t n,
                       char *dst, size_t dst_bytes)
{
    if (!l->m->chars.on)
        return alphabet_bytes(&l->alphabet, written, n, dst, dst_bytes);
    if (n > dst_bytes)
        return -1;
    memcpy(dst, written, n);
    return (int)n;
}

static int take_vocab(struct load *l, const json_t *vocab, struct err *err)
{
    const char *key;
    json_t *value;
    char bytes[1024];
    json_object_foreach ((json_t *)vocab, key, value) {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id > INT32_MAX)
            return bad(err, l->path, "a token without a number", key);
        if (is_added(l->m, (int32_t)id))
            continue; /* told by the added tokens, as plain text */
        int n = token_bytes(l, key, strlen(key), bytes, sizeof bytes);
        /* What is not in the alphabet is a special token of its own. */
        if (n < 0 && (n = snprintf(bytes, sizeof bytes, "%s", key)) >=
                         (int)sizeof bytes)
            return bad(err, l->path, "a token too long", key);
        if (bpe_add_token(l->m->bpe, (int32_t)id, bytes, (size_t)n, err))
            return err_prefix(err, "data: '%s'", l->path);
    }
    return 0;
}

static int take_merge(struct load *l, const char *left, size_t left_n,
                      const char *right, size_t right_n, struct err *err)
{
    char bytes[2][512];
    int n[2] = {token_bytes(l, left, left_n, bytes[0], 512),
                token_bytes(l, right, right_n, bytes[1], 512)};
    if (n[0] <= 0 || n[1] <= 0)
        return bad(err, l->path, "a merge of no tokens", left);
    int32_t ids[2] = {bpe_find(l->m->bpe, bytes[0], (size_t)n[0]),
                      bpe_find(l->m->bpe, bytes[1], (size_t)n[1])};
    if (bpe_add_merge(l->m->bpe, ids[0], ids[1], err))
        return err_prefix(err, "data: '%s'", l->path);
    return 0;
}

/* "LEFT RIGHT" */
static int take_merge_text(struct load *l, const char *text, size_t n,
                           struct err *err)
{
    const char *space = memchr(text, ' ', n);
    if (!space)
        return bad(err, l->path, "a merge without a space", text);
    return take_merge(l, text, (size_t)(space - text), space + 1,
                      n - (size_t)(space + 1 - text), err);
}

static int take_merges_file(struct load *l, const char *path, struct err *err)
{
    char *text = file_read(path, FILE_BYTES_MAX, NULL, err);
    int rc = text ? 0 : -1;
    l->path = path;
    for (char *line = text; line && *line && !rc;) {
        size_t n = strcspn(line, "\n");
        char *next = line + n + (line[n] == '\n');
        line[n] = 0;
        if (n && line[n - 1] == '\r')
            line[--n] = 0;
        if (n && !(line == text && str_starts(line, "#version")))
            rc = take_merge_text(l, line, n, err);
        line = next;
    }
    free(text);
    return rc;
}

static int take_merges_json(struct load *l, const json_t *merges,
                            struct err *err)
{
    size_t i;
    json_t *merge;
    json_array_foreach ((json_t *)merges, i, merge) {
        const char *text = json_string_value(merge);
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        int rc = text ? take_merge_text(l, text, strlen(text), err)
                 : left && right
                     ? take_merge(l, left, strlen(left), right, strlen(right),
                                  err)
                     : bad(err, l->path, "a merge that is none", "");
        if (rc)
            return -1;
    }
    return 0;
}

/* ---- Added tokens ------------------------------------------------------- */

static int longer_first(const void *a, const void *b)
{
    const struct added *x = a, *y = b;
    return x->n < y->n ? 1 : x->n > y->n ? -1 : 0;
}

static int take_added(struct load *l, const json_t *list, struct err *err)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    struct bpe_model *m = l->m;
    size_t i;
    json_t *row;
    m->added = calloc(json_array_size(list) + 1, sizeof *m->added);
    if (!m->added)
        return err_set(err, "data: out of memory");
    json_array_foreach ((json_t *)list, i, row) {
        const char *text = json_string_or(row, "content", "");
        int64_t id = json_i64_or(row, "id", -1);
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            if (json_is_true(json_object_get(row, flags[f])))
                return bad(err, l->path, "an added token with this is not "
                           "known here", flags[f]);
        if (!*text || id < 0)
            return bad(err, l->path, "an added token without text or number",
                       text);
        if (m->chars.normalizes && json_is_true(json_object_get(row,
                                                                "normalized")))
            return bad(err, l->path, "an added token with this and a "
                       "normalizer is not known here", "normalized");
        struct added *a = &m->added[m->added_n++];
        *a = (struct added){strdup(text), strlen(text), (int32_t)id};
        if (!a->text)
            return err_set(err, "data: out of memory");
        if (bpe_add_token(m->bpe, a->id, text, a->n, err))
            return err_prefix(err, "data: '%s'", l->path);
        m->added_firsts += !m->added_first[(unsigned char)*text];
        m->added_first[(unsigned char)*text] = true;
    }
    qsort(m->added, m->added_n, sizeof *m->added, longer_first);
    return 0;
}

/* ---- tokenizer.json's other parts --------------------------------------- */

static const char *type_of(const json_t *part)
{
    return json_string_or(part, "type", "");
}

static bool is_set(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_true(v) || json_number_value(v) != 0 ||
           (json_is_string(v) && *json_string_value(v));
}

static int take_byte_level(struct load *l, const json_t *part, struct err *err)
{
    if (json_is_true(json_object_get(part, "add_prefix_space")))
        return bad(err, l->path, "not known here", "add_prefix_space");
    if (!json_is_false(json_object_get(part, "use_regex")))
        l->m->pretok = PRETOK_GPT2;
    return 0;
}

static int take_split(struct load *l, const json_t *part, struct err *err)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex = json_string_or(pattern, "Regex", "");
    l->m->pretok = pretok_of_regex(regex);
    if (l->m->pretok == PRETOK_N)
        return bad(err, l->path, "a pattern that is not known here", regex);
    if (strcmp(json_string_or(part, "behavior", ""), "Isolated") ||
        json_is_true(json_object_get(part, "invert")))
        return bad(err, l->path, "a split that is not known here",
                   json_string_or(part, "behavior", ""));
    return 0;
}

static int take_pre_tokenizer(struct load *l, const json_t *part,
                              struct err *err)
{
    size_t i;
    json_t *inner;
    if (!strcmp(type_of(part), "ByteLevel"))
        return take_byte_level(l, part, err);
    if (!strcmp(type_of(part), "Split"))
        return take_split(l, part, err);
    if (strcmp(type_of(part), "Sequence"))
        return bad(err, l->path, "a pre_tokenizer that is not known here",
                   type_of(part));
    json_array_foreach (json_object_get(part, "pretokenizers"), i, inner)
        if (take_pre_tokenizer(l, inner, err))
            return -1;
    return 0;
}

static int check_parts(struct load *l, const json_t *root, struct err *err)
{
    static const char *const options[] = {
        "dropout", "continuing_subword_prefix", "end_of_word_suffix",
        "fuse_unk", "byte_fallback"};
    const json_t *model = json_object_get(root, "model");
    const json_t *normalizer = json_object_get(root, "normalizer");
    const char *type = json_string_or(model, "type", "BPE");
    if (strcmp(type, "BPE"))
        return bad(err, l->path, "a model that is not known here", type);
    if (bpe_chars_fit(root))
        return bpe_chars_take(&l->m->chars, root, l->path, err);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (is_set(model, options[i]))
            return bad(err, l->path, "a model option that is not known here",
                       options[i]);
    l->m->nfc = !strcmp(type_of(normalizer), "NFC");
    if (json_is_object(normalizer) && !l->m->nfc)
        return bad(err, l->path, "a normalizer that is not known here",
                   type_of(normalizer));
    l->m->whole_first = json_is_true(json_object_get(model, "ignore_merges"));
    return take_pre_tokenizer(l, json_object_get(root, "pre_tokenizer"), err);
}

/* ---- Files -------------------------------------------------------------- */

enum files { FILES_NONE, FILES_ONE, FILES_PAIR, FILES_TIKTOKEN };

/* FILES_ONE: first is a tokenizer.json. FILES_PAIR: vocab.json, merges.txt. */
static enum files find_files(const char *path, char first[PATH_MAX],
                             char second[PATH_MAX])
{
    struct stat st;
    char dir[PATH_MAX];
    if (stat(path, &st) || !str_copy(dir, sizeof dir, path))
        return FILES_NONE;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (S_ISDIR(st.st_mode)) {
        if (snprintf(first, PATH_MAX, "%s/tokenizer.json", dir) >= PATH_MAX)
            return FILES_NONE;
        if (file_exists(first))
            return FILES_ONE;
    } else if (bpe_tiktoken_knows(path)) {
        str_copy(first, PATH_MAX, path);
        return FILES_TIKTOKEN;
    } else if (strcmp(name, "vocab.json") && strcmp(name, "merges.txt")) {
        size_t n = strlen(name);
        str_copy(first, PATH_MAX, path);
        return n > 5 && !strcmp(name + n - 5, ".json") ? FILES_ONE
                                                       : FILES_NONE;
    } else {
        dir[name - path] = 0;
        if (!*dir)
            strcpy(dir, ".");
    }
    if (snprintf(first, PATH_MAX, "%s/vocab.json", dir) >= PATH_MAX ||
        snprintf(second, PATH_MAX, "%s/merges.txt", dir) >= PATH_MAX ||
        !file_exists(first) || !file_exists(second))
        return FILES_NONE;
    return FILES_PAIR;
}

bool bpe_model_knows(const char *path)
{
    char first[PATH_MAX], second[PATH_MAX];
    return find_files(path, first, second) != FILES_NONE;
}

/* A file that is no JSON is its user's to mend. */
static json_t *load_json(const char *path, struct err *err)
{
    json_t *root = json_load_path(path, FILE_BYTES_MAX, err);
    if (!root)
        err->class = ERR_REQUEST;
    return root;
}

static int load_pair(struct load *l, const char *vocab, const char *merges,
                     struct err *err)
{
    json_t *root = load_json(vocab, err);
    l->path = vocab;
    int rc = root ? take_vocab(l, root, err) : -1;
    json_decref(root);
    return rc || take_merges_file(l, merges, err) ? -1 : 0;
}

static int load_one(struct load *l, const char *path, struct err *err)
{
    json_t *root = load_json(path, err);
    const json_t *model = json_object_get(root, "model");
    l->path = path;
    int rc = -1;
    if (root && !json_is_object(json_object_get(model, "vocab")))
        bad(err, path, "no model.vocab; is it a tokenizer.json", "");
    else if (root)
        rc = check_parts(l, root, err) ||
             take_added(l, json_object_get(root, "added_tokens"), err) ||
             take_vocab(l, json_object_get(model, "vocab"), err) ||
             take_merges_json(l, json_object_get(model, "merges"), err);
    json_decref(root);
    return rc ? -1 : 0;
}

/* The token that ends a document: what tokenizer_config.json beside the file
 * says, else the first of the usual ones. */
static int32_t find_eod(const struct bpe_model *m, const char *first)
{
    static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>",
                                        "</s>", "<eos>"};
    char path[PATH_MAX + 32];
    const char *slash = strrchr(first, '/');
    snprintf(path, sizeof path, "%.*stokenizer_config.json",
             slash ? (int)(slash + 1 - first) : 0, first);
    json_t *config = file_exists(path) ? json_load_path(path, 64 << 20, NULL)
                                       : NULL;
    json_t *eos = json_object_get(config, "eos_token");
    const char *name = json_is_object(eos)
                           ? json_string_or(eos, "content", "")
                           : json_string_value(eos);
    int32_t id = name && *name ? bpe_find(m->bpe, name, strlen(name)) : -1;
    json_decref(config);
    for (size_t i = 0; id < 0 && i < sizeof usual / sizeof *usual; i++)
        id = bpe_find(m->bpe, usual[i], strlen(usual[i]));
    return id;
}

struct bpe_model *bpe_model_load(const char *path, struct err *err)
{
    char first[PATH_MAX] = "", second[PATH_MAX] = "";
    struct bpe_model *m = calloc(1, sizeof *m);
    if (!m || !(m->bpe = bpe_create(err))) {
        err_set(err, "data: out of memory");
        free(m);
        return NULL;
    }
    atomic_init(&m->holders, 1);
    m->pretok = PRETOK_GPT2;
    m->eod = -1;
    struct load l = {.path = path, .m = m};
    alphabet_make(&l.alphabet);
    enum files files = find_files(path, first, second);
    int rc = files == FILES_TIKTOKEN ? bpe_tiktoken_load(m, first, err)
             : files == FILES_PAIR   ? load_pair(&l, first, second, err)
                                     : load_one(&l, first, err);
    if (rc || (m->chars.on ? bpe_chars_finish(&m->chars, m->bpe, err)
                           : bpe_finish(m->bpe, err))) {
        bpe_model_release(m);
        return NULL;
    }
    if (bpe_vocab(m->bpe) > m->vocab)
        m->vocab = bpe_vocab(m->bpe);
    if (m->eod < 0 && files != FILES_TIKTOKEN)
        m->eod = find_eod(m, first);
    return m;
}

void bpe_model_release(struct bpe_model *m)
{
    if (!m || atomic_fetch_sub(&m->holders, 1) > 1)
        return;
    for (size_t i = 0; i < m->added_n; i++)
        free(m->added[i].text);
    free(m->added);
    bpe_destroy(m->bpe);
    free(m);
}
