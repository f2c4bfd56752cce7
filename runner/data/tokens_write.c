/* tokens_write - writing token files; see tokens.h.
 *
 * Tokens, lengths and document marks stream into temporaries beside the
 * target; the index is put together from them at the end. The order of the
 * last renames lets no reader meet an index with the tokens of another build:
 * the old index goes, the new tokens come, the new index comes.
 */
#include "runner/data/tokens.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "runner/data/tokens_file.h"

enum part { PART_BIN, PART_LENGTHS, PART_MARKS, PART_IDX, PARTS_N };

static const char *const part_ends[PARTS_N] = {
    [PART_BIN] = ".bin", [PART_LENGTHS] = ".lengths", [PART_MARKS] = ".marks",
    [PART_IDX] = ".idx"};

struct tokens_writer {
    char prefix[PATH_MAX - 64]; /* leaves room for the ends */
    char path[PARTS_N][PATH_MAX];
    FILE *file[PARTS_N];
    int64_t vocab, sequences_n, marks_n, tokens_n;
    int64_t ended_n; /* sequences in ended documents */
    int item_bytes;
};

static int put(struct tokens_writer *w, enum part part, const void *bytes,
               size_t bytes_n, struct err *err)
{
    if (fwrite(bytes, 1, bytes_n, w->file[part]) != bytes_n)
        return err_set_errno(err, "data: cannot write '%s'", w->path[part]);
    return 0;
}

static int put_u64(struct tokens_writer *w, enum part part, uint64_t v,
                   struct err *err)
{
    v = htole64(v);
    return put(w, part, &v, sizeof v, err);
}

static int open_part(struct tokens_writer *w, enum part part, struct err *err)
{
    snprintf(w->path[part], sizeof w->path[part], "%s%s.tmp.%ld", w->prefix,
             part_ends[part], (long)getpid());
    w->file[part] = fopen(w->path[part], "w+e");
    if (!w->file[part]) {
        err_set_class(err, ERR_REQUEST, "data: cannot create '%s': %s",
                      w->path[part], strerror(errno));
        w->path[part][0] = 0;
        return -1;
    }
    setvbuf(w->file[part], NULL, _IOFBF, 1 << 18);
    return 0;
}

struct tokens_writer *tokens_create(const char *prefix, int64_t vocab,
                                    struct err *err)
{
    struct tokens_writer *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    if (snprintf(w->prefix, sizeof w->prefix, "%s", prefix) >=
        (int)sizeof w->prefix) {
        err_set_class(err, ERR_REQUEST, "data: path too long: '%s'", prefix);
        goto fail;
    }
    w->vocab = vocab;
    w->item_bytes = vocab < 65500 ? 2 : 4;
    for (enum part part = 0; part < PARTS_N; part++)
        if (open_part(w, part, err))
            goto fail;
    if (put_u64(w, PART_MARKS, 0, err))
        goto fail;
    w->marks_n = 1;
    return w;
fail:
    tokens_abandon(w);
    return NULL;
}

int tokens_add(struct tokens_writer *w, const int32_t *ids, int64_t n,
               struct err *err)
{
    enum { BLOCK_N = 4096 };
    unsigned char block[BLOCK_N * 4];
    if (n > INT32_MAX)
        return err_set_class(err, ERR_REQUEST,
                             "data: a sequence of %" PRId64 " tokens is too "
                             "long for the format; cut the document", n);
    for (int64_t done = 0; done < n;) {
        int64_t some = n - done < BLOCK_N ? n - done : BLOCK_N;
        for (int64_t i = 0; i < some; i++) {
            int32_t id = ids[done + i];
            if (id < 0 || id >= w->vocab)
                return err_set(err, "data: token %d is outside the vocabulary "
                                    "of %" PRId64, id, w->vocab);
            for (int b = 0; b < w->item_bytes; b++)
                block[i * w->item_bytes + b] = (unsigned char)(id >> 8 * b);
        }
        if (put(w, PART_BIN, block, (size_t)(some * w->item_bytes), err))
            return -1;
        done += some;
    }
    uint32_t length = htole32((uint32_t)n);
    if (put(w, PART_LENGTHS, &length, sizeof length, err))
        return -1;
    w->sequences_n++;
    w->tokens_n += n;
    return 0;
}

