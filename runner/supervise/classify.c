/* classify - what was seen, to a diagnosis; see classify.h. */
#include "runner/supervise/classify.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/contract.h"

const struct cause_row cause_rows[CAUSE_N] = {
    [CAUSE_NONE] = {"none", ERR_NONE, false, "nothing"},
    [CAUSE_DONE] = {"done", ERR_NONE, false, "all steps done"},
    [CAUSE_SAVED] = {"saved", ERR_NONE, false, "stopped after a checkpoint"},
    [CAUSE_STEP_CANCELLED] = {"step_cancelled", ERR_JOB, true,
                              "the ranks' step was cancelled, not the job"},
    [CAUSE_USER] = {"user_error", ERR_REQUEST, false, "user error"},
    [CAUSE_NO_CKPT] = {"no_valid_checkpoint", ERR_REQUEST, false,
                       "checkpoints exist, none is valid"},
    [CAUSE_LOSS] = {"loss", ERR_STEP, true, "the loss went bad"},
    [CAUSE_RANK_CRASH] = {"rank_crash", ERR_RANK, true, "rank crashed"},
    [CAUSE_RANK_KILLED] = {"rank_killed", ERR_RANK, true, "rank was killed"},
    [CAUSE_OUT_OF_MEMORY] = {"out_of_memory", ERR_RANK, true,
                             "rank was killed for memory"},
    [CAUSE_RANK_ERROR] = {"rank_error", ERR_RANK, true, "rank failed"},
    [CAUSE_RANK_LEFT] = {"rank_left", ERR_RANK, true,
                         "rank ended before the others"},
    [CAUSE_GPU] = {"gpu", ERR_GPU, true, "GPU failed"},
    [CAUSE_NODE_SUSPECT] = {"node_suspect", ERR_NODE, true,
                            "node is suspect"},
    [CAUSE_NODE_DEAD] = {"node_dead", ERR_NODE, true, "node died"},
    [CAUSE_NODE_SILENT] = {"node_silent", ERR_NODE, true,
                           "node fell silent"},
    [CAUSE_NODE_UNFIT] = {"node_unfit", ERR_NODE, true,
                          "node failed its health check"},
    [CAUSE_STALL] = {"stall", ERR_RANK, true, "rank hangs"},
    [CAUSE_WIREUP] = {"wireup", ERR_JOB, false,
                      "the ranks' start never came together"},
    [CAUSE_SLURM_AWAY] = {"slurm_away", ERR_JOB, false,
                          "Slurm does not answer"},
    [CAUSE_LAUNCH] = {"launch", ERR_JOB, true, "srun could not start ranks"},
    [CAUSE_PEER] = {"peer", ERR_RANK, true,
                    "ranks lost a peer that nobody misses"},
    [CAUSE_TIME_LIMIT] = {"time_limit", ERR_JOB, false, "time limit"},
    [CAUSE_PREEMPTED] = {"preempted", ERR_JOB, false, "preempted"},
    [CAUSE_REQUEUED] = {"requeued", ERR_JOB, false, "requeued"},
    [CAUSE_CANCELLED] = {"cancelled", ERR_REQUEST, false, "cancelled"},
    [CAUSE_SUPERVISOR] = {"supervisor_lost", ERR_JOB, false,
                          "the supervisor was lost"},
};

/* What an exit code of the contract means, when the rank gave it. */
static const struct {
    int code;
    enum cause cause;
    bool innocent;
} codes[] = {
    {KB_EXIT_DONE, CAUSE_RANK_LEFT, true},
    {KB_EXIT_SAVED, CAUSE_SAVED, true},
    {KB_EXIT_REQUEST, CAUSE_USER, false},
    {KB_EXIT_NO_CKPT, CAUSE_NO_CKPT, false},
    {KB_EXIT_STEP, CAUSE_LOSS, false},
    {KB_EXIT_RANK, CAUSE_RANK_ERROR, false},
    {KB_EXIT_GPU, CAUSE_GPU, false},
    {KB_EXIT_NODE, CAUSE_NODE_SUSPECT, false},
    {KB_EXIT_PEER, CAUSE_PEER, true},
    {KB_EXIT_WIREUP, CAUSE_WIREUP, true},
};

static void fill(struct diagnosis *d, enum cause cause, int rank,
                 const char *node)
{
    *d = (struct diagnosis){.cause = cause, .class = cause_rows[cause].class,
                            .rank = rank};
    snprintf(d->node, sizeof d->node, "%s", node ? node : "");
    if (rank >= 0 && node && *node)
        snprintf(d->subject, sizeof d->subject, "rank %d on %s", rank, node);
    else if (rank >= 0)
        snprintf(d->subject, sizeof d->subject, "rank %d", rank);
    else if (node && *node)
        snprintf(d->subject, sizeof d->subject, "%s", node);
    else
        snprintf(d->subject, sizeof d->subject, "job");
}

