/* cmdline - what the user asked of Slurm's command; see cmdline.h. */
#include "spank/cmdline.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/file.h"
#include "runner/base/str.h"

enum { CMDLINE_MAX = 1 << 20 };

/* The options that matter here: long name, letter, end of the environment's
 * name (after SBATCH_ and so on), NULL where Slurm has none. */
static const struct {
    const char *name;
    char letter;
    const char *env;
} rows[ASKED_N] = {
    [ASKED_NODES] = {"nodes", 'N', NULL},
    [ASKED_NTASKS] = {"ntasks", 'n', NULL},
    [ASKED_NTASKS_PER_NODE] = {"ntasks-per-node", 0, NULL},
    [ASKED_CPUS_PER_TASK] = {"cpus-per-task", 'c', NULL},
    [ASKED_GPUS] = {"gpus", 'G', "GPUS"},
    [ASKED_GPUS_PER_NODE] = {"gpus-per-node", 0, "GPUS_PER_NODE"},
    [ASKED_GRES] = {"gres", 0, "GRES"},
    [ASKED_MEM] = {"mem", 0, "MEM_PER_NODE"},
    [ASKED_TIME] = {"time", 't', "TIMELIMIT"},
    [ASKED_EXCLUDE] = {"exclude", 'x', NULL},
    [ASKED_ARRAY] = {"array", 'a', "ARRAY_INX"},
    [ASKED_CHDIR] = {"chdir", 'D', NULL},
    [ASKED_WRAP] = {"wrap", 0, NULL},
    [ASKED_DISTRIBUTION] = {"distribution", 'm', "DISTRIBUTION"},
    [ASKED_NODELIST] = {"nodelist", 'w', NULL},
};

const char *const asked_names[ASKED_N] = {
    "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus",
    "gpus-per-node", "gres", "mem", "time", "exclude", "array", "chdir",
    "wrap", "distribution", "nodelist"};

/* Letters that take no argument, and long options that take none or only
 * after '=': any other eats the next word. */
static const char bare_letters[] = "hHlOQsuvVXZEW";
static const char *const bare_names[] = {
    "contiguous", "debugger-test", "disable-status", "exact", "exclusive",
    "get-user-env", "help", "hold", "ignore-pbs", "immediate", "interactive",
    "kill-on-bad-exit", "label", "llm-dry-run", "multi-prog", "nice",
    "no-allocate", "no-bell", "no-kill", "no-requeue", "no-shell",
    "overcommit", "overlap", "oversubscribe", "parsable", "preserve-env",
    "propagate", "pty", "quiet", "quit-on-interrupt", "reboot", "requeue",
    "share", "spread-job", "stepmgr", "test-only", "unbuffered", "usage",
    "use-min-nodes", "verbose", "version", "wait-all-nodes", "whole", "x11",
    "bell", "external-launcher"};

static bool is_bare_name(const char *name, size_t name_n)
{
    for (size_t i = 0; i < sizeof bare_names / sizeof *bare_names; i++)
        if (!strncmp(bare_names[i], name, name_n) && !bare_names[i][name_n])
            return true;
    return name_n == 4 && !strncmp(name, "wait", 4);
}

/* getopt takes any beginning that is unique: --llm-t does, --llm- does not. */
static bool is_train(const char *name, size_t name_n)
{
    return name_n >= 5 && name_n <= 9 && !strncmp("llm-train", name, name_n);
}

static void keep(struct asked *asked, int key, const char *value)
{
    str_copy(asked->value[key], ASKED_BYTES, value);
}

static int row_of_name(const char *name, size_t name_n)
{
    for (int i = 0; i < ASKED_N; i++)
        if (!strncmp(rows[i].name, name, name_n) && !rows[i].name[name_n])
            return i;
    return -1;
}

