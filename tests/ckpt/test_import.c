/* Tests of runner/ckpt/import.c and half.c: foreign files, one or sharded, of
 * each dtype and with old names, become a checkpoint that holds their very
 * values, exports to their very bytes, and has moments of zero; bad ones are
 * refused by name and leave nothing behind. */
#include "tests/ckpt/lab.h"

#include <math.h>

#include "runner/ckpt/catalog.h"
#include "runner/ckpt/half.h"
#include "tests/tap.h"

#define ROWS 1031 /* divides nothing; the tensor is larger than a chunk */
#define COLS 300
#define BIAS 7

static char root[] = "/tmp/test_import.XXXXXX";
static const struct catalog_tensor wanted[] = {
    {"transformer.wte.weight", 2, {ROWS, COLS}},
    {"transformer.h.0.ln_1.bias", 1, {BIAS, 1}},
};

/* ---- Writing foreign files ----------------------------------------------- */
struct made {
    const char *name;
    int dtype, dims;
    int64_t shape[4];
};

/* Element i, with every kind of exponent of the dtype; never a NaN. */
static void value_at(int dtype, int64_t i, unsigned char *dst)
{
    uint32_t v = (uint32_t)i * 2654435761u;
    uint16_t h = (uint16_t)(v >> 7);
    if (dtype == DT_F32) {
        float f = ldexpf((float)(int32_t)v, (int)(i % 60) - 60);
        memcpy(dst, &f, sizeof f);
        return;
    }
    int top = dtype == DT_F16 ? 0x7c00 : 0x7f80;
    if ((h & top) == top)
        h &= 0x83ff;
    memcpy(dst, &h, sizeof h);
}

static void write_foreign(const char *dir, const char *file,
                          const struct made *list, int n)
{
    struct st_entry entries[8] = {0};
    struct sbuf out = SBUF_INIT;
    int64_t at = 0, counts[8];
    char path[400];
    for (int i = 0; i < n; i++) {
        struct st_entry *e = &entries[i];
        snprintf(e->key, sizeof e->key, "%s", list[i].name);
        e->dtype = list[i].dtype;
        e->dims = list[i].dims;
        memcpy(e->shape, list[i].shape, sizeof e->shape);
        counts[i] = 1;
        for (int d = 0; d < e->dims; d++)
            counts[i] *= e->shape[d];
        e->begin = at;
        e->end = at += counts[i] * st_dtype_bytes(e->dtype);
    }
    st_write(entries, n, &out, NULL);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < counts[i]; k++) {
            unsigned char bytes[8] = {0};
            value_at(list[i].dtype, k, bytes);
            sbuf_add(&out, (char *)bytes,
                     (size_t)st_dtype_bytes(list[i].dtype));
        }
    snprintf(path, sizeof path, "%s/%s", dir, file);
    file_make_dirs(dir, 0700, NULL);
    file_replace(path, out.data, out.len, 0600, NULL);
    sbuf_release(&out);
}

static bool ignored(void *ctx, const char *name)
{
    (void)ctx;
    size_t n = strlen(name);
    return n > 10 && !strcmp(name + n - 10, ".attn.bias");
}

static char hf[300], run[300];
static void folders(const char *name)
{
    snprintf(hf, sizeof hf, "%s/%s.hf", root, name);
    snprintf(run, sizeof run, "%s/%s.run", root, name);
}

static int import(struct err *err)
{
    char name[64];
    *err = ERR_INIT;
    json_t *state = json_pack("{s:s}", "moments", "zero");
    int rc = catalog_import(run, hf, wanted, 2, ignored, NULL, state, 1 << 20,
                            name, err);
    json_decref(state);
    return rc;
}

