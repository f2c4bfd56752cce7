/* load - the newest checkpoint that every rank finds valid; see ckpt.h.
 *
 * Rank 0's look at the folder gives the candidates, newest first. For each,
 * every rank fills its views from verified blocks and says how that went; one
 * bad word and all go on to the next older. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/str.h"
#include "runner/ckpt/catalog.h"
#include "runner/ckpt/ckpt.h"
#include "runner/ckpt/fill.h"
#include "runner/ckpt/reader.h"

#define CANDIDATES_MAX 64
#define LATE_S 65.0
#define LATE_AGAIN_S 1.0
#define AGREE_LIMIT_S 7200.0 /* a lost peer is noticed at once anyway */

enum verdict { VERDICT_GOOD, VERDICT_BAD, VERDICT_STOP };

/* What a rank says about a candidate. */
struct word {
    int32_t verdict, class;
    char msg[500];
};

struct candidates {
    int64_t step[CANDIDATES_MAX], attempt[CANDIDATES_MAX];
    int n;
};

struct loading {
    struct comm *comm;
    const char *run_dir;
    int attempt;
    const struct view *views;
    int views_n;
    struct device *device;
    ckpt_reject_f on_reject;
    void *ctx;
    int rejected;      /* committed ones refused */
    char last[600];    /* the newest refusal, for the final message */
};

static void reject(struct loading *l, const char *name, const char *reason)
{
    if (!l->rejected++)
        snprintf(l->last, sizeof l->last, "%.64s: %.500s", name, reason);
    if (l->on_reject && comm_place(l->comm)->rank == 0)
        l->on_reject(l->ctx, name, reason);
}

/* ---- Seen late ---------------------------------------------------------- */

/* Clients of a file server believe names and absent names for a while, NFS's
 * usually at most a minute. Opening a folder makes some of them look anew. */
static void look_anew(const char *run_dir, const char *name)
{
    char path[PATH_MAX];
    const char *const parts[] = {"", "/" KB_CKPT_DIR, "/" KB_CKPT_DIR "/"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (snprintf(path, sizeof path, "%s%s%s", run_dir, parts[i],
                     i == 2 ? name : "") >= (int)sizeof path)
            return;
        DIR *dir = opendir(path);
        if (dir)
            closedir(dir);
    }
}

/* True: wait is over or of no use; else it waited a little. */
static bool waited_enough(const struct loading *l, const char *name,
                          double begin_s)
{
    if (clock_mono_s() - begin_s > LATE_S)
        return true;
    clock_sleep_s(LATE_AGAIN_S);
    look_anew(l->run_dir, name);
    return false;
}

/* ---- Candidates -------------------------------------------------------- */

/* With all that this attempt was given at its start; what stays away is
 * refused, so that nothing begins at step 0 for want of seeing. */
static int load_catalog(struct loading *l, struct catalog *ret,
                        struct err *err)
{
    double begin_s = clock_mono_s();
    char name[64];
    for (;;) {
        if (catalog_load(l->run_dir, l->attempt, ret, err))
            return -1;
        if (l->attempt < 1 ||
            !catalog_misses(ret, l->run_dir, l->attempt, name))
            return 0;
        if (waited_enough(l, name, begin_s))
            break;
        catalog_release(ret);
    }
    reject(l, name, "it was there when this attempt began, and rank 0 does "
                    "not see it");
    return 0;
}

/* Rank 0: the committed and accepted ones; others with a problem are refused
 * right here. Returns -1 on error. */
static int find_candidates(struct loading *l, int64_t want,
                           struct candidates *ret, struct err *err)
{
    struct catalog c;
    if (load_catalog(l, &c, err))
        return -1;
    for (int i = 0; i < c.n && ret->n < CANDIDATES_MAX; i++) {
        const struct catalog_entry *e = &c.entries[i];
        if (want >= 0 && e->step != want)
            continue;
        if (l->attempt > 0 && e->attempt > l->attempt)
            continue; /* a newer attempt's are not ours to judge */
        if (!e->committed && (!l->attempt || e->attempt == l->attempt))
            continue; /* may be in the making */
        if (*e->problem) {
            reject(l, e->name, e->problem);
            l->rejected -= !e->committed || !e->accepted;
            continue;
        }
        ret->step[ret->n] = e->step;
        ret->attempt[ret->n++] = e->attempt;
    }
    catalog_release(&c);
    if (ret->n || l->rejected || want >= 0)
        return 0;
    /* Those of an earlier attempt may all have been refused already. */
    l->rejected = catalog_lost(l->run_dir, l->attempt, err);
    if (l->rejected > 0)
        snprintf(l->last, sizeof l->last, "see %.400s/" KB_CKPT_QUARANTINE,
                 l->run_dir);
    return l->rejected < 0 ? -1 : 0;
}

/* The same candidates on each rank: rank 0's. */
static int share_candidates(struct loading *l, struct candidates *c, bool bad,
                            struct err *err)
{
    int64_t v[3 + 2 * CANDIDATES_MAX] = {bad, c->n, l->rejected};
    for (int i = 0; i < c->n; i++) {
        v[3 + 2 * i] = c->step[i];
        v[4 + 2 * i] = c->attempt[i];
    }
    if (comm_place(l->comm)->rank != 0)
        memset(v, 0, sizeof v);
    if (comm_agree(l->comm, v, 3 + 2 * CANDIDATES_MAX, COMM_SUM,
                   AGREE_LIMIT_S, err))
        return -1;
    if (v[0])
        return err_set(err, "ckpt: rank 0 cannot read the checkpoints of "
                            "'%s'", l->run_dir);
    c->n = (int)v[1];
    l->rejected = (int)v[2];
    for (int i = 0; i < c->n; i++) {
        c->step[i] = v[3 + 2 * i];
        c->attempt[i] = v[4 + 2 * i];
    }
    return 0;
}

