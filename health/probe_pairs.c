/* probe_pairs - sum with two other nodes, one after the other, GPU by GPU
 * through NCCL: with whom is in pairs.h's table, by this node's place in a list
 * that all nodes are given. Both of a pair meet at the lower one's address.
 *
 * What came of it is noted for --compare, which sees all nodes' reports and
 * says who is to blame: from here, a bad pair is either's fault or neither's.
 */
#include <stdio.h>
#include <string.h>

#include "health/pairs.h"
#include "health/trial.h"
#include "runner/base/clock.h"

/* A partner may come late: from its first round with a node that is not
 * there. */
static const double round_s[PAIRS_ROUNDS] = {18, 34};

struct place {
    int index, n;
    char name[PAIRS_ROUNDS][256]; /* of the partners; "": none */
    char address[PAIRS_ROUNDS][256]; /* of the lower of each pair */
    bool lower[PAIRS_ROUNDS];
};

/* Word i of a list with commas; -1: there is none. */
static int word(const char *list, int i, char *dst, size_t dst_bytes)
{
    for (const char *p = list;; i--) {
        size_t n = strcspn(p, ",");
        if (!i) {
            snprintf(dst, dst_bytes, "%.*s", (int)n, p);
            return n && n < dst_bytes ? 0 : -1;
        }
        if (!p[n])
            return -1;
        p += n + 1;
    }
}

static int find_place(const struct look *look, struct place *ret)
{
    char name[256];
    *ret = (struct place){.index = -1};
    for (; !word(look->pairs, ret->n, name, sizeof name); ret->n++)
        if (look->self && !strcmp(name, look->self))
            ret->index = ret->n;
    for (int round = 0; round < PAIRS_ROUNDS && ret->index >= 0; round++) {
        int other = pairs_node(ret->n, round, ret->index);
        ret->lower[round] = ret->index < other;
        if (other >= 0 &&
            (word(look->pairs, other, ret->name[round], 256) ||
             word(look->pairs, ret->lower[round] ? ret->index : other,
                  ret->address[round], 256)))
            return -1;
    }
    return ret->index >= 0 ? 0 : -1;
}

/* The slowest GPU's figure; 0: something failed, and why. */
static double judge(const struct active *active, char *why, size_t why_bytes)
{
    double least = 0;
    int reduced = 0;
    for (int i = 0; i < active->line_n; i++) {
        const struct active_line *line = &active->line[i];
        bool bad = line->kind >= ACTIVE_SKIP && line->kind <= ACTIVE_LATE;
        if (line->kind == ACTIVE_REDUCE && !line->code && !line->wrong) {
            reduced++;
            if (least <= 0 || line->value < least)
                least = line->value;
        } else if ((bad || line->kind == ACTIVE_REDUCE) && !*why) {
            str_copy(why, why_bytes, line->wrong ? "wrong sums" : line->text);
        }
    }
    if (!*why && reduced < active->gpu_n)
        str_copy(why, why_bytes, "not all GPUs answered");
    return *why ? 0 : least;
}

static void run_round(const struct look *look, struct findings *findings,
                      struct active *active, const struct place *place,
                      int round)
{
    char note[32], why[256], subject[280];
    struct active_pair pair = {.node = !place->lower[round],
                               .address = place->address[round],
                               .port = look->port + round,
                               .secret = look->secret};
    active->line_n = 0;
    snprintf(note, sizeof note, "pair %d", round + 1);
    int rc = trial_run(look, findings, active, round_s[round], &pair, why,
                       sizeof why);
    double gb_per_s = rc ? 0 : judge(active, why, sizeof why);
    if (gb_per_s > 0) {
        findings_note(findings, note, "%s good %.4g", place->name[round],
                      gb_per_s);
        snprintf(subject, sizeof subject, "with %.24s", place->name[round]);
        findings_figure(findings, "pair", subject, "GB/s", gb_per_s);
    } else {
        findings_note(findings, note, "%s %s %.160s", place->name[round],
                      rc ? "untried" : "bad", why);
        snprintf(subject, sizeof subject, "%.90s", place->name[round]);
        findings_add(findings, rc ? F_ACTIVE_UNKNOWN : F_PAIR_FAILS, subject,
                     "round %d: %.200s", round + 1, why);
    }
}

void probe_pairs(const struct look *look, struct findings *findings)
{
    static struct gpus gpus;
    static struct active active;
    static struct place place;
    struct err err = ERR_INIT;
    if (!look->pairs) {
        findings_skip(findings, "not asked for");
        return;
    }
    if (find_place(look, &place)) {
        findings_skip(findings, "this node is not in the list");
        return;
    }
    if (probe_read_gpus(look, findings, &gpus, &err)) {
        findings_skip(findings, "no GPU");
        return;
    }
    findings_note(findings, "pairs", "%d of %d %s", place.index, place.n,
                  look->self);
    trial_choose(look, findings, &gpus, &active);
    for (int round = 0; round < PAIRS_ROUNDS && active.gpu_n; round++)
        if (*place.name[round])
            run_round(look, findings, &active, &place, round);
}
