/* train - private to koboshi-train: everything that a rank holds.
 *
 * Parameters, optimizer, data cursor, guard and step are the only mutable
 * things; the plan is fixed before anything is allocated. Each part is one
 * file; main_train.c is the table of contents.
 */
#ifndef KB_TRAIN_TRAIN_H
#define KB_TRAIN_TRAIN_H

#include <jansson.h>
#include <limits.h>

#include "kernels/exec.h"
#include "runner/base/contract.h"
#include "runner/ckpt/ckpt.h"
#include "runner/comm/comm.h"
#include "runner/data/data.h"
#include "runner/journal/journal.h"
#include "runner/journal/mlflow.h"
#include "runner/model/model.h"
#include "runner/optim/optim.h"
#include "runner/plan/plan.h"
#include "runner/plan/schedule.h"
#include "runner/train/guard.h"
#include "runner/train/report.h"

/* ---- options.c ----------------------------------------------------------- */
struct options {
    char config[PATH_MAX];   /* "" : none given */
    char run_dir[PATH_MAX];  /* "": the plan's */
    int attempt;             /* 0: unsupervised */
    long job;                /* 0: not under Slurm */
    bool help, print_blas_core;
};
/* Environment (lookup: a variable's value or NULL), then flags. */
int options_read(int argc, char **argv,
                 const char *(*lookup)(const char *name), struct options *ret,
                 struct err *err);
void options_help(struct sbuf *out);

/* ---- feed.c: micro-batches from token files to device memory ------------- */
struct feed {
    struct device *device;
    stream_t stream;
    bool direct;             /* host and device memory are one: no copy */
    int n;                   /* the plan's feeds */
    struct batch *host, *dev; /* [n] */
    event_t *used;           /* [n] the host buffer may be written again */
    int64_t *first;          /* [n] what is there, -1: nothing */
    int T;                   /* tokens of each sequence, from now on */
};
int feed_open(struct feed *feed, const struct plan *plan,
              struct device *device, stream_t stream, struct err *err);
void feed_close(struct feed *feed);
/* Nothing is there any more: a new step, or other data. */
void feed_forget(struct feed *feed);
/* Samples first .. first + micro_batch in place `at`, filled if they are not
 * there yet. NULL on error. */
const struct batch *feed_get(struct feed *feed, int at, struct data *data,
                             int64_t first, struct err *err);

/* ---- pipe.c: activations to and from neighbouring stages ----------------- */
struct pipe {
    void *out[2][SCHEDULE_SENDS];      /* forward, backward */
    struct comm_ticket sent[2][SCHEDULE_SENDS];
    int next[2];
};
struct train;
int pipe_open(struct train *t, struct err *err);
/* One entry's neighbours: where what is received lies (NULL: this is an end),
 * received by now; and a free place for what is sent (NULL: nothing is). */
int pipe_begin(struct train *t, const struct sched_entry *e,
               const struct batch *batch, const void **ret_in, void **ret_out,
               struct err *err);
int pipe_end(struct train *t, const struct sched_entry *e,
             const struct batch *batch, struct err *err);
/* All that was sent has been received. */
int pipe_drain(struct train *t, struct err *err);

/* ---- save.c: checkpoints not yet proved healthy -------------------------- */
#define SAVED_MAX 16
struct saved_ckpt {
    char name[64];
    int64_t step;            /* counted from here */
};
struct saved {
    struct saved_ckpt at[SAVED_MAX];
    int n;
};
void saved_add(struct saved *saved, const char *name, int64_t step);
/* Takes the oldest one if it lies at or before `until`. */
bool saved_healthy(struct saved *saved, int64_t until, char name[64],
                   int64_t *ret_step);
void saved_doubt(struct saved *saved, int64_t step);

/* ---- parts.c: the time from the start to the first step ------------------ */
#define PARTS_MAX 16
struct part {
    const char *what;
    double s;
};
struct parts {
    double begin_s, last_s;
    struct part at[PARTS_MAX];
    int n;
};
void parts_begin(struct parts *parts);
/* A part that began where the last one ended. */
void parts_end(struct parts *parts, const char *what);
void parts_tell(const struct parts *parts);

/* ---- The rank ------------------------------------------------------------ */
/* This rank's requests, carried in the step's reduction. */
enum train_flag {
    FLAG_STOP = 1, /* save and leave */
    FLAG_SAVE = 2, /* save and go on */
    FLAG_BUSY = 4, /* a checkpoint is being written here */
};

