/* pairs: who is tried with whom, and who is to blame, held against tables. */
#include "health/pairs.h"

#include <string.h>

#include "tests/tap.h"

enum { N_MAX = 64 };

/* Partners are each other's, nobody is his own, and no pair is tried twice. */
static void check_rounds(int n)
{
    int bad = 0, alone[PAIRS_ROUNDS] = {0};
    for (int round = 0; round < PAIRS_ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            int other = pairs_node(n, round, i);
            alone[round] += other < 0;
            bad += other == i || other >= n ||
                   (other >= 0 && pairs_node(n, round, other) != i);
            bad += other >= 0 && round && pairs_node(n, 0, i) == other;
        }
    ok(!bad, "%d nodes: partners of each other, new ones in round 2", n);
    ok(alone[0] == n % 2 && (alone[1] == n % 2 || (n == 2 && alone[1] == 2)),
       "%d nodes: at most one is left over", n);
}

static void check_meetings(int n)
{
    int met[N_MAX][N_MAX] = {{0}}, bad = 0;
    for (int round = 0; round < pairs_rounds(n); round++)
        for (int i = 0; i < n; i++) {
            int other = pairs_meet(n, round, i);
            bad += other == i || other >= n ||
                   (other >= 0 && pairs_meet(n, round, other) != i);
            if (other >= 0)
                met[i][other]++;
        }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            bad += met[i][k] != (i != k);
    ok(!bad, "%d GPUs: each meets each other once", n);
}

/* Results a letter a node: g good, b bad, . untried; verdicts: f fit, B to
 * blame, u unclear, ? unknown. */
static const struct row {
    const char *first, *second, *want, *name;
} rows[] = {
    {"gggg", "gggg", "ffff", "all are fit"},
    {"bbgg", "bggb", "Bfff", "the first is bad with both"},
    {"ggbb", "gbbg", "ffBf", "one in the middle"},
    {"bbgg", "gggg", "uuff", "one trial is bad: either, or the way between"},
    {"bbgg", "gbbg", "fBff", "the second is bad with both"},
    {"bbbb", "gggg", "uuuu", "two bad trials, no common node"},
    {"bbbb", "gbbg", "fBBf", "two bad ones who met; their partners are fit"},
    {"bbbb", "bbbb", "BBBB", "nothing works: the fabric, or all"},
    {"gg", "..", "ff", "two nodes"},
    {"bb", "..", "uu", "two nodes cannot be told apart"},
    {"bg", "..", "uu", "one says bad: the trial was bad"},
    {"gg.", ".gg", "fff", "three nodes"},
    {"bb.", ".gg", "Bff", "three: the end is to blame"},
    {"gg.", ".bb", "ffB", "three: the other end"},
    {"bb.", ".bb", "?B?", "three: the middle; the ends met nobody else"},
    {"gggg.", ".gggg", "fffff", "five nodes"},
    {"gggg.", ".ggbb", "ffffB", "five: the last, tried once"},
    {"bbgg.", ".gggg", "Bffff", "five: the first, tried once"},
    {"ggbb.", ".bbgg", "ffBff", "five: the middle"},
    {"gggggg", "......", "ffffff", "the second round did not come"},
    {"bbgggg", "......", "uuffff", "nor could it help"},
    {"....", "....", "????", "nothing is known"},
    {".", ".", "?", "one node"},
};

static enum pairs_result result_of(char letter)
{
    return letter == 'g' ? PAIRS_GOOD : letter == 'b' ? PAIRS_BAD
                                                      : PAIRS_UNTRIED;
}

static void check_row(const struct row *row)
{
    enum pairs_result result[PAIRS_ROUNDS * N_MAX] = {PAIRS_UNTRIED};
    enum pairs_verdict verdict[N_MAX];
    char got[N_MAX + 1] = "";
    int n = (int)strlen(row->first);
    for (int i = 0; i < n; i++) {
        result[i] = result_of(row->first[i]);
        result[n + i] = result_of(row->second[i]);
    }
    pairs_judge(n, result, verdict);
    for (int i = 0; i < n; i++)
        got[i] = "fBu?"[verdict[i]];
    is_str(got, row->want, row->name);
}

/* One bad node among any number is the one, and nobody else is. With an odd
 * number an end may have met the bad one alone. */
static void check_one_bad(int n)
{
    int wrong = 0;
    for (int bad = 0; bad < n; bad++) {
        enum pairs_result result[PAIRS_ROUNDS * N_MAX] = {PAIRS_UNTRIED};
        enum pairs_verdict verdict[N_MAX];
        for (int round = 0; round < PAIRS_ROUNDS; round++)
            for (int i = 0; i < n; i++) {
                int other = pairs_node(n, round, i);
                result[round * n + i] = other < 0 ? PAIRS_UNTRIED
                                        : i == bad || other == bad
                                            ? PAIRS_BAD
                                            : PAIRS_GOOD;
            }
        pairs_judge(n, result, verdict);
        for (int i = 0; i < n; i++)
            wrong += i == bad ? verdict[i] != PAIRS_TO_BLAME
                              : verdict[i] != PAIRS_FIT &&
                                    !(n % 2 && (i == 0 || i == n - 1) &&
                                      verdict[i] == PAIRS_UNKNOWN);
    }
    ok(!wrong, "%d nodes: whichever is bad is found, alone", n);
}

int main(void)
{
    for (int n = 1; n <= 17; n++)
        check_rounds(n);
    for (int n = 0; n <= 16; n++)
        check_meetings(n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_row(&rows[i]);
    for (int n = 4; n <= 64; n++)
        check_one_bad(n);
    return tap_done();
}
