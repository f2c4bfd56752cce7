/* build_state - see build_state.h. */
#include "runner/data/build_state.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runner/base/file.h"
#include "runner/base/json.h"

enum { VERSION = 1 };

static bool state_path(const char *prefix, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s.build", prefix) < PATH_MAX;
}

/* ---- The job ------------------------------------------------------------- */

static void add(XXH3_state_t *sum, const void *bytes, size_t n)
{
    uint64_t length = n;
    XXH3_64bits_update(sum, &length, sizeof length);
    XXH3_64bits_update(sum, bytes, n);
}

static void add_text(XXH3_state_t *sum, const char *text)
{
    add(sum, text, strlen(text));
}

/* Size and time of a file; one that is not there counts as such. */
static void add_file(XXH3_state_t *sum, const char *path)
{
    struct stat st;
    int64_t facts[3] = {-1, 0, 0};
    if (!stat(path, &st)) {
        facts[0] = st.st_size;
        facts[1] = st.st_mtim.tv_sec;
        facts[2] = st.st_mtim.tv_nsec;
    }
    add(sum, facts, sizeof facts);
}

static void add_tokenizer(XXH3_state_t *sum, const char *name,
                          struct tokenizer *tokenizer)
{
    static const char *const parts[] = {"", "/tokenizer.json", "/vocab.json",
                                        "/merges.txt",
                                        "/tokenizer_config.json"};
    int32_t facts[2] = {tokenizer_vocab(tokenizer), tokenizer_eod(tokenizer)};
    char path[PATH_MAX];
    add_text(sum, name);
    add(sum, facts, sizeof facts);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (snprintf(path, sizeof path, "%s%s", name, parts[i]) < PATH_MAX)
            add_file(sum, path);
}

uint64_t build_job(const struct build *b, struct tokenizer *tokenizer)
{
    XXH3_state_t sum;
    int64_t options[] = {VERSION, (int64_t)b->format, b->append_eod,
                         b->replace_invalid, (int64_t)b->document_max_bytes,
                         b->files_n};
    XXH3_64bits_reset(&sum);
    add_tokenizer(&sum, b->tokenizer, tokenizer);
    add(&sum, options, sizeof options);
    add_text(&sum, b->key);
    for (int i = 0; i < b->files_n; i++) {
        add_text(&sum, b->files[i]);
        add_file(&sum, b->files[i]);
    }
    return XXH3_64bits_digest(&sum);
}

/* ---- The file ------------------------------------------------------------ */

/* Its numbers, in a table for both ways. */
#define FIELDS(s) \
    {"offset", &(s)->place.offset}, {"line", &(s)->place.line}, \
    {"bin_bytes", &(s)->mark.bin_bytes}, \
    {"sequences", &(s)->mark.sequences_n}, {"marks", &(s)->mark.marks_n}, \
    {"documents", &(s)->counts.documents}, {"empty", &(s)->counts.empty}, \
    {"bad", &(s)->counts.bad}, {"tokens", &(s)->counts.tokens}, \
    {"text_bytes", &(s)->counts.text_bytes}

int build_state_save(const struct build_state *state, const char *prefix,
                     struct err *err)
{
    char path[PATH_MAX], job[20];
    const struct {
        const char *name;
        const int64_t *value;
    } fields[] = {FIELDS(state)};
    if (!state_path(prefix, path))
        return err_set_class(err, ERR_REQUEST, "data: path too long: '%s'",
                             prefix);
    snprintf(job, sizeof job, "%016" PRIx64, state->job);
    json_t *o = json_pack("{s:i, s:s, s:i}", "version", VERSION, "job", job,
                          "file", state->place.file);
    for (size_t i = 0; o && i < sizeof fields / sizeof *fields; i++)
        json_object_set_new(o, fields[i].name, json_integer(*fields[i].value));
    int rc = o ? json_save_path(o, path, 0666, err)
               : err_set(err, "data: out of memory");
    json_decref(o);
    return rc;
}

bool build_state_load(const char *prefix, uint64_t job,
                      struct build_state *ret, bool *ret_other)
{
    struct build_state s = {.job = job};
    const struct {
        const char *name;
        int64_t *value;
    } fields[] = {FIELDS(&s)};
    char path[PATH_MAX], ours[20];
    snprintf(ours, sizeof ours, "%016" PRIx64, job);
    *ret_other = false;
    if (!state_path(prefix, path) || !file_exists(path))
        return false;
    json_t *o = json_load_path(path, 1 << 16, NULL);
    bool good = json_i64_or(o, "version", -1) == VERSION &&
                !strcmp(json_string_or(o, "job", ""), ours);
    int64_t file = json_i64_or(o, "file", -1);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && good; i++) {
        *fields[i].value = json_i64_or(o, fields[i].name, -1);
        good = *fields[i].value >= 0;
    }
    json_decref(o);
    *ret_other = !good;
    if (!good || file < 0 || file > INT_MAX)
        return false;
    s.place.file = (int)file;
    *ret = s;
    return true;
}

void build_state_remove(const char *prefix)
{
    char path[PATH_MAX];
    if (state_path(prefix, path))
        unlink(path);
}
