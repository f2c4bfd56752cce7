/* What counts as an anomaly, what follows from it, and that the state survives
 * a checkpoint bit for bit. */
#include "runner/train/guard.h"
#include "tests/tap.h"

#include <stdlib.h>

enum { W = 32 };

static void calm(struct guard *g, int steps)
{
    for (int i = 0; i < steps; i++)
        guard_look(g, 3 + 0.01 * (i % 7), 1 + 0.05 * (i % 5), true, false);
}

static void check_limits(void)
{
    struct guard g;
    double loss, norm;
    guard_init(&g, W, 6);
    calm(&g, 10);
    guard_limits(&g, &loss, &norm);
    ok(isinf(loss) && isinf(norm), "no limits without history");
    calm(&g, 40);
    guard_limits(&g, &loss, &norm);
    ok(loss > 3.1 && loss < 4, "loss limit %g", loss);
    ok(norm > 1.5 && norm < 4, "norm limit %g", norm);
    guard_init(&g, W, 0);
    calm(&g, 50);
    guard_limits(&g, &loss, &norm);
    ok(isinf(loss), "sigma 0 is off");
}

static void check_verdicts(void)
{
    struct guard g;
    guard_init(&g, W, 6);
    is_int(guard_look(&g, NAN, NAN, false, true), GUARD_SKIPPED, "one NaN");
    is_int(guard_look(&g, NAN, NAN, false, true), GUARD_HOPELESS,
           "never finite: the user's");
    guard_init(&g, W, 6);
    calm(&g, 40);
    is_int(guard_look(&g, 9, 1, true, true), GUARD_SKIPPED, "a spike");
    is_int(guard_look(&g, 3, 1, true, false), GUARD_FINE, "and on");
    is_int(guard_look(&g, NAN, 1, false, true), GUARD_SKIPPED, "a NaN later");
    is_int(guard_look(&g, NAN, 1, false, true), GUARD_ROLL_BACK,
           "two in a row: roll back");
    guard_init(&g, W, 6);
    calm(&g, 40);
    int verdict = GUARD_FINE, n = 0;
    for (; verdict != GUARD_ROLL_BACK && n < 50; n++)
        verdict = guard_look(&g, 9, 1, true, n % 2 == 0);
    ok(verdict == GUARD_ROLL_BACK && n > 6, "many spikes: roll back (%d)", n);
}

static void check_state(void)
{
    struct guard g, h;
    struct err err = ERR_INIT;
    double a, b, c, d;
    guard_init(&g, W, 6);
    calm(&g, 45);
    guard_look(&g, 1.0 / 3, 2.0 / 7, true, false);
    guard_look(&g, 9, 1, true, true);
    json_t *saved = guard_state(&g);
    char *text = json_dumps(saved, 0);
    json_t *state = json_loads(text, 0, NULL);
    guard_init(&h, W, 6);
    ok(guard_restore(&h, state, &err) == 0, "restored");
    ok(memcmp(&g, &h, sizeof g) == 0, "to the bit");
    guard_limits(&g, &a, &b);
    guard_limits(&h, &c, &d);
    ok(a == c && b == d, "with the same limits");
    guard_init(&h, W / 2, 6);
    ok(guard_restore(&h, state, &err) == 0 && h.loss.n == 0 && h.good == g.good,
       "another window begins anew");
    json_object_set_new(json_object_get(state, "loss"), "at",
                        json_integer(W + 1));
    guard_init(&h, W, 6);
    ok(guard_restore(&h, state, &err) == -1 && err.class == ERR_STEP,
       "a damaged state is refused");
    err = ERR_INIT;
    json_object_del(state, "good");
    ok(guard_restore(&h, state, &err) == -1, "and one without a count");
    free(text);
    json_decref(saved);
    json_decref(state);
}

int main(void)
{
    check_limits();
    check_verdicts();
    check_state();
    return tap_done();
}