/* ---- What comes of them -------------------------------------------------- */
/* The data of a tensor in a file of one or more. */
static bool holds(const char *path, const char *key, int dtype, int64_t n)
{
    struct st_header h;
    size_t bytes;
    char *text = file_read(path, 1 << 24, &bytes, NULL);
    bool same = text != NULL;
    int64_t head = text ? st_header_bytes((unsigned char *)text,
                                          (int64_t)bytes, path, NULL)
                        : -1;
    if (head < 0 || st_parse(text + 8, (size_t)head, (int64_t)bytes, path, &h,
                             NULL))
        return false;
    int found = 0;
    for (int i = 0; i < h.n; i++) {
        if (strcmp(h.entries[i].key, key))
            continue;
        found++;
        int e = st_dtype_bytes(dtype);
        same &= h.entries[i].dtype == dtype;
        for (int64_t k = 0; k < n && same; k++) {
            unsigned char want[8];
            value_at(dtype, k, want);
            same = !memcmp(text + h.data_at + h.entries[i].begin + k * e, want,
                           (size_t)e);
        }
    }
    st_release(&h);
    free(text);
    return same && found == 1;
}

static void check_round(int dtype, const char *what)
{
    struct err err;
    char path[400], out[300];
    const struct made one[] = {
        {"transformer.h.0.ln_1.bias", dtype, 1, {BIAS}},
        {"transformer.wte.weight", dtype, 2, {ROWS, COLS}},
    };
    folders(what);
    snprintf(out, sizeof out, "%s/%s.out", root, what);
    write_foreign(hf, "model.safetensors", one, 2);
    ok(!import(&err), "%s is imported %s", what, err.msg);
    ok(!catalog_verify(run, "step-0000000000.a0000", &err), "and valid %s",
       err.msg);
    json_t *config = json_pack("{s:s}", "model_type", "gpt2");
    ok(!catalog_export(run, "step-0000000000.a0000", out, config,
                       dtype == DT_F32 ? -1 : dtype, 1 << 30, &err),
       "and exported %s", err.msg);
    json_decref(config);
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    ok(holds(path, one[1].name, dtype, ROWS * COLS) &&
           holds(path, one[0].name, dtype, BIAS),
       "to the same bytes");
    ok(import(&err) && err.class == ERR_REQUEST &&
           strstr(err.msg, "holds a run"), "not twice: %s", err.msg);
}

/* Old names, a buffer, a scalar, and two files with an index. */
static void check_old(void)
{
    struct err err;
    char path[400];
    const struct made first[] = {
        {"h.0.attn.bias", DT_U8, 4, {1, 1, 4, 4}},
        {"wte.weight", DT_F16, 2, {ROWS, COLS}},
    };
    const struct made second[] = {{"h.0.ln_1.bias", DT_F32, 1, {BIAS}}};
    static const char index[] =
        "{\"metadata\": {}, \"weight_map\": {\"h.0.attn.bias\": "
        "\"a.safetensors\", \"wte.weight\": \"a.safetensors\", "
        "\"h.0.ln_1.bias\": \"b.safetensors\"}}";
    folders("old");
    write_foreign(hf, "a.safetensors", first, 2);
    write_foreign(hf, "b.safetensors", second, 1);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", hf);
    file_replace(path, index, sizeof index - 1, 0600, NULL);
    ok(!import(&err), "old names, sharded %s", err.msg);

    struct manifest m;
    char dir[400];
    reader_dir(run, "step-0000000000.a0000", dir, sizeof dir, NULL);
    ok(!reader_manifest(dir, "step-0000000000.a0000", &m, &err), "read back");
    is_int(m.tensors_n, 2, "masters alone");
    ok(m.shards_n > 1, "in %d shards", m.shards_n);
    float moment[BIAS], weight[BIAS];
    memset(moment, 1, sizeof moment);
    struct view views[2] = {
        {"exp_avg_sq/transformer.h.0.ln_1.bias", DT_F32, 1, {BIAS}, {0},
         {BIAS}, {1}, false, moment},
        {"master/transformer.h.0.ln_1.bias", DT_F32, 1, {BIAS}, {0}, {BIAS},
         {1}, false, weight},
    };
    ok(!fill_views(dir, &m, views, 2, NULL, NULL, &err), "a load %s", err.msg);
    float want;
    value_at(DT_F32, BIAS - 1, (unsigned char *)&want);
    ok(moment[0] == 0 && moment[BIAS - 1] == 0, "takes moments for zero");
    ok(weight[BIAS - 1] == want, "and weights as they are");
    snprintf(views[1].name, sizeof views[1].name, "master/other");
    ok(fill_views(dir, &m, views, 2, NULL, NULL, &err) &&
           strstr(err.msg, "master/other"), "but no absent weight");
    json_object_set_new(m.state, "moments", json_string("there"));
    ok(fill_views(dir, &m, views, 1, NULL, NULL, &err), "nor without the word");
    manifest_release(&m);
}

