/* Bad checkpoints of every kind: each made from a good one by one change, and
 * refused by verify and by load with a message that names it; never a crash.
 * Manifests that lie carry a right hash of their own, as a liar would see to.
 */
#include <limits.h>
#include <xxhash.h>

#include "runner/base/clock.h"
#include "runner/base/json.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "tests/ckpt/lab.h"
#include "tests/tap.h"

#define NAME "step-0000000010.a0001"
#define SHARD "shard-00001-000.safetensors"

static char run_dir[300], folder[400];

static const char *in_folder(const char *file)
{
    static char path[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, file);
    return path[turn];
}

static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1 : st.st_size;
}

static void change_byte(const char *file, int64_t at)
{
    int fd = open(in_folder(file), O_RDWR);
    unsigned char c;
    if (fd >= 0 && pread(fd, &c, 1, at) == 1) {
        c ^= 1;
        if (pwrite(fd, &c, 1, at) != 1)
            printf("# cannot change %s\n", file);
    }
    close(fd);
}

/* ---- Damage to files --------------------------------------------------- */

static void no_manifest(void) { unlink(in_folder("manifest.json")); }
static void no_shard(void) { unlink(in_folder(SHARD)); }
static void flip_data(void) { change_byte(SHARD, 500000); }
static void flip_header(void) { change_byte(SHARD, 100); }
static void flip_length(void) { change_byte(SHARD, 6); }
static void flip_padding(void) { change_byte(SHARD, 4000); }
static void flip_last(void)
{
    change_byte(SHARD, size_of(in_folder(SHARD)) - 1);
}
static void flip_manifest(void) { change_byte("manifest.json", 1500); }

static void cut_to(const char *file, int64_t bytes)
{
    if (truncate(in_folder(file), bytes))
        printf("# cannot cut %s\n", file);
}
static void cut_shard(void) { cut_to(SHARD, 300000); }
static void empty_shard(void) { cut_to(SHARD, 0); }
static void longer_shard(void) { cut_to(SHARD, size_of(in_folder(SHARD)) + 1); }
static void empty_manifest(void) { cut_to("manifest.json", 0); }
static void cut_manifest(void) { cut_to("manifest.json", 2000); }
static void huge_manifest(void) { cut_to("manifest.json", (int64_t)3 << 30); }

static void shard_is_folder(void)
{
    unlink(in_folder(SHARD));
    mkdir(in_folder(SHARD), 0700);
}
static void shard_is_link(void)
{
    rename(in_folder(SHARD), in_folder("elsewhere"));
    if (symlink("elsewhere", in_folder(SHARD)))
        printf("# no link\n");
}
static void shard_is_pipe(void)
{
    unlink(in_folder(SHARD));
    mkfifo(in_folder(SHARD), 0600);
}
static void manifest_is_pipe(void)
{
    unlink(in_folder("manifest.json"));
    mkfifo(in_folder("manifest.json"), 0600);
}
static void manifest_is_link(void)
{
    rename(in_folder("manifest.json"), in_folder("m2"));
    if (symlink("m2", in_folder("manifest.json")))
        printf("# no link\n");
}
static void put_text(const char *text)
{
    struct err err = ERR_INIT;
    file_replace(in_folder("manifest.json"), text, strlen(text), 0600, &err);
}
static void manifest_no_json(void) { put_text("{\"format\": tru"); }
static void manifest_a_list(void) { put_text("[]"); }
static void manifest_twice(void) { put_text("{\"a\":1,\"a\":2}"); }
static void manifest_deep(void)
{
    struct sbuf s = SBUF_INIT;
    for (int i = 0; i < 100000; i++)
        sbuf_puts(&s, "[");
    put_text(s.data);
    sbuf_release(&s);
}
static void shards_swapped(void)
{
    rename(in_folder("shard-00001-000.safetensors"), in_folder("x"));
    rename(in_folder("shard-00002-000.safetensors"),
           in_folder("shard-00001-000.safetensors"));
    rename(in_folder("x"), in_folder("shard-00002-000.safetensors"));
}
/* Another checkpoint's folder under this name. */
static void other_step(void)
{
    struct err err = ERR_INIT;
    char other[500], command[1600];
    lab_save(run_dir, (struct lab_layout){3, 1}, 11, 1, 0, &err);
    snprintf(other, sizeof other, "%s/ckpt/step-0000000011.a0001", run_dir);
    snprintf(command, sizeof command, "rm -rf '%s' && mv '%s' '%s'", folder,
             other, folder);
    if (system(command))
        printf("# cannot move\n");
}

/* ---- A manifest that lies ---------------------------------------------- */

static json_t *manifest;

