/* order_cache - see order_cache.h. */
#include "runner/data/order_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"

#define MAGIC 0x315245445242304bu /* "K0BRDER1" */

/* In the byte order of the machine: another one sees another magic. The
 * arrays follow: position, shuffle, offset, sequences. */
struct header {
    uint64_t magic;
    struct order_key key;
    int64_t epochs_n, last_apart, sequences_n, samples_n;
    uint64_t body_sum, header_sum;
};

struct order_claim {
    char path[PATH_MAX];
};

static const double poll_s = 0.05;
static const size_t block_bytes = 8u << 20;

static bool is_wide(int64_t samples_n)
{
    return samples_n > INT32_MAX;
}

/* Bytes of the arrays. */
enum { POSITION, SHUFFLE, OFFSET, SEQUENCES, ARRAYS_N };

static void array_bytes(const struct header *h, size_t bytes[ARRAYS_N])
{
    size_t samples = (size_t)h->samples_n;
    bytes[POSITION] = (samples + 1) * sizeof(int64_t);
    bytes[SHUFFLE] = samples * (is_wide(h->samples_n) ? 8 : 4);
    bytes[SHUFFLE] = (bytes[SHUFFLE] + 7) & ~(size_t)7;
    bytes[OFFSET] = (samples + 1) * sizeof(int32_t);
    bytes[SEQUENCES] = (size_t)h->sequences_n * sizeof(int32_t);
}

static size_t body_bytes(const struct header *h)
{
    size_t bytes[ARRAYS_N], sum = 0;
    array_bytes(h, bytes);
    for (int i = 0; i < ARRAYS_N; i++)
        sum += bytes[i];
    return sum;
}

static uint64_t header_sum(const struct header *h)
{
    return XXH3_64bits(h, offsetof(struct header, header_sum));
}

static bool name_of(const char *dir, const struct order_key *key,
                    const char *end, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%016" PRIx64 ".%s", dir,
                    (uint64_t)XXH3_64bits(key, sizeof *key), end) < PATH_MAX;
}

/* ---- Reading ------------------------------------------------------------- */

static bool is_good(const struct header *h, size_t bytes,
                    const struct order_key *key)
{
    static const int64_t most = INT64_MAX / 64;
    return h->magic == MAGIC && h->header_sum == header_sum(h) &&
           !memcmp(&h->key, key, sizeof *key) && h->samples_n >= 0 &&
           h->samples_n < most && h->sequences_n > 0 &&
           h->sequences_n < most && bytes == sizeof *h + body_bytes(h) &&
           h->body_sum == XXH3_64bits(h + 1, bytes - sizeof *h);
}

static void point(struct order_part *p, const struct header *h)
{
    size_t bytes[ARRAYS_N];
    char *at = (char *)(uintptr_t)(h + 1);
    array_bytes(h, bytes);
    p->requested_n = h->key.requested_n;
    p->epochs_n = h->epochs_n;
    p->last_apart = h->last_apart != 0;
    p->sequences_n = h->sequences_n;
    p->samples_n = h->samples_n;
    p->position = (int64_t *)(void *)at;
    at += bytes[POSITION];
    if (is_wide(h->samples_n))
        p->shuffle = (int64_t *)(void *)at;
    else
        p->shuffle_32 = (int32_t *)(void *)at;
    at += bytes[SHUFFLE];
    p->offset = (int32_t *)(void *)at;
    at += bytes[OFFSET];
    p->sequences = (int32_t *)(void *)at;
}

bool order_cache_load(const char *dir, const struct order_key *key,
                      struct order_part *ret)
{
    char path[PATH_MAX];
    struct stat st;
    void *map = MAP_FAILED;
    int fd = name_of(dir, key, "order", path)
                 ? open(path, O_RDONLY | O_CLOEXEC)
                 : -1;
    if (fd < 0)
        return false;
    if (!fstat(fd, &st) && st.st_size > (off_t)sizeof(struct header))
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return false;
    if (!is_good(map, (size_t)st.st_size, key)) {
        munmap(map, (size_t)st.st_size);
        return false;
    }
    *ret = (struct order_part){.map = map, .map_bytes = (size_t)st.st_size};
    point(ret, map);
    return true;
}

void order_cache_unmap(struct order_part *p)
{
    munmap(p->map, p->map_bytes);
    *p = (struct order_part){0};
}

/* ---- Whose turn it is ---------------------------------------------------- */

