/* file - whole files, made whole: what is in place was complete.
 *
 * file_replace writes NAME.tmp.<pid>, fsyncs it, renames it over NAME and
 * fsyncs the directory, so that a reader sees the old or the new one and a
 * crash loses neither. On shared file systems a rename may be seen late.
 */
#ifndef KB_BASE_FILE_H
#define KB_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runner/base/err.h"

/* All of a regular file, NUL added, to be freed; at most max_bytes, else an
 * error. *ret_bytes may be NULL. */
char *file_read(const char *path, size_t max_bytes, size_t *ret_bytes,
                struct err *err);
int file_replace(const char *path, const void *bytes, size_t bytes_n,
                 mode_t mode, struct err *err);
/* The same for what is worth nothing after a power cut: nobody waits for the
 * disk. */
int file_publish(const char *path, const void *bytes, size_t bytes_n,
                 mode_t mode, struct err *err);
/* write() until done; -1 with errno. */
int file_write_all(int fd, const void *bytes, size_t bytes_n);
/* mkdir -p with mode for those it makes. */
int file_make_dirs(const char *path, mode_t mode, struct err *err);
int file_sync_dir(const char *path, struct err *err);
bool file_exists(const char *path);
/* "a/b" from parts, into dst; -1 when it does not fit. */
int file_join(char *dst, size_t dst_bytes, const char *dir, const char *name,
              struct err *err);

#endif
