/* pairs - who is tried with whom, and who of them is to blame. Pure.
 *
 * Nodes: two rounds. In the first, neighbours 0-1, 2-3, ...; in the second,
 * the others 1-2, 3-4, ..., and with an even number of three or more the last
 * with the first. A bad node is then bad with both its partners, and a good
 * one with at most one of them.
 * GPUs of a node: as many rounds as it takes for each to meet each.
 */
#ifndef KB_HEALTH_PAIRS_H
#define KB_HEALTH_PAIRS_H

enum { PAIRS_ROUNDS = 2 };

/* The node that node i of n is tried with in a round (0 or 1), or -1. */
int pairs_node(int n, int round, int i);

enum pairs_result { PAIRS_UNTRIED, PAIRS_GOOD, PAIRS_BAD };
enum pairs_verdict {
    PAIRS_FIT,     /* good with somebody, and not to blame for anything */
    PAIRS_TO_BLAME,
    PAIRS_UNCLEAR, /* bad with a partner, and so is the partner: either, or
                      what lies between them */
    PAIRS_UNKNOWN, /* never tried with one that is not to blame itself */
};
/* result[round * n + i]: what came of node i in the round; partners that say
 * otherwise of one trial both count as bad. Into ret[n]. */
void pairs_judge(int n, const enum pairs_result *result,
                 enum pairs_verdict *ret);

/* Rounds in which each of n meets each other once. */
int pairs_rounds(int n);
/* The one that i of n meets in a round below pairs_rounds(n), or -1. */
int pairs_meet(int n, int round, int i);

#endif