static json_t *get_box(const char *tensor, size_t i)
{
    return json_array_get(
        json_object_get(json_object_get(json_object_get(manifest, "tensors"),
                                        tensor), "boxes"), i);
}
#define BIG "master/model.layers.0.mlp.up_proj.weight"
static json_t *shard0(void)
{
    return json_array_get(json_object_get(manifest, "shards"), 0);
}
static void set_int(json_t *object, const char *key, json_int_t v)
{
    json_object_set_new(object, key, json_integer(v));
}
static void set_side(json_t *box, const char *key, size_t i, json_int_t v)
{
    json_array_set_new(json_object_get(box, key), i, json_integer(v));
}

static void lie_version(void) { set_int(manifest, "version", 2); }
static void lie_format(void)
{
    json_object_set_new(manifest, "format", json_string("other"));
}
static void lie_step(void) { set_int(manifest, "step", 12); }
static void lie_negative_step(void) { set_int(manifest, "step", -1); }
static void lie_attempt(void)
{
    set_int(manifest, "attempt", (json_int_t)1 << 40);
}
static void lie_world(void) { set_int(manifest, "world", 0); }
static void lie_block_zero(void) { set_int(manifest, "block_bytes", 0); }
static void lie_block_huge(void)
{
    set_int(manifest, "block_bytes", INT64_MAX);
}
static void lie_block_odd(void) { set_int(manifest, "block_bytes", 4097); }
static void lie_no_state(void) { json_object_del(manifest, "state"); }
static void lie_no_tensors(void) { json_object_del(manifest, "tensors"); }
static void lie_no_shards(void)
{
    json_object_set_new(manifest, "shards", json_integer(3));
}
static void lie_hole(void)
{
    json_array_remove(json_object_get(json_object_get(json_object_get(
        manifest, "tensors"), BIG), "boxes"), 1);
}
static void lie_overlap(void) { set_side(get_box(BIG, 1), "offset", 0, 5); }
static void lie_outside(void) { set_side(get_box(BIG, 2), "offset", 0, 5000); }
static void lie_negative(void) { set_side(get_box(BIG, 0), "offset", 0, -1); }
static void lie_extent_zero(void) { set_side(get_box(BIG, 0), "extent", 1, 0); }
static void lie_extent_huge(void)
{
    set_side(get_box(BIG, 0), "extent", 1, INT64_MAX);
}
static void lie_extent_text(void)
{
    json_array_set_new(json_object_get(get_box(BIG, 0), "extent"), 0,
        json_string("7"));
}
static void lie_more_sides(void)
{
    json_array_append_new(json_object_get(get_box(BIG, 0), "extent"),
        json_integer(1));
}
static void lie_at_negative(void) { set_int(get_box(BIG, 0), "at", -4096); }
static void lie_at_huge(void) { set_int(get_box(BIG, 0), "at", INT64_MAX - 3); }
static void lie_at_odd(void) { set_int(get_box(BIG, 0), "at", 4098); }
static void lie_at_end(void) { set_int(get_box(BIG, 0), "at", 1700000); }
static void lie_shard_index(void) { set_int(get_box(BIG, 0), "shard", 3); }
static void lie_shard_negative(void) { set_int(get_box(BIG, 0), "shard", -1); }
static void lie_shard_real(void)
{
    json_object_set_new(get_box(BIG, 0), "shard", json_real(0.5));
}
static void set_tensor(const char *key, json_t *v)
{
    json_object_set_new(json_object_get(json_object_get(manifest, "tensors"),
        BIG), key, v);
}
static void lie_dtype(void) { set_tensor("dtype", json_string("F31")); }
static void lie_dtype_unused(void) { set_tensor("dtype", json_string("C64")); }
static void lie_shape_5(void)
{
    set_tensor("shape", json_pack("[i,i,i,i,i]", 1, 1, 1, 1, 1));
}
static void lie_shape_0(void) { set_tensor("shape", json_array()); }
static void lie_shape_huge(void)
{
    set_tensor("shape", json_pack("[I,I]", (json_int_t)1 << 60,
        (json_int_t)1 << 60));
}
static void lie_no_boxes(void) { set_tensor("boxes", json_array()); }
static void lie_long_name(void)
{
    static char name[400];
    memset(name, 'n', sizeof name - 1);
    json_object_set_new(json_object_get(manifest, "tensors"), name,
                        json_pack("{s:s}", "dtype", "F32"));
}
static void lie_file(const char *v)
{
    json_object_set_new(shard0(), "file", json_string(v));
}
static void lie_file_above(void) { lie_file("shard-/../../../../etc/passwd"); }
static void lie_file_slash(void) { lie_file("shard-a/b.safetensors"); }
static void lie_file_other(void) { lie_file("manifest.json"); }
static void lie_file_empty(void) { lie_file(""); }
static void lie_file_twice(void) { lie_file("shard-00002-000.safetensors"); }
static void lie_file_absent(void) { lie_file("shard-00009-000.safetensors"); }
static void lie_bytes_huge(void) { set_int(shard0(), "bytes", INT64_MAX); }
static void lie_bytes_negative(void) { set_int(shard0(), "bytes", -5); }
static void lie_bytes_small(void) { set_int(shard0(), "bytes", 9); }
static void lie_hash_short(void)
{
    json_object_set_new(shard0(), "xxh3", json_string("0123"));
}
static void lie_hash_text(void)
{
    json_object_set_new(shard0(), "xxh3", json_string("zzzzzzzzzzzzzzzz"));
}
static void lie_hash_other(void)
{
    json_object_set_new(shard0(), "xxh3", json_string("0123456789abcdef"));
}
/* Two boxes change places: every hash is right, only the headers know. */
static void lie_places(void)
{
    json_t *a = get_box("bytes", 0), *b = get_box("bytes", 1);
    json_t *x = json_incref(json_object_get(a, "offset"));
    json_object_set(a, "offset", json_object_get(b, "offset"));
    json_object_set_new(b, "offset", x);
}

