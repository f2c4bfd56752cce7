/* budget - restarts left and progress, from the history; see budget.h. */
#include "runner/supervise/budget.h"

#include <string.h>

int budget_left(const struct history *h, int max_restarts, double refill_s,
                double now_s)
{
    double tokens = max_restarts, last = 0;
    for (int i = 0; i < h->n; i++) {
        const struct past_attempt *p = &h->past[i];
        if (!p->judged || !p->counted)
            continue;
        if (last && refill_s > 0 && p->end_s > last)
            tokens += (p->end_s - last) / refill_s;
        if (tokens > max_restarts)
            tokens = max_restarts;
        tokens -= 1;
        if (tokens < 0)
            tokens = 0;
        last = p->end_s;
    }
    if (last && refill_s > 0 && now_s > last)
        tokens += (now_s - last) / refill_s;
    if (tokens > max_restarts)
        tokens = max_restarts;
    return (int)tokens;
}

bool budget_repeated(const struct history *h, const char *signature,
                     int64_t ckpt_step)
{
    for (int i = h->n - 1; i >= 0; i--) {
        const struct past_attempt *p = &h->past[i];
        if (p->judged && p->counted)
            return *signature && !strcmp(p->signature, signature) &&
                   p->ckpt_step >= ckpt_step;
    }
    return false;
}

int budget_requeues_idle(const struct history *h, int64_t ckpt_step)
{
    int n = 0;
    for (int i = h->n - 1; i >= 0; i--) {
        const struct past_attempt *p = &h->past[i];
        if (!p->judged)
            continue;
        if (p->ckpt_step < ckpt_step)
            break;
        n += p->action == ACTION_REQUEUE;
    }
    return n;
}

int budget_in_row(const struct history *h, enum cause cause)
{
    int n = 0;
    for (int i = h->n - 1; i >= 0 && h->past[i].cause == cause; i--)
        n++;
    return n;
}
