/* Tests of kernels/device.c on the CPU and of kernels/exec.c: the arena's
 * marks, alignment and zeros, streams and copies, and what is refused. */
#include <string.h>

#include "kernels/exec.h"
#include "tests/tap.h"

static struct device *device;

static bool all(const unsigned char *p, size_t n, unsigned char value)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != value)
            return false;
    return true;
}

static void test_arena(void)
{
    ok(!device_alloc(device, 1), "nothing to carve before there is an arena");
    is_int(device_arena(device, 0), K_INVALID, "an empty arena is refused");
    is_int(device_arena(device, 10000), K_OK, "an arena");
    is_int(device_arena(device, 10000), K_INVALID, "only one");
    unsigned char *a = device_alloc(device, 100), *b = device_alloc(device, 1);
    ok((uintptr_t)a % 256 == 0 && (uintptr_t)b % 256 == 0, "256-byte aligned");
    is_int(b - a, 256, "side by side");
    ok(all(a, 100, 0), "zeroed");

    size_t mark = device_mark(device);
    unsigned char *c = device_alloc(device, 3000);
    memset(c, 7, 3000);
    device_reset(device, mark);
    unsigned char *d = device_alloc(device, 5000);
    ok(c == d && all(d, 5000, 0), "carved again, zeroed again");
    is_int(device_arena_used(device), 512 + 5120, "the high-water mark");
    ok(!device_alloc(device, 5000), "full");
    ok(strstr(device_error(device), "arena full"), "and says so");
    ok(device_alloc(device, 4000) != NULL, "what fits still fits");
}

static void test_copies(void)
{
    stream_t s = device_stream(device, 0);
    char *host = device_alloc_host(device, 64), in[64] = "words", out[64] = "";
    ok(host && all((unsigned char *)host, 64, 0), "host memory, zeroed");
    event_t from = device_event_create(device);
    event_t to = device_event_create(device);
    device_event_record(device, from, s);
    is_int(device_copy_in(device, host, in, 64, s), K_OK, "copy in");
    is_int(device_copy(device, host + 6, host, 6, s), K_OK, "copy");
    is_int(device_copy_out(device, out, host + 6, 6, s), K_OK, "copy out");
    device_event_record(device, to, s);
    is_int(device_sync(device, s), K_OK, "sync");
    is_str(out, "words", "all the way");
    ok(device_event_done(device, to) && device_event_ms(device, from, to) >= 0,
       "events tell time");
    is_int(device_zero(device, host, 64, s), K_OK, "zero");
    ok(all((unsigned char *)host, 64, 0), "is zero");
    ok(!device_stream(device, 99), "no such stream");
}

/* Address now, pages later; pieces begin where copies are cut. */
static void test_reserved(void)
{
    size_t bytes = DEVICE_PIECE + 5000;
    char *p = device_reserve_host(device, bytes);
    int calls = 1;
    ok(p && (uintptr_t)p % DEVICE_PIECE == 0, "reserved, at a piece's begin");
    p[bytes - 1] = 'x';
    while (device_ripen_host(device, p))
        calls++;
    is_int(calls, 2, "as many calls as pieces");
    ok(!device_ripen_host(device, p), "then it is all there");
    ok(p[bytes - 1] == 'x' && p[0] == 0, "what was written stays");
    ok(!device_ripen_host(device, p + 1), "not one of ours: nothing to do");
}

static void test_exec(void)
{
    struct exec ex;
    is_int(exec_init(&ex, device, DT_BF16, DT_F32, 0, true), K_UNSUPPORTED,
           "no bf16 on the CPU");
    is_int(exec_init(&ex, device, DT_F32, DT_F32, 1 << 20, false), K_NOMEM,
           "scratch that the arena does not hold");
    is_int(exec_init(&ex, device, DT_F64, DT_F32, 0, false), K_OK, "double");
    ok(ex.grad == DT_F64 && ex.stat == DT_F64 && ex.deterministic,
       "double throughout, and deterministic");
    is_str(ex.ops->name, "cpu-f64", "by the double table");
    float x[4];
    is_int(ex.ops->cast(&ex, x, DT_F32, x, DT_I32, 4), K_UNSUPPORTED,
           "no integers in cast");
    exec_release(&ex);
    exec_release(NULL);
}

static void test_absent(void)
{
    char why[100] = "";
    struct device *gpu = device_create(DEVICE_CUDA, 0, why, sizeof why);
    ok(gpu || *why, "no GPU: a reason (%s)", why);
    device_destroy(gpu);
    device_destroy(NULL);
    is_str(dtype_name(DT_BF16), "BF16", "names are safetensors'");
    is_int(dtype_bytes(DT_N), 0, "no such dtype");
}

int main(void)
{
    char name[64];
    int64_t total = 0, free_bytes = 0;
    device = device_create(DEVICE_CPU, 0, NULL, 0);
    device_info(device, name, sizeof name, &total, &free_bytes);
    ok(*name && total > 0 && free_bytes > 0, "a CPU: %s", name);
    test_arena();
    test_copies();
    test_reserved();
    test_exec();
    test_absent();
    device_destroy(device);
    return tap_done();
}