/* 1: ours; 0: another has it; -1: the folder is no use. */
static int claim(const char *path, struct order_claim **ret)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno == EEXIST ? 0 : -1;
    close(fd);
    *ret = calloc(1, sizeof **ret);
    if (!*ret) {
        unlink(path);
        return -1;
    }
    snprintf((*ret)->path, sizeof (*ret)->path, "%s", path);
    return 1;
}

/* When it last gave a sign; changes, not the time of day, are looked at. */
static int64_t sign_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? -1
                           : st.st_mtim.tv_sec * 1000000000 +
                                 st.st_mtim.tv_nsec;
}

bool order_cache_wait(const char *dir, const struct order_key *key,
                      double patience_s, struct order_part *ret,
                      struct order_claim **ret_claim)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    int64_t sign = -1;
    double seen_s = clock_mono_s();
    *ret_claim = NULL;
    if (order_cache_load(dir, key, ret))
        return true;
    if (!name_of(dir, key, "claim", path) || file_make_dirs(dir, 0777, &err))
        return false;
    while (claim(path, ret_claim) == 0) {
        int64_t now = sign_of(path);
        if (now != sign) {
            sign = now;
            seen_s = clock_mono_s();
        } else if (clock_mono_s() - seen_s > patience_s) {
            unlink(path); /* it died: the next may claim */
            return false;
        }
        clock_nanosleep(CLOCK_MONOTONIC, 0,
                        &(struct timespec){0, (long)(poll_s * 1e9)}, NULL);
        if (order_cache_load(dir, key, ret))
            return true;
    }
    /* It may have been made just before our claim. */
    if (*ret_claim && order_cache_load(dir, key, ret)) {
        order_claim_end(*ret_claim);
        *ret_claim = NULL;
        return true;
    }
    return false;
}

void order_claim_beat(struct order_claim *c)
{
    if (c)
        utimensat(AT_FDCWD, c->path, NULL, 0);
}

void order_claim_end(struct order_claim *c)
{
    if (c)
        unlink(c->path);
    free(c);
}

/* ---- Writing ------------------------------------------------------------- */

struct body {
    const void *at[ARRAYS_N];
    size_t bytes[ARRAYS_N], pad;
};

static void body_of(const struct order_part *p, const struct header *h,
                    struct body *b)
{
    array_bytes(h, b->bytes);
    size_t real = (size_t)p->samples_n * (p->shuffle ? 8 : 4);
    b->pad = b->bytes[SHUFFLE] - real;
    b->bytes[SHUFFLE] = real;
    b->at[POSITION] = p->position;
    b->at[SHUFFLE] = p->shuffle ? (const void *)p->shuffle
                                : (const void *)p->shuffle_32;
    b->at[OFFSET] = p->offset;
    b->at[SEQUENCES] = p->sequences;
}

static uint64_t sum_of(const struct body *b, struct order_claim *c)
{
    static const char zero[8];
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    for (int i = 0; i < ARRAYS_N; i++) {
        XXH3_64bits_update(&sum, b->at[i], b->bytes[i]);
        if (i == SHUFFLE)
            XXH3_64bits_update(&sum, zero, b->pad);
        order_claim_beat(c);
    }
    return XXH3_64bits_digest(&sum);
}

static bool put(int fd, const void *bytes, size_t n, struct order_claim *c)
{
    for (size_t done = 0; done < n; done += block_bytes) {
        size_t some = n - done < block_bytes ? n - done : block_bytes;
        if (file_write_all(fd, (const char *)bytes + done, some))
            return false;
        order_claim_beat(c);
    }
    return true;
}

void order_cache_save(const char *dir, const struct order_key *key,
                      const struct order_part *p, struct order_claim *c)
{
    static const char zero[8];
    char path[PATH_MAX], temp[PATH_MAX];
    struct body body;
    struct header h = {.magic = MAGIC, .key = *key, .epochs_n = p->epochs_n,
                       .last_apart = p->last_apart,
                       .sequences_n = p->sequences_n,
                       .samples_n = p->samples_n};
    body_of(p, &h, &body);
    h.body_sum = sum_of(&body, c);
    h.header_sum = header_sum(&h);
    if (!name_of(dir, key, "order", path) ||
        snprintf(temp, sizeof temp, "%.*s.XXXXXX", PATH_MAX - 8, path) >=
            (int)sizeof temp)
        return;
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return;
    bool good = put(fd, &h, sizeof h, c);
    for (int i = 0; i < ARRAYS_N && good; i++)
        good = put(fd, body.at[i], body.bytes[i], c) &&
               (i != SHUFFLE || put(fd, zero, body.pad, c));
    good = good && !fchmod(fd, 0644) && !fsync(fd);
    good = !close(fd) && good;
    if (!good || rename(temp, path))
        unlink(temp);
}
