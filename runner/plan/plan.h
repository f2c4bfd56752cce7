/* plan - configuration and facts to decisions, before anything is allocated.
 *
 * Pure: the caller gathers struct site (files, disk, GPUs, limits); plan_make
 * decides. The same code runs at submit, in `koboshi plan`, in preflight on
 * the nodes and in each rank. Every refusal to run is made here and names the
 * key, its origin and the fix. What `site` says is not visible from here is a
 * warning at submit and a refusal in preflight.
 * The plan is immutable once made; everything holds a const pointer to it.
 */
#ifndef KB_PLAN_PLAN_H
#define KB_PLAN_PLAN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "runner/base/conf.h"
#include "runner/base/err.h"
#include "runner/plan/shape.h"

#define PLAN_NAME_BYTES 128
#define PLAN_LIST_MAX 64

enum plan_precision { PLAN_FP32, PLAN_FP64, PLAN_BF16, PLAN_FP16 };
enum plan_device { PLAN_CPU, PLAN_CUDA };
enum plan_recompute { PLAN_RECOMPUTE_AUTO, PLAN_RECOMPUTE_NONE,
                      PLAN_RECOMPUTE_SELECTIVE, PLAN_RECOMPUTE_FULL };

/* One token file of a blend. */
struct plan_data {
    char prefix[PATH_MAX]; /* without .bin/.idx; absolute */
    double weight;
};

/* Facts that plan needs and may not look for itself. */
struct site_file {
    bool known;            /* false: this host cannot see it */
    bool exists;
    char problem[256];     /* "" or why it cannot be used */
    int64_t sequences, documents, tokens;
    int dtype_bytes;
};
/* What the file of data.tokenizer says of what model and data leave open. */
struct site_tokenizer {
    bool known;            /* false: not looked at, or this host has it not */
    char problem[256];     /* "" or why it cannot be used */
    int vocab;             /* 0 unknown */
};
struct site {
    bool submit;           /* true at submit: unseen is a warning */
    int nodes;             /* of the allocation; 0 unknown */
    int spares;            /* of these kept back; -1: as recovery.spares says.
                            * A rank gives the nodes that train, and 0 */
    int ranks_per_node;    /* 0 unknown */
    int gpus_per_node;     /* 0 none */
    int cores_per_rank;    /* 0 unknown */
    int64_t mem_per_rank_bytes; /* of the host; 0 unknown */
    char gpu[64];          /* the GPUs' model, "" unknown */
    int64_t gpu_bytes;     /* what programs can have of one; 0 unknown */
    int cuda_version;      /* the libraries', as 13000; 0: the built ones' */
    int64_t disk_free_bytes;    /* at the run directory; -1 unknown */
    bool run_dir_writable, run_dir_known;
    char run_dir_problem[256];
    int ckpts_n;           /* checkpoints there already */
    bool resume_missing;   /* none has the step that checkpoint.resume names */
    bool array_job;        /* submitting a job array: needs a run directory
                            * a task (%a) */
    double time_limit_s;   /* 0 unknown or none */
    struct site_file train[PLAN_LIST_MAX], valid[PLAN_LIST_MAX];
    struct site_tokenizer tokenizer;
    /* Slurm's settings, -1 unknown: those that would defeat recovery. */
    int slurmd_timeout_s, requeue_delay_s, max_batch_requeue, job_requeue;
    int kill_wait_s;
    int plugin_required;   /* plugstack.conf names the plugin `required` */
    int plugin_missing;    /* ... and a file that is not there */
};

/* In the device's arena; beside it on the device; in the host's memory. */
enum plan_where { PLAN_ARENA, PLAN_OUTSIDE, PLAN_HOST };
struct plan_memory_row {
    char what[48];
    enum plan_where where;
    int64_t bytes;
};

