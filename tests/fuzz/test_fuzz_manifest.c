/* Fuzz target: manifest.json. The input is the manifest without its hash of
 * itself, which is added, so that what follows is reached. */
#include "runner/ckpt/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runner/base/json.h"
#include "tests/fuzz/driver.h"

/* Something like what a reader does with an accepted manifest. */
static void use(const struct manifest *m)
{
    for (int i = 0; i < m->tensors_n; i++) {
        const struct tensor *t = &m->tensors[i];
        int64_t covered = 0;
        for (int k = 0; k < t->boxes_n; k++) {
            const struct tensor_box *b = &t->boxes[k];
            if (b->shard < 0 || b->shard >= m->shards_n || b->at < 0 ||
                b->at > m->shards[b->shard].bytes)
                abort();
            covered += box_count(&b->box);
        }
        if (covered != box_shape_count(t->dims, t->shape) ||
            manifest_find(m, t->name) != t)
            abort();
    }
    for (int i = 0; i < m->shards_n; i++)
        if (strchr(m->shards[i].file, '/') ||
            m->shards[i].blocks_n * m->block_bytes < m->shards[i].bytes)
            abort();
}

static void parse(const char *text, size_t bytes)
{
    struct err err = ERR_INIT;
    struct manifest m;
    if (!manifest_parse(text, bytes, "input", &m, &err)) {
        use(&m);
        manifest_release(&m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char hex[17];
    parse((const char *)data, bytes);
    json_t *root = json_loadb((const char *)data, bytes,
                              JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return 0;
    }
    json_object_del(root, "self");
    char *text = json_line(root);
    if (text) {
        manifest_hex(XXH3_64bits(text, strlen(text)), hex);
        free(text);
        json_object_set_new(root, "self", json_string(hex));
        text = json_line(root);
        parse(text, strlen(text));
    }
    free(text);
    json_decref(root);
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    static const char seed[] =
        "{\"format\":\"koboshi-checkpoint\",\"version\":1,\"step\":10,"
        "\"attempt\":1,\"world\":2,\"plan_hash\":\"ab\",\"time\":1.5,"
        "\"block_bytes\":4096,\"state\":{\"x\":[1,2.5,null]},\"shards\":["
        "{\"file\":\"shard-00000-000.safetensors\",\"bytes\":4136,"
        "\"xxh3\":\"00112233445566778899aabbccddeeff\"},"
        "{\"file\":\"shard-00001-000.safetensors\",\"bytes\":136,"
        "\"xxh3\":\"0011223344556677\"}],\"tensors\":{\"w\":{\"dtype\":"
        "\"F32\",\"shape\":[4,5],\"boxes\":[{\"shard\":0,\"at\":4096,"
        "\"offset\":[0,0],\"extent\":[2,5]},{\"shard\":1,\"at\":96,"
        "\"offset\":[2,0],\"extent\":[2,5]}]},\"n\":{\"dtype\":\"U8\","
        "\"shape\":[3],\"boxes\":[{\"shard\":1,\"at\":8,\"offset\":[0],"
        "\"extent\":[3]}]}}}";
    driver_run("a small manifest", seed, sizeof seed - 1, 100000);
    return tap_done();
}
#endif
