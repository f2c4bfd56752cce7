/* probe_load - is the node idle enough, and does nothing hang? The user of the
 * last job can cause all of it: never more than warn. */
#include "health/probe.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"

#define AGAIN_S 0.15 /* between two looks: short waits for a disk are normal */
enum { PROCESSES_MAX = 1 << 15, SHOWN_MAX = 3, DAEMONS_MAX = 64,
       NAME_KEPT = 15 /* of a process's, by the kernel */ };

struct census {
    const char *daemons; /* names, a line each, that are looked for */
    bool has_daemon[DAEMONS_MAX]; /* whether the name's line was met */
    bool has_first; /* process 1: others' are shown, too */
    int n;
    int *stuck; /* process numbers in uninterruptible sleep, growing */
    int stuck_n, zombies;
    char shown[128];
};

/* Name and state in a process's stat; the name may hold anything. */
static int read_state(const struct source *source, const char *pid,
                      char name[32], char *ret_state)
{
    char text[1024];
    if (source_read(source, text, sizeof text, "/proc/%s/stat", pid))
        return -1;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || !close[1])
        return -1;
    *close = 0;
    str_copy(name, 32, open + 1);
    *ret_state = close[2];
    return 0;
}

/* The name's line, copied out; NULL after the last. */
static const char *next_daemon(const char *list, char dst[NAME_KEPT + 1])
{
    size_t n = strcspn(list, "\n");
    snprintf(dst, NAME_KEPT + 1, "%.*s", (int)n, list);
    return *list ? list + n + (list[n] == '\n') : NULL;
}

static void note_daemon(struct census *census, const char *name)
{
    char daemon[NAME_KEPT + 1];
    const char *list = census->daemons;
    for (int i = 0; i < DAEMONS_MAX && (list = next_daemon(list, daemon)); i++)
        census->has_daemon[i] |= !strcmp(daemon, name);
}

static int take_census(const struct source *source, const char *daemons,
                       struct census *ret)
{
    *ret = (struct census){.daemons = daemons};
    char(*names)[SOURCE_NAME_BYTES] = malloc(sizeof *names * PROCESSES_MAX);
    ret->stuck = malloc(sizeof *ret->stuck * PROCESSES_MAX);
    if (!names || !ret->stuck) {
        free(names);
        return -1;
    }
    int n = source_list(source, names, PROCESSES_MAX, "/proc");
    for (int i = 0; i < n; i++) {
        char name[32], state;
        if (!isdigit((unsigned char)names[i][0]) ||
            read_state(source, names[i], name, &state))
            continue;
        ret->n++;
        ret->has_first |= !strcmp(names[i], "1");
        ret->zombies += state == 'Z';
        if (state != 'Z' && state != 'X')
            note_daemon(ret, name);
        if (state == 'D') {
            ret->stuck[ret->stuck_n++] = atoi(names[i]);
            size_t len = strlen(ret->shown);
            if (ret->stuck_n <= SHOWN_MAX)
                snprintf(ret->shown + len, sizeof ret->shown - len, " %s(%s)",
                         name, names[i]);
        }
    }
    free(names);
    return n < 0 ? -1 : 0;
}

static int both(const struct census *a, const struct census *b)
{
    int n = 0;
    for (int i = 0; i < a->stuck_n; i++)
        for (int j = 0; j < b->stuck_n; j++)
            n += a->stuck[i] == b->stuck[j];
    return n;
}

/* Where others' processes are hidden (hidepid), or in a record of --capture,
 * which keeps none for their names may tell too much, nobody can tell. */
static void check_daemons(const struct census *census,
                          struct findings *findings)
{
    char daemon[NAME_KEPT + 1];
    const char *list = census->daemons;
    for (int i = 0; i < DAEMONS_MAX && (list = next_daemon(list, daemon)); i++)
        if (*daemon && census->has_first && !census->has_daemon[i])
            findings_add(findings, F_DAEMON_ABSENT, daemon, "none of %d "
                         "processes has its name", census->n);
}

static void check_processes(const struct look *look, struct findings *findings)
{
    struct census first = {0}, again = {0};
    const char *daemons = conf_text(look->site, "expect.daemons");
    if (!take_census(&look->source, daemons, &first)) {
        int stuck = first.stuck_n;
        if (stuck && source_is_live(&look->source)) {
            clock_sleep_s(AGAIN_S);
            stuck = take_census(&look->source, "", &again)
                        ? 0
                        : both(&first, &again);
        }
        if (stuck > conf_int(look->site, "load.stuck"))
            findings_add(findings, F_PROCESSES_STUCK, "node", "%d:%s", stuck,
                         first.shown);
        check_daemons(&first, findings);
        if (first.zombies > conf_int(look->site, "load.zombies"))
            findings_add(findings, F_ZOMBIES, "node", "%d", first.zombies);
    }
    free(first.stuck);
    free(again.stuck);
}

static int processors(const struct source *source)
{
    int n = 0;
    char *text = source_text(source, "/proc/stat");
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        n += str_starts(line, "cpu") && isdigit((unsigned char)line[3]);
    }
    free(text);
    return n;
}

void probe_load(const struct look *look, struct findings *findings)
{
    char text[128];
    double load;
    int cpus = processors(&look->source);
    double limit = conf_real(look->site, "load.per_cpu") * cpus;
    if (source_read(&look->source, text, sizeof text, "/proc/loadavg") ||
        sscanf(text, "%lf", &load) != 1 || !cpus)
        findings_skip(findings, "no load or processors to read");
    else if (load > limit)
        findings_add(findings, F_LOAD_HIGH, "node",
                     "load %.1f on %d processors", load, cpus);
    check_processes(look, findings);
}
