/* layout - which files a rank writes and where in them each box lies. Private
 * to runner/ckpt.
 *
 * The memory of a snapshot is the files themselves, one after the other: header
 * and data as they will stand on disk. Views are cut on their first side where
 * a file would grow past the limit. */
#ifndef KB_CKPT_LAYOUT_H
#define KB_CKPT_LAYOUT_H

#include <jansson.h>
#include <stdint.h>

#include "kernels/view.h"
#include "runner/base/err.h"
#include "runner/ckpt/box.h"
#include "runner/ckpt/manifest.h"

struct piece {
    int view, file;
    struct box box;
    int64_t at; /* byte of the file */
};
struct layout_file {
    char name[SHARD_NAME_BYTES];
    int64_t bytes, data_at; /* data_at: length of the header */
    char *header;           /* owned, data_at bytes */
    int64_t memory_at;      /* where the file starts in the snapshot */
};
struct layout {
    struct piece *pieces;
    int pieces_n;
    struct layout_file *files;
    int files_n;
    int64_t memory_bytes; /* of all files, each rounded up to ST_ALIGN */
    int64_t bytes;        /* of all files */
};

/* Refuses views that no file can hold (name, shape, extent). */
int layout_build(const struct view *views, int views_n, int rank,
                 int64_t shard_bytes, struct layout *ret, struct err *err);
void layout_release(struct layout *layout);
/* Copy the headers into the snapshot's memory: once. */
void layout_put_headers(const struct layout *layout, unsigned char *memory);
/* "boxes" of this rank's report (manifest.h). NULL when memory ran out. */
json_t *layout_boxes(const struct layout *layout, const struct view *views);

#endif
