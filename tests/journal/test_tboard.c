/* Tests of runner/journal/tboard.c, tb_record.c and crc32c.c. */
#include <dirent.h>
#include <endian.h>

#include "runner/journal/crc32c.h"
#include "runner/journal/journal.h"
#include "runner/journal/tb_record.h"
#include "tests/data/scratch.h"
#include "tests/tap.h"

static const char *hex(const struct sbuf *bytes)
{
    static char text[512];
    for (size_t i = 0; i < bytes->len; i++)
        sprintf(text + 2 * i, "%02x", (unsigned char)bytes->data[i]);
    return text;
}

/* The bytes that TensorBoard's own writer gives. */
static void test_golden(void)
{
    struct sbuf out = SBUF_INIT;
    is_int(crc32c("123456789", 9), 0xe3069283, "crc32c");
    tb_record_version(&out, 1700000000.0);
    is_str(hex(&out),
           "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e"
           "743a32eced8f9d", "the version record");
    sbuf_clear(&out);
    tb_record_scalar(&out, 1700000001.0, 7, "loss", 2.5f);
    is_str(hex(&out),
           "1a00000000000000129bd82d0900004040fc54d94110072a0d0a0b0a046c6f7373"
           "150000204037efed96", "a scalar record");
    sbuf_clear(&out);
    tb_record_session(&out, 1700000001.0, 300);
    ok(strstr(hex(&out), "10ac023a020801"),
       "a session record has its step and status");
    sbuf_release(&out);
}

/* Walk a file's records; -1 when one is broken. */
static int count_records(const char *path)
{
    struct err err = ERR_INIT;
    size_t n, at = 0;
    int records_n = 0;
    char *data = file_read(path, 1 << 20, &n, &err);
    while (data && at < n && records_n >= 0) {
        uint64_t len = 0;
        uint32_t sums[2] = {0};
        if (n - at < 16)
            break;
        memcpy(&len, data + at, 8);
        memcpy(&sums[0], data + at + 8, 4);
        if (le64toh(len) > n - at - 16)
            break;
        memcpy(&sums[1], data + at + 12 + len, 4);
        if (le32toh(sums[0]) != crc32c_masked(data + at, 8) ||
            le32toh(sums[1]) != crc32c_masked(data + at + 12, len))
            break;
        at += 16 + len;
        records_n++;
    }
    free(data);
    return data && at == n ? records_n : -1;
}

static int count_all(const char *dir, int *files_n)
{
    DIR *d = opendir(dir);
    int sum = 0;
    *files_n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        if (strncmp(e->d_name, "events.out.tfevents.", 20))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        sum += count_records(path);
        ++*files_n;
    }
    if (d)
        closedir(d);
    return sum;
}

static void test_files(void)
{
    struct err err = ERR_INIT;
    char run[PATH_MAX], tb_dir[PATH_MAX];
    int files_n;
    strcpy(run, scratch("run"));
    strcpy(tb_dir, scratch("run/tb"));
    struct tboard *tb = tboard_open(run, 1, &err);
    ok(tb && !tboard_scalar(tb, "lm loss", 1, 1700000000, 3.5f) &&
           !tboard_flush(tb, &err), "one scalar");
    is_int(count_all(tb_dir, &files_n), 2, "version and scalar are there");
    struct metrics m = {.step = 2, .consumed_samples = 16, .loss = 3,
                        .z = NAN, .accuracy = NAN, .valid_loss = NAN};
    ok(!tboard_metrics(tb, &m), "metrics");
    tboard_close(tb);
    int before = count_all(tb_dir, &files_n);
    ok(before > 10 && files_n == 1, "closing writes the rest");
    tb = tboard_open(run, 2, &err);
    tboard_scalar(tb, "lm loss", 2, 1700000000, 3.5f);
    tboard_scalar(tb, "lm loss", 3, 1700000000, 3.5f);
    tboard_close(tb);
    is_int(count_all(tb_dir, &files_n), before + 4,
           "the second attempt: version, session, two scalars");
    is_int(files_n, 2, "in a file of its own");
    ok(!tboard_open("/proc/nowhere", 1, &err), "no folder, no file");
}

int main(void)
{
    test_golden();
    test_files();
    return tap_done();
}