int tokens_end_document(struct tokens_writer *w, struct err *err)
{
    if (put_u64(w, PART_MARKS, (uint64_t)w->sequences_n, err))
        return -1;
    w->marks_n++;
    w->ended_n = w->sequences_n;
    return 0;
}

int64_t tokens_written(const struct tokens_writer *w)
{
    return w->tokens_n;
}

static int put_header(struct tokens_writer *w, struct err *err)
{
    unsigned char code = w->item_bytes == 2 ? TOKENS_U16 : TOKENS_I32;
    return put(w, PART_IDX, TOKENS_MAGIC, TOKENS_MAGIC_BYTES, err) ||
                   put_u64(w, PART_IDX, TOKENS_VERSION, err) ||
                   put(w, PART_IDX, &code, 1, err) ||
                   put_u64(w, PART_IDX, (uint64_t)w->sequences_n, err) ||
                   put_u64(w, PART_IDX, (uint64_t)w->marks_n, err)
               ? -1
               : 0;
}

static int rewind_part(struct tokens_writer *w, enum part part,
                       struct err *err)
{
    if (fflush(w->file[part]) || fseeko(w->file[part], 0, SEEK_SET))
        return err_set_errno(err, "data: cannot write '%s'", w->path[part]);
    return 0;
}

static int copy_part(struct tokens_writer *w, enum part part, struct err *err)
{
    char block[1 << 16];
    size_t n;
    if (rewind_part(w, part, err))
        return -1;
    while ((n = fread(block, 1, sizeof block, w->file[part])) > 0)
        if (put(w, PART_IDX, block, n, err))
            return -1;
    if (ferror(w->file[part]))
        return err_set_errno(err, "data: cannot read '%s'", w->path[part]);
    return 0;
}

/* Pointers follow from the lengths. */
static int put_pointers(struct tokens_writer *w, struct err *err)
{
    uint32_t length;
    uint64_t at = 0;
    if (rewind_part(w, PART_LENGTHS, err))
        return -1;
    for (int64_t i = 0; i < w->sequences_n; i++) {
        if (fread(&length, sizeof length, 1, w->file[PART_LENGTHS]) != 1)
            return err_set(err, "data: cannot read '%s'",
                           w->path[PART_LENGTHS]);
        if (put_u64(w, PART_IDX, at, err))
            return -1;
        at += (uint64_t)le32toh(length) * (uint64_t)w->item_bytes;
    }
    return 0;
}

static int sync_part(struct tokens_writer *w, enum part part, struct err *err)
{
    int rc = fflush(w->file[part]) || fsync(fileno(w->file[part]));
    rc = fclose(w->file[part]) || rc;
    w->file[part] = NULL;
    return rc ? err_set_errno(err, "data: cannot write '%s'", w->path[part])
              : 0;
}

static int put_in_place(struct tokens_writer *w, struct err *err)
{
    char bin[PATH_MAX], idx[PATH_MAX], dir[PATH_MAX];
    snprintf(bin, sizeof bin, "%s.bin", w->prefix);
    snprintf(idx, sizeof idx, "%s.idx", w->prefix);
    if (unlink(idx) && errno != ENOENT)
        return err_set_errno(err, "data: cannot replace '%s'", idx);
    if (rename(w->path[PART_BIN], bin))
        return err_set_errno(err, "data: cannot rename to '%s'", bin);
    if (rename(w->path[PART_IDX], idx))
        return err_set_errno(err, "data: cannot rename to '%s'", idx);
    snprintf(dir, sizeof dir, "%s", w->prefix);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = 0;
    return file_sync_dir(slash ? dir : ".", err);
}

int tokens_finish(struct tokens_writer *w, struct err *err)
{
    int rc = (w->ended_n < w->sequences_n && tokens_end_document(w, err)) ||
             put_header(w, err) || copy_part(w, PART_LENGTHS, err) ||
             put_pointers(w, err) || copy_part(w, PART_MARKS, err) ||
             sync_part(w, PART_BIN, err) || sync_part(w, PART_IDX, err) ||
             put_in_place(w, err);
    tokens_abandon(w);
    return rc ? -1 : 0;
}

void tokens_abandon(struct tokens_writer *w)
{
    if (!w)
        return;
    for (enum part part = 0; part < PARTS_N; part++) {
        if (w->file[part])
            fclose(w->file[part]);
        if (w->path[part][0])
            unlink(w->path[part]);
    }
    free(w);
}