struct plan {
    /* run */
    char name[PLAN_NAME_BYTES];
    char run_dir[PATH_MAX];         /* absolute */
    uint64_t seed;
    char hash[33];                  /* of all that changes the mathematics */
    /* what is trained */
    struct shape shape;
    enum plan_precision precision;
    enum plan_device device;
    bool deterministic;
    enum plan_recompute recompute;  /* as asked for */
    int recompute_whole;            /* the rank's first layers keep their */
    int recompute_cheap;            /* input alone, the next what is costly,
                                     * the others all (sizes.h: layer_keep) */
    bool grads_bf16;                /* else as master weights */
    /* fp16: dynamic scale of the loss (optim/scaler.h) */
    double scale_initial, scale_min;
    int scale_window, scale_hysteresis;
    /* layout: world = data * tensor * pipeline; nodes: those that train, 0
     * unknown */
    int nodes, ranks_per_node;
    int world, data, tensor, pipeline;
    char layout_why[320];           /* parallel: auto; "": it was given */
    int chunks;                     /* of layers, a stage; 1 but interleaved */
    int stage, tensor_rank, data_rank; /* whose memory the rows are of */
    int slots, feeds;               /* there: activations of micro-batches
                                     * under way, and batches */
    bool shard_optimizer;           /* each data parallel rank keeps its part */
    int blas_threads;               /* threads of a rank, pinned */
    char blas_core[32];             /* OPENBLAS_CORETYPE, "" as found */
    /* batch: global_batch sequences are micro-batches dealt out in turn to
     * the data parallel ranks, at most accum to each: the last turn may leave
     * some ranks without */
    int64_t steps;
    int seq_len, global_batch, micro_batch, accum;
    /* data */
    struct plan_data train[PLAN_LIST_MAX], valid[PLAN_LIST_MAX];
    int train_n, valid_n;
    char split[64];                 /* "" or "969,30,1" over `train` */
    char tokenizer[PATH_MAX];       /* "byte" or a file */
    bool eod_mask_loss, eod_reset_positions, eod_reset_attention;
    bool data_may_change, blend_by_size;
    /* Growing from start by add until `over` samples (batch) or steps (tokens
     * of a sequence); start 0: none. */
    struct plan_ramp {
        int start, add;
        int64_t over;
    } batch_ramp, seq_ramp;
    int eod_token;                  /* -1: none */
    /* optimizer */
    double lr, min_lr, beta1, beta2, eps, weight_decay, clip;
    int64_t warmup_steps, decay_steps;
    char schedule[16];              /* cosine | linear | constant */
    double z_loss;                  /* coefficient, 0 off */
    /* validation, log */
    int64_t eval_interval, eval_batches, log_interval;
    bool tensorboard;
    char mlflow_uri[256], mlflow_experiment[PLAN_NAME_BYTES];
    /* checkpoints */
    int64_t ckpt_interval;
    int ckpt_keep;                  /* verified ones kept, at least 2 */
    int64_t ckpt_shard_bytes;       /* most bytes a shard */
    int64_t ckpt_bytes;             /* of one checkpoint, all ranks */
    /* guard */
    int guard_window;               /* steps of loss history */
    double guard_sigma;             /* 0 off */
    int guard_skip_data;            /* steps of data skipped at a roll back */
    int64_t healthy_after;          /* steps that prove a checkpoint good */
    /* recovery */
    int spares, max_restarts;
    bool elastic; int min_nodes;
    double restart_refill_s;        /* budget refills one each this long */
    double stall_min_s, stall_factor;
    double load_limit_s, wireup_limit_s, heartbeat_s, silent_s;
    double collective_limit_s;      /* of one on GPUs */
    double save_before_limit_s;     /* time limit: save this long before */
    char resume[16];                /* auto | fresh | STEP */
    /* health, notices */
    char health[8];                 /* off | gate | full */
    char webhook[512]; char webhook_token[256];
    /* memory of one rank, rows with a sum */
    struct plan_memory_row memory[24];
    int memory_n;
    int64_t memory_bytes;
    int64_t library_bytes;          /* of PLAN_OUTSIDE (gpu.h) */
    int64_t snapshot_bytes;         /* a checkpoint's, in the host's memory */
    int64_t params_n;               /* of the model */
    int64_t held_n;                 /* of them on this rank */
    int64_t owned_n;                /* of these, with the optimizer's state in
                                     * its memory, at most */
    /* FLOP a token, forward and backward: causal-halved and full attention */
    double flop_token_half, flop_token_full;
};

