/* Any layout loads any other: each of twelve layouts saved, each loaded by all
 * twelve, all ranks played in this process. Prints what was read too much. */
#include "tests/ckpt/lab.h"
#include "tests/tap.h"

static const struct lab_layout layouts[] = {
    {1, 1}, {2, 1}, {1, 2}, {3, 1}, {2, 2}, {5, 1},
    {1, 3}, {3, 2}, {7, 1}, {2, 4}, {16, 1}, {24, 1},
};
#define LAYOUTS ((int)(sizeof layouts / sizeof *layouts))

int main(void)
{
    const char *run_dir = lab_run_dir();
    for (int s = 0; s < LAYOUTS; s++) {
        struct err err = ERR_INIT;
        char name[64], reads[400] = "";
        /* every second one in small files */
        if (!ok(!lab_save(run_dir, layouts[s], s + 1, 1,
                          s % 2 ? 100000 : 0, &err),
                "saved by %d x %d", layouts[s].rows, layouts[s].cols))
            printf("# %s\n", err.msg);
        snprintf(name, sizeof name, KB_CKPT_FMT, (long long)s + 1, 1);
        int64_t wrong = 0;
        for (int d = 0; d < LAYOUTS; d++) {
            struct fill_stats sum = {0};
            int64_t w = lab_load(run_dir, name, layouts[d], &sum, &err);
            wrong += w != 0;
            size_t at = strlen(reads);
            snprintf(reads + at, sizeof reads - at, " %.2f",
                     (double)sum.read_bytes / (double)sum.wanted_bytes);
        }
        if (!ok(!wrong, "and loaded by all %d", LAYOUTS))
            printf("# %lld of them failed: %s\n", (long long)wrong, err.msg);
        printf("# read / wanted:%s\n", reads);
    }
    lab_remove(run_dir);
    return tap_done();
}