static void tell_lie(void (*lie)(void))
{
    struct err err = ERR_INIT;
    manifest = json_load_path(in_folder("manifest.json"), 1 << 24, &err);
    json_object_del(manifest, "self");
    lie();
    char *text = json_line(manifest), hex[17];
    manifest_hex(XXH3_64bits(text, strlen(text)), hex);
    json_object_set_new(manifest, "self", json_string(hex));
    free(text);
    text = json_line(manifest);
    put_text(text);
    free(text);
    json_decref(manifest);
}

/* ---- The table --------------------------------------------------------- */

enum kind { FILES, LIE };
static const struct {
    const char *name;
    enum kind kind;
    void (*change)(void);
    const char *says; /* in verify's message */
    bool loads;       /* load does not look there */
} cases[] = {
    {"no manifest", FILES, no_manifest, "manifest.json", false},
    {"no shard", FILES, no_shard, SHARD, false},
    {"bit in the data", FILES, flip_data, "xxh3", false},
    {"bit in the header", FILES, flip_header, "xxh3", false},
    {"bit in the header's length", FILES, flip_length, "xxh3", false},
    {"bit in the padding", FILES, flip_padding, "xxh3", false},
    {"bit at the end", FILES, flip_last, "xxh3", false},
    {"bit in the manifest", FILES, flip_manifest, "manifest", false},
    {"cut shard", FILES, cut_shard, "got 300000: it was cut short", false},
    {"empty shard", FILES, empty_shard, "got 0", false},
    {"longer shard", FILES, longer_shard, "bytes expected", false},
    {"empty manifest", FILES, empty_manifest, "manifest", false},
    {"cut manifest", FILES, cut_manifest, "manifest", false},
    {"huge manifest", FILES, huge_manifest, "no manifest is so large", false},
    {"a folder as shard", FILES, shard_is_folder, "not a regular", false},
    {"a link as shard", FILES, shard_is_link, SHARD, false},
    {"a pipe as shard", FILES, shard_is_pipe, "not a regular", false},
    {"a pipe as manifest", FILES, manifest_is_pipe, "not a regular", false},
    {"a link as manifest", FILES, manifest_is_link, "manifest.json", false},
    {"no JSON", FILES, manifest_no_json, "line 1", false},
    {"a list", FILES, manifest_a_list, "not an object", false},
    {"a key twice", FILES, manifest_twice, "duplicate", false},
    {"nested without end", FILES, manifest_deep, "depth", false},
    {"swapped shards", FILES, shards_swapped, "expected", false},
    {"another step's", FILES, other_step, "not its folder's name", false},
    {"future version", LIE, lie_version, "format version 2", false},
    {"other format", LIE, lie_format, "format", false},
    {"other step", LIE, lie_step, "not its folder's name", false},
    {"negative step", LIE, lie_negative_step, "impossible", false},
    {"huge attempt", LIE, lie_attempt, "impossible", false},
    {"no ranks", LIE, lie_world, "impossible", false},
    {"blocks of 0", LIE, lie_block_zero, "block_bytes", false},
    {"huge blocks", LIE, lie_block_huge, "block_bytes", false},
    {"odd blocks", LIE, lie_block_odd, "block_bytes", false},
    {"no state", LIE, lie_no_state, "state", false},
    {"no tensors", LIE, lie_no_tensors, "tensors", false},
    {"no shards", LIE, lie_no_shards, "shards", false},
    {"a hole", LIE, lie_hole, "leave a hole", false},
    {"an overlap", LIE, lie_overlap, "overlap", false},
    {"a box outside", LIE, lie_outside, "not inside the tensor", false},
    {"a negative offset", LIE, lie_negative, "not inside", false},
    {"an empty box", LIE, lie_extent_zero, "not inside", false},
    {"a huge box", LIE, lie_extent_huge, "not inside", false},
    {"a side that is text", LIE, lie_extent_text, "not inside", false},
    {"a side more", LIE, lie_more_sides, "not inside", false},
    {"before the file", LIE, lie_at_negative, "inside its shard", false},
    {"far after the file", LIE, lie_at_huge, "inside its shard", false},
    {"between elements", LIE, lie_at_odd, "inside its shard", false},
    {"over the file's end", LIE, lie_at_end, "inside its shard", false},
    {"shard 3 of 3", LIE, lie_shard_index, "not listed", false},
    {"shard -1", LIE, lie_shard_negative, "not listed", false},
    {"shard 0.5", LIE, lie_shard_real, "shard", false},
    {"unknown dtype", LIE, lie_dtype, "no dtype", false},
    {"dtype of others", LIE, lie_dtype_unused, "no dtype", false},
    {"five sides", LIE, lie_shape_5, "shape", false},
    {"no sides", LIE, lie_shape_0, "shape", false},
    {"huge shape", LIE, lie_shape_huge, "shape", false},
    {"no boxes", LIE, lie_no_boxes, "no boxes", false},
    {"long name", LIE, lie_long_name, "too long", false},
    {"path upwards", LIE, lie_file_above, "not a shard's name", false},
    {"path downwards", LIE, lie_file_slash, "not a shard's name", false},
    {"another file", LIE, lie_file_other, "not a shard's name", false},
    {"no name", LIE, lie_file_empty, "not a shard's name", false},
    {"a file twice", LIE, lie_file_twice, "listed twice", false},
    {"an absent file", LIE, lie_file_absent, "shard-00009", false},
    {"huge size", LIE, lie_bytes_huge, "impossible", false},
    {"negative size", LIE, lie_bytes_negative, "impossible", false},
    {"small size", LIE, lie_bytes_small, "inside its shard", false},
    {"too few hashes", LIE, lie_hash_short, "one hash for each", false},
    {"a hash of letters", LIE, lie_hash_text, "hash that is none", false},
    {"another hash", LIE, lie_hash_other, "xxh3", false},
    {"swapped boxes", LIE, lie_places, "not where the manifest says", true},
};

