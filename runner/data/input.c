/* input - see input.h. */
#include "runner/data/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20 };

struct input {
    char name[PATH_MAX];
    int fd;
    int64_t size, taken;
    char *block;       /* [BLOCK_BYTES] */
    size_t at, have;   /* in block */
    bool ended;
};

struct input *input_open(const char *path, struct err *err)
{
    struct input *in = calloc(1, sizeof *in);
    struct stat st;
    if (!in || !(in->block = malloc(BLOCK_BYTES))) {
        err_set(err, "data: out of memory");
        free(in);
        return NULL;
    }
    bool standard = !strcmp(path, "-");
    snprintf(in->name, sizeof in->name, "%s",
             standard ? "standard input" : path);
    in->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    in->size = -1;
    if (in->fd < 0 || fstat(in->fd, &st))
        err_set_class(err, ERR_REQUEST, "data: cannot open '%s': %s", path,
                      strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set_class(err, ERR_REQUEST,
                      "data: cannot read '%s': it is a folder; name its files",
                      path);
    else {
        if (S_ISREG(st.st_mode))
            in->size = st.st_size;
        return in;
    }
    input_close(in);
    return NULL;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    free(in->block);
    free(in);
}

const char *input_name(const struct input *in)
{
    return in->name;
}

int64_t input_size(const struct input *in)
{
    return in->size;
}

int64_t input_taken(const struct input *in)
{
    return in->taken;
}

/* The next block; in->have == in->at at the end. */
static int refill(struct input *in, struct err *err)
{
    in->at = in->have = 0;
    while (!in->ended) {
        ssize_t n = read(in->fd, in->block, BLOCK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set_errno(err, "data: cannot read '%s'", in->name);
        in->ended = n == 0;
        in->have = (size_t)n;
        in->taken += n;
        return 0;
    }
    return 0;
}

/* Up to the byte `stop` (-1: to the end). */
static int read_until(struct input *in, int stop, size_t max_bytes,
                      struct text *text, struct err *err)
{
    size_t before = text->n;
    bool any = false, is_long = false;
    for (;;) {
        if (in->at == in->have && refill(in, err))
            return -1;
        if (in->at == in->have)
            break;
        any = true;
        char *from = in->block + in->at;
        size_t left = in->have - in->at;
        char *found = stop < 0 ? NULL : memchr(from, stop, left);
        size_t n = found ? (size_t)(found - from) : left;
        in->at += n + (found != NULL);
        is_long = is_long || text->n - before + n > max_bytes;
        if (!is_long && text_add(text, from, n, err))
            return -1;
        if (found)
            break;
    }
    if (is_long)
        text->n = before;
    return is_long ? INPUT_LONG : any ? INPUT_LINE : INPUT_END;
}

int input_line(struct input *in, size_t max_bytes, struct text *line,
               struct err *err)
{
    return read_until(in, '\n', max_bytes, line, err);
}

int input_rest(struct input *in, size_t max_bytes, struct text *all,
               struct err *err)
{
    int got = read_until(in, -1, max_bytes, all, err);
    return got == INPUT_END ? INPUT_LINE : got;
}