/* Warnings, and each refusal (err holds the first one). */
#define PLAN_NOTES_MAX 32
#define PLAN_NOTE_BYTES 480
struct plan_notes {
    char text[PLAN_NOTES_MAX][PLAN_NOTE_BYTES];
    int n;
    char refusal[PLAN_NOTES_MAX][PLAN_NOTE_BYTES];
    int refusals_n;
};

/* The table of keys of run.yaml (also koboshi.yaml(5)). */
extern const struct conf_row plan_rows[];
extern const int plan_rows_n;

/* A conf with the run.yaml at path, then KB_ENV_SET's and the other KB_ENV_*
 * options of the environment, read. Relative paths count from run.yaml's
 * folder. NULL on error. */
struct conf *plan_conf_open(const char *path, struct err *err);
/* The same in steps, for who wants all mistakes (conf_mistakes) or adds
 * options: an empty conf; file and environment read; --set KEY=VALUE and the
 * like by conf_set; then paths made absolute (against dir) and what the preset
 * and the family say filled in where nothing is set, named as origin. */
struct conf *plan_conf_create(struct err *err);
int plan_conf_read(struct conf *conf, const char *path, struct err *err);
int plan_conf_finish(struct conf *conf, const char *dir, struct err *err);
/* What the tokenizer's file says, for keys that are unset; eod -1: it has no
 * end-of-document token. */
int plan_conf_tokenizer(struct conf *conf, int vocab, int eod,
                        struct err *err);
/* What a run's first attempt found out and later ones keep to, bit for bit:
 * from run.dir's own run.yaml, where it is there, for keys that are unset or
 * auto. */
int plan_conf_recall(struct conf *conf, struct err *err);
/* One item of data.train or data.valid, "[WEIGHT] PREFIX", its length given.
 * The prefix loses .bin or .idx. -1: empty, bad weight, too long. */
int plan_data_item(const char *item, size_t item_n, struct plan_data *ret);
/* The presets' names, NULL at the end. */
const char *const *plan_presets(void);

/* Decide. notes may be NULL. *ret is set on success only. With site->world
 * unknown (nodes == 0) the layout is checked for one rank a node as far as
 * that goes. err's class is ERR_REQUEST. */
int plan_make(const struct conf *conf, const struct site *site,
              struct plan *ret, struct plan_notes *notes, struct err *err);
/* Memory rows, parameters, FLOP: part of plan_make, alone for tests. */
void plan_memory(struct plan *plan);
/* The rows of this rank, instead of those of the rank that needs most. */
void plan_settle(struct plan *plan, int rank);
/* Micro-batches of a step of `batch` sequences on this data parallel rank. */
int plan_micros(const struct plan *plan, int batch, int data_rank);

/* ---- ramp.c -------------------------------------------------------------- */
/* Sequences of the step that draws sample `consumed` first; tokens of each
 * that step number `step` (from 0) uses of plan->seq_len; samples of all
 * steps. */
int plan_batch_at(const struct plan *plan, int64_t consumed);
int plan_seq_at(const struct plan *plan, int64_t step);
int64_t plan_samples(const struct plan *plan);

/* Memory of a GPU of this model that programs can have, 0: not known. name:
 * the driver's, or a part of it, as "H200". */
int64_t plan_gpu_bytes(const char *name);
/* The plan for people. */
void plan_print(const struct plan *plan, struct sbuf *out);

#endif
