/* source - where probes read: files of /proc, /sys and /dev under a root
 * folder, and the few facts that only system calls tell.
 *
 * With root "/" it is this machine. With another root it is a recorded host:
 * files lie under it, and the system calls' answers are read from its file
 * `facts` (one fact a line: `NAME VALUE...`), so that a report of a machine
 * that is not here can be made again, byte for byte.
 */
#ifndef KB_HEALTH_SOURCE_H
#define KB_HEALTH_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

#define SOURCE_FILE_BYTES (256u << 10)

struct source {
    const char *root; /* "/" or a recorded host's folder; borrowed */
    char *facts;      /* text of the recorded facts, or NULL: live; owned */
};

int source_open(struct source *source, const char *root, struct err *err);
void source_close(struct source *source);
bool source_is_live(const struct source *source);

/* Paths are formats, as of printf, and begin with '/': under the root. One
 * that is too long is as one that is absent. */
/* The whole path into dst; -1: too long. */
int source_path(const struct source *source, char *dst, size_t dst_bytes,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The text of a small file, the line end at its end taken off; -1 with errno:
 * absent, not readable. What does not fit is cut. */
int source_read(const struct source *source, char *dst, size_t dst_bytes,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same of a number; -1 too when it is none. */
int source_number(const struct source *source, int64_t *ret, const char *fmt,
                  ...) __attribute__((format(printf, 3, 4)));
bool source_exists(const struct source *source, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* All of a larger file, to be freed; NULL with errno. */
char *source_text(const struct source *source, const char *path);
/* Names in a folder, sorted; at most names_max. Their number, or -1. */
#define SOURCE_NAME_BYTES 256
int source_list(const struct source *source,
                char (*names)[SOURCE_NAME_BYTES], int names_max,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* What system calls say. Each returns 0, or -1 when it is not known. */
struct source_disk {
    int64_t bytes, free_bytes; /* free for root's processes or for users */
    int64_t files, free_files; /* files is 0 where they are not counted */
    bool read_only, is_tmpfs;
};
int source_disk(const struct source *source, const char *path,
                struct source_disk *ret);
struct source_time {
    bool synced;
    double max_error_s;
};
int source_time(const struct source *source, struct source_time *ret);
int source_now(const struct source *source, double *ret_wall_s);
int source_mtime(const struct source *source, const char *path, double *ret);
/* Soft limits: "memlock", "nofile"; -1 in *ret is unlimited. */
int source_limit(const struct source *source, const char *name, int64_t *ret);
/* A recorded fact by its name; -1 too where the source is live. */
int source_fact(const struct source *source, const char *name, char *dst,
                size_t dst_bytes);
int source_host(const struct source *source, char *dst, size_t dst_bytes);

#endif
