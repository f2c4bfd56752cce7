/* fences - which checkpoints each attempt went on from, by its start.json.
 * Private to runner/ckpt.
 *
 * An attempt lists what was committed and taken when it began: what an older
 * writer commits afterwards, or a start was told to pass over, is not on the
 * list, and no later attempt takes it.
 */
#ifndef KB_CKPT_FENCES_H
#define KB_CKPT_FENCES_H

#include <jansson.h>
#include <stdbool.h>

#include "runner/base/err.h"

struct fence {
    int attempt;
    bool fresh;       /* it was told to begin at step 0 */
    json_t *accepted; /* array of names, owned */
};
struct fences {
    struct fence *list; /* in no order */
    int n, cap;
};

/* Of the attempts up to this number; 0: of all. */
int fences_load(struct fences *ret, const char *run_dir, int attempt,
                struct err *err);
void fences_release(struct fences *fences);
/* An attempt that began after the checkpoint's own, and without it; 0: none. */
int fences_without(const struct fences *fences, const char *name, int attempt);
/* Did the next start count on it, and none begin at step 0 since? */
bool fences_counted_on(const struct fences *fences, const char *name,
                       int attempt);
/* The names that this attempt itself was given: borrowed; NULL: none. */
const json_t *fences_given(const struct fences *fences, int attempt);

#endif