struct train {
    struct options options;
    struct plan plan;
    struct comm_place place;
    struct report report;
    struct comm *comm;
    struct device *device;
    struct exec ex;
    struct model *model;
    struct optim *optim;
    struct data *train, *valid; /* valid NULL: none */
    struct ckpt *ckpt;
    struct view *views;         /* what it saves */
    struct feed feed;
    struct schedule schedule;
    struct pipe pipe;
    struct guard guard;
    struct saved saved;         /* rank 0 */
    double *sums;               /* [4] device */
    double *h_sums;             /* [4] host */
    /* where the run is */
    int64_t step;               /* finished */
    int64_t consumed;           /* samples */
    int64_t tokens, dropped;    /* of them: used; left out in the warm-up */
    int64_t skipped, nan;       /* steps without an update; not finite */
    int64_t overflows;          /* of the skipped: fp16's */
    /* rank 0 alone */
    struct journal *metrics;
    struct tboard *tboard;
    struct mlflow *mlflow;
    /* since the last line */
    double mark_s, data_wait_s, ckpt_wait_s, valid_s, started_s, status_s;
    int64_t save_failed;      /* step of the last save that did, -1 none */
    struct err save_err;      /* why */
    int64_t mark_step, start_step;
    int64_t mark_consumed, mark_tokens;
    int warm_batch;             /* the global batch told last */
    double valid_loss;          /* NAN: not since the last line */
    bool unsupervised;
    struct parts parts;
    int tuned_known;            /* products' algorithms from a file */
};

/* ---- state.c: making and ending all of it -------------------------------- */
/* Device memory is taken as planned, to the byte; a difference is an error. */
int state_open(struct train *t, struct err *err);
void state_close(struct train *t);

/* ---- attempt.c ----------------------------------------------------------- */
/* Without a supervisor: rank 0 makes the attempt's folder, start.json and
 * run.yaml; everyone learns the number. */
int attempt_make(struct train *t, const struct conf *conf, struct err *err);
/* KB_ATTEMPT_FMT of this run, joined with name ("" : the folder). */
int attempt_path(const struct train *t, const char *name, char *dst,
                 size_t dst_bytes, struct err *err);

/* ---- blas.c: what OpenBLAS does, pinned, without a supervisor ------------ */
/* Starts this program again with the configured, recorded or best core type,
 * where that is another than OpenBLAS chose. Not called where the environment
 * has chosen. */
#define BLAS_CORE_ENV "OPENBLAS_CORETYPE"
int blas_pin(const struct conf *conf, char **argv, struct err *err);
/* All ranks have the same core type and number of threads; into conf, for
 * run.yaml. */
int blas_agree(struct train *t, struct conf *conf, struct err *err);

/* ---- resume.c ------------------------------------------------------------ */
/* Newest valid checkpoint, or weights by seed. */
int resume_load(struct train *t, struct err *err);
json_t *resume_state(const struct train *t);

/* ---- tuned.c: the products' algorithms, one choice for all --------------- */
/* Before and after the first step; collective. */
int tuned_begin(struct train *t, struct err *err);
int tuned_settle(struct train *t, struct err *err);

/* ---- step.c -------------------------------------------------------------- */
int step_run(struct train *t, struct optim_result *ret, struct err *err);
/* Batch of this rank's micro-batch, of a step whose samples begin at `step`. */
const struct batch *step_batch(struct train *t, struct data *data,
                               const struct sched_entry *e, int64_t step,
                               struct err *err);

/* ---- validate.c ---------------------------------------------------------- */
int validate_run(struct train *t, double *ret_loss, struct err *err);

/* ---- save.c: checkpoints from the loop's side ---------------------------- */
/* wait: the last one is waited for, else the save may be skipped. */
int save_begin(struct train *t, bool wait, bool busy, struct err *err);
void save_poll(struct train *t);
/* Nothing is being written any more; news are told. */
int save_drain(struct train *t, struct err *err);

/* ---- loop.c -------------------------------------------------------------- */
/* Runs to the end; returns an enum kb_exit, -1 with err. */
int loop_run(struct train *t, struct err *err);

/* ---- lines.c: what people see -------------------------------------------- */
void lines_start(const struct train *t);
/* After the first step: what is in use beside what was planned. */
void lines_memory(const struct train *t);
void lines_step(struct train *t, const struct optim_result *r);

/* ---- trackers.c: metrics.jsonl, TensorBoard, MLflow; rank 0 -------------- */
int trackers_open(struct train *t, struct err *err);
void trackers_record(struct train *t, const struct metrics *m);
/* state: what MLflow shall say of the run, NULL: it goes on. Waits at most a
 * few seconds. */
void trackers_close(struct train *t, const char *state);

/* ---- stop.c -------------------------------------------------------------- */
void stop_install(void);
/* FLAG_STOP, FLAG_SAVE; a save request is taken by asking. */
int64_t stop_flags(void);

#endif