/* --NAME, --NAME=VALUE or --NAME VALUE; true if `next` was its value. */
static bool take_long(struct asked *asked, const char *word, const char *next)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t name_n = equals ? (size_t)(equals - name) : strlen(name);
    int row = row_of_name(name, name_n);
    if (is_train(name, name_n))
        asked->train = true;
    if (equals || is_bare_name(name, name_n)) {
        if (row >= 0 && equals)
            keep(asked, row, equals + 1);
        return false;
    }
    if (row >= 0 && next)
        keep(asked, row, next);
    return next != NULL;
}

/* -N3, -N 3, -QN3: letters without argument may stand together. */
static bool take_short(struct asked *asked, const char *word, const char *next)
{
    for (const char *p = word + 1; *p; p++) {
        if (strchr("IkK", *p)) /* may have one, and only here: -K1 */
            return false;
        if (strchr(bare_letters, *p))
            continue;
        const char *value = p[1] ? p + 1 : next;
        for (int i = 0; i < ASKED_N && value; i++)
            if (rows[i].letter == *p)
                keep(asked, i, value);
        return !p[1] && next;
    }
    return false;
}

char *cmdline_read(size_t *ret_bytes)
{
    return file_read("/proc/self/cmdline", CMDLINE_MAX, ret_bytes, NULL);
}

static const char *next_word(const char *word, const char *end)
{
    const char *next = word + strlen(word) + 1;
    return next < end ? next : NULL;
}

void cmdline_parse(struct asked *asked, const char *words, size_t bytes)
{
    const char *end = words + bytes;
    const char *word = bytes ? next_word(words, end) : NULL;
    while (word) {
        const char *next = next_word(word, end);
        bool took = false;
        if (!strcmp(word, "--")) {
            word = next;
            break;
        }
        if (*word != '-' || !word[1])
            break;
        took = word[1] == '-' ? take_long(asked, word, next)
                              : take_short(asked, word, next);
        word = took ? next_word(next, end) : next;
    }
    if (word)
        str_copy(asked->script, sizeof asked->script, word);
}

bool cmdline_is(const char *words, size_t bytes, const char *name)
{
    if (!bytes)
        return false;
    const char *slash = strrchr(words, '/');
    const char *base = slash ? slash + 1 : words;
    return str_starts(base, name) &&
           !isalnum((unsigned char)base[strlen(name)]);
}

/* Put the values of `from` into the places that `asked` has not. */
static void fill(struct asked *asked, const struct asked *from)
{
    for (int i = 0; i < ASKED_N; i++)
        if (!*asked->value[i])
            keep(asked, i, from->value[i]);
    asked->train |= from->train;
}

/* The words of one #SBATCH line, quotes taken off, into NUL-ended ones. */
static size_t split_words(const char *line, size_t line_n, char *words,
                          size_t words_bytes)
{
    size_t n = 0;
    char quote = 0;
    bool inside = false;
    words[n++] = 0; /* stands for the program's name */
    for (size_t i = 0; i < line_n && n + 2 < words_bytes; i++) {
        char c = line[i];
        if (quote ? c == quote : c == '"' || c == '\'') {
            quote = quote ? 0 : c;
            inside = true;
        } else if (!quote && c == '#') {
            break;
        } else if (!quote && isspace((unsigned char)c)) {
            if (inside)
                words[n++] = 0;
            inside = false;
        } else {
            words[n++] = c;
            inside = true;
        }
    }
    if (inside)
        words[n++] = 0;
    return n;
}

void cmdline_parse_script(struct asked *asked, const char *text)
{
    struct asked *found = calloc(1, sizeof *found);
    char words[2048];
    while (found && *text) {
        size_t len = strcspn(text, "\n");
        if (str_starts(text, "#SBATCH") && len > 7 &&
            isspace((unsigned char)text[7]))
            cmdline_parse(found, words,
                          split_words(text + 7, len - 7, words,
                                      sizeof words));
        else if (len && *text != '#' && strspn(text, " \t\r") < len)
            break;
        text += len + (text[len] == '\n');
    }
    if (found)
        fill(asked, found);
    free(found);
}

void cmdline_parse_env(struct asked *asked, const char *prefix)
{
    for (int i = 0; i < ASKED_N; i++) {
        char name[64];
        if (!rows[i].env || *asked->value[i])
            continue;
        snprintf(name, sizeof name, "%s_%s", prefix, rows[i].env);
        const char *value = getenv(name);
        if (value)
            keep(asked, i, value);
    }
}

