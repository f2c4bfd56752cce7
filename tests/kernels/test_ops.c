/* Tests of every operation against the double twin, of gradients by finite
 * differences, of determinism; and the benchmark.
 *
 *   test_ops [--cuda] [--dtype f32|bf16|f16] [--grad-bf16] [--bench]
 *            [--op NAME]
 *            [--quick]: not deterministic (repeats are not compared)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/lab.h"
#include "tests/tap.h"

static struct {
    bool cuda, bench, grad16, quick;
    enum dtype dtype;
    const char *op;
} opt = {.dtype = DT_F32};

/* ||a - b|| / ||b||, or NaN. */
static double error(const struct record *a, const struct record *b)
{
    double d = 0, s = 0;

    for (int64_t i = 0; i < b->n; i++) {
        d += (a->x[i] - b->x[i]) * (a->x[i] - b->x[i]);
        s += b->x[i] * b->x[i];
    }
    return s > 0 ? sqrt(d / s) : sqrt(d);
}

static double tolerance(const struct op_row *row, const char *name)
{
    if (opt.dtype == DT_F32)
        return row->tol_f32;
    /* a difference of gradients from their random start, kept in 16 bits */
    if (opt.grad16 && name[0] == 'd')
        return 3 * row->tol_16;
    return opt.dtype == DT_BF16 ? row->tol_16 : row->tol_16 / 6;
}

