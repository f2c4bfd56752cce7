/* manifest - manifest.json read with distrust, and written; see manifest.h. */
#include "runner/ckpt/manifest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/safetensors.h"

#define BYTES_MAX ((int64_t)1 << 56)

/* ---- Names ------------------------------------------------------------- */

bool manifest_name_parse(const char *name, int64_t *ret_step, int *ret_attempt)
{
    long long step;
    int attempt, used = 0;
    char again[64];
    if (strlen(name) >= sizeof again || !str_starts(name, "step-") ||
        sscanf(name, "step-%18lld.a%9d%n", &step, &attempt, &used) != 2 ||
        name[used] || step < 0 || attempt < 0)
        return false;
    snprintf(again, sizeof again, KB_CKPT_FMT, step, attempt);
    if (strcmp(again, name))
        return false;
    *ret_step = step;
    *ret_attempt = attempt;
    return true;
}

bool manifest_shard_name_ok(const char *file)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(file);
    if (n >= SHARD_NAME_BYTES || n <= strlen(end) ||
        !str_starts(file, "shard-") || strcmp(file + n - strlen(end), end))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)file[i]) && !strchr("-._", file[i]))
            return false;
    return true;
}

void manifest_hex(uint64_t hash, char dst[17])
{
    snprintf(dst, 17, "%016llx", (unsigned long long)hash);
}

/* ---- Reading: shards --------------------------------------------------- */

static int bad(struct err *err, const char *what, const char *fmt,
               const char *name)
{
    char text[320];
    snprintf(text, sizeof text, fmt, name);
    return err_set(err, "manifest: '%s': %s", what, text);
}

