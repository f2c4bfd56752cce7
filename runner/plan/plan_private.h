/* plan_private - what plan's files share. A plan is made in stages (make.c);
 * each looks at one thing, fills its part and refuses what cannot be. Stages go
 * on after a refusal where that makes sense, so that all mistakes are told.
 */
#ifndef KB_PLAN_PLAN_PRIVATE_H
#define KB_PLAN_PLAN_PRIVATE_H

#include "runner/plan/plan.h"

struct making {
    const struct conf *conf;
    const struct site *site;
    struct plan *plan;
    struct plan_notes *notes; /* never NULL here */
    struct err *err;          /* the first refusal */
    int refused_n;
};

/* "plan: ORIGIN: 'KEY': cause; remedy". Returns -1. */
int refuse(struct making *m, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void warn(struct making *m, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What this host cannot see: a warning at submit, else a refusal. */
void unseen(struct making *m, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Stages. */
void make_layout(struct making *m);     /* layout.c */
void make_shares(struct making *m);
void make_batch(struct making *m);
void make_ramps(struct making *m);      /* ramp.c */
void make_ramps_fit(struct making *m);
void make_model(struct making *m);      /* model.c */
void make_data(struct making *m);       /* data.c */
void make_memory(struct making *m);     /* fit.c */
void make_checkpoints(struct making *m);/* checkpoint.c */
void make_recovery(struct making *m);   /* recovery.c */
void make_hash(struct making *m);       /* hash.c */

/* choose.c: layouts. The choice of parallel: auto. The nearest tensor and
 * pipeline degrees that these ranks can have and that fit limit bytes (0: any);
 * false: there are none. */
void layout_choose(struct making *m);
bool layout_nearest(const struct plan *plan, int64_t limit, int *ret_tensor,
                    int *ret_pipeline);
bool layout_heads_fit(const struct shape *s, int tensor);

int preset_fill(struct conf *conf, struct err *err);

/* The divisor of n nearest to want (the smaller of two as near). */
int64_t nearest_divisor(int64_t n, int64_t want);
/* Bytes of an element of weights and activations; of master and moments. */
int plan_act_bytes(const struct plan *plan);
int plan_stat_bytes(const struct plan *plan);
const char *plan_bytes_text(int64_t bytes, char buf[32]);

#endif
