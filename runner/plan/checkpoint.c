/* checkpoint - the stage that sizes checkpoints and looks at the disk. */
#include "runner/plan/plan_private.h"

#include <string.h>

#include "runner/base/str.h"

static void check_resume(struct making *m)
{
    const char *resume = m->plan->resume;
    int64_t step;
    if (strcmp(resume, "auto") && strcmp(resume, "fresh") &&
        (str_to_i64(resume, &step) || step < 0))
        refuse(m, "checkpoint.resume", "'%s' is not auto, fresh or a step's "
               "number", resume);
    else if (m->site->resume_missing)
        refuse(m, "checkpoint.resume", "'%.200s' has no checkpoint of step %s; "
               "koboshi ckpt list shows what is there", m->plan->run_dir,
               resume);
}

/* Room for what is kept and one being written; those there already count. */
static void check_disk(struct making *m)
{
    struct plan *plan = m->plan;
    char need_text[32], free_text[32], one_text[32];
    int64_t free_bytes = m->site->disk_free_bytes;
    int more = plan->ckpt_keep + 1 - m->site->ckpts_n;
    int64_t need = plan->ckpt_bytes * (more > 1 ? more : 1);
    if (free_bytes < 0 || need <= free_bytes)
        return;
    int64_t fits = free_bytes / plan->ckpt_bytes - 1 + m->site->ckpts_n;
    plan_bytes_text(need, need_text);
    plan_bytes_text(free_bytes, free_text);
    plan_bytes_text(plan->ckpt_bytes, one_text);
    if (fits >= 2)
        refuse(m, "checkpoint.keep", "%d checkpoints of %s and one being "
               "written need %s, but '%.150s' has %s free; give %lld, or "
               "another run.dir", plan->ckpt_keep, one_text, need_text,
               plan->run_dir, free_text, (long long)fits);
    else
        refuse(m, "run.dir", "checkpoints of %s need %s, but '%.200s' has "
               "%s free; free space, or give another run.dir", one_text,
               need_text, plan->run_dir, free_text);
}

void make_checkpoints(struct making *m)
{
    struct plan *plan = m->plan;
    /* master, exp_avg, exp_avg_sq of the real vocabulary: the weights are the
     * master's, rounded */
    plan->ckpt_bytes = plan->params_n * 3 * plan_stat_bytes(plan);
    check_resume(m);
    check_disk(m);
    if (plan->ckpt_interval > plan->steps && plan->steps > 100)
        warn(m, "checkpoint.interval", "%lld steps, but the run has %lld: a "
             "failure would lose all of it", (long long)plan->ckpt_interval,
             (long long)plan->steps);
    if (plan->guard_sigma > 0 && plan->healthy_after >= plan->ckpt_interval)
        warn(m, "guard.healthy_after", "%lld steps prove a checkpoint good, "
             "but the next one comes after %lld; give less than that",
             (long long)plan->healthy_after, (long long)plan->ckpt_interval);
}
