/* defaults: who asked for something keeps it, and nothing is left behind. */
#include "spank/defaults.h"

#include <stdlib.h>

#include "tests/tap.h"

static const struct {
    const char *line;   /* '|' between words */
    const char *script; /* NULL: none */
    const char *set;    /* of n(o-kill) r(equeue) o(pen-mode) */
} rows[] = {
    {"sbatch|--llm-train=x|job.sh", "#!/bin/sh\n", "nro"},
    {"sbatch|--llm-train=x", NULL, "nro"},
    {"sbatch|--no-kill", NULL, "ro"},
    {"sbatch|--no-kill=off", NULL, "ro"},
    {"sbatch|-k", NULL, "ro"},
    {"sbatch|-Qk", NULL, "ro"},
    {"sbatch|--no-requeue", NULL, "no"},
    {"sbatch|--requeue", NULL, "no"},
    {"sbatch|--no-req", NULL, "no"},
    {"sbatch|--open-mode=truncate", NULL, "nr"},
    {"sbatch|--open-mode|truncate", NULL, "nr"},
    {"sbatch", "#!/bin/sh\n#SBATCH --no-requeue\n", "no"},
    {"sbatch", "#!/bin/sh\n#SBATCH -N 2 --no-kill -k\n", "ro"},
    {"sbatch", "#SBATCH\t--open-mode=append --requeue", "n"},
    {"sbatch", "# --no-kill\necho --requeue\n", "nro"},
    {"sbatch", "#SBATCH", "nro"},
    {"sbatch", "", "nro"},
};

static const char *now(void)
{
    static char set[8];
    snprintf(set, sizeof set, "%s%s%s", getenv("SBATCH_NO_KILL") ? "n" : "",
             getenv("SBATCH_REQUEUE") ? "r" : "",
             getenv("SBATCH_OPEN_MODE") ? "o" : "");
    return set;
}

int main(void)
{
    unsetenv("SBATCH_NO_KILL");
    unsetenv("SBATCH_REQUEUE");
    unsetenv("SBATCH_OPEN_MODE");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[256];
        size_t n = strlen(rows[i].line) + 1;
        memcpy(words, rows[i].line, n);
        for (size_t j = 0; j < n; j++)
            if (words[j] == '|')
                words[j] = 0;
        defaults_set(words, n, rows[i].script);
        is_str(now(), rows[i].set, rows[i].line);
        defaults_unset();
        is_str(now(), "", "taken back");
    }
    setenv("SBATCH_OPEN_MODE", "truncate", 1);
    defaults_set("sbatch", 7, NULL);
    is_str(getenv("SBATCH_OPEN_MODE"), "truncate", "the user's own variable");
    defaults_unset();
    is_str(now(), "o", "stays");
    return tap_done();
}
