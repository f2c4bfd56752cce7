/* safetensors - headers of shard files: written, and read with distrust.
 *
 * A file is a 64-bit little-endian number n, n bytes of JSON (padded with
 * spaces), then the data. Private to runner/ckpt. */
#ifndef KB_CKPT_SAFETENSORS_H
#define KB_CKPT_SAFETENSORS_H

#include <stdint.h>

#include "kernels/view.h"
#include "runner/base/err.h"
#include "runner/base/str.h"

#define ST_HEADER_MAX_BYTES 100000000
#define ST_ALIGN 4096 /* our data starts at a multiple of this */
#define ST_KEY_BYTES 384

/* Of the types that Koboshi has; -1 and 0 for others. */
int st_dtype(const char *name);
int st_dtype_bytes(int dtype);
const char *st_dtype_name(int dtype);

struct st_entry {
    char key[ST_KEY_BYTES];
    int dtype; /* enum dtype, or -1: one that Koboshi does not use */
    int dims;
    int64_t shape[VIEW_DIMS];
    int64_t begin, end; /* bytes from the start of the data */
};
struct st_header {
    struct st_entry *entries; /* owned, in the order of their offsets */
    int n;
    int64_t data_at; /* byte of the file where the data starts */
};

/* The first 8 bytes of a file of file_bytes: the header's length, or -1. */
int64_t st_header_bytes(const unsigned char first[8], int64_t file_bytes,
                        const char *what, struct err *err);
/* json: json_bytes of text after the first 8. Holes, overlaps, sizes that do
 * not fit the shape, data past file_bytes, duplicate keys are refused. */
int st_parse(const char *json, size_t json_bytes, int64_t file_bytes,
             const char *what, struct st_header *ret, struct err *err);
void st_release(struct st_header *header);

/* Number, JSON and padding for these entries (offsets filled in) into out; the
 * data then starts at out->len, a multiple of ST_ALIGN. */
int st_write(const struct st_entry *entries, int n, struct sbuf *out,
             struct err *err);

#endif
