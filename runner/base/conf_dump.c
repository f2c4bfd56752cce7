/* conf_dump - rows to YAML with origins, and to help. A dump can be read
 * back: a value that YAML could take for something else is quoted. */
#include "runner/base/conf_private.h"

#include <stdio.h>
#include <string.h>

static bool is_plain(const char *text)
{
    static const char *const words[] = {"null", "~"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i]))
            return false;
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                            "XYZ0123456789_./+-");
    return n && !text[n] && text[0] != '-' && text[0] != '.';
}

static void add_value(struct sbuf *out, const char *text, size_t n)
{
    char copy[64];
    if (n < sizeof copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
        if (is_plain(copy)) {
            sbuf_puts(out, copy);
            return;
        }
    }
    sbuf_puts(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            sbuf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            sbuf_printf(out, "\\x%02X", c);
        else
            sbuf_add(out, text + i, 1);
    }
    sbuf_puts(out, "\"");
}

static void add_origin(struct sbuf *out, const char *origin)
{
    sbuf_puts(out, "  # ");
    for (const char *p = origin; *p; p++) {
        char c = (unsigned char)*p < 0x20 ? '?' : *p;
        sbuf_add(out, &c, 1);
    }
    sbuf_puts(out, "\n");
}

static void add_list(struct sbuf *out, const char *text, int indent)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        sbuf_printf(out, "%*s- ", indent, "");
        add_value(out, text, n);
        sbuf_puts(out, "\n");
        text += n + (text[n] == '\n');
    }
}

void conf_dump(const struct conf *conf, struct sbuf *out)
{
    char section[256] = "";
    for (int i = 0; i < conf->rows_n; i++) {
        const struct conf_row *row = &conf->rows[i];
        const char *dot = strrchr(row->key, '.');
        const char *text = conf_text(conf, row->key);
        int n = dot ? (int)(dot - row->key) : 0;
        if (n && (strncmp(section, row->key, (size_t)n) || section[n])) {
            snprintf(section, sizeof section, "%.*s", n, row->key);
            sbuf_printf(out, "%s:\n", section);
        }
        sbuf_printf(out, "%s%s:%s", n ? "  " : "", dot ? dot + 1 : row->key,
                    *text && row->type != CONF_LIST ? " " : "");
        if (row->secret && *text)
            add_value(out, CONF_REDACTED, strlen(CONF_REDACTED));
        else if (*text && row->type != CONF_LIST)
            add_value(out, text, strlen(text));
        add_origin(out, *text ? conf_origin(conf, row->key) : "unset");
        if (row->type == CONF_LIST && !row->secret)
            add_list(out, text, n ? 4 : 2);
    }
}

void conf_help(const struct conf_row *rows, int rows_n, struct sbuf *out)
{
    for (int i = 0; i < rows_n; i++) {
        const struct conf_row *row = &rows[i];
        const char *unit = row->unit ? row->unit : "";
        sbuf_printf(out, "  %s", row->key);
        if (!row->fallback)
            sbuf_puts(out, " (must be given)");
        else if (*row->fallback)
            sbuf_puts(out, "=");
        for (const char *p = row->fallback; p && *p; p++)
            sbuf_add(out, *p == '\n' ? "," : p, 1); /* items of a list */
        sbuf_printf(out, "\n      %s [%s", row->doc,
                    row->type == CONF_CHOICE ? row->choices
                                             : conf_type_name(row->type));
        if (*unit)
            sbuf_printf(out, ", %s", unit);
        if (row->max >= 9e15)
            sbuf_printf(out, ", at least %.15g", row->min);
        else if (row->min != 0 || row->max != 0)
            sbuf_printf(out, ", %.15g to %.15g", row->min, row->max);
        sbuf_puts(out, "]\n");
    }
}
