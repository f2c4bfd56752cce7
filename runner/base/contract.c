/* contract - the tables of contract.h. */
#include "runner/base/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const kb_phase_names[KB_PHASE_N] = {
    [KB_PHASE_START] = "start",
    [KB_PHASE_LOAD] = "load",
    [KB_PHASE_FIRST_STEP] = "first_step",
    [KB_PHASE_STEP] = "step",
    [KB_PHASE_VALIDATE] = "validate",
    [KB_PHASE_CKPT] = "checkpoint",
    [KB_PHASE_FINISH] = "finish",
};

const char *const kb_event_names[KB_EV_N] = {
    [KB_EV_ATTEMPT_START] = "attempt_start",
    [KB_EV_PREFLIGHT] = "preflight",
    [KB_EV_LAUNCH] = "launch",
    [KB_EV_WATCHER_UP] = "watcher_up",
    [KB_EV_WATCHER_LOST] = "watcher_lost",
    [KB_EV_RANK_HELLO] = "rank_hello",
    [KB_EV_RANK_EXIT] = "rank_exit",
    [KB_EV_RANK_ERROR] = "rank_error",
    [KB_EV_STALL] = "stall",
    [KB_EV_RESUME] = "resume",
    [KB_EV_CKPT_SAVED] = "checkpoint_saved",
    [KB_EV_CKPT_SKIPPED] = "checkpoint_skipped",
    [KB_EV_CKPT_REJECTED] = "checkpoint_rejected",
    [KB_EV_CKPT_QUARANTINED] = "checkpoint_quarantined",
    [KB_EV_CKPT_HEALTHY] = "checkpoint_healthy",
    [KB_EV_CKPT_PRUNED] = "checkpoint_pruned",
    [KB_EV_FIRST_STEP] = "first_step",
    [KB_EV_GUARD] = "guard",
    [KB_EV_FINDING] = "finding",
    [KB_EV_SIGNAL] = "signal",
    [KB_EV_DIAGNOSIS] = "diagnosis",
    [KB_EV_ACTION] = "action",
    [KB_EV_REQUEUE] = "requeue",
    [KB_EV_STOP] = "stop",
    [KB_EV_DONE] = "done",
};

int contract_event(const char *name)
{
    for (int i = 0; i < KB_EV_N; i++)
        if (!strcmp(kb_event_names[i], name))
            return i;
    return -1;
}

static const struct {
    int code;
    const char *name;
} exits[] = {
    {KB_EXIT_DONE, "done"},       {KB_EXIT_REQUEST, "request"},
    {KB_EXIT_SAVED, "saved"},     {KB_EXIT_STEP, "step"},
    {KB_EXIT_RANK, "rank"},       {KB_EXIT_GPU, "gpu"},
    {KB_EXIT_NODE, "node"},       {KB_EXIT_PEER, "peer"},
    {KB_EXIT_WIREUP, "wireup"},   {KB_EXIT_NO_CKPT, "no_checkpoint"},
};

const char *contract_exit_name(int code)
{
    for (size_t i = 0; i < sizeof exits / sizeof *exits; i++)
        if (exits[i].code == code)
            return exits[i].name;
    return NULL;
}

int contract_exit_code(const struct err *err)
{
    static const int codes[] = {
        [ERR_NONE] = KB_EXIT_DONE,       [ERR_REQUEST] = KB_EXIT_REQUEST,
        [ERR_STEP] = KB_EXIT_STEP,       [ERR_RANK] = KB_EXIT_RANK,
        [ERR_GPU] = KB_EXIT_GPU,         [ERR_NODE] = KB_EXIT_NODE,
        [ERR_JOB] = KB_EXIT_RANK,
    };
    return codes[err->class];
}

int contract_node_dir(char *dst, size_t dst_bytes, long job, int attempt,
                      struct err *err)
{
    const char *set = getenv(KB_ENV_NODE_DIR);
    const char *root = "/dev/shm";
    if (access(root, W_OK)) {
        root = getenv("TMPDIR");
        if (!root || !*root)
            root = "/tmp";
    }
    int n = set && *set ? snprintf(dst, dst_bytes, "%s", set)
                        : snprintf(dst, dst_bytes, "%s/koboshi.%ld.%04d", root,
                                   job, attempt);
    if (n < 0 || (size_t)n >= dst_bytes)
        return err_set(err, "contract: node folder's path too long");
    return 0;
}

const char *const kb_suspicion_names[KB_SUSPICION_N] = {
    [KB_SUSPECT_GPU] = "suspect-gpu",
    [KB_SUSPECT_HANG] = "suspect-hang",
    [KB_SUSPECT_CRASH] = "suspect-crash",
    [KB_SUSPECT_NODE] = "suspect-node",
    [KB_SUSPECT_HEALTH] = "suspect-health",
};
