/* probe - one look at one thing: a function that reads a source and adds
 * findings. It never acts, runs no command, and may hang or crash: look.c runs
 * it in a child of its own with a deadline.
 */
#ifndef KB_HEALTH_PROBE_H
#define KB_HEALTH_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "health/catalog.h"
#include "health/history.h"
#include "health/source.h"
#include "runner/base/conf.h"

/* What a probe is given. */
struct look {
    struct source source;
    const struct conf *site; /* borrowed */
    bool full;               /* level full, else gate */
    bool user;               /* as the job's user, not for root's places */
    const char *run_dir;     /* with user; NULL: none */
    const char *nvml;        /* library of the GPU driver; NULL: by name */
    bool active;             /* try the GPUs, too */
    const char *gpus;        /* only these, "0,2-3"; NULL: all */
    const char *trial;       /* the program that tries them; NULL: ours */
    const char *corrupt;     /* a fault that it makes, for tests; NULL */
    const char *pairs;       /* nodes to sum with in pairs, "a,b"; NULL: none */
    const char *self;        /* this node's name in it */
    const char *secret;      /* that they all know; "": none */
    int port;                /* and the next: where pairs meet */
    double klog_after_s;     /* older lines of the kernel log are settled */
    const char *history;     /* file; NULL: nothing is remembered */
    int lent;                /* GPUs that Slurm lends here; -1: not known */
    const char *cuda_visible, *cuda_order; /* the job's; NULL: not set */
    double watch_s;          /* between the rounds of a watch; 0: one look */
};

/* Where it tells. add may be called any number of times; what does not fit a
 * report is dropped and counted. */
struct findings;
void findings_add(struct findings *findings, enum finding_code code,
                  const char *subject, const char *evidence_fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Nothing to look at here (absent hardware): a skip, with the reason. */
void findings_skip(struct findings *findings, const char *why_fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A fact for the report that is no finding: "GPU 0": "H200, UUID ...". */
void findings_note(struct findings *findings, const char *name,
                   const char *value_fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What was measured, of whom: "bf16", "gpu 0", "TFLOP/s". */
void findings_figure(struct findings *findings, const char *name,
                     const char *subject, const char *unit, double value);

/* What is tried now: told as evidence if the probe hangs or crashes there. */
void findings_at(struct findings *findings, const char *what_fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A line of struct health_gpu: INDEX MINOR CUDA UUID PCI NAME, - for none. */
void findings_gpu(struct findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* For the history: "COUNTER VALUE", "WHAT N"; see look_grown, look_happened. */
void findings_count(struct findings *findings, const char *subject,
                    const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void findings_event(struct findings *findings, const char *subject,
                    const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Of a watch: "SECONDS" until it speaks again at the latest. */
void findings_round(struct findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Counters and events of a probe, remembered if the look has a history. True
 * with *ret if the counter was known before. */
bool look_grown(const struct look *look, struct findings *findings,
                const char *subject, const char *counter, int64_t value,
                struct growth *ret);
/* How often within a day, these n included. */
int64_t look_happened(const struct look *look, struct findings *findings,
                      const char *subject, const char *what, int64_t n);

enum probe_when {
    PROBE_ALWAYS,
    PROBE_ROOT, /* not with --user: it is about root's places */
    PROBE_USER, /* only with --user */
    PROBE_ACTIVE, /* only when asked for, after all others: it loads the node */
    PROBE_PAIRS,  /* the same, after that: with other nodes */
};

struct probe {
    const char *name;
    void (*run)(const struct look *look, struct findings *findings);
    double deadline_s;
    enum probe_when when;
    bool full_only;
    bool in_watch; /* of use while a job runs, and cheap */
};

extern const struct probe probes[];
extern const int probes_n;

void probe_cpu(const struct look *look, struct findings *findings);
void probe_memory(const struct look *look, struct findings *findings);
void probe_edac(const struct look *look, struct findings *findings);
void probe_load(const struct look *look, struct findings *findings);
void probe_disk(const struct look *look, struct findings *findings);
void probe_write(const struct look *look, struct findings *findings);
void probe_shm(const struct look *look, struct findings *findings);
void probe_time(const struct look *look, struct findings *findings);
void probe_net(const struct look *look, struct findings *findings);
void probe_infiniband(const struct look *look, struct findings *findings);
void probe_klog(const struct look *look, struct findings *findings);
void probe_limits(const struct look *look, struct findings *findings);
void probe_uptime(const struct look *look, struct findings *findings);
void probe_gpu(const struct look *look, struct findings *findings);
void probe_user_dirs(const struct look *look, struct findings *findings);
void probe_active(const struct look *look, struct findings *findings);
void probe_pairs(const struct look *look, struct findings *findings);

/* The node's GPUs: from the record, the library named, or the driver. Before
 * each call of the driver the probe says which. */
struct gpus;
int probe_read_gpus(const struct look *look, struct findings *findings,
                    struct gpus *ret, struct err *err);

/* Of a watch: these never come back, unless there is nothing to watch. */
void watch_gpu(const struct look *look, struct findings *findings);
void watch_klog(const struct look *look, struct findings *findings);

#endif
