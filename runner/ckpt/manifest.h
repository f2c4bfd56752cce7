/* manifest - manifest.json: what a committed checkpoint holds. Private to
 * runner/ckpt. Layout: koboshi-checkpoint(5).
 *
 * What manifest_parse accepts is consistent in itself: file names are names of
 * shards alone, boxes lie inside their tensor and their file and cover each
 * tensor exactly once, and the text's own hash is right. */
#ifndef KB_CKPT_MANIFEST_H
#define KB_CKPT_MANIFEST_H

#include <jansson.h>
#include <stdint.h>

#include "kernels/view.h"
#include "runner/base/err.h"
#include "runner/ckpt/box.h"

#define MANIFEST_FORMAT "koboshi-checkpoint"
#define MANIFEST_VERSION 1
#define MANIFEST_BLOCK_BYTES (4 << 20)
#define MANIFEST_MAX_BYTES ((size_t)1 << 30)
#define SHARD_NAME_BYTES 64
#define SHARD_FMT "shard-%05d-%03d.safetensors" /* rank, number */

struct shard {
    char file[SHARD_NAME_BYTES];
    int64_t bytes;
    int64_t blocks_n;
    uint64_t *xxh3; /* [blocks_n] owned */
};
struct tensor_box {
    struct box box;
    int shard;
    int64_t at; /* byte of the file where the box starts */
};
struct tensor {
    char name[VIEW_NAME_BYTES];
    int dtype; /* enum dtype */
    int dims;
    int64_t shape[VIEW_DIMS];
    struct tensor_box *boxes; /* owned; sorted by offset */
    int boxes_n;
};
struct manifest {
    int64_t step;
    int attempt, world;
    char plan_hash[64];
    double wall_s;
    int64_t block_bytes, bytes; /* of a block; of all shards */
    struct shard *shards;
    int shards_n;
    struct tensor *tensors; /* sorted by name */
    int tensors_n;
    json_t *state; /* owned */
};

/* From text, distrusted. name: the folder's, must agree. what: for messages. */
int manifest_parse(const char *text, size_t text_bytes, const char *what,
                   struct manifest *ret, struct err *err);
void manifest_release(struct manifest *manifest);
/* NULL when absent. */
const struct tensor *manifest_find(const struct manifest *manifest,
                                   const char *name);

/* A part of a manifest as one rank's report carries it: "shards" with file,
 * bytes, xxh3, and "boxes" with tensor, dtype, shape, shard, offset, extent,
 * at. Merge reports (in rank order) into a whole manifest's text, to be freed;
 * state is borrowed. */
char *manifest_write(json_t *const *reports, int reports_n, int64_t step,
                     int attempt, const char *plan_hash, const json_t *state,
                     struct err *err);

/* Folder names: "step-0000012000.a0003". */
bool manifest_name_parse(const char *name, int64_t *ret_step,
                         int *ret_attempt);
bool manifest_shard_name_ok(const char *file);
void manifest_hex(uint64_t hash, char dst[17]);

#endif
