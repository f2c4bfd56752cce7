/* hostlist: the first host of every shape that Slurm writes. */
#include "spank/hostlist.h"
#include "tests/tap.h"

static const struct {
    const char *list, *first; /* NULL: refused */
} rows[] = {
    {"linux[1,2]", "linux1"},
    {"alpha,beta,gamma", "alpha"},
    {"nodeA,nodeB[001,003],nodeC", "nodeA"},
    {"nodeB[001,003],nodeC", "nodeB001"},
    {"n[08-10]", "n08"},
    {"rack[0-3]node[10-12,14]", "rack0node10"},
    {"gpu[3]x,other", "gpu3x"},
    {"single", "single"},
    {"host-7.cluster.example", "host-7.cluster.example"},
    {"[1-3]", "1"},
    {"", NULL},
    {",a", NULL},
    {"a[", NULL},
    {"a[]", NULL},
    {"a[1", NULL},
    {"a[x-y]", NULL},
    {"a[1;2]", NULL},
    {"a]1[", NULL},
    {"a[1[2]]", NULL},
};

int main(void)
{
    char name[64], small[6];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        strcpy(name, "(none)");
        int rc = hostlist_first(rows[i].list, name, sizeof name);
        if (rows[i].first)
            is_str(rc ? "(refused)" : name, rows[i].first, rows[i].list);
        else
            ok(rc == -1, "refused: '%s'", rows[i].list);
    }
    ok(!hostlist_first("node1,x", small, sizeof small), "fits exactly");
    ok(hostlist_first("node[10]", small, sizeof small), "one byte too long");
    return tap_done();
}