/* Digits differ between two times of the same failure (addresses, seconds);
 * the words do not. */
static void sign(struct diagnosis *d, const char *message)
{
    int n = snprintf(d->signature, sizeof d->signature, "%s|%s|",
                     cause_rows[d->cause].name, d->subject);
    size_t at = n < 0 ? 0 : (size_t)n;
    for (const char *p = message; *p && at + 1 < sizeof d->signature; p++)
        if (*p < '0' || *p > '9')
            d->signature[at++] = *p;
    if (at < sizeof d->signature)
        d->signature[at] = 0;
    d->signature[sizeof d->signature - 1] = 0;
}

/* ---- Ranks that ended --------------------------------------------------- */

static bool is_innocent(const struct rank_end *e)
{
    if (!e->told)
        return true; /* taken along with its wrapper: srun or the node did it */
    if (e->signal)
        return e->signal == SIGTERM;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == e->code)
            return codes[i].innocent;
    return false;
}

int classify_blame(const struct rank_end *ends, int ends_n)
{
    int blame = -1;
    for (int i = 0; i < ends_n; i++) {
        /* A user error explains all else: every rank may say it. */
        if (ends[i].told && !ends[i].signal &&
            (ends[i].code == KB_EXIT_REQUEST ||
             ends[i].code == KB_EXIT_NO_CKPT))
            return i;
        if (!is_innocent(&ends[i]) &&
            (blame < 0 || ends[i].seen_s < ends[blame].seen_s))
            blame = i;
    }
    return blame;
}

static enum cause cause_of_end(const struct rank_end *e)
{
    if (e->signal == SIGKILL)
        return e->oom ? CAUSE_OUT_OF_MEMORY : CAUSE_RANK_KILLED;
    if (e->signal)
        return CAUSE_RANK_CRASH;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == e->code)
            return codes[i].cause;
    return CAUSE_RANK_ERROR;
}

void classify_rank(const struct rank_end *e, struct diagnosis *ret)
{
    char how[160];
    fill(ret, cause_of_end(e), e->rank, e->node);
    ret->seen_s = e->seen_s;
    if (e->signal)
        snprintf(how, sizeof how, "killed by signal %d (%s)", e->signal,
                 strsignal(e->signal));
    else if (contract_exit_name(e->code))
        snprintf(how, sizeof how, "exit code %d (%s)", e->code,
                 contract_exit_name(e->code));
    else
        snprintf(how, sizeof how, "exit code %d", e->code);
    int n = snprintf(ret->evidence, sizeof ret->evidence, "%s", how);
    if (e->step >= 0 && n < (int)sizeof ret->evidence)
        n += snprintf(ret->evidence + n, sizeof ret->evidence - (size_t)n,
                      " after step %lld", (long long)e->step);
    if (e->message && *e->message && n < (int)sizeof ret->evidence)
        snprintf(ret->evidence + n, sizeof ret->evidence - (size_t)n, ": %s",
                 e->message);
    char text[700];
    snprintf(text, sizeof text, "%c%c%s", 'A' + e->signal % 26,
             'A' + e->code % 26, e->message ? e->message : "");
    sign(ret, text);
}

void classify_finish(const struct rank_end *ends, int ends_n, int ranks_n,
                     bool asked_to_save, struct diagnosis *ret)
{
    int done = 0, saved = 0;
    const struct rank_end *alone = NULL; /* one that never met the others */
    for (int i = 0; i < ends_n; i++) {
        if (ends[i].told && !ends[i].signal && ends[i].code == KB_EXIT_WIREUP)
            alone = &ends[i];
        done += ends[i].told && !ends[i].signal && ends[i].code == KB_EXIT_DONE;
        saved +=
            ends[i].told && !ends[i].signal && ends[i].code == KB_EXIT_SAVED;
    }
    if (done == ranks_n) {
        fill(ret, CAUSE_DONE, -1, "");
    } else if (saved && saved + done == ranks_n) {
        fill(ret, asked_to_save ? CAUSE_SAVED : CAUSE_STEP_CANCELLED, -1, "");
        snprintf(ret->evidence, sizeof ret->evidence, "%s",
                 asked_to_save ? "on request"
                               : "they saved; nobody here asked for it");
        sign(ret, cause_rows[ret->cause].name);
    } else if (alone) {
        fill(ret, CAUSE_WIREUP, -1, "");
        snprintf(ret->evidence, sizeof ret->evidence, "rank %d: %s",
                 alone->rank, alone->message ? alone->message : "");
        sign(ret, "wireup");
    } else {
        fill(ret, CAUSE_PEER, -1, "");
        snprintf(ret->evidence, sizeof ret->evidence,
                 "%d of %d ranks ended, none says why", ends_n, ranks_n);
        sign(ret, "peer");
    }
}

/* ---- Stall -------------------------------------------------------------- */

static bool in_collective(const struct rank_beat *b)
{
    return b->entered > b->done;
}

