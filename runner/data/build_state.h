/* build_state - where a build is, on disk, so that a killed one goes on.
 *
 * PREFIX.build lies beside the writer's temporaries while a build runs:
 *
 *   {"version": 1, "job": "0123456789abcdef",   tokenizer, options, files
 *    "file": 3, "offset": 1048576, "line": 812,  read up to here
 *    "bin_bytes": ..., "sequences": ..., "marks": ...,
 *    "documents": ..., "empty": ..., "bad": ..., "tokens": ...,
 *    "text_bytes": ...}
 *
 * It is replaced whole, after what it tells of is on disk.
 */
#ifndef KB_DATA_BUILD_STATE_H
#define KB_DATA_BUILD_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/build.h"
#include "runner/data/tokenizer.h"
#include "runner/data/tokens.h"

/* A place in the build's files: behind offset bytes of the unpacked file, the
 * next line being `line`. */
struct build_place {
    int file;
    int64_t offset, line;
};

struct build_state {
    uint64_t job; /* of build_job */
    struct build_place place;
    struct tokens_mark mark;
    struct build_counts counts;
};

/* Tells two builds apart that would not give the same output. */
uint64_t build_job(const struct build *build, struct tokenizer *tokenizer);
int build_state_save(const struct build_state *state, const char *prefix,
                     struct err *err);
/* What lies there, if it is of this job. False: nothing, or *ret_other. */
bool build_state_load(const char *prefix, uint64_t job,
                      struct build_state *ret, bool *ret_other);
void build_state_remove(const char *prefix);

#endif
