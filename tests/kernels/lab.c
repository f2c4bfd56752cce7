/* lab - see lab.h. */
#include "tests/kernels/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exact.h"

static event_t bench_from, bench_to;

void lab_open(struct lab *lab, struct device *device, enum dtype act,
              enum dtype grad, size_t ws_bytes, bool bench,
              bool deterministic)
{
    memset(lab, 0, sizeof *lab);
    lab->move = -1;
    lab->round = act;
    lab->bench = bench;
    enum kstatus s = exec_init(&lab->ex, device, act, grad, ws_bytes,
                               deterministic);
    if (s) {
        printf("Bail out! exec_init: status %d: %s\n", s, device_error(device));
        exit(1);
    }
    if (!bench_from) {
        bench_from = device_event_create(device);
        bench_to = device_event_create(device);
    }
}

void lab_close(struct lab *lab)
{
    exec_release(&lab->ex);
}

void lab_begin(struct lab *lab)
{
    static size_t mark_of[2];
    int side = device_kind(lab->ex.device) == DEVICE_CUDA;

    if (!mark_of[side])
        mark_of[side] = device_mark(lab->ex.device);
    device_reset(lab->ex.device, mark_of[side]);
    for (int i = 0; i < lab->rec_n; i++)
        free(lab->rec[i].x);
    lab->rec_n = lab->inputs_n = 0;
    lab->loss = 0;
    memset(lab->dot, 0, sizeof lab->dot);
}

static void *take(struct lab *lab, size_t bytes)
{
    void *p = device_alloc(lab->ex.device, bytes);

    if (!p) {
        printf("Bail out! %s\n", device_error(lab->ex.device));
        exit(1);
    }
    return p;
}

/* Round a host double through a dtype, by the reference's own cast. */
static void round_to(double *x, int64_t n, enum dtype dtype)
{
    uint64_t buf[1024];

    for (int64_t i = 0; i < n && dtype != DT_F64; i += 1024) {
        int64_t m = n - i < 1024 ? n - i : 1024;
        ops_cpu_f64.cast(NULL, buf, dtype, x + i, DT_F64, m);
        ops_cpu_f64.cast(NULL, x + i, DT_F64, buf, dtype, m);
    }
}

static void *put(struct lab *lab, const double *x, int64_t n, enum dtype dtype)
{
    size_t bytes = n * dtype_bytes(dtype);
    void *host = malloc(bytes + 1), *p = take(lab, bytes);

    ops_cpu_f64.cast(NULL, host, dtype, x, DT_F64, n);
    device_copy_in(lab->ex.device, p, host, bytes, lab->ex.stream);
    device_sync(lab->ex.device, lab->ex.stream);
    free(host);
    return p;
}

static double *get(struct lab *lab, const void *x, int64_t n, enum dtype dtype)
{
    size_t bytes = n * dtype_bytes(dtype);
    void *host = malloc(bytes + 1);
    double *out = malloc(n * sizeof *out + 1);

    device_copy_out(lab->ex.device, host, x, bytes, lab->ex.stream);
    enum kstatus s = device_sync(lab->ex.device, lab->ex.stream);
    if (s) {
        printf("Bail out! %s: %s\n", lab->title, device_error(lab->ex.device));
        exit(1);
    }
    ops_cpu_f64.cast(NULL, out, DT_F64, host, dtype, n);
    free(host);
    return out;
}

static void normal(double *x, uint64_t key, int64_t n, double std, double mean)
{
    double four[4];

    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            exact_normal4(key, i / 4, four);
        x[i] = mean + std * four[i % 4];
    }
}

#define KEY_INPUT 1000
#define KEY_MOVE 2000
#define KEY_START 3000
#define KEY_DOUT 4000

static void *input(struct lab *lab, int64_t n, double std, double mean,
                   int *at)
{
    int k = lab->inputs_n++;

    if (at)
        *at = k;
    if (lab->bench) {
        void *p = take(lab, n * dtype_bytes(lab->ex.act));
        lab->ex.ops->fill_normal(&lab->ex, p, lab->ex.act, KEY_INPUT + k, 0, n,
                                 std);
        return p;
    }
    double *x = malloc(n * sizeof *x), *v = malloc(n * sizeof *v);
    normal(x, KEY_INPUT + k, n, std, mean);
    round_to(x, n, lab->round);
    normal(v, KEY_MOVE + k, n, 1, 0);
    for (int64_t i = 0; i < n && lab->move == k; i++)
        x[i] += lab->move_by * v[i];
    void *p = put(lab, x, n, lab->ex.act);
    free(x);
    free(v);
    return p;
}

void *lab_in(struct lab *lab, int64_t n, double std, int *at)
{
    return input(lab, n, std, 0, at);
}

void *lab_in_one(struct lab *lab, int64_t n, int *at)
{
    return input(lab, n, 0.3, 1, at);
}

void *lab_host(struct lab *lab, const void *host, size_t bytes)
{
    void *p = take(lab, bytes);

    device_copy_in(lab->ex.device, p, host, bytes, lab->ex.stream);
    device_sync(lab->ex.device, lab->ex.stream);
    return p;
}