/* How far a rank came: whether it waits, then the collectives entered. Numbers
 * are a group's own: two compare within one group, and not where messages
 * between two of its ranks count (group < 0). */
static bool behind(const struct rank_beat *a, const struct rank_beat *b)
{
    if (a->beats != b->beats)
        return !a->beats;
    if (a->step != b->step)
        return a->step < b->step;
    if (in_collective(a) != in_collective(b))
        return !in_collective(a);
    if (a->group == b->group && a->group >= 0 && a->entered != b->entered)
        return a->entered < b->entered;
    return a->quiet_s > b->quiet_s;
}

bool classify_stall(const struct rank_beat *beats, int beats_n, int told_rank,
                    struct diagnosis *ret)
{
    const struct rank_beat *guilty = NULL;
    int waiting = 0;
    for (int i = 0; i < beats_n; i++) {
        if (beats[i].exited)
            continue;
        if (!guilty || behind(&beats[i], guilty))
            guilty = &beats[i];
    }
    for (int i = 0; i < beats_n; i++)
        waiting += !beats[i].exited && &beats[i] != guilty &&
                   in_collective(&beats[i]);
    if (!guilty) {
        fill(ret, CAUSE_STALL, told_rank, "");
        snprintf(ret->evidence, sizeof ret->evidence,
                 "its watcher told it, and no rank is left to look at");
        sign(ret, "gone");
        return true;
    }
    if (guilty->quiet_s < guilty->limit_s)
        return false;
    bool phase_known = guilty->beats && guilty->phase >= 0 &&
                       guilty->phase < KB_PHASE_N;
    const char *phase =
        phase_known ? kb_phase_names[guilty->phase] : kb_phase_names[0];
    bool start = !guilty->beats || guilty->phase == KB_PHASE_START;
    fill(ret, start ? CAUSE_WIREUP : CAUSE_STALL, start ? -1 : guilty->rank,
         start ? "" : guilty->node);
    ret->since_s = guilty->quiet_s;
    const char *state = guilty->state == 'T' ? ", its process is stopped"
                        : guilty->state == 'D'
                            ? ", its process is in uninterruptible sleep"
                        : guilty->state == 'Z' ? ", its process is dead"
                                               : "";
    if (in_collective(guilty) && waiting)
        snprintf(ret->evidence, sizeof ret->evidence,
                 "rank %d on %s and %d other ranks wait in collective %lld, "
                 "which all entered: %s, step %lld, quiet for %.0f s%s",
                 guilty->rank, guilty->node, waiting,
                 (long long)guilty->entered, phase, (long long)guilty->step,
                 guilty->quiet_s, state);
    else
        snprintf(ret->evidence, sizeof ret->evidence,
                 "rank %d on %s did not come on: %s after step %lld, quiet "
                 "for %.0f s%s; %d other ranks wait for it in a collective",
                 guilty->rank, guilty->node, phase, (long long)guilty->step,
                 guilty->quiet_s, state, waiting);
    sign(ret, phase);
    return true;
}

void classify_writer(const struct rank_beat *beats, int beats_n, int told_rank,
                     const char *told_node, int64_t step, double quiet_s,
                     struct diagnosis *ret)
{
    int rank = told_rank, others = 0;
    const char *node = told_node;
    for (int i = 0; i < beats_n; i++) {
        if (beats[i].rank <= 0 || beats[i].exited || beats[i].writing != step)
            continue;
        others++;
        if (rank != 0)
            continue; /* told about one that is no rank 0 */
        rank = beats[i].rank;
        node = beats[i].node;
    }
    fill(ret, CAUSE_STALL, rank, node);
    ret->since_s = quiet_s;
    int n = snprintf(ret->evidence, sizeof ret->evidence,
                     "rank %d on %s writes the checkpoint of step %lld for "
                     "%.0f s", rank, node, (long long)step, quiet_s);
    if (others > 1 && n > 0 && n < (int)sizeof ret->evidence)
        snprintf(ret->evidence + n, sizeof ret->evidence - (size_t)n,
                 ", as %d others do", others - 1);
    sign(ret, "writer");
}

/* ---- Nodes and words ---------------------------------------------------- */

void classify_node(enum cause cause, const char *node, double quiet_s,
                   const char *how, struct diagnosis *ret)
{
    fill(ret, cause, -1, node);
    ret->since_s = quiet_s;
    snprintf(ret->evidence, sizeof ret->evidence, "%s", how);
    sign(ret, cause == CAUSE_NODE_UNFIT ? how : "");
}

void classify_plain(enum cause cause, const char *subject,
                    const char *evidence, struct diagnosis *ret)
{
    fill(ret, cause, -1, "");
    if (subject && *subject)
        snprintf(ret->subject, sizeof ret->subject, "%s", subject);
    snprintf(ret->evidence, sizeof ret->evidence, "%s", evidence);
    sign(ret, evidence);
}
