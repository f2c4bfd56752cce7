/* args - the words of plugstack.conf; see args.h. */
#include "spank/args.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/contract.h"
#include "runner/base/str.h"

enum arg_type { ARG_PATH, ARG_SECONDS, ARG_PERCENT, ARG_COUNT, ARG_SWITCH };

static const struct {
    const char *key;
    enum arg_type type;
    size_t offset;
    double max;
} rows[] = {
    {"bindir", ARG_PATH, offsetof(struct args, bindir), 0},
    {"datadir", ARG_PATH, offsetof(struct args, datadir), 0},
    {"slurm_bindir", ARG_PATH, offsetof(struct args, slurm_bindir), 0},
    {"gate_dir", ARG_PATH, offsetof(struct args, gate_dir), 0},
    {"state_dir", ARG_PATH, offsetof(struct args, state_dir), 0},
    {"plan_timeout", ARG_SECONDS, offsetof(struct args, plan_timeout_s), 60},
    {"health_timeout", ARG_SECONDS, offsetof(struct args, health_timeout_s),
     300},
    {"slurm_timeout", ARG_SECONDS, offsetof(struct args, slurm_timeout_s), 60},
    {"may_drain", ARG_SWITCH, offsetof(struct args, may_drain), 0},
    {"max_drains_per_hour", ARG_COUNT, offsetof(struct args, drains_per_hour),
     1000},
    {"max_drains_percent", ARG_PERCENT,
     offsetof(struct args, drains_percent), 100},
};

static int set_value(struct args *args, size_t row, const char *text)
{
    char *at = (char *)args + rows[row].offset;
    double number;
    int64_t count;
    switch (rows[row].type) {
    case ARG_PATH:
        return *text == '/' && str_copy(at, PATH_MAX, text) ? 0 : -1;
    case ARG_SECONDS:
    case ARG_PERCENT:
        if (str_to_double(text, &number) || !(number > 0) ||
            number > rows[row].max)
            return -1;
        *(double *)(void *)at = number;
        return 0;
    case ARG_COUNT:
        if (str_to_i64(text, &count) || count < 0 || count > rows[row].max)
            return -1;
        *(int *)(void *)at = (int)count;
        return 0;
    case ARG_SWITCH:
        return str_to_bool(text, (bool *)at);
    }
    return -1;
}

static void complain(struct args *args, const char *what, const char *word)
{
    if (!*args->complaint)
        snprintf(args->complaint, sizeof args->complaint,
                 "plugstack.conf: %s: '%s', ignored", what, word);
}

static void read_word(struct args *args, const char *word)
{
    const char *equals = strchr(word, '=');
    for (size_t i = 0; equals && i < sizeof rows / sizeof *rows; i++) {
        size_t key_n = strlen(rows[i].key);
        if ((size_t)(equals - word) != key_n ||
            strncmp(word, rows[i].key, key_n))
            continue;
        if (set_value(args, i, equals + 1))
            complain(args, "bad value", word);
        return;
    }
    complain(args, "unknown word", word);
}

void args_read(struct args *args, int ac, char *av[])
{
    *args = (struct args){
        .bindir = KB_BINDIR,
        .datadir = KB_DATADIR,
        .gate_dir = KB_GATE_DIR,
        .state_dir = KB_STATE_DIR,
        .plan_timeout_s = 10,
        .health_timeout_s = 20,
        .slurm_timeout_s = 5,
        .may_drain = true,
        .drains_per_hour = 2,
        .drains_percent = 5,
    };
    for (int i = 0; i < ac; i++)
        read_word(args, av[i]);
}
