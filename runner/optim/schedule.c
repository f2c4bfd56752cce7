/* schedule - the learning rate of a step: linear warmup, then a decay to
 * min_lr over decay_steps (0: the run's steps). */
#include "runner/optim/optim.h"

#include <math.h>
#include <string.h>

static double shape_cosine(double done)
{
    return 0.5 * (1 + cos(3.14159265358979323846 * done));
}
static double shape_linear(double done) { return 1 - done; }
static double shape_constant(double done) { return 1; }

static const struct {
    const char *name;
    double (*shape)(double done); /* 1 at done = 0 */
} schedules[] = {
    {"cosine", shape_cosine},
    {"linear", shape_linear},
    {"constant", shape_constant},
};

double optim_lr(const struct plan *plan, int64_t step)
{
    if (plan->warmup_steps > 0 && step <= plan->warmup_steps)
        return plan->lr * (double)step / (double)plan->warmup_steps;
    int64_t end = plan->decay_steps > 0 ? plan->decay_steps : plan->steps;
    double span = (double)(end - plan->warmup_steps);
    double done = span > 0 ? (double)(step - plan->warmup_steps) / span : 1;
    if (done > 1)
        done = 1;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (strcmp(plan->schedule, schedules[i].name) == 0)
            return plan->min_lr +
                   (plan->lr - plan->min_lr) * schedules[i].shape(done);
    return plan->lr;
}
