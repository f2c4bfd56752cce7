/* compare - reports of many nodes beside each other; see compare.h. */
#include "health/compare.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "health/catalog.h"
#include "runner/base/file.h"
#include "runner/base/json.h"

#define STAND_OUT_SHARE 0.2 /* nodes that say otherwise: fewer stand out */
#define SLOW_SHARE 0.9      /* of the median: less stands out */
enum { FIGURES_MIN = 3 };   /* fewer have no median worth it */
enum { REPORT_BYTES = 4 << 20, SHOWN_MAX = 8, REPORTS_MAX = 65536 };

/* Groups of hosts under a heading and a value, in JSON: {heading: {value:
 * [host, ...]}}. */
struct comparison {
    json_t *verdicts; /* {verdict: [host]} */
    json_t *findings; /* {"severity code": [host]} */
    json_t *notes;    /* {note: {value: [host]}} */
    json_t *figures;  /* {figure: [{host, subject, value, unit}]} */
    json_t *broken;   /* [path] */
    struct pair_nodes *pairs;
    int n;
};

static void add_host(json_t *groups, const char *key, const char *host)
{
    json_t *hosts = json_object_get(groups, key);
    if (!hosts) {
        hosts = json_array();
        json_object_set_new(groups, key, hosts);
    }
    size_t n = json_array_size(hosts);
    const char *last = n ? json_string_value(json_array_get(hosts, n - 1)) : "";
    if (strcmp(last, host)) /* two GPUs of one host count once */
        json_array_append_new(hosts, json_string(host));
}

/* A note's value without what is each GPU's own: model only. */
static void plain_value(const char *name, const char *value, char *dst,
                        size_t dst_bytes)
{
    str_copy(dst, dst_bytes, value);
    if (str_starts(name, "gpu ") && strcmp(name, "gpu driver"))
        dst[strcspn(dst, ",")] = 0;
}

/* Measured values are nobody's twice: their figures are compared. */
static bool is_measured(const char *note)
{
    return str_starts(note, "peers of ") || str_starts(note, "pair ") ||
           !strcmp(note, "pairs") ||
           strstr(note, " under load");
}

static void add_figure(struct comparison *all, const char *host,
                       const json_t *figure)
{
    const char *name = json_string_or(figure, "name", "?");
    json_t *list = json_object_get(all->figures, name);
    if (json_double_or(figure, "value", 0) <= 0)
        return;
    if (!list) {
        list = json_array();
        json_object_set_new(all->figures, name, list);
    }
    json_array_append_new(
        list, json_pack("{s:s s:s s:f s:s}", "host", host, "subject",
                        json_string_or(figure, "subject", "?"), "value",
                        json_double_or(figure, "value", 0), "unit",
                        json_string_or(figure, "unit", "")));
}

static void add_report(struct comparison *all, const json_t *report)
{
    const char *host = json_string_or(report, "host", "?"), *name;
    size_t i;
    json_t *item, *value;
    add_host(all->verdicts, json_string_or(report, "verdict", "?"), host);
    json_array_foreach(json_object_get(report, "findings"), i, item) {
        char key[160];
        snprintf(key, sizeof key, "%.16s %.120s",
                 json_string_or(item, "severity", "?"),
                 json_string_or(item, "code", "?"));
        add_host(all->findings, key, host);
    }
    json_object_foreach(json_object_get(report, "notes"), name, value) {
        char plain[256];
        if (is_measured(name))
            continue;
        json_t *groups = json_object_get(all->notes, name);
        if (!groups) {
            groups = json_object();
            json_object_set_new(all->notes, name, groups);
        }
        plain_value(name, json_string_value(value) ? json_string_value(value)
                                                   : "", plain, sizeof plain);
        add_host(groups, plain, host);
    }
    json_array_foreach(json_object_get(report, "figures"), i, item)
        add_figure(all, host, item);
    compare_pairs_add(&all->pairs, report);
    all->n++;
}

static void add_file(struct comparison *all, const char *path)
{
    json_t *report = json_load_path(path, REPORT_BYTES, NULL);
    if (json_is_array(json_object_get(report, "findings")))
        add_report(all, report);
    else
        json_array_append_new(all->broken, json_string(path));
    json_decref(report);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_report_name(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 5 && !strcmp(entry->d_name + n - 5, ".json");
}

static void add_path(struct comparison *all, const char *path)
{
    struct stat st;
    struct dirent **entries = NULL;
    char full[PATH_MAX];
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
        add_file(all, path);
        return;
    }
    int n = scandir(path, &entries, is_report_name, by_name);
    for (int i = 0; i < n; i++) {
        if (i < REPORTS_MAX &&
            !file_join(full, sizeof full, path, entries[i]->d_name, NULL))
            add_file(all, full);
        free(entries[i]);
    }
    free(entries);
}

