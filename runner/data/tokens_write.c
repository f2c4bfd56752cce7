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
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
    bool lasting;
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
    /* "a+" would write at the end only; what is there is cut later. */
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | (w->lasting ? 0 : O_TRUNC);
    if (w->lasting)
        snprintf(w->path[part], sizeof w->path[part], "%s%s.part", w->prefix,
                 part_ends[part]);
    else
        snprintf(w->path[part], sizeof w->path[part], "%s%s.tmp.%ld",
                 w->prefix, part_ends[part], (long)getpid());
    int fd = open(w->path[part], flags, 0666);
    w->file[part] = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!w->file[part]) {
        err_set_class(err, ERR_REQUEST, "data: cannot create '%s': %s",
                      w->path[part], strerror(errno));
        w->path[part][0] = 0;
        return -1;
    }
    setvbuf(w->file[part], NULL, _IOFBF, 1 << 18);
    return 0;
}

static int lock(struct tokens_writer *w, struct err *err)
{
    if (!flock(fileno(w->file[PART_BIN]), LOCK_EX | LOCK_NB) ||
        errno != EWOULDBLOCK) /* a file system without locks has none */
        return 0;
    return err_set_class(err, ERR_REQUEST,
                         "data: another build is writing '%s'; wait for it, "
                         "or give another output", w->prefix);
}

static struct tokens_writer *create(const char *prefix, int64_t vocab,
                                    bool lasting, struct err *err)
{
    struct tokens_writer *w = calloc(1, sizeof *w);
    if (!w) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    w->lasting = lasting;
    if (snprintf(w->prefix, sizeof w->prefix, "%s", prefix) >=
        (int)sizeof w->prefix) {
        err_set_class(err, ERR_REQUEST, "data: path too long: '%s'", prefix);
        goto fail;
    }
    w->vocab = vocab;
    w->item_bytes = vocab < 65500 ? 2 : 4;
    for (enum part part = 0; part < PARTS_N; part++)
        if (open_part(w, part, err) || (lasting && !part && lock(w, err)))
            goto fail;
    return w;
fail:
    if (lasting) /* the temporaries may be another's */
        tokens_leave(w);
    else
        tokens_abandon(w);
    return NULL;
}

static int begin(struct tokens_writer *w, struct err *err)
{
    w->marks_n = 1;
    return put_u64(w, PART_MARKS, 0, err);
}

struct tokens_writer *tokens_create(const char *prefix, int64_t vocab,
                                    struct err *err)
{
    struct tokens_writer *w = create(prefix, vocab, false, err);
    if (w && begin(w, err)) {
        tokens_abandon(w);
        return NULL;
    }
    return w;
}

/* ---- Writers that outlive a kill ---------------------------------------- */

static void mark_sizes(const struct tokens_mark *m, int64_t sizes[PARTS_N])
{
    sizes[PART_BIN] = m->bin_bytes;
    sizes[PART_LENGTHS] = 4 * m->sequences_n;
    sizes[PART_MARKS] = 8 * m->marks_n;
    sizes[PART_IDX] = 0;
}

/* Cut what lies there to the mark; 1: there is less. */
static int cut_parts(struct tokens_writer *w, const struct tokens_mark *mark,
                     struct err *err)
{
    int64_t sizes[PARTS_N];
    struct stat st;
    mark_sizes(mark, sizes);
    for (enum part part = 0; part < PARTS_N; part++) {
        int fd = fileno(w->file[part]);
        if (fstat(fd, &st))
            return err_set_errno(err, "data: cannot look at '%s'",
                                 w->path[part]);
        if (st.st_size < sizes[part])
            return 1;
        if (ftruncate(fd, sizes[part]) ||
            fseeko(w->file[part], sizes[part], SEEK_SET))
            return err_set_errno(err, "data: cannot cut '%s'", w->path[part]);
    }
    w->sequences_n = w->ended_n = mark->sequences_n;
    w->marks_n = mark->marks_n;
    w->tokens_n = mark->bin_bytes / w->item_bytes;
    return 0;
}

int tokens_create_lasting(const char *prefix, int64_t vocab,
                          const struct tokens_mark *mark,
                          struct tokens_writer **ret, struct err *err)
{
    static const struct tokens_mark start = {0};
    struct tokens_writer *w = create(prefix, vocab, true, err);
    if (!w)
        return -1;
    int rc = cut_parts(w, mark ? mark : &start, err);
    if (!rc && !mark)
        rc = begin(w, err);
    if (rc)
        tokens_leave(w);
    else
        *ret = w;
    return rc;
}

int tokens_keep(struct tokens_writer *w, struct tokens_mark *ret,
                struct err *err)
{
    for (enum part part = 0; part < PART_IDX; part++)
        if (fflush(w->file[part]) || fdatasync(fileno(w->file[part])))
            return err_set_errno(err, "data: cannot write '%s'",
                                 w->path[part]);
    *ret = (struct tokens_mark){w->tokens_n * w->item_bytes, w->sequences_n,
                                w->marks_n};
    return 0;
}

/* ---- Adding -------------------------------------------------------------- */

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
            if (w->item_bytes == 2) {
                uint16_t v = htole16((uint16_t)id);
                memcpy(block + 2 * i, &v, 2);
            } else {
                uint32_t v = htole32((uint32_t)id);
                memcpy(block + 4 * i, &v, 4);
            }
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
    if (rc && w->lasting)
        tokens_leave(w);
    else
        tokens_abandon(w);
    return rc ? -1 : 0;
}

static void end(struct tokens_writer *w, bool remove)
{
    if (!w)
        return;
    for (enum part part = PARTS_N; part-- > 0;) { /* the locked one last */
        if (remove && w->path[part][0])
            unlink(w->path[part]);
        if (w->file[part])
            fclose(w->file[part]);
    }
    free(w);
}

void tokens_abandon(struct tokens_writer *w)
{
    end(w, true);
}

void tokens_leave(struct tokens_writer *w)
{
    end(w, false);
}
