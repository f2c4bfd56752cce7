/* ckpt - boxes of named tensors to disk and back.
 *
 * On disk: ckpt/step-0000012000.a0003/{shard-*.safetensors, manifest.json,
 * healthy.json}. Order of writing: shards to temporaries, fsync, each rank
 * reports its fsynced shards to rank 0, then manifest, fsync, rename, folder
 * fsync. A manifest in place = committed, and only then is it said to be
 * saved. The step waits only for the copy in memory; a writer thread does the
 * rest and makes no collective call (rank 0's waits for the others' reports,
 * small files beside the shards). Each 4 MiB block has an xxh3 in the manifest.
 * Catalogue, quarantine and retention: catalog.h (no collectives, no device).
 */
#ifndef KB_CKPT_CKPT_H
#define KB_CKPT_CKPT_H

#include <jansson.h>

#include "runner/base/err.h"
#include "kernels/view.h"
#include "runner/comm/comm.h"
#include "runner/plan/plan.h"

struct ckpt;

/* What a finished or failed save tells; polled by the step loop. */
struct ckpt_news {
    enum { CKPT_NONE, CKPT_SAVED, CKPT_FAILED } what;
    int64_t step;
    char name[64];       /* folder's name */
    double seconds;      /* from snapshot to commit */
    int64_t bytes;       /* of this rank */
    struct err err;
};

/* views: all that this rank owns (nobody else saves the same element), their
 * memory borrowed for ckpt's life. The snapshot's host memory is made once,
 * beside the steps after the first poll. attempt fences the folder's name. */
struct ckpt *ckpt_open(struct comm *comm, const struct plan *plan,
                       struct device *device, const struct view *views,
                       int views_n, int attempt, struct err *err);
void ckpt_close(struct ckpt *ckpt); /* waits for the writer */

/* Collective in the sense that every rank calls it at the same step. Takes the
 * snapshot (host memory), then the writer goes on. state: what is not a tensor
 * (cursor, RNG, guard, plan hash), the same on each rank, borrowed for the
 * call. Returns 1 when skipped because the last save is still being written
 * and wait is false (all ranks agree through `busy`, see ckpt_busy). */
int ckpt_save(struct ckpt *ckpt, int64_t step, const json_t *state, bool wait,
              struct err *err);
/* Is the writer at work here: an input of the step's own reduction. */
bool ckpt_busy(struct ckpt *ckpt);
void ckpt_poll(struct ckpt *ckpt, struct ckpt_news *ret);
/* Wait until nothing is being written. */
int ckpt_drain(struct ckpt *ckpt, struct err *err);

/* Newest valid and accepted: every rank verifies the blocks that it reads; all
 * agree on one step, or fall back together to the next older. Fills the views.
 * want: -1 newest, else that step. on_reject is called on rank 0 for each
 * checkpoint refused (name, reason). *ret_state owned by the caller. Returns 0
 * loaded, 1 there is none at all (start fresh), -1 error: class ERR_STEP when
 * checkpoints exist and none is valid. */
typedef void (*ckpt_reject_f)(void *ctx, const char *name, const char *reason);
int ckpt_load(struct comm *comm, const char *run_dir, int attempt,
              int64_t want, const struct view *views, int views_n,
              struct device *device, ckpt_reject_f on_reject, void *ctx,
              int64_t *ret_step, char ret_name[64], json_t **ret_state,
              struct err *err);

#endif
