/* contract - what the programs of Koboshi agree on, and nothing else:
 * environment names, files of the run directory, exit codes, event names,
 * what a rank shows its watcher. spank/ and runner/ meet only here.
 */
#ifndef KB_BASE_CONTRACT_H
#define KB_BASE_CONTRACT_H

#include <stddef.h>
#include <stdint.h>

#include "runner/base/err.h"

/* ---- Environment ------------------------------------------------------ */
/* Set at submit by the plugin, for the batch script and everything under it. */
#define KB_ENV_CONFIG "KOBOSHI_CONFIG"       /* absolute path of run.yaml */
#define KB_ENV_SET "KOBOSHI_SET"             /* KEY=VALUE lines, '\n' between */
#define KB_ENV_SPARES "KOBOSHI_SPARES"       /* nodes kept back */
#define KB_ENV_HEALTH "KOBOSHI_HEALTH"       /* off|gate|full */
#define KB_ENV_RESUME "KOBOSHI_RESUME"       /* auto|fresh|STEP */
#define KB_ENV_MAX_RESTARTS "KOBOSHI_MAX_RESTARTS"
#define KB_ENV_USER_EXCLUDE "KOBOSHI_USER_EXCLUDE" /* the user's --exclude */
/* For the prolog alone: health.mode as planned, from wherever it came. */
#define KB_ENV_GATE "KOBOSHI_GATE"
/* `koboshi plan --submit` says it to the plugin in a line of its output:
 * KB_SUBMIT_MARK NAME=VALUE. */
#define KB_SUBMIT_MARK "koboshi-submit: "
/* Set by the supervisor for watchers and ranks. */
#define KB_ENV_RUN_DIR "KOBOSHI_RUN_DIR"
#define KB_ENV_ATTEMPT "KOBOSHI_ATTEMPT"     /* number, decimal */
#define KB_ENV_SECRET "KOBOSHI_SECRET"       /* 64 hex digits, this attempt's */
#define KB_ENV_SUPERVISOR "KOBOSHI_SUPERVISOR" /* host:port */
/* Node-local folder of this attempt, made by the watcher before ranks start:
 * beat.<local rank> (struct kb_beat, mapped) and watch.sock (datagrams). The
 * rank derives it by contract_node_dir(). */
#define KB_ENV_NODE_DIR "KOBOSHI_NODE_DIR"   /* overrides the derived one */
/* Ranks, torchrun's names, set by the plugin or the user. */
#define KB_ENV_RANK "RANK"
#define KB_ENV_WORLD_SIZE "WORLD_SIZE"
#define KB_ENV_LOCAL_RANK "LOCAL_RANK"
#define KB_ENV_LOCAL_WORLD_SIZE "LOCAL_WORLD_SIZE"
#define KB_ENV_NODE_RANK "NODE_RANK"
#define KB_ENV_MASTER_ADDR "MASTER_ADDR"
#define KB_ENV_MASTER_PORT "MASTER_PORT"

/* ---- Run directory ---------------------------------------------------- */
#define KB_RUN_YAML "run.yaml"
#define KB_ATTEMPTS_DIR "attempts"
#define KB_ATTEMPT_FMT "attempts/%04d"       /* attempt number, from 1 */
#define KB_CLAIM_JSON "claim.json"           /* in the attempt: whose it is */
#define KB_START_JSON "start.json"           /* in the attempt */
#define KB_JOURNAL "journal.jsonl"           /* in the attempt: supervisor */
#define KB_METRICS "metrics.jsonl"           /* in the attempt: rank 0 */
#define KB_VERDICT "verdict.json"            /* in the attempt: how it ended */
#define KB_STATUS "status.json"              /* in the attempt: newest state */
#define KB_ATTEMPT_HEALTH_DIR "health"       /* NODE.json: what it was like */
#define KB_HEALTH_DIR "health"               /* of the run: NODE.json */
#define KB_ATTEMPT_LOGS_DIR "logs"           /* train.log, watcher-NODE.log */
#define KB_CKPT_DIR "ckpt"
#define KB_CKPT_FMT "step-%010lld.a%04d"     /* step, attempt */
#define KB_CKPT_QUARANTINE "ckpt/quarantine"
#define KB_CKPT_MANIFEST "manifest.json"
#define KB_CKPT_HEALTHY "healthy.json"
#define KB_TB_DIR "tb"
#define KB_TRACKER_DIR "tracker"
/* Verdict of the root health gate, written by the prolog, root-owned 0644. */
#define KB_GATE_DIR "/run/koboshi"
#define KB_GATE_FMT "/run/koboshi/gate.%u.json"  /* job id */
/* What the job suspects of the node, a code a line; made by the prolog for the
 * job's user, read by the epilog, which then looks closer itself. */
#define KB_SUSPECT_FMT "/run/koboshi/suspect.%u" /* job id */
#define KB_SUSPECT_BYTES 1024
enum kb_suspicion {
    KB_SUSPECT_GPU,    /* a rank's device failed */
    KB_SUSPECT_HANG,   /* a rank hung */
    KB_SUSPECT_CRASH,  /* a rank died by a signal */
    KB_SUSPECT_NODE,   /* a rank blames disk or memory */
    KB_SUSPECT_HEALTH, /* a look as the user found something */
    KB_SUSPICION_N
};
extern const char *const kb_suspicion_names[KB_SUSPICION_N];
/* Counters of the node's hardware, and how its last jobs went: root's. */
#define KB_STATE_DIR "/var/lib/koboshi"

