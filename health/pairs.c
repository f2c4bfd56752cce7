/* pairs - see pairs.h. */
#include "health/pairs.h"

int pairs_node(int n, int round, int i)
{
    int other = (i + round) % 2 ? i - 1 : i + 1;
    if (other >= 0 && other < n)
        return other;
    /* The ends meet in the second round, where they are not neighbours. */
    return round && n > 2 && n % 2 == 0 ? n - 1 - i : -1;
}

static enum pairs_result of(int n, const enum pairs_result *result, int round,
                            int i)
{
    int other = pairs_node(n, round, i);
    if (other < 0)
        return PAIRS_UNTRIED;
    enum pairs_result mine = result[round * n + i];
    enum pairs_result theirs = result[round * n + other];
    if (mine == PAIRS_BAD || theirs == PAIRS_BAD)
        return PAIRS_BAD;
    return mine == PAIRS_GOOD || theirs == PAIRS_GOOD ? PAIRS_GOOD
                                                      : PAIRS_UNTRIED;
}

static int count(int n, const enum pairs_result *result, int i,
                 enum pairs_result what)
{
    int sum = 0;
    for (int round = 0; round < PAIRS_ROUNDS; round++)
        sum += of(n, result, round, i) == what;
    return sum;
}

/* To blame for a trial of i that was bad is who was bad with both partners, or
 * had no other trial while its partner was good in one. */
static enum pairs_verdict judge(int n, const enum pairs_result *result, int i)
{
    int bad = count(n, result, i, PAIRS_BAD);
    int good = count(n, result, i, PAIRS_GOOD);
    if (!bad)
        return good ? PAIRS_FIT : PAIRS_UNKNOWN;
    if (bad == PAIRS_ROUNDS)
        return PAIRS_TO_BLAME;
    for (int round = 0; round < PAIRS_ROUNDS; round++) {
        int other = pairs_node(n, round, i);
        if (of(n, result, round, i) != PAIRS_BAD)
            continue;
        int others_bad = count(n, result, other, PAIRS_BAD);
        int others_good = count(n, result, other, PAIRS_GOOD);
        if (others_bad == PAIRS_ROUNDS || (good && !others_good))
            return good ? PAIRS_FIT : PAIRS_UNKNOWN;
        if (!good && others_good)
            return PAIRS_TO_BLAME;
    }
    return PAIRS_UNCLEAR;
}

void pairs_judge(int n, const enum pairs_result *result,
                 enum pairs_verdict *ret)
{
    for (int i = 0; i < n; i++)
        ret[i] = judge(n, result, i);
}

int pairs_rounds(int n)
{
    return n < 2 ? 0 : n % 2 ? n : n - 1;
}

/* The last stays, the others turn around it; with an odd number there is
 * nobody at its place. */
int pairs_meet(int n, int round, int i)
{
    int ring = pairs_rounds(n), other;
    if (n % 2 == 0 && i == n - 1) {
        /* The one whose own partner would be itself. */
        for (other = 0; other < ring; other++)
            if ((2 * other) % ring == round % ring)
                return other;
        return -1;
    }
    other = ((round - i) % ring + ring) % ring;
    if (other != i)
        return other;
    return n % 2 ? -1 : n - 1;
}
