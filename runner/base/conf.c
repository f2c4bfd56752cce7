/* conf - the table of keys: setting, checking, getting; see conf.h. */
#include "runner/base/conf_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct conf *conf_create(const struct conf_row *rows, int rows_n,
                         struct err *err)
{
    struct conf *conf = calloc(1, sizeof *conf);
    if (conf)
        conf->entries = calloc((size_t)rows_n, sizeof *conf->entries);
    if (!conf || !conf->entries) {
        free(conf);
        err_set(err, "conf: out of memory");
        return NULL;
    }
    conf->rows = rows;
    conf->rows_n = rows_n;
    return conf;
}

static void entry_clear(struct conf_entry *entry)
{
    free(entry->text);
    free(entry->origin);
    *entry = (struct conf_entry){0};
}

void conf_destroy(struct conf *conf)
{
    if (!conf)
        return;
    for (int i = 0; i < conf->rows_n; i++)
        entry_clear(&conf->entries[i]);
    for (int i = 0; i < conf->mistakes_n; i++)
        free(conf->mistakes[i]);
    free(conf->entries);
    free(conf);
}

int conf_mistake(struct conf *conf, struct err *err, const char *fmt, ...)
{
    struct err one = ERR_INIT;
    va_list ap;
    va_start(ap, fmt);
    char text[sizeof one.msg];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (conf->mistakes_n < CONF_MISTAKES_MAX) {
        char *copy = strdup(text);
        if (copy)
            conf->mistakes[conf->mistakes_n++] = copy;
    }
    return err_set_class(err, ERR_REQUEST, "%s", text);
}

int conf_find(const struct conf *conf, const char *key)
{
    for (int i = 0; i < conf->rows_n; i++)
        if (!strcmp(conf->rows[i].key, key))
            return i;
    return -1;
}

/* ---- The nearest key ---------------------------------------------------- */

static const char *last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static bool among(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; p && *p;) {
        size_t m = strcspn(p, "|");
        if (m == n && !strncasecmp(p, name, n))
            return true;
        p += m + (p[m] == '|');
    }
    return false;
}

/* A name that others use for it, the same word in another section, else the
 * smallest edit distance. */
static int nearest(const struct conf *conf, const char *key)
{
    int best = -1, best_distance = INT_MAX;
    const char *last = last_part(key);
    for (int i = 0; i < conf->rows_n; i++) {
        const struct conf_row *row = &conf->rows[i];
        int distance = str_distance(key, row->key) * 4;
        if (among(row->also, last))
            distance = str_starts(row->key, key) ? 0 : 1;
        else if (!strcasecmp(last_part(row->key), last))
            distance = 2;
        if (distance < best_distance) {
            best_distance = distance;
            best = i;
        }
    }
    return best;
}

const char *conf_hint(const struct conf *conf, const char *key, char *buf,
                      size_t buf_bytes)
{
    int i = nearest(conf, key);
    buf[0] = 0;
    if (i >= 0)
        snprintf(buf, buf_bytes, "; did you mean '%s'", conf->rows[i].key);
    return buf;
}

/* ---- Setting ------------------------------------------------------------ */

int conf_put(struct conf *conf, const char *key, const char *text,
             const char *origin, struct err *err)
{
    char hint[200];
    int i = conf_find(conf, key);
    if (i < 0)
        return conf_mistake(conf, err, "conf: %s: unknown key '%.200s'%s",
                            origin, key,
                            conf_hint(conf, key, hint, sizeof hint));
    struct conf_entry entry = {strdup(text), strdup(origin), 0};
    if (!entry.text || !entry.origin) {
        entry_clear(&entry);
        return err_set(err, "conf: out of memory");
    }
    entry_clear(&conf->entries[i]);
    if (conf->rows[i].secret && !strcmp(text, CONF_REDACTED))
        entry_clear(&entry); /* a dump read back */
    conf->entries[i] = entry;
    return 0;
}

