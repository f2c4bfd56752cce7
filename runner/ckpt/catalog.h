/* catalog - what checkpoints a run directory holds, and what to keep.
 *
 * No collectives, no device: the supervisor, the front and ckpt use it. Only
 * the current supervisor (or rank 0 of an unsupervised run) quarantines or
 * prunes. A checkpoint committed by an older attempt after a newer one began
 * is not accepted: start.json of each attempt lists what was there.
 */
#ifndef KB_CKPT_CATALOG_H
#define KB_CKPT_CATALOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"

struct catalog_entry {
    char name[64];
    int64_t step;
    int attempt;
    bool committed;   /* manifest.json is in place */
    bool accepted;    /* not fenced off by a newer attempt's start.json */
    bool healthy;     /* healthy.json is there */
    int64_t bytes;
    double wall_s;    /* of the commit */
    char problem[256];/* "" or why it cannot be used, as far as a look shows */
};
struct catalog { struct catalog_entry *entries; int n; }; /* newest first */

/* An absent ckpt folder is an empty catalogue. attempt: whose eyes (a fence of
 * attempts later than it does not count); 0: the newest. */
int catalog_load(const char *run_dir, int attempt, struct catalog *ret,
                 struct err *err);
void catalog_release(struct catalog *catalog);
const struct catalog_entry *catalog_find(const struct catalog *catalog,
                                         int64_t step);
/* Does a start with this mode (auto | fresh | STEP) take it or older ones: the
 * names for its start.json. */
bool catalog_takes(const struct catalog_entry *entry, const char *resume);
/* A start from a STEP of which there is none must not begin: it would pass over
 * all that is newer for good. -1: class ERR_REQUEST. */
int catalog_check_resume(const struct catalog *catalog, const char *resume,
                         struct err *err);
/* Read everything and compare: sizes, headers, every block's xxh3. -1 with the
 * file, offset, expected and got. */
int catalog_verify(const char *run_dir, const char *name, struct err *err);
/* The first checkpoint that the attempt was given at its start and that the
 * catalog does not show as committed: a file server's client may see a rename
 * late. False: none. */
bool catalog_misses(const struct catalog *catalog, const char *run_dir,
                    int attempt, char ret_name[64]);
/* What the manifest says, for people: name, step, attempt, world, plan_hash,
 * time, bytes, healthy, shards [file, bytes], tensors [name, dtype, shape,
 * boxes], state. NULL on error; owned by the caller. */
json_t *catalog_describe(const char *run_dir, const char *name,
                         struct err *err);
/* A hash (32 hex digits) of all tensors' names, shapes and values, verified on
 * the way: the same for every layout, attempt and step that has the same
 * values. Links kernels (fill.c); memory is bounded. */
int catalog_digest(const char *run_dir, const char *name, char ret[33],
                   struct err *err);
/* Hugging Face's files into folder dir (made; must not hold a model yet):
 * model*.safetensors of all master/NAME as NAME, in files of at most
 * shard_bytes, the index, config.json with this config, generation_config.json.
 * narrow: DT_BF16 or DT_F16, rounded to nearest even; -1: as they are. Memory
 * is bounded. */
int catalog_export(const char *run_dir, const char *name, const char *dir,
                   const json_t *config, int narrow, int64_t shard_bytes,
                   struct err *err);
/* A tensor wanted of foreign files: the name and shape that it shall have; a
 * file may leave out the name's first part, up to the first dot. */
struct catalog_tensor {
    const char *name;
    int dims;
    int64_t shape[2];
};
/* Hugging Face's safetensors (one file, or those of an index) of hf_dir as a
 * checkpoint of step 0 and attempt 0, in float: master/NAME alone. Its state
 * should say "moments": "zero": then a load takes absent moments for zero. Each
 * tensor must be there once; others are refused by name but where ignored says
 * so. The run directory (made) must not hold a checkpoint or an attempt.
 * Memory is bounded. */
int catalog_import(const char *run_dir, const char *hf_dir,
                   const struct catalog_tensor *tensors, int tensors_n,
                   bool (*ignored)(void *ctx, const char *name), void *ctx,
                   const json_t *state, int64_t shard_bytes, char ret_name[64],
                   struct err *err);
/* Move to ckpt/quarantine/NAME with NAME.reason beside it. */
int catalog_quarantine(const char *run_dir, const char *name,
                       const char *reason, struct err *err);
/* How many checkpoints are in quarantine that a start counted on, and no later
 * one was told to begin at step 0; -1: error. attempt: as above. */
int catalog_lost(const char *run_dir, int attempt, struct err *err);
int catalog_mark_healthy(const char *run_dir, const char *name, int64_t step,
                         struct err *err);
/* Keep the newest keep_n committed and accepted ones, and always at least two
 * healthy or verified ones and the newest healthy one; delete the rest, and
 * uncommitted folders of older attempts. on_prune may be NULL. */
int catalog_prune(const char *run_dir, int attempt, int keep_n,
                  void (*on_prune)(void *ctx, const char *name), void *ctx,
                  struct err *err);

#endif