static long count(const char *text)
{
    int64_t n;
    return *text && !str_to_i64(text, &n) && n > 0 && n < 1 << 24 ? (long)n : 0;
}

/* 8, h100:8, gpu:h100:8(S:0-1), nvme:1,gpu:8: the number for gpu. */
static long gpu_count(const char *text, bool is_gres)
{
    char item[128];
    while (*text) {
        size_t len = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(len < 127 ? len : 127), text);
        item[strcspn(item, "(")] = 0;
        text += len + (text[len] == ',');
        if (is_gres && str_starts(item, "gres/"))
            memmove(item, item + 5, strlen(item + 5) + 1);
        if (is_gres && strcmp(item, "gpu") && !str_starts(item, "gpu:"))
            continue;
        const char *colon = strrchr(item, ':');
        const char *number = colon ? colon + 1 : item;
        return isdigit((unsigned char)*number) ? count(number) : is_gres;
    }
    return 0;
}

/* M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; 0 for none or nonsense. */
static double time_seconds(const char *text)
{
    long days = 0, part[3] = {0};
    int n = 0, used = 0;
    const char *dash = strchr(text, '-');
    if (dash && sscanf(text, "%ld-", &days) != 1)
        return 0;
    const char *p = dash ? dash + 1 : text;
    for (; n < 3 && sscanf(p, "%ld%n", &part[n], &used) == 1; n++) {
        p += used;
        if (*p != ':') {
            n++;
            break;
        }
        p++;
    }
    if (!n || *p)
        return 0;
    if (dash)
        return days * 86400.0 + part[0] * 3600.0 + part[1] * 60.0 + part[2];
    if (n == 3)
        return part[0] * 3600.0 + part[1] * 60.0 + part[2];
    return part[0] * 60.0 + part[1];
}

/* 4G, 512K, 4000 (MiB): bytes; 0 for a node's whole memory and for nonsense. */
static double memory_bytes(const char *text)
{
    static const char units[] = "KMGT";
    char unit[2] = "M";
    double number;
    int n = 0;
    int got = sscanf(text, "%lf%n%1[KMGTkmgt]%n", &number, &n, unit, &n);
    const char *at = strchr(units, toupper((unsigned char)*unit));
    if (got < 1 || text[n] || !at || !(number > 0) || number > 1e12)
        return 0;
    for (const char *p = units; p <= at; p++)
        number *= 1024;
    return number;
}

void cmdline_size(const struct asked *asked, struct asked_size *ret)
{
    const char(*value)[ASKED_BYTES] = asked->value;
    long ntasks = count(value[ASKED_NTASKS]);
    struct asked_size size = {
        .nodes = count(value[ASKED_NODES]),
        .ranks_per_node = count(value[ASKED_NTASKS_PER_NODE]),
        .gpus_per_node = gpu_count(value[ASKED_GPUS_PER_NODE], false),
        .cores_per_rank = count(value[ASKED_CPUS_PER_TASK]),
        .time_limit_s = time_seconds(value[ASKED_TIME]),
    };
    long gpus = gpu_count(value[ASKED_GPUS], false);
    if (!size.gpus_per_node)
        size.gpus_per_node = gpu_count(value[ASKED_GRES], true);
    /* Without -N Slurm takes one node if all tasks fit: not known here. */
    if (size.nodes && !size.ranks_per_node && ntasks % size.nodes == 0)
        size.ranks_per_node = ntasks / size.nodes;
    if (size.nodes && !size.gpus_per_node && gpus % size.nodes == 0)
        size.gpus_per_node = gpus / size.nodes;
    if (!size.gpus_per_node) /* a GPU rank's plan is about the GPU's memory */
        size.mem_per_rank_bytes =
            memory_bytes(value[ASKED_MEM]) /
            (double)(size.ranks_per_node ? size.ranks_per_node : 1);
    *ret = size;
}
