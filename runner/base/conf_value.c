/* conf_value - text to values, by the type of a row. */
#include "runner/base/conf_private.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum conf_type type;
    const char *name; /* in help */
    const char *what; /* in messages */
} types[] = {
    {CONF_INT, "integer", "an integer"},
    {CONF_REAL, "number", "a number"},
    {CONF_BOOL, "bool", "true or false"},
    {CONF_TEXT, "text", "text"},
    {CONF_CHOICE, "choice", "one of the choices"},
    {CONF_PATH, "path", "a path"},
    {CONF_LIST, "list", "a list"},
    {CONF_DURATION, "duration", "a duration"},
    {CONF_SIZE, "size", "a size"},
};

const char *conf_type_name(enum conf_type type)
{
    return types[type].name;
}

struct suffix {
    const char *name;
    double factor;
};
static const struct suffix duration_suffixes[] = {
    {"ms", 1e-3}, {"s", 1},      {"min", 60}, {"m", 60},
    {"h", 3600},  {"d", 86400},  {NULL, 0}};
static const struct suffix size_suffixes[] = {
    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
    {"B", 1},        {NULL, 0}};

/* "5m", "1h30m", "512", "1.5G": numbers with suffixes, added up. A number
 * without one is `1` of the unit and must stand alone. */
static int with_suffixes(const char *text, const struct suffix *suffixes,
                         double *ret)
{
    double sum = 0;
    const char *p = text;
    do {
        char number[64];
        size_t n = strspn(p, "0123456789.");
        if (!n || n >= sizeof number)
            return -1;
        memcpy(number, p, n);
        number[n] = 0;
        double v;
        if (str_to_double(number, &v))
            return -1;
        p += n;
        const struct suffix *s = suffixes;
        while (s->name && !str_starts(p, s->name))
            s++;
        if (s->name)
            p += strlen(s->name);
        else if (*p || p - n != text)
            return -1;
        sum += v * (s->name ? s->factor : 1);
    } while (*p);
    *ret = sum;
    return 0;
}

/* Underscores between digits and exact powers (1e6) are integers too. */
static int to_int(const char *text, int64_t *ret)
{
    char digits[64];
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '_' && p > text && isdigit((unsigned char)p[-1]) &&
            isdigit((unsigned char)p[1]))
            continue;
        if (n + 1 >= sizeof digits || isspace((unsigned char)*p))
            return -1;
        digits[n++] = *p;
    }
    digits[n] = 0;
    if (!str_to_i64(digits, ret))
        return 0;
    double v;
    if (digits[strspn(digits, "0123456789.eE+-")] ||
        str_to_double(digits, &v) || v != floor(v) || fabs(v) > 0x1p53)
        return -1;
    *ret = (int64_t)v;
    return 0;
}

static int to_real(const char *text, double *ret)
{
    if (text[strspn(text, "0123456789.eE+-")])
        return -1; /* no inf, nan, hexadecimal */
    return str_to_double(text, ret) || !isfinite(*ret) ? -1 : 0;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices; p && *p;) {
        size_t m = strcspn(p, "|");
        if (m == n && !memcmp(p, text, n))
            return true;
        p += m + (p[m] == '|');
    }
    return false;
}

/* "; give 1 to 100 tokens" */
static const char *limits(const struct conf_row *row, char *buf, size_t bytes)
{
    const char *unit = row->unit ? row->unit : "";
    const char *example = row->type == CONF_DURATION ? " (as 30s, 5m, 2h)"
                          : row->type == CONF_SIZE   ? " (as 512M, 2G)"
                                                     : "";
    if (row->type == CONF_CHOICE)
        snprintf(buf, bytes, "; give one of %s", row->choices);
    else if (row->type == CONF_BOOL)
        snprintf(buf, bytes, "; give true or false");
    else if (row->min == 0 && row->max == 0)
        snprintf(buf, bytes, "; give %s%s%s%s", types[row->type].what,
                 *unit ? " in " : "", unit, example);
    else if (row->max >= 9e15)
        snprintf(buf, bytes, "; give at least %.15g%s%s%s", row->min,
                 *unit ? " " : "", unit, example);
    else
        snprintf(buf, bytes, "; give %.15g to %.15g%s%s%s", row->min,
                 row->max, *unit ? " " : "", unit, example);
    return buf;
}

int conf_value(const struct conf_row *row, const char *text, double *ret_real,
               int64_t *ret_int, struct err *err)
{
    double real = 0;
    int64_t whole = 0;
    bool flag = false;
    int bad = 0;
    char give[256];

    switch (row->type) {
    case CONF_INT:
        bad = to_int(text, &whole);
        real = (double)whole;
        break;
    case CONF_REAL:
        bad = to_real(text, &real);
        whole = bad ? 0 : (int64_t)fmax(fmin(real, 0x1p62), -0x1p62);
        break;
    case CONF_DURATION:
        bad = with_suffixes(text, duration_suffixes, &real);
        whole = bad ? 0 : (int64_t)fmin(real, 0x1p62);
        break;
    case CONF_SIZE:
        bad = with_suffixes(text, size_suffixes, &real) || real > 0x1p62;
        whole = bad ? 0 : (int64_t)real;
        break;
    case CONF_BOOL:
        bad = str_to_bool(text, &flag);
        real = flag;
        whole = flag;
        break;
    case CONF_CHOICE:
        bad = !is_choice(row->choices, text);
        break;
    case CONF_TEXT:
    case CONF_PATH:
    case CONF_LIST:
        break;
    }
    if (bad)
        return err_set_class(err, ERR_REQUEST, "'%.200s' is not %s%s", text,
                             types[row->type].what,
                             limits(row, give, sizeof give));
    if ((row->min != 0 || row->max != 0) &&
        (real < row->min || real > row->max))
        return err_set_class(err, ERR_REQUEST, "%.200s is out of range%s",
                             text, limits(row, give, sizeof give));
    if (ret_real)
        *ret_real = real;
    if (ret_int)
        *ret_int = whole;
    return 0;
}