static void test_case(int i)
{
    struct err err = ERR_INIT;
    char command[1400];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s/good' '%s'",
             folder, run_dir, folder);
    if (system(command)) {
        ok(false, "%s: no copy", cases[i].name);
        return;
    }
    if (cases[i].kind == LIE)
        tell_lie(cases[i].change);
    else
        cases[i].change();
    double begin_s = clock_mono_s();
    int rc = catalog_verify(run_dir, NAME, &err);
    if (!ok(rc && strstr(err.msg, cases[i].says), "%s: refused by verify",
            cases[i].name))
        printf("# rc %d, '%s' expected in: %s\n", rc, cases[i].says, err.msg);
    err = ERR_INIT;
    int64_t wrong = lab_load(run_dir, NAME, (struct lab_layout){2, 1}, NULL,
                             &err);
    ok(cases[i].loads ? wrong >= 0 : wrong == -1, "%s: refused by load",
       cases[i].name);
    struct catalog c;
    err = ERR_INIT;
    ok(!catalog_load(run_dir, 0, &c, &err) && clock_mono_s() - begin_s < 5,
       "%s: the catalogue goes on", cases[i].name);
    catalog_release(&c);
}

int main(void)
{
    struct err err = ERR_INIT;
    char command[1400];
    snprintf(run_dir, sizeof run_dir, "%s", lab_run_dir());
    snprintf(folder, sizeof folder, "%s/ckpt/" NAME, run_dir);
    lab_save(run_dir, (struct lab_layout){3, 1}, 10, 1, 0, &err);
    ok(!catalog_verify(run_dir, NAME, &err), "a good one is valid");
    snprintf(command, sizeof command, "cp -r '%s' '%s/good'", folder, run_dir);
    if (system(command))
        return 1;
    int fd = creat(in_folder("a file of the user"), 0600);
    close(fd);
    ok(!catalog_verify(run_dir, NAME, &err), "foreign files do no harm");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_case((int)i);
    lab_remove(run_dir);
    return tap_done();
}