/* ---- Exit codes of koboshi-train (and of the others where they fit) ---- */
enum kb_exit {
    KB_EXIT_DONE = 0,      /* all steps done */
    KB_EXIT_REQUEST = 2,   /* configuration, data, usage: stop, do not retry */
    KB_EXIT_SAVED = 10,    /* stopped on request after a checkpoint */
    KB_EXIT_STEP = 11,     /* NaN or loss anomaly: roll back */
    KB_EXIT_RANK = 12,     /* this process failed */
    KB_EXIT_GPU = 13,      /* device failed */
    KB_EXIT_NODE = 14,     /* node suspect: disk, memory error */
    KB_EXIT_PEER = 15,     /* a peer was lost; this rank is innocent */
    KB_EXIT_WIREUP = 16,   /* wire-up timed out; nobody's failure */
    KB_EXIT_NO_CKPT = 17,  /* checkpoints exist, none is valid: stop */
};
/* The exit code for an error's class. */
int contract_exit_code(const struct err *err);
const char *contract_exit_name(int code); /* "done", "request", ... or NULL */

/* ---- What a rank shows its watcher ------------------------------------- */
enum kb_phase {
    KB_PHASE_START = 0, /* wire-up, allocation */
    KB_PHASE_LOAD,      /* reading a checkpoint or initialising weights */
    KB_PHASE_FIRST_STEP,
    KB_PHASE_STEP,
    KB_PHASE_VALIDATE,
    KB_PHASE_CKPT,      /* the step waits for a checkpoint's snapshot */
    KB_PHASE_FINISH,    /* waiting for the last checkpoint, closing */
    KB_PHASE_N
};
extern const char *const kb_phase_names[KB_PHASE_N];

/* One a rank, mapped from NODE_DIR/beat.<local rank>, written by the step loop
 * itself (never a side thread) with relaxed 64-bit atomic stores, read by the
 * watcher. A collective is entered when coll_entered == coll_done + 1. */
#define KB_BEAT_MAGIC 0x3162656174696b6fULL
struct kb_beat {
    uint64_t magic;
    int64_t pid;
    int64_t rank;
    int64_t attempt;
    int64_t phase;        /* enum kb_phase */
    int64_t step;         /* last finished step */
    int64_t changes;      /* grows with every change of this struct */
    int64_t group;        /* id of the group of the collective below; below
                           * zero a message between two of its ranks */
    int64_t coll_entered; /* sequence number of the last one entered */
    int64_t coll_done;    /* sequence number of the last one finished */
    int64_t ckpt_writing; /* step that the writer thread writes, or -1 */
    int64_t reserved[5];
};

/* Datagrams from a rank to NODE_DIR/watch.sock: one JSON object each, at most
 * KB_RANK_MESSAGE_BYTES. {"event":NAME,"rank":R,"pid":P,"attempt":A,...} with
 * an event name from the table below. Never waited for. */
#define KB_RANK_MESSAGE_BYTES 4096

/* Node-local folder of a job's attempt: /dev/shm/koboshi.<job>.<attempt>, or
 * under TMPDIR when /dev/shm is absent; KB_ENV_NODE_DIR overrides. */
int contract_node_dir(char *dst, size_t dst_bytes, long job, int attempt,
                      struct err *err);

/* Signals from the watcher to a rank. USR1: save a checkpoint at the next
 * step end and exit KB_EXIT_SAVED. USR2: save and go on. TERM: as USR1. All
 * ranks agree in the step's own reduction; the handler sets a flag only. */

/* ---- Events ------------------------------------------------------------ */
/* One row an event: its name in journals and messages, and what it carries.
 * Every record has "event", "time" (wall seconds), "attempt". */
enum kb_event {
    KB_EV_ATTEMPT_START,   /* nodes, spares, restart_count, job */
    KB_EV_PREFLIGHT,       /* node, ok, findings */
    KB_EV_LAUNCH,          /* nodes, argv */
    KB_EV_WATCHER_UP,      /* node */
    KB_EV_WATCHER_LOST,    /* node, how: closed | silent */
    KB_EV_RANK_HELLO,      /* rank, pid, node */
    KB_EV_RANK_EXIT,       /* rank, node, code, signal, core, message */
    KB_EV_RANK_ERROR,      /* rank, class, message: the rank's own last word */
    KB_EV_STALL,           /* rank, node, phase, seconds, collective */
    KB_EV_RESUME,          /* step, checkpoint, why */
    KB_EV_CKPT_SAVED,      /* step, checkpoint, seconds, bytes */
    KB_EV_CKPT_SKIPPED,    /* step, why */
    KB_EV_CKPT_REJECTED,   /* checkpoint, reason */
    KB_EV_CKPT_QUARANTINED,/* checkpoint, reason */
    KB_EV_CKPT_HEALTHY,    /* checkpoint */
    KB_EV_CKPT_PRUNED,     /* checkpoint */
    KB_EV_FIRST_STEP,      /* step */
    KB_EV_GUARD,           /* step, what, value, limit */
    KB_EV_FINDING,         /* node, code, subject, severity, message */
    KB_EV_SIGNAL,          /* signal: what Slurm sent */
    KB_EV_DIAGNOSIS,       /* class, subject, cause, evidence, seconds */
    KB_EV_ACTION,          /* action, node, spare, why */
    KB_EV_REQUEUE,         /* exclude */
    KB_EV_STOP,            /* class, message, remedy */
    KB_EV_DONE,            /* step, loss */
    KB_EV_N
};
extern const char *const kb_event_names[KB_EV_N];
/* enum kb_event of a name, or -1. */
int contract_event(const char *name);

#endif
