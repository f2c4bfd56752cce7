/* AdamW against the formula, the schedule, clipping, skipping, the token
 * correction, and the views of the state. */
#include "tests/tap.h"
#include "tests/model/tiny.h"

#include "runner/optim/optim.h"

enum { N = 24 };

struct lab {
    struct tiny tiny;
    struct optim *optim;
    double *param, *grad;
};

static void lab_open_as(struct lab *l, double decay,
                        enum plan_precision precision)
{
    struct err err = ERR_INIT;
    tiny_open(&l->tiny, &tiny_gpt2, PLAN_FP64, 2, 4, &err);
    struct plan *p = &l->tiny.plan;
    p->precision = precision;
    p->scale_initial = 4;
    p->scale_min = 1;
    p->scale_window = 10;
    p->scale_hysteresis = 1;
    p->weight_decay = decay;
    p->lr = 0.1;
    p->clip = 0;
    l->param = device_alloc(l->tiny.ex.device, N * sizeof(double));
    l->grad = device_alloc(l->tiny.ex.device, N * sizeof(double));
    struct optim_tensor t = {.name = "w", .dims = 2, .shape = {6, 4},
                             .extent = {6, 4}, .n = N, .data = l->param,
                             .grad = l->grad, .decay = true};
    for (int i = 0; i < N; i++)
        l->param[i] = 1 + i, l->grad[i] = (i % 5 - 2) * 0.25;
    l->optim = optim_create(p, NULL, &l->tiny.ex, &t, 1, &err);
}

static void lab_open(struct lab *l, double decay)
{
    lab_open_as(l, decay, PLAN_FP64);
}

static void lab_close(struct lab *l)
{
    optim_destroy(l->optim);
    tiny_close(&l->tiny);
}

static void check_update(void)
{
    struct lab l;
    struct err err = ERR_INIT;
    struct optim_result r;
    double m[N] = {0}, v[N] = {0}, p[N], worst = 0, squares = 0;
    double sums[4] = {16, 8, 0, 4};
    lab_open(&l, 0.01);
    for (int i = 0; i < N; i++)
        p[i] = l.param[i], squares += l.grad[i] * l.grad[i];
    for (int step = 1; step <= 3; step++) {
        ok(optim_step(l.optim, step, sums, 5, &r, &err) == 0, "step %d", step);
        for (int i = 0; i < N; i++) {
            double g = l.grad[i];
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.95 * v[i] + 0.05 * g * g;
            double mh = m[i] / (1 - pow(0.9, step));
            double vh = v[i] / (1 - pow(0.95, step));
            p[i] -= 0.1 * (mh / (sqrt(vh) + 1e-8) + 0.01 * p[i]);
            worst = fmax(worst, fabs(p[i] - l.param[i]));
        }
    }
    ok(worst < 1e-8, "as the formula says: %g", worst);
    is_near(r.loss, 2, 1e-15, "mean loss over tokens");
    is_near(r.accuracy, 0.5, 1e-15, "accuracy");
    is_near(r.grad_norm, sqrt(squares), 1e-12, "norm");
    is_int(r.flags, 5, "flags come back");
    is_int(optim_updates(l.optim), 3, "updates counted");
    lab_close(&l);
}

/* Half of the tokens masked: gradients count double. */
static void check_tokens(void)
{
    struct lab l;
    struct err err = ERR_INIT;
    struct optim_result r;
    double sums[4] = {4, 4, 0, 0}, squares = 0;
    lab_open(&l, 0);
    for (int i = 0; i < N; i++)
        squares += l.grad[i] * l.grad[i];
    optim_step(l.optim, 1, sums, 0, &r, &err);
    is_near(r.grad_norm, 2 * sqrt(squares), 1e-12, "the true token count");
    lab_close(&l);
}

static void check_skip(void)
{
    struct lab l;
    struct err err = ERR_INIT;
    struct optim_result r;
    double sums[4] = {16, 8, 0, 0};
    const struct { const char *what; double loss, grad, loss_max, norm_max; }
    rows[] = {
        {"a loss that is not a number", NAN, 1, INFINITY, INFINITY},
        {"an infinite gradient", 16, INFINITY, INFINITY, INFINITY},
        {"a loss over its limit", 16, 1, 1.9, INFINITY},
        {"a norm over its limit", 16, 1, INFINITY, 0.5},
    };
    for (int i = 0; i < 4; i++) {
        lab_open(&l, 0.1);
        double first = l.param[0];
        sums[0] = rows[i].loss;
        l.grad[3] = rows[i].grad;
        optim_limits(l.optim, rows[i].loss_max, rows[i].norm_max);
        optim_step(l.optim, 1, sums, 0, &r, &err);
        ok(r.skipped && l.param[0] == first && optim_updates(l.optim) == 0,
           "%s: nothing changes", rows[i].what);
        is_int(r.finite, i >= 2, "and is told");
        lab_close(&l);
    }
}