void *lab_out(struct lab *lab, int64_t n, enum dtype dtype)
{
    size_t bytes = n * dtype_bytes(dtype);
    void *p = take(lab, bytes);

    if (lab->bench)
        return p;
    char *host = malloc(bytes + 1);
    memset(host, 0xff, bytes);
    device_copy_in(lab->ex.device, p, host, bytes, lab->ex.stream);
    device_sync(lab->ex.device, lab->ex.stream);
    free(host);
    return p;
}

/* Parameter gradients start from random numbers: they are added to. */
static double *start(int at, int64_t n, enum dtype grad)
{
    double *x = malloc(n * sizeof *x);

    normal(x, KEY_START + at, n, 0.1, 0);
    round_to(x, n, grad == DT_F64 ? DT_F32 : grad);
    return x;
}

struct weight lab_weight(struct lab *lab, int out, int in, bool in_out,
                         double std, int *at)
{
    struct weight w = {.out = out, .in = in, .in_out = in_out};
    int64_t n = (int64_t)out * in;

    w.data = input(lab, n, std ? std : 0.3, std ? 0 : 1, at);
    if (lab->bench) {
        w.grad = take(lab, n * dtype_bytes(lab->ex.grad));
        return w;
    }
    double *x = start(*at, n, lab->ex.grad);
    w.grad = put(lab, x, n, lab->ex.grad);
    free(x);
    return w;
}

static void record(struct lab *lab, const char *name, double *x, int64_t n,
                   int at)
{
    struct record *r = &lab->rec[lab->rec_n++];

    r->name = name;
    r->x = x;
    r->n = n;
    r->grad_of = at;
    if (at < 0 || !lab->want_dots)
        return;
    double *v = malloc(n * sizeof *v);

    normal(v, KEY_MOVE + at, n, 1, 0);
    for (int64_t i = 0; i < n; i++)
        lab->dot[at] += x[i] * v[i];
    free(v);
}

void *lab_fwd(struct lab *lab, const char *name, const void *y, int64_t n)
{
    if (lab->bench) {
        void *p = take(lab, n * dtype_bytes(lab->ex.act));
        lab->ex.ops->fill_normal(&lab->ex, p, lab->ex.act, KEY_DOUT, 0, n, 1);
        return p;
    }
    double *x = get(lab, y, n, lab->ex.act), *d = malloc(n * sizeof *d);
    normal(d, KEY_DOUT + lab->rec_n, n, 1, 0);
    round_to(d, n, lab->round);
    for (int64_t i = 0; i < n; i++)
        lab->loss += x[i] * d[i];
    void *p = put(lab, d, n, lab->ex.act);
    free(d);
    record(lab, name, x, n, -1);
    return p;
}

void lab_got(struct lab *lab, const char *name, const void *x, int64_t n,
             enum dtype dtype)
{
    if (!lab->bench)
        record(lab, name, get(lab, x, n, dtype), n, -1);
}

void lab_grad(struct lab *lab, const char *name, const void *dx, int64_t n,
              int at)
{
    if (!lab->bench)
        record(lab, name, get(lab, dx, n, lab->ex.act), n, at);
}

void lab_wgrad(struct lab *lab, const char *name, const struct weight *w,
               int at)
{
    int64_t n = (int64_t)w->out * w->in;

    if (lab->bench)
        return;
    double *x = get(lab, w->grad, n, lab->ex.grad);
    double *from = start(at < 0 ? ~at : at, n, lab->ex.grad);
    for (int64_t i = 0; i < n; i++)
        x[i] -= from[i];
    free(from);
    record(lab, name, x, n, at);
}

void lab_add_loss(struct lab *lab, double loss)
{
    lab->loss += loss;
}

bool lab_check(struct lab *lab, const char *name, enum kstatus status)
{
    if (status == K_OK)
        return true;
    if (!lab->failed)
        printf("# %s: %s: status %d: %s\n", lab->title, name, status,
               device_error(lab->ex.device));
    lab->failed++;
    return false;
}

/* The number of rounds, and the clock: called before each and after the last.
 * First one round alone decides how many make 60 ms. */
int lab_rounds(struct lab *lab, int i, const char *name, double flop,
               double bytes)
{
    static int rounds;
    struct device *dev = lab->ex.device;

    if (i == 0) {
        device_event_record(dev, bench_from, lab->ex.stream);
        return rounds = 3;
    }
    if (i == 3 && rounds == 3) {
        device_event_record(dev, bench_to, lab->ex.stream);
        device_sync(dev, lab->ex.stream);
        double ms = device_event_ms(dev, bench_from, bench_to) / 3;
        rounds = 3 + (ms > 20 ? 3 : ms < 0.1 ? 600 : (int)(60 / ms));
        device_event_record(dev, bench_from, lab->ex.stream);
        return rounds;
    }
    if (i < rounds)
        return rounds;
    device_event_record(dev, bench_to, lab->ex.stream);
    device_sync(dev, lab->ex.stream);
    double ms = device_event_ms(dev, bench_from, bench_to) / (rounds - 3);
    printf("%-34s %-14s %10.4f ms %9.1f GFLOP/s %8.1f GB/s\n", lab->title,
           name, ms, flop / ms / 1e6, bytes / ms / 1e6);
    fflush(stdout);
    return rounds;
}