static void text(char *out, const struct op_row *row, const struct dims *d)
{
    sprintf(out, "%s", row->name);
#define PART(f)                                                                \
    if (d->f)                                                                  \
    sprintf(out + strlen(out), " " #f "%d", d->f)
    PART(B);
    PART(T);
    PART(Tk);
    PART(N);
    PART(C);
    PART(F);
    PART(H);
    PART(K);
    PART(D);
    PART(V);
    if (d->variant)
        sprintf(out + strlen(out), " v%d", d->variant);
}

static void compare(const struct op_row *row, const char *title,
                    struct lab *a, struct lab *b)
{
    double worst = 0;
    int bad = a->failed || a->rec_n != b->rec_n;

    for (int i = 0; i < b->rec_n && i < a->rec_n; i++) {
        double e = error(&a->rec[i], &b->rec[i]);
        if (!(e <= tolerance(row, b->rec[i].name))) {
            printf("# %s: %s: error %.3g, allowed %.3g\n", title,
                   b->rec[i].name, e, tolerance(row, b->rec[i].name));
            bad = 1;
        }
        worst = e > worst || isnan(e) ? e : worst;
    }
    ok(!bad, "%s: as the double twin (%.2g)", title, worst);
}

/* The same bits again; on the CPU with another number of threads. */
static void repeat(const struct op_row *row, const struct dims *d,
                   const char *title, struct lab *a)
{
    double *kept[LAB_RECORDS];
    int same = 1, n = a->rec_n;

    for (int i = 0; i < n; i++) {
        kept[i] = a->rec[i].x;
        a->rec[i].x = NULL;
    }
    if (!opt.cuda)
        ops_cpu_threads(3);
    lab_begin(a);
    row->run(a, d);
    if (!opt.cuda)
        ops_cpu_threads(1);
    for (int i = 0; i < n; i++) {
        if (memcmp(kept[i], a->rec[i].x, a->rec[i].n * sizeof(double))) {
            printf("# %s: %s differs\n", title, a->rec[i].name);
            same = 0;
        }
        free(kept[i]);
    }
    ok(same, "%s: the same bits again", title);
}

/* Central differences in double along a random direction for each input. */
static void gradient(const struct op_row *row, const struct dims *d,
                     const char *title, struct lab *b)
{
    double h = 1e-5;
    int bad = 0;

    b->round = DT_F64;
    b->want_dots = true;
    lab_begin(b);
    row->run(b, d);
    b->want_dots = false;
    double dots[LAB_RECORDS], norm = fabs(b->loss) + 1;
    bool has[LAB_RECORDS] = {false};
    memcpy(dots, b->dot, sizeof dots);
    for (int i = 0; i < b->rec_n; i++)
        if (b->rec[i].grad_of >= 0)
            has[b->rec[i].grad_of] = true;
    for (int k = 0; k < LAB_RECORDS; k++) {
        if (!has[k])
            continue;
        double loss[2];
        b->move = k;
        for (int side = 0; side < 2; side++) {
            b->move_by = side ? -h : h;
            lab_begin(b);
            row->run(b, d);
            loss[side] = b->loss;
        }
        b->move = -1;
        double fd = (loss[0] - loss[1]) / (2 * h);
        double off = fabs(fd - dots[k]) /
                     (fabs(fd) + fabs(dots[k]) + 1e-4 * norm);
        if (!(off < 1e-5)) {
            printf("# %s: input %d: difference %.10g, gradient %.10g\n",
                   title, k, fd, dots[k]);
            bad = 1;
        }
    }
    ok(!bad, "%s: gradient", title);
}

static void check_row(const struct op_row *row, struct lab *a, struct lab *b)
{
    for (const struct dims *d = row->shapes; d->N || d->B; d++) {
        char title[160];
        text(title, row, d);
        a->title = b->title = title;
        a->failed = b->failed = 0;
        b->round = a->round;
        lab_begin(b);
        row->run(b, d);
        lab_begin(a);
        row->run(a, d);
        compare(row, title, a, b);
        if (!opt.quick)
            repeat(row, d, title, a);
        if (row->gradient && !opt.cuda)
            gradient(row, d, title, b);
    }
}

/* A CPU takes a 64th of what fills a GPU. */
static void bench_row(const struct op_row *row, struct lab *a)
{
    for (const struct dims *d = row->bench_shapes; d->N || d->B; d++) {
        struct dims small = *d;
        char title[160];
        if (!opt.cuda) {
            small.N = (d->N + 63) / 64;
            small.B = d->B ? 1 : 0;
        }
        text(title, row, &small);
        a->title = title;
        lab_begin(a);
        row->run(a, &small);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: test_ops [--cuda] [--dtype f32|bf16|f16] "
                    "[--grad-bf16] [--bench] [--quick] [--op NAME]\n");
    return 2;
}

static int parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--cuda"))
            opt.cuda = true;
        else if (!strcmp(argv[i], "--bench"))
            opt.bench = true;
        else if (!strcmp(argv[i], "--quick"))
            opt.quick = true;
        else if (!strcmp(argv[i], "--grad-bf16"))
            opt.grad16 = true;
        else if (!strcmp(argv[i], "--op") && i + 1 < argc)
            opt.op = argv[++i];
        else if (!strcmp(argv[i], "--dtype") && i + 1 < argc) {
            const char *t = argv[++i];
            opt.dtype = !strcmp(t, "bf16")  ? DT_BF16
                        : !strcmp(t, "f16") ? DT_F16
                                            : DT_F32;
        } else {
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct lab a, b;
    char why[200];
    size_t gib = (size_t)1 << 30;

    if (parse(argc, argv))
        return usage();
    struct device *cpu = device_create(DEVICE_CPU, 0, why, sizeof why);
    struct device *dev = cpu;
    device_arena(cpu, 4 * gib);
    if (opt.cuda) {
        dev = device_create(DEVICE_CUDA, 0, why, sizeof why);
        if (!dev)
            return tap_skip_all(why);
        if (device_arena(dev, opt.bench ? 40 * gib : 4 * gib)) {
            printf("Bail out! %s\n", device_error(dev));
            return 1;
        }
    }
    ops_cpu_threads(opt.bench && !opt.cuda ? 2 : 1);
    lab_open(&a, dev, opt.dtype, opt.grad16 ? DT_BF16 : DT_F32,
             opt.bench && opt.cuda ? 3 * gib : gib / 4, opt.bench, !opt.quick);
    if (!opt.bench)
        lab_open(&b, cpu, DT_F64, DT_F64, gib / 2, false, true);
    for (int i = 0; i < op_rows_n; i++) {
        if (opt.op && strcmp(opt.op, op_rows[i].name))
            continue;
        if (opt.bench)
            bench_row(&op_rows[i], &a);
        else
            check_row(&op_rows[i], &a, &b);
    }
    lab_close(&a);
    if (!opt.bench)
        lab_close(&b);
    if (opt.cuda)
        device_destroy(dev);
    device_destroy(cpu);
    return opt.bench ? 0 : tap_done();
}