static bool hex_value(const char *text, uint64_t *ret)
{
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        int c = (unsigned char)text[i];
        if (!isxdigit(c))
            return false;
        v = v << 4 | (uint64_t)(isdigit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    *ret = v;
    return true;
}

static int parse_shard(const json_t *v, int64_t block_bytes, const char *what,
                       struct shard *ret, struct err *err)
{
    const char *file, *hex;
    int64_t bytes;
    if (json_get_string(v, "file", &file, err) ||
        json_get_i64(v, "bytes", &bytes, err) ||
        json_get_string(v, "xxh3", &hex, err))
        return err_prefix(err, "manifest: '%s': a shard", what);
    if (!manifest_shard_name_ok(file))
        return bad(err, what, "'%.80s' is not a shard's name", file);
    if (bytes < 8 || bytes > BYTES_MAX)
        return bad(err, what, "the size of '%s' is impossible", file);
    str_copy(ret->file, sizeof ret->file, file);
    ret->bytes = bytes;
    ret->blocks_n = (bytes + block_bytes - 1) / block_bytes;
    if (strlen(hex) != (size_t)ret->blocks_n * 16)
        return bad(err, what, "'%s' has not one hash for each block", file);
    ret->xxh3 = malloc((size_t)ret->blocks_n * sizeof *ret->xxh3);
    if (!ret->xxh3)
        return bad(err, what, "%s", "out of memory");
    for (int64_t i = 0; i < ret->blocks_n; i++)
        if (!hex_value(hex + 16 * i, &ret->xxh3[i]))
            return bad(err, what, "'%s' has a hash that is none", file);
    return 0;
}

static int by_file(const void *a, const void *b)
{
    const struct shard *const *x = a, *const *y = b;
    return strcmp((*x)->file, (*y)->file);
}

/* No file twice. */
static int check_files(const struct manifest *m, const char *what,
                       struct err *err)
{
    const struct shard **sorted =
        malloc(((size_t)m->shards_n + 1) * sizeof *sorted);
    int rc = 0;
    if (!sorted)
        return bad(err, what, "%s", "out of memory");
    for (int i = 0; i < m->shards_n; i++)
        sorted[i] = &m->shards[i];
    qsort(sorted, (size_t)m->shards_n, sizeof *sorted, by_file);
    for (int i = 1; i < m->shards_n && !rc; i++)
        if (!strcmp(sorted[i - 1]->file, sorted[i]->file))
            rc = bad(err, what, "shard '%s' is listed twice", sorted[i]->file);
    free(sorted);
    return rc;
}

static int parse_shards(const json_t *root, const char *what,
                        struct manifest *ret, struct err *err)
{
    const json_t *list = json_object_get(root, "shards");
    if (!json_is_array(list))
        return bad(err, what, "member '%s' is missing", "shards");
    size_t n = json_array_size(list);
    ret->shards = calloc(n + 1, sizeof *ret->shards);
    if (!ret->shards)
        return bad(err, what, "%s", "out of memory");
    for (size_t i = 0; i < n; i++) {
        ret->shards_n = (int)i + 1;
        if (parse_shard(json_array_get(list, i), ret->block_bytes, what,
                        &ret->shards[i], err))
            return -1;
        if (ret->bytes > BYTES_MAX - ret->shards[i].bytes)
            return bad(err, what, "%s", "the shards' sizes are impossible");
        ret->bytes += ret->shards[i].bytes;
    }
    return check_files(ret, what, err);
}

/* ---- Reading: tensors -------------------------------------------------- */

static bool parse_sides(const json_t *v, int dims, int64_t *ret)
{
    if (!json_is_array(v) || json_array_size(v) != (size_t)dims)
        return false;
    for (int i = 0; i < dims; i++) {
        const json_t *side = json_array_get(v, (size_t)i);
        if (!json_is_integer(side))
            return false;
        ret[i] = json_integer_value(side);
    }
    return true;
}

static int parse_box(const json_t *v, const struct manifest *m,
                     const struct tensor *t, const char *what,
                     struct tensor_box *ret, struct err *err)
{
    int64_t shard, elem = st_dtype_bytes(t->dtype);
    *ret = (struct tensor_box){.box.dims = t->dims};
    if (json_get_i64(v, "shard", &shard, err) ||
        json_get_i64(v, "at", &ret->at, err))
        return err_prefix(err, "manifest: '%s': a box of '%s'", what, t->name);
    if (!parse_sides(json_object_get(v, "offset"), t->dims, ret->box.offset) ||
        !parse_sides(json_object_get(v, "extent"), t->dims, ret->box.extent) ||
        box_check(&ret->box, t->shape))
        return bad(err, what, "a box of '%s' is not inside the tensor",
                   t->name);
    if (shard < 0 || shard >= m->shards_n)
        return bad(err, what, "a box of '%s' is in a shard that is not listed",
                   t->name);
    ret->shard = (int)shard;
    int64_t bytes = m->shards[shard].bytes, count = box_count(&ret->box);
    if (ret->at < 8 || ret->at % elem || ret->at > bytes ||
        count > (bytes - ret->at) / elem)
        return bad(err, what, "a box of '%s' is not inside its shard",
                   t->name);
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct tensor_box *x = a, *y = b;
    for (int i = 0; i < x->box.dims; i++)
        if (x->box.offset[i] != y->box.offset[i])
            return x->box.offset[i] < y->box.offset[i] ? -1 : 1;
    return 0;
}

/* The boxes cover the tensor exactly once: none overlap, and their elements
 * add up. Sorted by the first offset, only neighbours can overlap. */
static int check_boxes(const struct tensor *t, const char *what,
                       struct err *err)
{
    int64_t covered = 0;
    struct box common;
    for (int i = 0; i < t->boxes_n; i++) {
        const struct box *a = &t->boxes[i].box;
        covered += box_count(a);
        for (int k = i + 1; k < t->boxes_n; k++) {
            const struct box *b = &t->boxes[k].box;
            if (b->offset[0] >= a->offset[0] + a->extent[0])
                break;
            if (box_intersect(a, b, &common))
                return bad(err, what, "two boxes of '%s' overlap", t->name);
        }
    }
    if (covered != box_shape_count(t->dims, t->shape))
        return bad(err, what, "the boxes of '%s' leave a hole", t->name);
    return 0;
}

static int parse_tensor(const char *name, const json_t *v, const char *what,
                        const struct manifest *m, struct tensor *ret,
                        struct err *err)
{
    const json_t *shape = json_object_get(v, "shape");
    const json_t *boxes = json_object_get(v, "boxes");
    ret->dtype = st_dtype(json_string_or(v, "dtype", ""));
    ret->dims = (int)json_array_size(shape);
    if (!*name || !str_copy(ret->name, sizeof ret->name, name))
        return bad(err, what, "the name '%.100s' is empty or too long", name);
    if (ret->dtype < 0)
        return bad(err, what, "'%s' has no dtype that is known", name);
    if (ret->dims < 1 || ret->dims > VIEW_DIMS ||
        !parse_sides(shape, ret->dims, ret->shape) ||
        box_shape_count(ret->dims, ret->shape) < 0)
        return bad(err, what, "the shape of '%s' is impossible", name);
    if (!json_is_array(boxes) || !json_array_size(boxes))
        return bad(err, what, "'%s' has no boxes", name);
    size_t n = json_array_size(boxes);
    ret->boxes = calloc(n, sizeof *ret->boxes);
    if (!ret->boxes)
        return bad(err, what, "%s", "out of memory");
    for (size_t i = 0; i < n; i++)
        if (parse_box(json_array_get(boxes, i), m, ret, what, &ret->boxes[i],
                      err))
            return -1;
    ret->boxes_n = (int)n;
    qsort(ret->boxes, n, sizeof *ret->boxes, by_offset);
    return check_boxes(ret, what, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name,
                  ((const struct tensor *)b)->name);
}

static int parse_tensors(const json_t *root, const char *what,
                         struct manifest *ret, struct err *err)
{
    json_t *list = json_object_get(root, "tensors"), *v;
    const char *name;
    if (!json_is_object(list))
        return bad(err, what, "member '%s' is missing", "tensors");
    ret->tensors = calloc(json_object_size(list) + 1, sizeof *ret->tensors);
    if (!ret->tensors)
        return bad(err, what, "%s", "out of memory");
    json_object_foreach (list, name, v) {
        if (parse_tensor(name, v, what, ret, &ret->tensors[ret->tensors_n++],
                         err))
            return -1;
    }
    qsort(ret->tensors, (size_t)ret->tensors_n, sizeof *ret->tensors, by_name);
    return 0;
}

/* ---- Reading: the whole ------------------------------------------------ */

/* The hash of the object's canonical text without its member "self". */
static int self_hash(json_t *root, char hex[17])
{
    json_t *self = json_incref(json_object_get(root, "self"));
    json_object_del(root, "self");
    char *text = json_line(root);
    if (self)
        json_object_set_new(root, "self", self);
    if (!text)
        return -1;
    manifest_hex(XXH3_64bits(text, strlen(text)), hex);
    free(text);
    return 0;
}

static int parse_head(json_t *root, const char *what, struct manifest *ret,
                      struct err *err)
{
    char hash[17];
    int64_t version, attempt, world;
    if (strcmp(json_string_or(root, "format", ""), MANIFEST_FORMAT))
        return bad(err, what, "its format is not '%s'", MANIFEST_FORMAT);
    if (json_get_i64(root, "version", &version, err))
        return err_prefix(err, "manifest: '%s'", what);
    if (version != MANIFEST_VERSION)
        return err_set(err, "manifest: '%s': format version %lld; this "
                            "program reads version %d; use the koboshi that "
                            "wrote it", what, (long long)version,
                       MANIFEST_VERSION);
    if (self_hash(root, hash))
        return bad(err, what, "%s", "out of memory");
    const char *self = json_string_or(root, "self", "");
    if (strcmp(self, hash))
        return err_set(err, "manifest: '%s': its xxh3 is %s, not the %.20s "
                            "that it says", what, hash, self);
    if (json_get_i64(root, "step", &ret->step, err) ||
        json_get_i64(root, "attempt", &attempt, err) ||
        json_get_i64(root, "world", &world, err) ||
        json_get_i64(root, "block_bytes", &ret->block_bytes, err))
        return err_prefix(err, "manifest: '%s'", what);
    if (ret->step < 0 || attempt < 0 || attempt > INT32_MAX || world < 1 ||
        world > INT32_MAX)
        return bad(err, what, "%s", "step, attempt or world are impossible");
    if (ret->block_bytes < 4096 || ret->block_bytes > 1 << 28 ||
        ret->block_bytes % 4096)
        return bad(err, what, "%s", "block_bytes is impossible");
    ret->attempt = (int)attempt;
    ret->world = (int)world;
    ret->wall_s = json_double_or(root, "time", 0);
    str_copy(ret->plan_hash, sizeof ret->plan_hash,
             json_string_or(root, "plan_hash", ""));
    ret->state = json_incref(json_object_get(root, "state"));
    if (!json_is_object(ret->state))
        return bad(err, what, "member '%s' is missing", "state");
    return 0;
}

int manifest_parse(const char *text, size_t text_bytes, const char *what,
                   struct manifest *ret, struct err *err)
{
    json_error_t why;
    int rc = -1;
    *ret = (struct manifest){0};
    json_t *root = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(root))
        err_set(err, "manifest: '%s': line %d: %s", what, root ? 1 : why.line,
                root ? "not an object" : why.text);
    else if (!parse_head(root, what, ret, err) &&
             !parse_shards(root, what, ret, err) &&
             !parse_tensors(root, what, ret, err))
        rc = 0;
    json_decref(root);
    if (rc)
        manifest_release(ret);
    return rc;
}

