/* tokens - reading token files; see tokens.h.
 *
 * The arrays of the index start at byte 34, so nothing in them is aligned:
 * every access copies.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runner/data/tokens_file.h"

struct tokens {
    char prefix[PATH_MAX];
    int bin_fd;
    const unsigned char *idx; /* mapped */
    size_t idx_bytes;
    const unsigned char *lengths, *pointers, *marks; /* in idx */
    int64_t sequences_n, marks_n, tokens_n, bin_bytes;
    enum tokens_dtype dtype;
    int item_bytes;
};

static const int dtype_bytes[] = {
    [TOKENS_U8] = 1,  [TOKENS_I8] = 1,  [TOKENS_I16] = 2, [TOKENS_I32] = 4,
    [TOKENS_I64] = 8, [TOKENS_F64] = 0, [TOKENS_F32] = 0, [TOKENS_U16] = 2,
};

static uint64_t get_u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

static int32_t get_i32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return (int32_t)le32toh(v);
}

static int64_t pointer_of(const struct tokens *t, int64_t sequence)
{
    return (int64_t)get_u64(t->pointers + 8 * sequence);
}

static int64_t mark_of(const struct tokens *t, int64_t document)
{
    return (int64_t)get_u64(t->marks + 8 * document);
}

#define bad(t, ...) bad_file(err, (t)->prefix, ".idx", __VA_ARGS__)