/* ---- Bad ones ------------------------------------------------------------ */
static void check_bad(void)
{
    static const struct {
        const char *what, *says;
        struct made list[3];
        int n;
    } rows[] = {
        {"missing", "no tensor 'transformer.h.0.ln_1.bias'",
         {{"wte.weight", DT_F32, 2, {ROWS, COLS}}}, 1},
        {"extra", "'wpe.weight' has no place",
         {{"wte.weight", DT_F32, 2, {ROWS, COLS}},
          {"wpe.weight", DT_F32, 1, {3}}}, 2},
        {"twice", "is there twice",
         {{"wte.weight", DT_F32, 2, {ROWS, COLS}},
          {"transformer.wte.weight", DT_F32, 2, {ROWS, COLS}}}, 2},
        {"shape", "config.json says", {{"wte.weight", DT_F32, 2, {COLS, ROWS}}},
         1},
        {"sides", "config.json says", {{"wte.weight", DT_F32, 1, {ROWS}}}, 1},
        {"dtype", "F32, BF16 and F16",
         {{"wte.weight", DT_F64, 2, {ROWS, COLS}}}, 1},
    };
    struct err err;
    char path[400];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        folders(rows[i].what);
        write_foreign(hf, "model.safetensors", rows[i].list, rows[i].n);
        ok(import(&err) && err.class == ERR_REQUEST &&
               strstr(err.msg, rows[i].says),
           "%s: %s", rows[i].what, err.msg);
        snprintf(path, sizeof path, "%s/ckpt/step-0000000000.a0000", run);
        ok(!file_exists(path), "and nothing is left");
    }
    folders("none");
    file_make_dirs(hf, 0700, NULL);
    ok(import(&err) && strstr(err.msg, "neither"), "no file: %s", err.msg);
    static const char away[] = "{\"weight_map\": {\"a\": \"../x\"}}";
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", hf);
    file_replace(path, away, sizeof away - 1, 0600, NULL);
    ok(import(&err) && strstr(err.msg, "not in that folder"),
       "an index that leads away: %s", err.msg);
    folders("extra");
    snprintf(path, sizeof path, "%s/model.safetensors", hf);
    if (truncate(path, 5000))
        printf("# truncate failed\n");
    ok(import(&err), "a truncated file: %s", err.msg);
}

/* ---- 16 bits ------------------------------------------------------------- */
/* Each half number there and back; and what lies between two of them. */
static void check_half(enum dtype dtype, uint32_t top)
{
    int bad = 0, uneven = 0;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t in = (uint16_t)h, out;
        float wide[2];
        if ((h & top) == top)
            continue;
        half_to_f32(wide, &in, 1, dtype);
        float back = wide[0];
        half_from_f32(&back, 1, dtype);
        memcpy(&out, &back, sizeof out);
        bad += out != in;
        in++;
        if ((in & top) == top || !(in & 0x7fff))
            continue;
        half_to_f32(&wide[1], &in, 1, dtype);
        back = (float)(((double)wide[0] + wide[1]) / 2);
        half_from_f32(&back, 1, dtype);
        memcpy(&out, &back, sizeof out);
        uneven += out != (h & 1 ? in : (uint16_t)h);
    }
    is_int(bad, 0, "every number of 16 bits goes there and back");
    is_int(uneven, 0, "halfway goes to even");
}

int main(void)
{
    if (!mkdtemp(root))
        return 1;
    check_half(DT_F16, 0x7c00);
    check_half(DT_BF16, 0x7f80);
    check_round(DT_F32, "F32");
    check_round(DT_BF16, "BF16");
    check_round(DT_F16, "F16");
    check_old();
    check_bad();
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command))
        printf("# %s stays\n", root);
    return tap_done();
}
