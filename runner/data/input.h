/* input - a text file or standard input, in lines or whole. */
#ifndef KB_DATA_INPUT_H
#define KB_DATA_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/data/text.h"

struct input;

/* path: a file, or "-" for standard input. NULL on error. */
struct input *input_open(const char *path, struct err *err);
void input_close(struct input *in);
const char *input_name(const struct input *in); /* for messages */
int64_t input_size(const struct input *in);     /* -1: unknown */
int64_t input_taken(const struct input *in);    /* of it, so far */

enum input_got { INPUT_END, INPUT_LINE, INPUT_LONG };
/* The next line without its newline, appended to line; at most max_bytes,
 * else INPUT_LONG, the line is passed over and nothing appended. -1 when
 * reading failed. */
int input_line(struct input *in, size_t max_bytes, struct text *line,
               struct err *err);
/* All that is left, in the same way (INPUT_LINE or INPUT_LONG). */
int input_rest(struct input *in, size_t max_bytes, struct text *all,
               struct err *err);

#endif
