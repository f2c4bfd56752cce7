/* Tests of runner/plan/ramp.c: Megatron's rule for the batch, and lengths. */
#include "runner/plan/plan.h"
#include "tests/tap.h"

int main(void)
{
    struct plan plan = {.steps = 14, .global_batch = 16, .seq_len = 64,
                        .batch_ramp = {4, 4, 48}, .seq_ramp = {16, 16, 8}};
    static const int batch[14] = {4, 4, 4, 4, 8, 8, 12, 12,
                                  16, 16, 16, 16, 16, 16};
    static const int length[14] = {16, 16, 16, 32, 32, 32, 48, 48,
                                   64, 64, 64, 64, 64, 64};
    int64_t consumed = 0;
    int same = 1;
    for (int step = 0; step < 14; step++) {
        same &= plan_batch_at(&plan, consumed) == batch[step] &&
                plan_seq_at(&plan, step) == length[step];
        consumed += plan_batch_at(&plan, consumed);
    }
    ok(same, "the batch grows with samples, lengths with steps");
    is_int(plan_samples(&plan), consumed, "samples of all steps");
    plan.seq_ramp = (struct plan_ramp){10, 20, 5}; /* 10 30 50, then 64 */
    ok(plan_seq_at(&plan, 0) == 10 && plan_seq_at(&plan, 4) == 50 &&
           plan_seq_at(&plan, 5) == 64, "the last length is the whole one");
    plan.batch_ramp.start = plan.seq_ramp.start = 0;
    plan.batch_ramp.over = 0;
    ok(plan_batch_at(&plan, 0) == 16 && plan_seq_at(&plan, 0) == 64,
       "without a warm-up all at once");
    is_int(plan_samples(&plan), 14 * 16, "and so many samples");
    return tap_done();
}
