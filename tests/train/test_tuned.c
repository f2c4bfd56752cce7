/* The file of the products' algorithms: as written, and nothing of one that is
 * another's or damaged. */
#include "runner/base/file.h"
#include "runner/train/tuned.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 3 };
static char path[] = "/tmp/test_tuned.XXXXXX";
static struct tuned tuned[N];

static void make(void)
{
    for (int i = 0; i < N; i++) {
        tuned[i].key = (struct product_key){
            .M = 1LL << (33 + i), .N = 768, .K = 5 + i, .ldc = 7, .act = 2,
            .bias_grad = 1, .aligned = 256};
        tuned[i].ms = 0.1f * (float)(i + 1);
        for (int w = 0; w < 8; w++)
            tuned[i].algo[w] = 0xfedcba9876543210ULL * (unsigned)(w + i);
    }
}

/* 1, 0, -1 as tuned_read says. */
static int read_as(const char *id)
{
    struct tuned *got = NULL;
    struct err err = ERR_INIT;
    int n = 0, rc = tuned_read(path, id, &got, &n, &err);
    if (rc > 0)
        ok(n == N && !memcmp(got, tuned, sizeof tuned), "as it was written");
    if (rc < 0)
        ok(strstr(err.msg, path) != NULL, "the file is named");
    free(got);
    return rc;
}

static const struct {
    const char *from, *to, *what;
} damages[] = {
    {"\"sum\"", "\"sun\"", "no sum"},
    {"fedcba98", "fedcba99", "another algorithm"},
    {"768", "769", "another product"},
    {"768", "\"x\"", "a product that is no number"},
    {"[", "{", "not JSON"},
    {"\"id\"", "\"ip\"", "no id"},
    {"\"algorithm\": \"", "\"algorithm\": \"g", "no digits"},
};

static void check_damage(const char *text, size_t i)
{
    char *bad = NULL;
    const char *at = strstr(text, damages[i].from);
    if (!ok(at != NULL, "'%s' is in the file", damages[i].from))
        return;
    if (asprintf(&bad, "%.*s%s%s", (int)(at - text), text, damages[i].to,
                 at + strlen(damages[i].from)) < 0)
        abort();
    file_replace(path, bad, strlen(bad), 0600, NULL);
    is_int(read_as("gpu"), -1, damages[i].what);
    free(bad);
}

int main(void)
{
    struct err err = ERR_INIT;
    int fd = mkstemp(path);
    close(fd);
    unlink(path);
    make();
    is_int(read_as("gpu"), 0, "no file, nothing known");
    is_int(tuned_write(path, "gpu", tuned, N, &err), 0, "written");
    is_int(read_as("gpu"), 1, "and read");
    is_int(read_as("another gpu"), 0, "not for another GPU or library");
    char *text = file_read(path, 1 << 20, NULL, NULL);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
        check_damage(text, i);
    file_replace(path, "", 0, 0600, NULL);
    is_int(read_as("gpu"), -1, "an empty file");
    free(text);
    unlink(path);
    return tap_done();
}
