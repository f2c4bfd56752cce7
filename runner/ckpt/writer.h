/* writer - one save on its way to disk: this rank's shards, its report, and on
 * rank 0 the manifest. Runs on ckpt's thread, makes no collective call, and
 * never leaves what looks committed but is not. Private to runner/ckpt. */
#ifndef KB_CKPT_WRITER_H
#define KB_CKPT_WRITER_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/ckpt/layout.h"

struct writer {
    char run_dir[PATH_MAX];
    int rank, size, attempt;
    const struct layout *layout;
    const unsigned char *memory; /* the snapshot */
    json_t *boxes;               /* this rank's, for the report */
    char plan_hash[64];
    double wait_limit_s;         /* rank 0 for the others' reports */
    /* of this save */
    int64_t step;
    json_t *state;               /* rank 0 */
};

/* Write it all; on rank 0 this returns when the checkpoint is committed. name:
 * the folder's. On failure what this rank wrote is removed where possible. */
int writer_save(const struct writer *w, const char *name, struct err *err);

#endif
