/* drain: who may be drained, from what sinfo prints. The clock of the test is
 * 2026-01-31 12:00:00 local time. */
#include "spank/drain.h"

#include <time.h>

#include "tests/tap.h"

static double now_s;

static const char cluster[] =
    "n1|idle|Unknown|none\n"
    "n2|drained|2026-01-31T11:50:00|disk\n"
    "n2|drained|2026-01-31T11:50:00|disk\n" /* in two partitions */
    "n3|allocated|Unknown|none\n"
    "n4|down*|2026-01-31T11:00:00|Not responding\n"
    "n5|idle|2026-01-31T11:00:00|a note|with a bar\n"
    "n6|draining|2026-01-31T09:00:00|koboshi: old-one x\n"
    "n7|down|Unknown|none\n";

static const struct {
    const char *name, *node, *more;
    double percent;
    int per_hour;
    bool mine;
    enum drain_verdict want;
} rows[] = {
    {"an idle node", "n1", "", 50, 2, false, DRAIN_GO},
    {"a node in use", "n3", "", 50, 2, false, DRAIN_GO},
    {"a name that only begins so", "n", "", 50, 2, false, DRAIN_NO_NODE},
    {"an unknown node", "x1", "", 50, 2, false, DRAIN_NO_NODE},
    {"drained by another", "n2", "", 50, 2, false, DRAIN_HAS_REASON},
    {"down with a reason", "n4", "", 50, 2, false, DRAIN_HAS_REASON},
    {"idle with a note", "n5", "", 50, 2, false, DRAIN_HAS_REASON},
    {"drained by us before", "n6", "", 50, 2, false, DRAIN_HAS_REASON},
    {"down without a reason", "n7", "", 50, 2, false, DRAIN_IS_OUT},
    {"5 % of 7 nodes is one, and n6 is out", "n1", "", 5, 2, false,
     DRAIN_TOO_MANY},
    {"30 % is two", "n1", "", 30, 2, false, DRAIN_GO},
    {"two in the last hour", "n1",
     "p1|drained|2026-01-31T11:30:00|koboshi: a b\n"
     "p2|drained|2026-01-31T11:01:00|koboshi: a b\n",
     90, 2, false, DRAIN_TOO_FAST},
    {"one of them is older", "n1",
     "p1|drained|2026-01-31T11:30:00|koboshi: a b\n"
     "p2|drained|2026-01-31T10:59:00|koboshi: a b\n",
     90, 2, false, DRAIN_GO},
    {"another's drains do not count", "n1",
     "p1|drained|2026-01-31T11:30:00|bad\np2|drained|2026-01-31T11:40:00|x\n",
     90, 1, false, DRAIN_GO},
    {"a resumed node with our words does not count", "n1",
     "p1|idle|2026-01-31T11:30:00|koboshi: a b\n", 90, 1, false, DRAIN_GO},
    {"ours, and one before it", "p2",
     "p2|drained|2026-01-31T11:30:00|koboshi: a b\n"
     "p1|drained|2026-01-31T11:29:59|koboshi: a b\n",
     90, 1, true, DRAIN_TOO_FAST},
    {"ours, and one after it", "p2",
     "p2|drained|2026-01-31T11:30:00|koboshi: a b\n"
     "p1|drained|2026-01-31T11:30:01|koboshi: a b\n",
     90, 1, true, DRAIN_GO},
    {"the same second: the name decides, p1 stays", "p1",
     "p2|drained|2026-01-31T11:30:00|koboshi: a b\n"
     "p1|drained|2026-01-31T11:30:00|koboshi: a b\n",
     90, 1, true, DRAIN_GO},
    {"the same second: p2 goes back", "p2",
     "p2|drained|2026-01-31T11:30:00|koboshi: a b\n"
     "p1|drained|2026-01-31T11:30:00|koboshi: a b\n",
     90, 1, true, DRAIN_TOO_FAST},
    {"ours, but somebody else took it over", "p2",
     "p2|drained|2026-01-31T11:30:00|mine: do not touch\n"
     "p1|drained|2026-01-31T11:29:59|koboshi: a b\n",
     90, 1, true, DRAIN_GO},
    {"ours, and resumed meanwhile", "p2",
     "p2|idle|Unknown|none\np1|drained|2026-01-31T11:29:59|koboshi: a b\n",
     90, 1, true, DRAIN_GO},
    {"lines that are none", "n1", "\n|\nnonsense\n|||\nq1|idle\n", 50, 2,
     false, DRAIN_GO},
    {"no drains at all wished", "n1", "", 90, 0, false, DRAIN_TOO_FAST},
};

/* All nodes of a cluster fail at once and judge in the same second: whatever
 * the order of their second looks, only the allowed number stays. */
static void check_all_at_once(void)
{
    static char text[64 * 80];
    struct args args = {.drains_percent = 5, .drains_per_hour = 2};
    int n = 60, stay = 0;
    char *at = text, name[16];
    for (int i = 0; i < n; i++)
        at += sprintf(at, "m%02d|drained|2026-01-31T11:59:%02d|koboshi: a b\n",
                      i, (i * 7) % 3);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "m%02d", i);
        stay += drain_judge(text, name, now_s, &args, true) == DRAIN_GO;
    }
    is_int(stay, 2, "of 60 nodes drained at once two stay");
}

int main(void)
{
    struct tm tm = {.tm_year = 126, .tm_mday = 31, .tm_hour = 12,
                    .tm_isdst = -1};
    now_s = (double)mktime(&tm);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sinfo[4096];
        struct args args = {.drains_percent = rows[i].percent,
                            .drains_per_hour = rows[i].per_hour};
        snprintf(sinfo, sizeof sinfo, "%s%s", cluster, rows[i].more);
        is_str(drain_verdict_text(drain_judge(sinfo, rows[i].node, now_s,
                                              &args, rows[i].mine)),
               drain_verdict_text(rows[i].want), rows[i].name);
    }
    check_all_at_once();
    struct args args = {.drains_percent = 5, .drains_per_hour = 2};
    is_int(drain_judge("", "n1", now_s, &args, false), DRAIN_NO_NODE,
           "sinfo printed nothing");
    return tap_done();
}