/* fp16 on the CPU: the scale divides out, an overflow is skipped and halves
 * it, and is no anomaly. */
static void check_scale(void)
{
    struct lab l;
    struct err err = ERR_INIT;
    struct optim_result r;
    double sums[4] = {16, 8, 0, 0}, squares = 0;
    lab_open_as(&l, 0.1, PLAN_FP16);
    for (int i = 0; i < N; i++) {
        squares += l.grad[i] * l.grad[i];
        l.grad[i] *= 4;
    }
    is_near(optim_loss_scale(l.optim), 4, 0, "the first scale");
    optim_step(l.optim, 1, sums, 0, &r, &err);
    ok(!r.skipped && !r.overflow && r.loss_scale == 4, "a good step");
    is_near(r.grad_norm, sqrt(squares), 1e-12, "the norm without the scale");
    double first = l.param[0];
    l.grad[3] = INFINITY;
    optim_step(l.optim, 2, sums, 0, &r, &err);
    ok(r.skipped && r.overflow && r.finite && l.param[0] == first,
       "an overflow: skipped, no anomaly");
    is_near(optim_loss_scale(l.optim), 2, 0, "and the scale is halved");
    optim_step(l.optim, 3, sums, 0, &r, &err);
    optim_step(l.optim, 4, sums, 0, &r, &err);
    ok(r.skipped && !r.overflow && !r.finite,
       "at the least scale it is an anomaly");
    sums[0] = NAN;
    optim_step(l.optim, 5, sums, 0, &r, &err);
    ok(r.skipped && !r.overflow && !r.finite && optim_updates(l.optim) == 1,
       "so is a loss that is no number");
    lab_close(&l);
}

static void check_scaler(void)
{
    struct scaler s, other;
    struct err err = ERR_INIT;
    scaler_init(&s, 1024, 256, 3, 2);
    for (int i = 0; i < 3; i++)
        scaler_step(&s, false);
    is_near(s.scale, 2048, 0, "doubled after a window of good steps");
    ok(scaler_step(&s, true) && s.scale == 2048, "one overflow is borne");
    scaler_step(&s, false);
    ok(scaler_step(&s, true) && s.scale == 1024, "the second halves it");
    ok(scaler_step(&s, true) && s.scale == 512,
       "and each one more until it grows again");
    json_t *state = scaler_state(&s);
    scaler_init(&other, 65536, 256, 3, 2);
    is_int(scaler_restore(&other, state, &err), 0, "restored");
    ok(other.scale == 512 && other.overflows == 3 && other.good == s.good &&
       other.left == s.left, "as it was");
    scaler_step(&s, true);
    ok(s.scale == 256 && !scaler_step(&s, true) && s.scale == 256,
       "not below the least: the caller is told");
    json_object_set_new(state, "scale", json_real(-1));
    is_int(scaler_restore(&other, state, &err), -1, "a damaged one is refused");
    json_decref(state);
}

static void check_schedule(void)
{
    struct plan p = {.steps = 110, .warmup_steps = 10, .lr = 1, .min_lr = 0.1,
                     .schedule = "cosine"};
    is_near(optim_lr(&p, 1), 0.1, 1e-15, "warmup begins");
    is_near(optim_lr(&p, 10), 1, 1e-15, "warmup ends");
    is_near(optim_lr(&p, 60), 0.55, 1e-12, "cosine's middle");
    is_near(optim_lr(&p, 110), 0.1, 1e-12, "cosine's end");
    is_near(optim_lr(&p, 500), 0.1, 1e-12, "and after");
    strcpy(p.schedule, "linear");
    is_near(optim_lr(&p, 35), 0.775, 1e-12, "linear");
    strcpy(p.schedule, "constant");
    is_near(optim_lr(&p, 90), 1, 1e-15, "constant");
    p.decay_steps = 60;
    strcpy(p.schedule, "linear");
    is_near(optim_lr(&p, 60), 0.1, 1e-12, "decay may end early");
}

static void check_views(void)
{
    struct lab l;
    struct view views[8];
    lab_open(&l, 0);
    is_int(optim_views(l.optim, true, views, 8), 3, "three views a tensor");
    is_str(views[0].name, "master/w", "the parameter is the master");
    ok(views[0].ptr == l.param, "and lies there");
    is_str(views[2].name, "exp_avg_sq/w", "second moment");
    ok(views[1].extent[0] == 6 && views[1].stride[0] == 4, "whole rows");
    is_int(optim_views(l.optim, true, NULL, 0), 3, "may be asked for");
    lab_close(&l);
}

int main(void)
{
    check_update();
    check_tokens();
    check_skip();
    check_scale();
    check_scaler();
    check_schedule();
    check_views();
    return tap_done();
}
