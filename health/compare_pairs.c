/* compare_pairs - who is to blame for bad pairs; see compare.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/compare.h"
#include "health/pairs.h"
#include "runner/base/json.h"

#define SLOW_SHARE 0.8 /* of the median: a slower pair is a bad one */
enum { NODES_MAX = 65536 };

struct pair_nodes {
    int n;
    struct pair_node {
        char name[64];
        enum pairs_result result[PAIRS_ROUNDS];
        double gb_per_s[PAIRS_ROUNDS];
    } node[]; /* [n] */
};

/* The table of n nodes; what is of another number is not of this trial. */
static struct pair_nodes *of_size(struct pair_nodes **nodes, int n)
{
    if (!*nodes) {
        *nodes = calloc(1, sizeof **nodes +
                               (size_t)n * sizeof(struct pair_node));
        if (*nodes)
            (*nodes)->n = n;
    }
    return *nodes && (*nodes)->n == n ? *nodes : NULL;
}

void compare_pairs_add(struct pair_nodes **nodes, const json_t *report)
{
    const json_t *notes = json_object_get(report, "notes");
    char name[64], other[256], how[16];
    int index, n;
    if (sscanf(json_string_or(notes, "pairs", ""), "%d of %d %63s", &index, &n,
               name) != 3 ||
        n < 1 || n > NODES_MAX || index < 0 || index >= n)
        return;
    struct pair_nodes *all = of_size(nodes, n);
    if (!all)
        return;
    struct pair_node *node = &all->node[index];
    str_copy(node->name, sizeof node->name, name);
    for (int round = 0; round < PAIRS_ROUNDS; round++) {
        char key[32];
        double gb_per_s = 0;
        snprintf(key, sizeof key, "pair %d", round + 1);
        int got = sscanf(json_string_or(notes, key, ""), "%255s %15s %lf",
                         other, how, &gb_per_s);
        if (got < 2)
            continue;
        node->gb_per_s[round] = got == 3 && gb_per_s > 0 ? gb_per_s : 0;
        node->result[round] = !strcmp(how, "good")  ? PAIRS_GOOD
                              : !strcmp(how, "bad") ? PAIRS_BAD
                                                    : PAIRS_UNTRIED;
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Good ones that are far below the others are bad. */
static void judge_speed(struct pair_nodes *nodes)
{
    double *all = calloc((size_t)nodes->n * PAIRS_ROUNDS + 1, sizeof *all);
    size_t n = 0;
    for (int i = 0; all && i < nodes->n; i++)
        for (int round = 0; round < PAIRS_ROUNDS; round++)
            if (nodes->node[i].gb_per_s[round] > 0)
                all[n++] = nodes->node[i].gb_per_s[round];
    if (n)
        qsort(all, n, sizeof *all, by_size);
    double usual = n ? all[n / 2] : 0;
    for (int i = 0; i < nodes->n; i++)
        for (int round = 0; round < PAIRS_ROUNDS; round++)
            if (nodes->node[i].result[round] == PAIRS_GOOD &&
                nodes->node[i].gb_per_s[round] < SLOW_SHARE * usual)
                nodes->node[i].result[round] = PAIRS_BAD;
    free(all);
}

static const char *name_of(const struct pair_nodes *nodes, int i)
{
    return i < 0 ? "nobody" : *nodes->node[i].name ? nodes->node[i].name : "?";
}

static void print(const struct pair_nodes *nodes,
                  const enum pairs_verdict *verdict, struct sbuf *out)
{
    static const char *const words[] = {
        [PAIRS_FIT] = "fit",
        [PAIRS_TO_BLAME] = "to blame",
        [PAIRS_UNCLEAR] = "this one, its partner, or what is between them",
        [PAIRS_UNKNOWN] = "not known"};
    int counts[4] = {0};
    for (int i = 0; i < nodes->n; i++)
        counts[verdict[i]]++;
    sbuf_printf(out, "pairs of %d nodes: %d fit, %d to blame, %d unclear, %d "
                     "not known\n", nodes->n, counts[PAIRS_FIT],
                counts[PAIRS_TO_BLAME], counts[PAIRS_UNCLEAR],
                counts[PAIRS_UNKNOWN]);
    for (int i = 0; i < nodes->n; i++)
        if (verdict[i] != PAIRS_FIT)
            sbuf_printf(out, "pair    %s: %s; tried with %s and %s\n",
                        name_of(nodes, i), words[verdict[i]],
                        name_of(nodes, pairs_node(nodes->n, 0, i)),
                        name_of(nodes, pairs_node(nodes->n, 1, i)));
}

void compare_pairs_print(struct pair_nodes *nodes, struct sbuf *out)
{
    if (!nodes)
        return;
    size_t n = (size_t)nodes->n;
    enum pairs_result *result = calloc(n * PAIRS_ROUNDS, sizeof *result);
    enum pairs_verdict *verdict = calloc(n, sizeof *verdict);
    if (result && verdict) {
        judge_speed(nodes);
        for (int round = 0; round < PAIRS_ROUNDS; round++)
            for (int i = 0; i < nodes->n; i++)
                result[round * nodes->n + i] = nodes->node[i].result[round];
        pairs_judge(nodes->n, result, verdict);
        print(nodes, verdict, out);
    }
    free(result);
    free(verdict);
}
