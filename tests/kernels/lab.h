/* lab - one operation under test: inputs by name, poisoned outputs, records.
 *
 * A case is a function that runs an operation's forward and backward on the
 * lab's exec. The lab runs it on the device under test and on the double twin
 * and compares; runs it with one input moved along a random direction and
 * compares the change with the gradient; runs it again and compares bits; or
 * times it. Inputs are rounded to the tested dtype first, so that both sides
 * see the same numbers.
 */
#ifndef KB_TESTS_KERNELS_LAB_H
#define KB_TESTS_KERNELS_LAB_H

#include "kernels/exec.h"

#define LAB_RECORDS 24

struct dims {
    int N, C, F, H, K, D, V, Vp, B, T, Tk;
    int variant; /* what else a case distinguishes */
};

struct record {
    const char *name;
    double *x;
    int64_t n;
    int grad_of; /* input number, or -1 */
};

struct lab {
    struct exec ex;
    enum dtype round;        /* inputs are rounded to this */
    int inputs_n, failed;
    struct record rec[LAB_RECORDS];
    int rec_n;
    double loss;             /* sum of outputs times their dout */
    int move;                /* input that is moved, or -1 */
    double move_by;
    double dot[LAB_RECORDS]; /* by input: gradient along the direction */
    bool want_dots;
    bool bench;
    const char *title;
};

void lab_open(struct lab *lab, struct device *device, enum dtype act,
              enum dtype grad, size_t ws_bytes, bool bench,
              bool deterministic);
void lab_close(struct lab *lab);
/* Forget the records, free the arena's blocks. */
void lab_begin(struct lab *lab);

/* Random input, normal with std; `at` gives its number for lab_grad. */
void *lab_in(struct lab *lab, int64_t n, double std, int *at);
/* The same around a mean of 1 (norm weights). */
void *lab_in_one(struct lab *lab, int64_t n, int *at);
/* In stat or another dtype, not moved and not rounded. */
void *lab_host(struct lab *lab, const void *host, size_t bytes);
/* Poisoned: not-a-numbers. */
void *lab_out(struct lab *lab, int64_t n, enum dtype dtype);
/* A weight with gradient (random start) of rows x cols in memory. */
struct weight lab_weight(struct lab *lab, int out, int in, bool in_out,
                         double std, int *at);
/* An output of the forward pass: recorded; returns its dout. */
void *lab_fwd(struct lab *lab, const char *name, const void *y, int64_t n);
/* A result: recorded for comparison. */
void lab_got(struct lab *lab, const char *name, const void *x, int64_t n,
             enum dtype dtype);
/* A gradient, written, of input `at`; or added to w.grad. ~at: of an input that
 * the case's forward does not use, so that differences say nothing. */
void lab_grad(struct lab *lab, const char *name, const void *dx, int64_t n,
              int at);
void lab_wgrad(struct lab *lab, const char *name, const struct weight *w,
               int at);
void lab_add_loss(struct lab *lab, double loss);

/* Run an operation; in bench mode time it. flop and bytes of one call. */
#define LAB_RUN(lab, name, flop, bytes, call)                                  \
    do {                                                                       \
        double flop_ = (flop), bytes_ = (bytes);                               \
        if (lab_check(lab, name, call) && (lab)->bench) {                      \
            for (int i_ = 0; i_ < lab_rounds(lab, i_, name, flop_, bytes_);    \
                 i_++)                                                         \
                lab_check(lab, name, call);                                    \
        }                                                                      \
    } while (0)
bool lab_check(struct lab *lab, const char *name, enum kstatus status);
int lab_rounds(struct lab *lab, int i, const char *name, double flop,
               double bytes);

typedef void (*lab_case)(struct lab *lab, const struct dims *d);
struct op_row {
    const char *name;
    lab_case run;
    bool gradient;        /* finite differences hold */
    double tol_f32, tol_16; /* relative error; 16: bf16 (fp16 an eighth) */
    const struct dims *shapes, *bench_shapes;
};
extern const struct op_row op_rows[];
extern const int op_rows_n;

#endif
