/* tuned - one choice of the products' algorithms for all ranks and attempts.
 *
 * Known ones are rank 0's, of the newest attempt's file. What is not known is
 * chosen in the first step: by the first rank of each pipeline stage by time,
 * by the others as the library proposes; after the step all of a stage take
 * their first rank's, and rank 0 writes the file of this attempt. The first
 * step of a run alone so differs between ranks, and by no more than rounding.
 * Deterministic runs do not time: two of them must agree without a file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/log.h"
#include "runner/train/train.h"
#include "runner/train/tuned.h"

/* The rank whose choice holds in this rank's stage. */
static int leader_of(const struct train *t, int rank)
{
    int stage = t->plan.tensor * t->plan.data;
    return rank / stage * stage;
}

/* GPU and libraries, and what else the choice hangs on. */
static void id_make(const struct train *t, const struct tuning *tuning,
                    char id[TUNED_ID_BYTES])
{
    tuning->id(&t->ex, id, TUNED_ID_BYTES);
    size_t n = strlen(id);
    snprintf(id + n, TUNED_ID_BYTES - n, "%s",
             t->plan.deterministic ? ", deterministic" : "");
}

/* Rank 0: of the newest attempt that has some for this id. */
static void find_known(const struct train *t, const char *id,
                       struct tuned **ret, int *ret_n)
{
    char path[PATH_MAX];
    for (int a = t->options.attempt; a > 0; a--) {
        struct err err = ERR_INIT;
        int n = snprintf(path, sizeof path,
                         "%s/" KB_ATTEMPT_FMT "/" TUNED_JSON, t->plan.run_dir,
                         a);
        if (n < 0 || n >= (int)sizeof path)
            return;
        int rc = tuned_read(path, id, ret, ret_n, &err);
        if (rc > 0)
            return;
        if (rc < 0)
            log_warn("%s; its algorithms are not used", err.msg);
    }
}

/* Rank root's list to all; on the others a copy, to be freed. */
static int hand_out(struct train *t, const char *key, int root,
                    struct tuned **list, int64_t n, struct err *err)
{
    size_t bytes = (size_t)n * sizeof **list;
    if (n == 0)
        return 0;
    if (t->place.rank == root)
        return comm_put(t->comm, key, *list, bytes, err);
    *list = malloc(bytes);
    if (!*list)
        return err_set(err, "train: no memory for the products' algorithms");
    return comm_get(t->comm, root, key, *list, bytes, t->plan.load_limit_s,
                    err);
}

int tuned_begin(struct train *t, struct err *err)
{
    const struct tuning *tuning = exec_tuning(&t->ex);
    char id[TUNED_ID_BYTES], first[TUNED_ID_BYTES];
    struct tuned *known = NULL;
    int n = 0, rc;
    int64_t count;
    if (!tuning)
        return 0;
    id_make(t, tuning, id);
    if (t->place.rank == 0)
        find_known(t, id, &known, &n);
    count = n;
    rc = comm_agree(t->comm, &count, 1, COMM_MAX, t->plan.load_limit_s, err);
    if (rc == 0 && t->place.size > 1 &&
        (t->place.rank == 0
             ? comm_put(t->comm, "tuned.id", id, sizeof id, err)
             : comm_get(t->comm, 0, "tuned.id", first, sizeof first,
                        t->plan.load_limit_s, err)) != 0)
        rc = -1;
    if (rc == 0 && t->place.size > 1)
        rc = hand_out(t, "tuned.known", 0, &known, count, err);
    if (rc == 0 && t->place.rank != 0 && strcmp(id, first) != 0) {
        log_warn("this rank has %s, rank 0 %s: algorithms of its own", id,
                 first);
        count = 0;
    }
    t->tuned_known = (int)count;
    if (rc == 0 &&
        tuning->set(&t->ex, known, (int)count,
                    t->place.rank == leader_of(t, t->place.rank)) != K_OK)
        rc = err_set_class(err, ERR_GPU, "train: handing algorithms over "
                           "failed: %s", device_error(t->device));
    free(known);
    return rc;
}

/* ---- After the first step ------------------------------------------------ */
static void file_write(const struct train *t, const struct tuning *tuning,
                       const struct tuned *list, int n)
{
    char path[PATH_MAX], id[TUNED_ID_BYTES];
    struct err err = ERR_INIT;
    id_make(t, tuning, id);
    if (attempt_path(t, TUNED_JSON, path, sizeof path, &err) != 0 ||
        tuned_write(path, id, list, n, &err) != 0)
        log_warn("%s", err.msg);
}

/* Rank 0 gathers the other stages' lists behind its own. */
static int gather_stages(struct train *t, const int64_t *counts,
                         struct tuned *all, int *n, struct err *err)
{
    for (int rank = 1; rank < t->place.size; rank++) {
        if (leader_of(t, rank) != rank || counts[rank] == 0)
            continue;
        if (comm_get(t->comm, rank, "tuned.new", all + *n,
                     (size_t)counts[rank] * sizeof *all,
                     t->plan.load_limit_s, err) != 0)
            return -1;
        *n += (int)counts[rank];
    }
    return 0;
}

static int share(struct train *t, const struct tuning *tuning,
                 struct tuned *list, const int64_t *counts, struct err *err)
{
    int leader = leader_of(t, t->place.rank), n = (int)counts[leader];
    if (t->place.size > 1 &&
        (t->place.rank == leader
             ? comm_put(t->comm, "tuned.new", list,
                        (size_t)n * sizeof *list, err)
             : comm_get(t->comm, leader, "tuned.new", list,
                        (size_t)n * sizeof *list, t->plan.load_limit_s,
                        err)) != 0)
        return -1;
    if (t->place.rank != leader &&
        tuning->set(&t->ex, list, n, false) != K_OK)
        return err_set_class(err, ERR_GPU, "train: handing algorithms over "
                             "failed: %s", device_error(t->device));
    if (t->place.rank != 0)
        return 0;
    if (gather_stages(t, counts, list, &n, err) != 0)
        return -1;
    file_write(t, tuning, list, n);
    return 0;
}

int tuned_settle(struct train *t, struct err *err)
{
    const struct tuning *tuning = exec_tuning(&t->ex);
    size_t most = TUNED_MAX;
    if (!tuning)
        return 0;
    struct tuned *list = calloc(most, sizeof *list);
    int64_t *counts = calloc((size_t)t->place.size, sizeof *counts);
    int rc = list && counts ? 0 : err_set(err, "train: no memory for the "
                                          "products' algorithms");
    int64_t mine = list ? tuning->get(&t->ex, list, (int)most) : 0;
    int64_t room = (int64_t)most / t->plan.pipeline;
    mine = mine < room ? mine : room;
    if (rc == 0)
        rc = comm_gather(t->comm, &mine, sizeof mine, counts,
                         t->plan.load_limit_s, err);
    if (rc == 0 && t->place.rank == 0)
        log_info("products: %lld algorithms, %d known, %d of them refused",
                 (long long)mine, t->tuned_known, tuning->refused(&t->ex));
    if (rc == 0)
        rc = share(t, tuning, list, counts, err);
    free(list);
    free(counts);
    return rc;
}