int conf_set(struct conf *conf, const char *assignment, const char *origin,
             struct err *err)
{
    const char *eq = strchr(assignment, '=');
    if (!eq || eq == assignment)
        return conf_mistake(conf, err, "conf: %s: '%.200s' is not KEY=VALUE",
                            origin, assignment);
    char *key = strndup(assignment, (size_t)(eq - assignment));
    char *text = strdup(eq + 1);
    int rc = -1;
    if (!key || !text) {
        err_set(err, "conf: out of memory");
        goto out;
    }
    int i = conf_find(conf, key);
    if (i >= 0 && conf->rows[i].type == CONF_LIST)
        for (char *p = text; *p; p++)
            if (*p == ',')
                *p = '\n';
    rc = conf_put(conf, key, text, origin, err);
out:
    free(key);
    free(text);
    return rc;
}

/* ---- Checking ----------------------------------------------------------- */

static const char *text_of(const struct conf *conf, int i)
{
    const struct conf_entry *entry = &conf->entries[i];
    if (entry->text && *entry->text)
        return entry->text;
    return conf->rows[i].fallback ? conf->rows[i].fallback : "";
}

static int check_row(const struct conf *conf, int i, struct err *err)
{
    const struct conf_row *row = &conf->rows[i];
    const char *text = text_of(conf, i);
    struct err why = ERR_INIT;
    if (!*text && !row->fallback)
        return err_set_class(err, ERR_REQUEST,
                             "conf: '%s' must be given: %s", row->key,
                             row->doc);
    if (!*text || !conf_value(row, text, NULL, NULL, &why))
        return 0;
    return err_set_class(err, ERR_REQUEST, "conf: %s: '%s': %s",
                         conf_origin(conf, row->key), row->key, why.msg);
}

int conf_check(const struct conf *conf, struct err *err)
{
    if (conf->mistakes_n)
        return err_set_class(err, ERR_REQUEST, "%s", conf->mistakes[0]);
    for (int i = 0; i < conf->rows_n; i++)
        if (check_row(conf, i, err))
            return -1;
    return 0;
}

int conf_mistakes(const struct conf *conf, conf_say_f say, void *ctx)
{
    int n = conf->mistakes_n;
    for (int i = 0; i < n; i++)
        say(ctx, conf->mistakes[i]);
    for (int i = 0; i < conf->rows_n; i++) {
        struct err err = ERR_INIT;
        /* what could not be read may hold the key that seems missing */
        if (conf->mistakes_n && !*text_of(conf, i))
            continue;
        if (!check_row(conf, i, &err))
            continue;
        say(ctx, err.msg);
        n++;
    }
    return n;
}

/* ---- Getting ------------------------------------------------------------ */

const char *conf_text(const struct conf *conf, const char *key)
{
    int i = conf_find(conf, key);
    return i < 0 ? "" : text_of(conf, i);
}

static void numbers(const struct conf *conf, const char *key, double *real,
                    int64_t *whole)
{
    int i = conf_find(conf, key);
    *real = 0;
    *whole = 0;
    if (i >= 0 && *text_of(conf, i))
        conf_value(&conf->rows[i], text_of(conf, i), real, whole, NULL);
}

int64_t conf_int(const struct conf *conf, const char *key)
{
    double real;
    int64_t whole;
    numbers(conf, key, &real, &whole);
    return whole;
}

double conf_real(const struct conf *conf, const char *key)
{
    double real;
    int64_t whole;
    numbers(conf, key, &real, &whole);
    return real;
}

bool conf_bool(const struct conf *conf, const char *key)
{
    return conf_int(conf, key) != 0;
}

static bool is_given(const struct conf *conf, int i)
{
    return i >= 0 && conf->entries[i].text && *conf->entries[i].text;
}

bool conf_is_set(const struct conf *conf, const char *key)
{
    int i = conf_find(conf, key);
    const char *fallback = i >= 0 ? conf->rows[i].fallback : NULL;
    return is_given(conf, i) &&
           (!fallback || strcmp(conf->entries[i].text, fallback));
}

const char *conf_origin(const struct conf *conf, const char *key)
{
    int i = conf_find(conf, key);
    if (!is_given(conf, i))
        return "default";
    return conf->entries[i].origin;
}
