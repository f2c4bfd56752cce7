/* data - the stage that looks at the token files and how far they reach. */
#include "runner/plan/plan_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"

static int take_list(struct making *m, const char *key, struct plan_data *list)
{
    const char *text = conf_text(m->conf, key);
    int n = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (n == PLAN_LIST_MAX) {
            refuse(m, key, "more than %d token files; merge some",
                   PLAN_LIST_MAX);
            return n;
        }
        if (plan_data_item(text, len, &list[n]))
            refuse(m, key, "'%.*s' is not '[WEIGHT] PREFIX' with a positive "
                   "weight", (int)(len < 200 ? len : 200), text);
        else
            n++;
        text += len + (text[len] == '\n');
    }
    return n;
}

/* A file's header against the model; its tokens. */
static int64_t check_file(struct making *m, const char *key,
                          const struct plan_data *data,
                          const struct site_file *file)
{
    int64_t most = file->dtype_bytes == 1   ? 1 << 8
                   : file->dtype_bytes == 2 ? 1 << 16
                                            : (int64_t)1 << 31;
    if (!file->known) {
        unseen(m, key, "'%.250s' cannot be seen from here%s%.120s; "
               "check the path",
               data->prefix, *file->problem ? ": " : "", file->problem);
        return 0;
    }
    if (!file->exists || *file->problem) {
        refuse(m, key, "'%.250s': %.180s", data->prefix,
               *file->problem ? file->problem
                              : "no such token file (.bin and .idx); make it "
                                "with koboshi data build");
        return 0;
    }
    if (file->tokens <= m->plan->seq_len)
        refuse(m, key, "'%.250s' has %lld tokens, fewer than one sequence of "
               "%d and the token after it; give more data or lower "
               "train.seq_len", data->prefix,
               (long long)file->tokens, m->plan->seq_len);
    if (m->plan->shape.V > most && file->dtype_bytes)
        warn(m, key, "'%.200s' holds tokens up to %lld only, the vocabulary "
             "has %d: is it made with another tokenizer", data->prefix,
             (long long)most - 1, m->plan->shape.V);
    return file->tokens;
}

static int64_t check_files(struct making *m, const char *key,
                           const struct plan_data *list, int n,
                           const struct site_file *files)
{
    int64_t tokens = 0;
    for (int i = 0; i < n; i++) {
        int64_t got = check_file(m, key, &list[i], &files[i]);
        tokens = got && tokens >= 0 ? tokens + got : -1;
    }
    return tokens > 0 ? tokens : 0;
}

/* "969,30,1": three shares, none negative, the first positive. */
static int parse_split(const char *text, double share[3])
{
    char copy[64], *rest = copy;
    if (!str_copy(copy, sizeof copy, text))
        return -1;
    for (int i = 0; i < 3; i++) {
        char *word = strsep(&rest, ",");
        if (!word || str_to_double(word, &share[i]) || !(share[i] >= 0))
            return -1;
    }
    return rest || !(share[0] > 0) ? -1 : 0;
}

/* Where validation comes from, and how often. */
static void make_validation(struct making *m)
{
    struct plan *plan = m->plan;
    bool split_valid = false;
    double share[3];
    if (*plan->split) {
        if (parse_split(plan->split, share))
            refuse(m, "data.split", "'%s' is not three shares with commas, "
                   "the first positive; give as 969,30,1", plan->split);
        else
            split_valid = share[1] > 0;
    }
    if (split_valid && plan->valid_n)
        refuse(m, "data.valid", "data.split takes validation from data.train "
               "already; give one of the two");
    bool any = split_valid || plan->valid_n > 0;
    plan->eval_interval = conf_is_set(m->conf, "eval.interval")
                              ? conf_int(m->conf, "eval.interval")
                          : any ? 1000
                                : 0;
    if (plan->eval_interval && !any)
        refuse(m, "eval.interval", "there is nothing to validate on; give "
               "data.valid, or data.split as 99,1,0, or 0 here");
}

static void check_epochs(struct making *m, int64_t tokens)
{
    struct plan *plan = m->plan;
    double drawn = (double)plan->steps * plan->global_batch * plan->seq_len;
    if (drawn > 9e18)
        refuse(m, "train.steps", "%lld steps of %d sequences of %d tokens are "
               "more than can be counted; lower one of them",
               (long long)plan->steps,
               plan->global_batch, plan->seq_len);
    else if (tokens && plan->train_n == 1 && drawn > 4 * (double)tokens)
        warn(m, "train.steps", "the run reads its %lld tokens %.1f times over",
             (long long)tokens, drawn / (double)tokens);
}

void make_data(struct making *m)
{
    struct plan *plan = m->plan;
    plan->train_n = take_list(m, "data.train", plan->train);
    plan->valid_n = take_list(m, "data.valid", plan->valid);
    int64_t tokens = check_files(m, "data.train", plan->train, plan->train_n,
                                 m->site->train);
    check_files(m, "data.valid", plan->valid, plan->valid_n, m->site->valid);
    make_validation(m);
    check_epochs(m, tokens);
}
