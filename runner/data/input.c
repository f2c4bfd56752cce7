/* input - see input.h. */
#include "runner/data/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 20 };

/* Each reads standard input and writes standard output with -dc. */
static const struct packing {
    const char *suffix, *program;
} packings[] = {
    {".gz", "gzip"}, {".zst", "zstd"}, {".xz", "xz"}, {".bz2", "bzip2"}};

struct input {
    char name[PATH_MAX];
    int file_fd;       /* the file; its offset is shared with the unpacker */
    int fd;            /* what is read: the file or the unpacker's output */
    const struct packing *packing; /* NULL: none */
    pid_t pid;         /* the unpacker's, 0: none runs */
    int64_t taken;
    char *block;       /* [BLOCK_BYTES] */
    size_t at, have;   /* in block */
    bool ended;
};

/* Do the first n bytes of path end in end, and not only consist of it? */
static bool ends_in(const char *path, size_t n, const char *end)
{
    size_t end_n = strlen(end);
    return n > end_n && !memcmp(path + n - end_n, end, end_n);
}

static const struct packing *packing_of(const char *path)
{
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++)
        if (ends_in(path, strlen(path), packings[i].suffix))
            return &packings[i];
    return NULL;
}

size_t input_packed_suffix(const char *path)
{
    const struct packing *packing = packing_of(path);
    return packing ? strlen(packing->suffix) : 0;
}

bool input_is_jsonl(const char *path)
{
    size_t n = strlen(path) - input_packed_suffix(path);
    return ends_in(path, n, ".jsonl") || ends_in(path, n, ".json");
}

static int open_file(const char *path, int64_t *ret_bytes, struct err *err)
{
    struct stat st;
    if (!strcmp(path, "-")) {
        *ret_bytes = -1;
        return STDIN_FILENO;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        err_set_class(err, ERR_REQUEST, "data: cannot open '%s': %s", path,
                      strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set_class(err, ERR_REQUEST,
                      "data: cannot read '%s': it is a folder; name its files",
                      path);
    else {
        *ret_bytes = S_ISREG(st.st_mode) ? st.st_size : -1;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

int input_measure(const char *path, int64_t *ret_bytes, struct err *err)
{
    int fd = open_file(path, ret_bytes, err);
    if (fd > STDIN_FILENO)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static int start_unpacker(struct input *in, struct err *err)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char *)in->packing->program, "-dc", NULL};
    char *no_env[] = {NULL}; /* found by our PATH; it needs nothing else */
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return err_set_errno(err, "data: cannot make a pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in->file_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int rc = posix_spawnp(&in->pid, argv[0], &actions, NULL, argv, no_env);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!rc) {
        in->fd = ends[0];
        return 0;
    }
    close(ends[0]);
    in->pid = 0;
    return err_set_class(err, ERR_REQUEST,
                         "data: cannot unpack '%s': %s: %s; install it or "
                         "unpack the file before", in->name, argv[0],
                         strerror(rc));
}

struct input *input_open(const char *path, struct err *err)
{
    struct input *in = calloc(1, sizeof *in);
    int64_t bytes;
    if (!in || !(in->block = malloc(BLOCK_BYTES))) {
        err_set(err, "data: out of memory");
        free(in);
        return NULL;
    }
    snprintf(in->name, sizeof in->name, "%s",
             strcmp(path, "-") ? path : "standard input");
    in->fd = -1;
    in->file_fd = open_file(path, &bytes, err);
    in->packing = packing_of(path);
    if (in->file_fd < 0 || (in->packing && start_unpacker(in, err))) {
        input_close(in);
        return NULL;
    }
    if (!in->packing)
        in->fd = in->file_fd;
    return in;
}

/* Waits for the unpacker; its status. It ends when nobody reads it. */
static int end_unpacker(struct input *in)
{
    int status = 0;
    if (in->fd >= 0 && in->fd != in->file_fd)
        close(in->fd);
    in->fd = -1;
    while (in->pid && waitpid(in->pid, &status, 0) < 0 && errno == EINTR)
        ;
    in->pid = 0;
    return status;
}

void input_close(struct input *in)
{
    if (!in)
        return;
    if (in->pid && !in->ended)
        kill(in->pid, SIGTERM);
    end_unpacker(in);
    if (in->file_fd > STDIN_FILENO)
        close(in->file_fd);
    free(in->block);
    free(in);
}

int64_t input_taken(const struct input *in)
{
    off_t at = in->packing ? lseek(in->file_fd, 0, SEEK_CUR) : in->taken;
    return at < 0 ? in->taken : at;
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
        if (in->ended && in->packing && end_unpacker(in))
            return err_set_class(err, ERR_REQUEST,
                                 "data: cannot unpack '%s': %s failed",
                                 in->name, in->packing->program);
        return 0;
    }
    return 0;
}

int64_t input_offset(const struct input *in)
{
    return in->taken - (int64_t)(in->have - in->at);
}

int input_skip(struct input *in, int64_t bytes, struct err *err)
{
    if (!in->packing && in->file_fd != STDIN_FILENO && !in->taken &&
        lseek(in->file_fd, bytes, SEEK_SET) == bytes) {
        in->taken = bytes;
        return 0;
    }
    while (bytes > 0) {
        if (in->at == in->have && refill(in, err))
            return -1;
        int64_t some = (int64_t)(in->have - in->at);
        if (!some)
            return err_set_class(err, ERR_REQUEST,
                                 "data: '%s' became shorter", in->name);
        in->at += (size_t)(some < bytes ? some : bytes);
        bytes -= some < bytes ? some : bytes;
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