void manifest_release(struct manifest *manifest)
{
    for (int i = 0; i < manifest->shards_n; i++)
        free(manifest->shards[i].xxh3);
    for (int i = 0; i < manifest->tensors_n; i++)
        free(manifest->tensors[i].boxes);
    free(manifest->shards);
    free(manifest->tensors);
    json_decref(manifest->state);
    *manifest = (struct manifest){0};
}

const struct tensor *manifest_find(const struct manifest *manifest,
                                   const char *name)
{
    struct tensor key;
    if (!str_copy(key.name, sizeof key.name, name) || !manifest->tensors_n)
        return NULL;
    return bsearch(&key, manifest->tensors, (size_t)manifest->tensors_n,
                   sizeof key, by_name);
}

/* ---- Writing ----------------------------------------------------------- */

/* Add one rank's box to the tensor it belongs to. */
static int add_box(json_t *tensors, const json_t *box, int first_shard,
                   struct err *err)
{
    const char *name;
    int64_t shard, at;
    if (json_get_string(box, "tensor", &name, err) ||
        json_get_i64(box, "shard", &shard, err) ||
        json_get_i64(box, "at", &at, err))
        return -1;
    json_t *tensor = json_object_get(tensors, name);
    if (!tensor) {
        tensor = json_pack("{s:O,s:O,s:[]}", "dtype",
                           json_object_get(box, "dtype"), "shape",
                           json_object_get(box, "shape"), "boxes");
        if (!tensor || json_object_set_new(tensors, name, tensor))
            return err_set(err, "manifest: cannot add tensor '%s'", name);
    } else if (!json_equal(json_object_get(tensor, "shape"),
                           json_object_get(box, "shape")) ||
               !json_equal(json_object_get(tensor, "dtype"),
                           json_object_get(box, "dtype"))) {
        return err_set(err, "manifest: ranks disagree about the shape or "
                            "dtype of '%s'", name);
    }
    json_t *entry = json_pack(
        "{s:I,s:I,s:O,s:O}", "shard", (json_int_t)(shard + first_shard), "at",
        (json_int_t)at, "offset", json_object_get(box, "offset"), "extent",
        json_object_get(box, "extent"));
    if (!entry ||
        json_array_append_new(json_object_get(tensor, "boxes"), entry))
        return err_set(err, "manifest: cannot add a box of '%s'", name);
    return 0;
}

