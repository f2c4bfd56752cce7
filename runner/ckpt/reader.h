/* reader - a checkpoint's folder read with distrust: the manifest, and blocks
 * of shards, each hashed before a byte of it is used. Private to runner/ckpt;
 * needs neither comm nor a device. */
#ifndef KB_CKPT_READER_H
#define KB_CKPT_READER_H

#include "kernels/view.h"
#include "runner/base/err.h"
#include "runner/ckpt/manifest.h"

/* run_dir/ckpt/NAME into dst. */
int reader_dir(const char *run_dir, const char *name, char *dst,
               size_t dst_bytes, struct err *err);
/* The manifest of a committed checkpoint; its step and attempt must be those
 * of the folder's name. errno ENOENT in err->sys_errno: not committed. */
int reader_manifest(const char *dir, const char *name, struct manifest *ret,
                    struct err *err);
/* Do the shards exist with the sizes that the manifest says. */
int reader_look(const char *dir, const struct manifest *m, struct err *err);

/* Blocks of one shard, in order. */
struct shard_reader {
    int fd;
    const struct manifest *manifest;
    const struct shard *shard;
    const char *dir;
    unsigned char *block; /* owned, block_bytes */
};
int shard_open(struct shard_reader *ret, const char *dir,
               const struct manifest *m, int shard, struct err *err);
void shard_close(struct shard_reader *reader);
/* Read and verify block i into reader->block; its length, or -1. */
int64_t shard_read(struct shard_reader *reader, int64_t i, struct err *err);

/* Everything: sizes, every block, headers against the manifest. */
int reader_verify(const char *dir, const struct manifest *m, struct err *err);

#endif