/* ---- One candidate ----------------------------------------------------- */

/* Rank 0 sees all its files: who does not may see them late. */
static bool is_late(const struct word *word, const struct err *err)
{
    return word->verdict == VERDICT_BAD &&
           (err->sys_errno == ENOENT || err->sys_errno == ESTALE);
}

static struct word try_once(struct loading *l, const char *name,
                            json_t **ret_state, bool *ret_late)
{
    struct word word = {.verdict = VERDICT_GOOD};
    struct err err = ERR_INIT;
    struct manifest m;
    char dir[PATH_MAX];
    if (reader_dir(l->run_dir, name, dir, sizeof dir, &err) ||
        reader_manifest(dir, name, &m, &err)) {
        word.verdict = VERDICT_BAD;
    } else {
        if (fill_views(dir, &m, l->views, l->views_n, l->device, NULL, &err))
            word.verdict = err.class == ERR_REQUEST || err.class == ERR_GPU
                               ? VERDICT_STOP
                               : VERDICT_BAD;
        else
            *ret_state = json_incref(m.state);
        manifest_release(&m);
    }
    word.class = err.class;
    str_copy(word.msg, sizeof word.msg, err.msg);
    *ret_late = is_late(&word, &err);
    return word;
}

static struct word try_candidate(struct loading *l, const char *name,
                                 json_t **ret_state)
{
    double begin_s = clock_mono_s();
    for (;;) {
        bool late;
        struct word word = try_once(l, name, ret_state, &late);
        if (!late || waited_enough(l, name, begin_s))
            return word;
    }
}

/* All ranks' words: the worst one, of the lowest rank. */
static int hear_all(struct loading *l, const struct word *mine,
                    struct word *ret_worst, int *ret_rank, struct err *err)
{
    int size = comm_place(l->comm)->size;
    struct word *all = calloc((size_t)size, sizeof *all);
    if (!all)
        return err_set(err, "ckpt: out of memory");
    int rc = comm_gather(l->comm, mine, sizeof *mine, all, AGREE_LIMIT_S, err);
    *ret_worst = *mine;
    for (int r = 0; r < size && !rc; r++) {
        if (r == 0 || all[r].verdict > ret_worst->verdict) {
            *ret_worst = all[r];
            *ret_rank = r;
        }
    }
    ret_worst->msg[sizeof ret_worst->msg - 1] = 0;
    free(all);
    return rc;
}

/* 1 loaded, 0 refused by someone, -1 stop. */
static int load_candidate(struct loading *l, const char *name,
                          json_t **ret_state, struct err *err)
{
    json_t *state = NULL;
    struct word worst, mine = try_candidate(l, name, &state);
    int rank = 0;
    if (hear_all(l, &mine, &worst, &rank, err)) {
        json_decref(state);
        return -1;
    }
    if (worst.verdict == VERDICT_GOOD) {
        *ret_state = state;
        return 1;
    }
    json_decref(state);
    if (worst.verdict == VERDICT_STOP)
        return err_set_class(err, (enum err_class)worst.class, "%s",
                             worst.msg);
    char reason[600];
    snprintf(reason, sizeof reason, "rank %d: %s", rank, worst.msg);
    reject(l, name, reason);
    return 0;
}

/* ---- The choice -------------------------------------------------------- */

static int none_left(const struct loading *l, int64_t want, struct err *err)
{
    if (want >= 0 && !l->rejected)
        return err_set_class(err, ERR_REQUEST,
                             "ckpt: no checkpoint of step %lld in '%s'; see "
                             "koboshi ckpt list", (long long)want, l->run_dir);
    if (!l->rejected)
        return 1;
    return err_set_class(err, ERR_STEP,
                         "ckpt: checkpoints exist in '%s' but none is valid "
                         "(%d refused; %s); to begin again use --llm-resume="
                         "fresh", l->run_dir, l->rejected,
                         *l->last ? l->last : "see rank 0");
}

int ckpt_load(struct comm *comm, const char *run_dir, int attempt,
              int64_t want, const struct view *views, int views_n,
              struct device *device, ckpt_reject_f on_reject, void *ctx,
              int64_t *ret_step, char ret_name[64], json_t **ret_state,
              struct err *err)
{
    struct loading l = {.comm = comm, .run_dir = run_dir, .attempt = attempt,
                        .views = views, .views_n = views_n, .device = device,
                        .on_reject = on_reject, .ctx = ctx};
    struct candidates c = {0};
    struct err look = ERR_INIT;
    bool bad = false;
    if (comm_place(comm)->rank == 0)
        bad = find_candidates(&l, want, &c, &look);
    if (bad)
        err_set(err, "%s", look.msg);
    if (share_candidates(&l, &c, bad, err))
        return -1;
    for (int i = 0; i < c.n; i++) {
        char name[64];
        snprintf(name, sizeof name, KB_CKPT_FMT, (long long)c.step[i],
                 (int)c.attempt[i]);
        int rc = load_candidate(&l, name, ret_state, err);
        if (rc < 0)
            return -1;
        if (rc > 0) {
            *ret_step = c.step[i];
            memcpy(ret_name, name, sizeof name);
            return 0;
        }
    }
    return none_left(&l, want, err);
}
