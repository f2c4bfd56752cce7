/* reader - a checkpoint's folder read with distrust; see reader.h. */
#include "runner/ckpt/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/str.h"
#include "runner/ckpt/safetensors.h"

int reader_dir(const char *run_dir, const char *name, char *dst,
               size_t dst_bytes, struct err *err)
{
    int64_t step;
    int attempt;
    if (!manifest_name_parse(name, &step, &attempt))
        return err_set(err, "ckpt: '%.80s' is not a checkpoint's name, such "
                            "as step-0000001000.a0001", name);
    int n = snprintf(dst, dst_bytes, "%s/%s/%s", run_dir, KB_CKPT_DIR, name);
    if (n < 0 || (size_t)n >= dst_bytes)
        return err_set(err, "ckpt: path too long: '%s'", run_dir);
    return 0;
}

/* A regular file, no link, no pipe that would hold us. -1 with err. */
static int open_regular(const char *path, int64_t *ret_bytes, struct err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_set_errno(err, "ckpt: cannot open '%s'", path);
    if (fstat(fd, &st)) {
        err_set_errno(err, "ckpt: cannot look at '%s'", path);
    } else if (!S_ISREG(st.st_mode)) {
        err_set(err, "ckpt: '%s' is not a regular file", path);
    } else {
        *ret_bytes = st.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

/* bytes at offset, all of them. */
static int read_at(int fd, void *dst, size_t bytes, int64_t offset)
{
    char *at = dst;
    while (bytes) {
        ssize_t n = pread(fd, at, bytes, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENODATA; /* it became shorter while we read */
        if (n <= 0)
            return -1;
        at += n;
        bytes -= (size_t)n;
        offset += n;
    }
    return 0;
}

/* ---- The manifest ------------------------------------------------------ */

int reader_manifest(const char *dir, const char *name, struct manifest *ret,
                    struct err *err)
{
    char path[PATH_MAX];
    int64_t bytes, step;
    int attempt, rc = -1;
    char *text = NULL;
    if (file_join(path, sizeof path, dir, KB_CKPT_MANIFEST, err))
        return -1;
    int fd = open_regular(path, &bytes, err);
    if (fd < 0)
        return -1;
    if (bytes > (int64_t)MANIFEST_MAX_BYTES)
        err_set(err, "ckpt: '%s' has %lld bytes: no manifest is so large",
                path, (long long)bytes);
    else if (!(text = malloc((size_t)bytes + 1)))
        err_set(err, "ckpt: out of memory for '%s'", path);
    else if (read_at(fd, text, (size_t)bytes, 0))
        err_set_errno(err, "ckpt: cannot read '%s'", path);
    else
        rc = manifest_parse(text, (size_t)bytes, path, ret, err);
    free(text);
    close(fd);
    if (rc)
        return -1;
    if (!manifest_name_parse(name, &step, &attempt) || step != ret->step ||
        attempt != ret->attempt) {
        err_set(err, "ckpt: '%s' says step %lld of attempt %d: not its "
                     "folder's name", path, (long long)ret->step,
                ret->attempt);
        manifest_release(ret);
        return -1;
    }
    return 0;
}

static int check_bytes(const char *path, int64_t got, int64_t want,
                       struct err *err)
{
    if (got == want)
        return 0;
    return err_set(err, "ckpt: '%s': %lld bytes expected, got %lld%s", path,
                   (long long)want, (long long)got,
                   got < want ? ": it was cut short" : "");
}

int reader_look(const char *dir, const struct manifest *m, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    for (int i = 0; i < m->shards_n; i++) {
        if (file_join(path, sizeof path, dir, m->shards[i].file, err))
            return -1;
        if (lstat(path, &st))
            return err_set_errno(err, "ckpt: cannot look at '%s'", path);
        if (!S_ISREG(st.st_mode))
            return err_set(err, "ckpt: '%s' is not a regular file", path);
        if (check_bytes(path, st.st_size, m->shards[i].bytes, err))
            return -1;
    }
    return 0;
}

/* ---- Blocks ------------------------------------------------------------ */

int shard_open(struct shard_reader *ret, const char *dir,
               const struct manifest *m, int shard, struct err *err)
{
    char path[PATH_MAX];
    int64_t bytes;
    *ret = (struct shard_reader){
        .fd = -1, .manifest = m, .shard = &m->shards[shard], .dir = dir};
    if (file_join(path, sizeof path, dir, ret->shard->file, err))
        return -1;
    ret->fd = open_regular(path, &bytes, err);
    if (ret->fd < 0)
        return -1;
    if (check_bytes(path, bytes, ret->shard->bytes, err))
        goto fail;
    int64_t block = m->block_bytes < bytes ? m->block_bytes : bytes;
    ret->block = aligned_alloc(4096, (size_t)(block + 4095) / 4096 * 4096);
    if (ret->block)
        return 0;
    err_set(err, "ckpt: out of memory to read '%s'", path);
fail:
    shard_close(ret);
    return -1;
}

void shard_close(struct shard_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->block);
    *reader = (struct shard_reader){.fd = -1};
}

int64_t shard_read(struct shard_reader *reader, int64_t i, struct err *err)
{
    const struct shard *s = reader->shard;
    int64_t at = i * reader->manifest->block_bytes;
    int64_t n = s->bytes - at;
    if (n > reader->manifest->block_bytes)
        n = reader->manifest->block_bytes;
    if (read_at(reader->fd, reader->block, (size_t)n, at))
        return err_set_errno(err, "ckpt: cannot read '%s/%s' at byte %lld",
                             reader->dir, s->file, (long long)at);
    uint64_t got = XXH3_64bits(reader->block, (size_t)n);
    if (got != s->xxh3[i])
        return err_set(err, "ckpt: '%s/%s': the %lld bytes from byte %lld "
                            "on: xxh3 %016llx expected, got %016llx",
                       reader->dir, s->file, (long long)n, (long long)at,
                       (unsigned long long)s->xxh3[i],
                       (unsigned long long)got);
    return n;
}

/* ---- All of it --------------------------------------------------------- */

/* The manifest's box that this entry of a shard's header is, or NULL. */
static const struct tensor_box *box_of_entry(const struct manifest *m,
                                             const struct st_entry *e)
{
    char name[ST_KEY_BYTES];
    struct box box;
    str_copy(name, sizeof name, e->key);
    char *cut = strrchr(name, '@');
    if (!cut || !box_parse(cut + 1, &box))
        return NULL;
    *cut = 0;
    const struct tensor *t = manifest_find(m, name);
    if (!t || t->dtype != e->dtype || t->dims != box.dims ||
        e->dims != box.dims)
        return NULL;
    for (int i = 0; i < t->boxes_n; i++) {
        const struct box *b = &t->boxes[i].box;
        size_t bytes = (size_t)box.dims * sizeof *box.offset;
        if (!memcmp(b->offset, box.offset, bytes))
            return memcmp(b->extent, box.extent, bytes) ||
                           memcmp(e->shape, box.extent, bytes)
                       ? NULL
                       : &t->boxes[i];
    }
    return NULL;
}

static int boxes_in(const struct manifest *m, int shard)
{
    int n = 0;
    for (int i = 0; i < m->tensors_n; i++)
        for (int k = 0; k < m->tensors[i].boxes_n; k++)
            n += m->tensors[i].boxes[k].shard == shard;
    return n;
}

/* The shard's own header says what the manifest says. */
static int verify_header(const char *dir, const struct manifest *m, int shard,
                         int fd, struct err *err)
{
    const struct shard *s = &m->shards[shard];
    unsigned char first[8];
    struct st_header header = {0};
    char *json = NULL, path[PATH_MAX];
    int rc = -1;
    if (file_join(path, sizeof path, dir, s->file, err))
        return -1;
    if (read_at(fd, first, sizeof first, 0))
        return err_set_errno(err, "ckpt: cannot read '%s'", path);
    int64_t n = st_header_bytes(first, s->bytes, path, err);
    if (n < 0)
        return -1;
    json = malloc((size_t)n);
    if (!json) {
        err_set(err, "ckpt: out of memory for the header of '%s'", path);
        goto out;
    }
    if (read_at(fd, json, (size_t)n, 8)) {
        err_set_errno(err, "ckpt: cannot read '%s'", path);
        goto out;
    }
    if (st_parse(json, (size_t)n, s->bytes, path, &header, err))
        goto out;
    for (int i = 0; i < header.n; i++) {
        const struct st_entry *e = &header.entries[i];
        const struct tensor_box *box = box_of_entry(m, e);
        if (!box || box->shard != shard ||
            box->at != header.data_at + e->begin) {
            err_set(err, "ckpt: '%s': '%.150s' is not where the manifest "
                         "says", path, e->key);
            goto out;
        }
    }
    if (header.n != boxes_in(m, shard)) {
        err_set(err, "ckpt: '%s': %d boxes expected, got %d", path,
                boxes_in(m, shard), header.n);
        goto out;
    }
    rc = 0;
out:
    st_release(&header);
    free(json);
    return rc;
}

int reader_verify(const char *dir, const struct manifest *m, struct err *err)
{
    struct shard_reader reader;
    for (int i = 0; i < m->shards_n; i++) {
        if (shard_open(&reader, dir, m, i, err))
            return -1;
        int rc = 0;
        for (int64_t b = 0; b < m->shards[i].blocks_n && !rc; b++)
            rc = shard_read(&reader, b, err) < 0 ? -1 : 0;
        if (!rc)
            rc = verify_header(dir, m, i, reader.fd, err);
        shard_close(&reader);
        if (rc)
            return -1;
    }
    return 0;
}