__attribute__((format(printf, 4, 5))) static int
bad_file(struct err *err, const char *prefix, const char *end,
         const char *fmt, ...)
{
    char why[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return err_set_class(err, ERR_REQUEST,
                         "data: bad token file: '%s%s': %s", prefix, end,
                         why);
}

/* Open one of the two files and give its size. */
static int open_part(const char *prefix, const char *end, int64_t *ret_bytes,
                     struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s%s", prefix, end) >= (int)sizeof path)
        return err_set_class(err, ERR_REQUEST,
                             "data: path too long: '%s%s'", prefix, end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        err_set_class(err, ERR_REQUEST,
                      "data: cannot open token file: '%s': %s%s", path,
                      strerror(errno),
                      errno == ENOENT ? "; make it with koboshi data build"
                                      : "");
    } else if (!S_ISREG(st.st_mode)) {
        bad_file(err, prefix, end, "not a regular file");
    } else {
        *ret_bytes = st.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int map_index(struct tokens *t, struct err *err)
{
    int64_t bytes;
    int fd = open_part(t->prefix, ".idx", &bytes, err);
    if (fd < 0)
        return -1;
    int rc = -1;
    if (bytes < TOKENS_HEADER_BYTES) {
        bad(t, "%" PRId64 " bytes are too few for a header", bytes);
        goto out;
    }
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        err_set_errno(err, "data: cannot map '%s.idx'", t->prefix);
        goto out;
    }
    t->idx = map;
    t->idx_bytes = (size_t)bytes;
    rc = 0;
out:
    close(fd);
    return rc;
}

/* The fixed part, and where the arrays lie; sizes must agree to the byte. */
static int read_header(struct tokens *t, struct err *err)
{
    const unsigned char *p = t->idx;
    if (memcmp(p, TOKENS_MAGIC, TOKENS_MAGIC_BYTES))
        return bad(t, "does not start with MMIDIDX");
    uint64_t version = get_u64(p + TOKENS_OFF_VERSION);
    if (version != TOKENS_VERSION)
        return bad(t, "version %" PRIu64 ", only %d is known", version,
                   TOKENS_VERSION);
    int code = p[TOKENS_OFF_DTYPE];
    if (code < TOKENS_U8 || code > TOKENS_U16 || !dtype_bytes[code])
        return bad(t, "number type %d is not one for tokens", code);
    t->dtype = (enum tokens_dtype)code;
    t->item_bytes = dtype_bytes[code];

    uint64_t s = get_u64(p + TOKENS_OFF_SEQUENCES);
    uint64_t d = get_u64(p + TOKENS_OFF_MARKS);
    uint64_t room = t->idx_bytes - TOKENS_HEADER_BYTES;
    if (s > room / 12 || d > room / 8)
        return bad(t, "%" PRIu64 " sequences and %" PRIu64
                      " document marks do not fit into %zu bytes",
                   s, d, t->idx_bytes);
    uint64_t need = 12 * s + 8 * d;
    if (room != need && room != need + s)
        return bad(t, "has %zu bytes, its header tells of %" PRIu64,
                   t->idx_bytes, need + TOKENS_HEADER_BYTES);
    if (d < 1)
        return bad(t, "no document marks");
    t->sequences_n = (int64_t)s;
    t->marks_n = (int64_t)d;
    t->lengths = p + TOKENS_HEADER_BYTES;
    t->pointers = t->lengths + 4 * s;
    t->marks = t->pointers + 8 * s;
    return 0;
}

static int check_sequences(struct tokens *t, struct err *err)
{
    int64_t end = 0;
    for (int64_t i = 0; i < t->sequences_n; i++) {
        int64_t length = get_i32(t->lengths + 4 * i);
        int64_t at = pointer_of(t, i);
        if (length < 0)
            return bad(t, "sequence %" PRId64 " has length %" PRId64, i,
                       length);
        if (at < end || at > t->bin_bytes)
            return bad(t, "sequence %" PRId64 " starts at byte %" PRId64
                          " of %" PRId64 ", the one before ends at %" PRId64,
                       i, at, t->bin_bytes, end);
        end = at + length * t->item_bytes;
        if (end > t->bin_bytes)
            return bad_file(err, t->prefix, ".bin",
                            "has %" PRId64 " bytes, sequence %" PRId64
                            " of the index ends at %" PRId64,
                            t->bin_bytes, i, end);
        t->tokens_n += length;
    }
    if (end != t->bin_bytes)
        return bad_file(err, t->prefix, ".bin",
                        "has %" PRId64 " bytes, the index tells of %" PRId64,
                        t->bin_bytes, end);
    return 0;
}

static int check_marks(struct tokens *t, struct err *err)
{
    int64_t before = 0;
    for (int64_t i = 0; i < t->marks_n; i++) {
        int64_t mark = mark_of(t, i);
        if (mark < before || mark > t->sequences_n || (i == 0 && mark))
            return bad(t, "document mark %" PRId64 " is %" PRId64
                          " after %" PRId64 " of %" PRId64 " sequences",
                       i, mark, before, t->sequences_n);
        before = mark;
    }
    if (before != t->sequences_n)
        return bad(t, "the documents hold %" PRId64 " of %" PRId64
                      " sequences", before, t->sequences_n);
    return 0;
}

struct tokens *tokens_open(const char *prefix, struct err *err)
{
    struct tokens *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(err, "data: out of memory");
        return NULL;
    }
    t->bin_fd = -1;
    if (snprintf(t->prefix, sizeof t->prefix, "%s", prefix) >=
        (int)sizeof t->prefix) {
        err_set_class(err, ERR_REQUEST, "data: path too long: '%s'", prefix);
        goto fail;
    }
    t->bin_fd = open_part(prefix, ".bin", &t->bin_bytes, err);
    if (t->bin_fd < 0 || map_index(t, err) || read_header(t, err) ||
        check_sequences(t, err) || check_marks(t, err))
        goto fail;
    return t;
fail:
    tokens_close(t);
    return NULL;
}

void tokens_close(struct tokens *t)
{
    if (!t)
        return;
    if (t->idx)
        munmap((void *)t->idx, t->idx_bytes);
    if (t->bin_fd >= 0)
        close(t->bin_fd);
    free(t);
}

const char *tokens_prefix(const struct tokens *t)
{
    return t->prefix;
}

int64_t tokens_sequences(const struct tokens *t)
{
    return t->sequences_n;
}

int64_t tokens_documents(const struct tokens *t)
{
    return t->marks_n - 1;
}

int64_t tokens_total(const struct tokens *t)
{
    return t->tokens_n;
}

int tokens_item_bytes(const struct tokens *t)
{
    return t->item_bytes;
}

int32_t tokens_length(const struct tokens *t, int64_t sequence)
{
    return get_i32(t->lengths + 4 * sequence);
}

int64_t tokens_document_start(const struct tokens *t, int64_t document)
{
    return mark_of(t, document);
}

int64_t tokens_document_of(const struct tokens *t, int64_t sequence)
{
    /* The last document whose mark is <= sequence: marks of empty documents
     * repeat, and the last of equal marks owns the sequence. */
    int64_t lo = 0, hi = t->marks_n - 1;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (mark_of(t, mid) <= sequence)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int read_bin(const struct tokens *t, int64_t at, void *dst,
                    int64_t bytes, struct err *err)
{
    char *p = dst;
    while (bytes > 0) {
        ssize_t n = pread(t->bin_fd, p, (size_t)bytes, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_errno(err, "data: cannot read '%s.bin' at byte "
                                      "%" PRId64, t->prefix, at);
        if (n == 0)
            return err_set(err, "data: '%s.bin' was cut to %" PRId64
                                " bytes while it was in use", t->prefix, at);
        p += n;
        at += n;
        bytes -= n;
    }
    return 0;
}

static int64_t item_at(enum tokens_dtype dtype, const unsigned char *p)
{
    switch (dtype) {
    case TOKENS_U8:
        return *p;
    case TOKENS_I8:
        return (int8_t)*p;
    case TOKENS_U16:
        return p[0] | p[1] << 8;
    case TOKENS_I16:
        return (int16_t)(p[0] | p[1] << 8);
    case TOKENS_I32:
        return get_i32(p);
    default:
        return (int64_t)get_u64(p);
    }
}

/* Four at a time, which every processor that we build for can do. */
typedef int32_t lanes __attribute__((vector_size(16)));

/* The largest token of each lane, and whether one was negative. */
struct seen {
    lanes most, sign;
};

static inline void put_four(struct seen *seen, lanes v, int32_t *dst)
{
    lanes more = v > seen->most;
    seen->most = (v & more) | (seen->most & ~more);
    seen->sign |= v;
    memcpy(dst, &v, sizeof v);
}

/* As many of n stored tokens as can be taken so. */
static int64_t take_fours(enum tokens_dtype dtype, const unsigned char *p,
                          int64_t n, struct seen *ret_seen, int32_t *dst)
{
    struct seen seen = *ret_seen;
    int64_t i = 0;
    lanes v;
    if (dtype == TOKENS_U16)
        for (; i + 8 <= n; i += 8) { /* pairs of lanes: low and high halves */
            memcpy(&v, p + 2 * i, sizeof v);
            lanes low = v & 0xffff, high = (lanes)((lanes)v >> 16) & 0xffff;
            put_four(&seen, __builtin_shuffle(low, high, (lanes){0, 4, 1, 5}),
                     dst + i);
            put_four(&seen, __builtin_shuffle(low, high, (lanes){2, 6, 3, 7}),
                     dst + i + 4);
        }
    else if (dtype == TOKENS_I32)
        for (; i + 4 <= n; i += 4) {
            memcpy(&v, p + 4 * i, sizeof v);
            put_four(&seen, v, dst + i);
        }
    *ret_seen = seen;
    return i;
}

/* n stored tokens to dst. False: not all are in [0, vocab); dst is
 * undefined. */
static bool take_items(enum tokens_dtype dtype, const unsigned char *p,
                       int64_t n, int64_t vocab, int32_t *dst)
{
    struct seen seen = {0};
    int64_t i = 0;
    bool good = true;
#if __BYTE_ORDER == __LITTLE_ENDIAN
    i = take_fours(dtype, p, n, &seen, dst);
    for (int k = 0; i && k < 4; k++)
        good = good && seen.sign[k] >= 0 && seen.most[k] < vocab;
#endif
    for (; i < n; i++) {
        int64_t id = item_at(dtype, p + i * dtype_bytes[dtype]);
        good = good && id >= 0 && id < vocab;
        dst[i] = (int32_t)id;
    }
    return good;
}

/* Which of n stored tokens from `at` of the sequence on is wrong. */
static int refuse_item(const struct tokens *t, const unsigned char *p,
                       int64_t n, int64_t vocab, int64_t sequence, int64_t at,
                       struct err *err)
{
    int64_t i = 0, id;
    while ((id = item_at(t->dtype, p + i * t->item_bytes)) >= 0 &&
           id < vocab && i < n - 1)
        i++;
    return err_set_class(err, ERR_REQUEST,
                         "data: token %" PRId64 " is outside the vocabulary "
                         "of %" PRId64 ": '%s.bin': document %" PRId64
                         ", sequence %" PRId64 ", token %" PRId64
                         "; was it made with another tokenizer",
                         id, vocab, t->prefix, tokens_document_of(t, sequence),
                         sequence, at + i);
}

int tokens_read(const struct tokens *t, int64_t sequence, int64_t first,
                int64_t n, int64_t vocab, int32_t *dst, struct err *err)
{
    enum { BLOCK_BYTES = 16384 };
    unsigned char block[BLOCK_BYTES];
    int64_t per_block = BLOCK_BYTES / t->item_bytes;
    if (sequence < 0 || sequence >= t->sequences_n || first < 0 || n < 0 ||
        first + n > tokens_length(t, sequence))
        return err_set(err, "data: no tokens %" PRId64 " .. %" PRId64
                            " in sequence %" PRId64 " of '%s'",
                       first, first + n, sequence, t->prefix);
    int64_t at = pointer_of(t, sequence) + first * t->item_bytes;
    for (int64_t done = 0; done < n;) {
        int64_t some = n - done < per_block ? n - done : per_block;
        if (read_bin(t, at + done * t->item_bytes, block,
                     some * t->item_bytes, err))
            return -1;
        if (!take_items(t->dtype, block, some, vocab, dst + done))
            return refuse_item(t, block, some, vocab, sequence, first + done,
                               err);
        done += some;
    }
    return 0;
}

int tokens_fingerprint(const struct tokens *t, uint64_t *ret, struct err *err)
{
    enum { PIECE_BYTES = 4096, PIECES_N = 64 };
    char piece[PIECE_BYTES];
    uint64_t facts[4] = {(uint64_t)t->sequences_n, (uint64_t)t->tokens_n,
                         (uint64_t)t->item_bytes,
                         XXH3_64bits(t->lengths, 4 * (size_t)t->sequences_n)};
    uint64_t sum = XXH3_64bits(facts, sizeof facts);
    for (int i = 0; i < PIECES_N; i++) {
        int64_t at = t->bin_bytes / PIECES_N * i;
        int64_t n = t->bin_bytes - at;
        if (n > PIECE_BYTES)
            n = PIECE_BYTES;
        if (read_bin(t, at, piece, n, err))
            return -1;
        sum = XXH3_64bits_withSeed(piece, (size_t)n, sum);
    }
    *ret = sum;
    return 0;
}