static int merge_report(json_t *root, const json_t *report, struct err *err)
{
    json_t *shards = json_object_get(root, "shards");
    json_t *tensors = json_object_get(root, "tensors");
    int first = (int)json_array_size(shards);
    size_t i;
    json_t *box;
    if (!json_is_array(json_object_get(report, "shards")) ||
        json_array_extend(shards, json_object_get(report, "shards")))
        return err_set(err, "manifest: a rank's report has no shards");
    json_array_foreach (json_object_get(report, "boxes"), i, box)
        if (add_box(tensors, box, first, err))
            return -1;
    return 0;
}

char *manifest_write(json_t *const *reports, int reports_n, int64_t step,
                     int attempt, const char *plan_hash, const json_t *state,
                     struct err *err)
{
    char hash[17], *text = NULL;
    struct manifest check;
    json_t *root = json_pack(
        "{s:s,s:i,s:I,s:i,s:i,s:s,s:f,s:i,s:[],s:{},s:O}", "format",
        MANIFEST_FORMAT, "version", MANIFEST_VERSION, "step",
        (json_int_t)step, "attempt", attempt, "world", reports_n, "plan_hash",
        plan_hash, "time", clock_wall_s(), "block_bytes",
        MANIFEST_BLOCK_BYTES, "shards", "tensors", "state", state);
    if (!root) {
        err_set(err, "manifest: out of memory, or a state that is no JSON");
        return NULL;
    }
    for (int i = 0; i < reports_n; i++)
        if (merge_report(root, reports[i], err))
            goto fail;
    if (self_hash(root, hash) ||
        json_object_set_new(root, "self", json_string(hash)) ||
        !(text = json_line(root))) {
        err_set(err, "manifest: out of memory, or a number that JSON does "
                     "not have in the state");
        goto fail;
    }
    /* What we would refuse to read must not be committed. */
    if (manifest_parse(text, strlen(text), "the new manifest", &check, err))
        goto fail;
    manifest_release(&check);
    json_decref(root);
    return text;
fail:
    free(text);
    json_decref(root);
    return NULL;
}
