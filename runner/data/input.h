/* input - a text file or standard input, in lines or whole.
 *
 * Files that end in .gz, .zst, .xz or .bz2 are unpacked on the way by the
 * program of that format, which runs beside us.
 */
#ifndef KB_DATA_INPUT_H
#define KB_DATA_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/text.h"

struct input;

/* path: a file, or "-" for standard input. NULL on error. */
struct input *input_open(const char *path, struct err *err);
void input_close(struct input *in);
int64_t input_taken(const struct input *in); /* bytes of the file, so far */

/* Bytes given so far, unpacked; and pass over so many at the start. -1: there
 * are not so many, or reading failed. */
int64_t input_offset(const struct input *in);
int input_skip(struct input *in, int64_t bytes, struct err *err);

/* Is it a file that can be read? *ret_bytes: its size, -1 unknown. */
int input_measure(const char *path, int64_t *ret_bytes, struct err *err);
/* Length of path's end that tells of packing, 0: none. */
size_t input_packed_suffix(const char *path);
/* Does its name, packing aside, say JSON Lines: .jsonl or .json? */
bool input_is_jsonl(const char *path);

enum input_got { INPUT_END, INPUT_LINE, INPUT_LONG };
/* The next line without its newline, appended to line; at most max_bytes,
 * else INPUT_LONG, the line is passed over and nothing appended. -1 when
 * reading or unpacking failed. */
int input_line(struct input *in, size_t max_bytes, struct text *line,
               struct err *err);
/* All that is left, in the same way (INPUT_LINE or INPUT_LONG). */
int input_rest(struct input *in, size_t max_bytes, struct text *all,
               struct err *err);

#endif
