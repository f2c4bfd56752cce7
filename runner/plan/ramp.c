/* ramp - how large a step is while a run warms up: sequences by the samples
 * that were drawn, tokens of a sequence by the step. What a step has follows
 * from the plan and where the run is, so a resumed run goes on alike. */
#include "runner/plan/plan_private.h"

int plan_batch_at(const struct plan *plan, int64_t consumed)
{
    const struct plan_ramp *r = &plan->batch_ramp;
    if (!r->start || consumed >= r->over)
        return plan->global_batch;
    int64_t levels = (plan->global_batch - r->start) / r->add;
    double each = (double)r->over / (double)levels;
    int64_t level = (int64_t)((double)consumed / each);
    return r->start + (int)(level < levels ? level : levels) * r->add;
}

int plan_seq_at(const struct plan *plan, int64_t step)
{
    const struct plan_ramp *r = &plan->seq_ramp;
    if (!r->start || step >= r->over)
        return plan->seq_len;
    int64_t levels = (plan->seq_len - r->start + r->add - 1) / r->add;
    int64_t T = r->start + (int64_t)((double)step / (double)r->over *
                                     (double)levels) * r->add;
    return T < plan->seq_len ? (int)T : plan->seq_len;
}

int64_t plan_samples(const struct plan *plan)
{
    int64_t samples = 0, step = 0;
    for (; step < plan->steps && samples < plan->batch_ramp.over; step++)
        samples += plan_batch_at(plan, samples);
    return samples + (plan->steps - step) * plan->global_batch;
}

/* ---- Making -------------------------------------------------------------- */

static void take(struct making *m, const char *start, const char *add,
                 const char *over, struct plan_ramp *ret)
{
    ret->start = (int)conf_int(m->conf, start);
    ret->add = conf_is_set(m->conf, add) ? (int)conf_int(m->conf, add)
                                         : ret->start;
    ret->over = ret->start ? conf_int(m->conf, over) : 0;
    if (ret->start && !ret->over)
        refuse(m, over, "must be given beside %s", start);
}

static void check_batch(struct making *m)
{
    const struct plan *plan = m->plan;
    const struct plan_ramp *r = &plan->batch_ramp;
    int b = plan->micro_batch;
    if (r->start >= plan->global_batch)
        refuse(m, "train.batch_warmup_start", "%d is not less than "
               "train.global_batch %d; lower it", r->start, plan->global_batch);
    else if ((plan->global_batch - r->start) % r->add)
        refuse(m, "train.batch_warmup_increment", "steps of %d do not lead "
               "from %d to train.global_batch %d; give a divisor of %d",
               r->add, r->start, plan->global_batch,
               plan->global_batch - r->start);
    else if (r->start % b || r->add % b)
        refuse(m, "train.batch_warmup_start", "%d and increments of %d are not "
               "both multiples of train.micro_batch; give multiples of %d",
               r->start, r->add, b);
    else if (r->start / b < plan->data)
        refuse(m, "train.batch_warmup_start", "%d is too few for micro_batch "
               "%d times %d data parallel ranks; give at least %lld", r->start,
               b, plan->data, (long long)b * plan->data);
}

/* Before the layout, which may hang on them. */
void make_ramps(struct making *m)
{
    struct plan *plan = m->plan;
    take(m, "train.batch_warmup_start", "train.batch_warmup_increment",
         "train.batch_warmup_samples", &plan->batch_ramp);
    take(m, "train.seq_warmup_start", "train.seq_warmup_increment",
         "train.seq_warmup_steps", &plan->seq_ramp);
}

static void check_stages(struct making *m, const struct plan_ramp *r,
                         const char *start)
{
    if (r->start && m->plan->pipeline > 1)
        refuse(m, start, "is not known with several pipeline stages; give 0, "
               "or parallel.pipeline: 1");
}

void make_ramps_fit(struct making *m)
{
    const struct plan *plan = m->plan;
    check_stages(m, &plan->batch_ramp, "train.batch_warmup_start");
    check_stages(m, &plan->seq_ramp, "train.seq_warmup_start");
    if (plan->batch_ramp.start)
        check_batch(m);
    if (plan->seq_ramp.start > plan->seq_len)
        refuse(m, "train.seq_warmup_start", "%d is more than the %d tokens of "
               "a sequence; lower it", plan->seq_ramp.start, plan->seq_len);
}