/* ---- The table ------------------------------------------------------- */

static void print_hosts(const json_t *hosts, struct sbuf *out)
{
    size_t n = json_array_size(hosts);
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++)
        sbuf_printf(out, "%s%s", i ? ", " : "",
                    json_string_value(json_array_get(hosts, i)));
    if (n > SHOWN_MAX)
        sbuf_printf(out, " and %zu more", n - SHOWN_MAX);
    sbuf_puts(out, "\n");
}

static void print_verdicts(const struct comparison *all, struct sbuf *out)
{
    const char *verdict;
    json_t *hosts;
    sbuf_printf(out, "%d nodes:", all->n);
    json_object_foreach(all->verdicts, verdict, hosts)
        sbuf_printf(out, " %zu %s", json_array_size(hosts), verdict);
    sbuf_puts(out, "\n");
}

/* The worst first; of one severity the rarer first: those stand out. */
static void print_findings(const struct comparison *all, struct sbuf *out)
{
    for (int s = FINDING_SEVERITY_N - 1; s >= 0; s--) {
        for (size_t want = 1; want <= (size_t)all->n; want++) {
            const char *key;
            json_t *hosts;
            json_object_foreach(all->findings, key, hosts) {
                size_t n = strlen(finding_severity_names[s]);
                if (strncmp(key, finding_severity_names[s], n) ||
                    key[n] != ' ' || json_array_size(hosts) != want)
                    continue;
                sbuf_printf(out, "%-7s %s on %zu: ", finding_severity_names[s],
                            key + n + 1, want);
                print_hosts(hosts, out);
            }
        }
    }
}

static void print_differences(const struct comparison *all, struct sbuf *out)
{
    const char *note, *value;
    json_t *groups, *hosts;
    json_object_foreach(all->notes, note, groups) {
        const char *usual = NULL;
        size_t most = 0;
        json_object_foreach(groups, value, hosts)
            if (json_array_size(hosts) > most) {
                most = json_array_size(hosts);
                usual = value;
            }
        json_object_foreach(groups, value, hosts) {
            size_t n = json_array_size(hosts);
            /* One of a few nodes stands out, too. */
            if (value == usual ||
                (n > 1 && (double)n > STAND_OUT_SHARE * all->n))
                continue;
            sbuf_printf(out, "differs %s: %s, usually %s: ", note, value,
                        usual);
            print_hosts(hosts, out);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const json_t *list)
{
    size_t n = json_array_size(list), i;
    double *all = calloc(n + 1, sizeof *all), middle;
    json_t *item;
    if (!all)
        return 0;
    json_array_foreach(list, i, item)
        all[i] = json_double_or(item, "value", 0);
    qsort(all, n, sizeof *all, by_value);
    middle = all[n / 2];
    free(all);
    return middle;
}

/* Which node's is slow in what, where there are enough to say so. */
static void print_figures(const struct comparison *all, struct sbuf *out)
{
    const char *name;
    json_t *list, *item;
    json_object_foreach(all->figures, name, list) {
        double usual = median(list);
        size_t i;
        if (json_array_size(list) < FIGURES_MIN)
            continue;
        json_array_foreach(list, i, item) {
            double value = json_double_or(item, "value", 0);
            if (value < SLOW_SHARE * usual)
                sbuf_printf(out, "slow    %s: %.4g %s, usually %.4g: %s %s\n",
                            name, value, json_string_or(item, "unit", ""),
                            usual, json_string_or(item, "host", "?"),
                            json_string_or(item, "subject", "?"));
        }
    }
}

int compare_reports(const char *const *paths, int paths_n, struct sbuf *out,
                    struct err *err)
{
    struct comparison all = {json_object(), json_object(), json_object(),
                             json_object(), json_array(), NULL, 0};
    for (int i = 0; i < paths_n; i++)
        add_path(&all, paths[i]);
    int rc = all.n ? 0
                   : err_set_class(err, ERR_REQUEST,
                                   "no report among the files given");
    if (!rc) {
        print_verdicts(&all, out);
        print_findings(&all, out);
        print_differences(&all, out);
        print_figures(&all, out);
        compare_pairs_print(all.pairs, out);
        if (json_array_size(all.broken)) {
            sbuf_printf(out, "no report in %zu: ",
                        json_array_size(all.broken));
            print_hosts(all.broken, out);
        }
    }
    json_decref(all.verdicts);
    json_decref(all.findings);
    json_decref(all.notes);
    json_decref(all.figures);
    free(all.pairs);
    json_decref(all.broken);
    return rc;
}
