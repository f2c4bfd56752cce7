/* Test of man/koboshi.yaml.5: its list of keys is what the rows say. With
 * TESTS_WRITE set the list is written instead. */
#include "runner/base/file.h"
#include "runner/plan/plan.h"
#include "tests/tap.h"

#include <ctype.h>
#include <stdlib.h>

#define PAGE MAN_DIR "/koboshi.yaml.5"
#define BEGIN ".\\\" keys: written by tests/plan/test_man\n"
#define END ".\\\" end of keys\n"

/* roff: - is a minus, \ and a leading dot are escaped. */
static void add_text(struct sbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            sbuf_puts(out, "\\");
        if (*text == '\\')
            sbuf_puts(out, "e");
        else
            sbuf_add(out, text, 1);
    }
}

/* "integer, 1 to 1000 layers" */
static void add_type(struct sbuf *out, const struct conf_row *row)
{
    static const char *const names[] = {
        [CONF_INT] = "integer", [CONF_REAL] = "number",
        [CONF_BOOL] = "true or false", [CONF_TEXT] = "text",
        [CONF_PATH] = "path", [CONF_LIST] = "list",
        [CONF_DURATION] = "duration", [CONF_SIZE] = "size"};
    if (row->type == CONF_CHOICE) {
        sbuf_puts(out, "one of ");
        for (const char *p = row->choices; *p;) {
            size_t n = strcspn(p, "|");
            char word[64];
            snprintf(word, sizeof word, "%.*s", (int)n, p);
            sbuf_puts(out, "\\fB");
            add_text(out, word);
            sbuf_puts(out, p[n] ? "\\fR, " : "\\fR");
            p += n + (p[n] == '|');
        }
        return;
    }
    sbuf_puts(out, names[row->type]);
    if (row->min == 0 && row->max == 0) {
        if (*row->unit)
            sbuf_printf(out, " of %s", row->unit);
        return;
    }
    char range[96];
    if (row->max >= 9e15)
        snprintf(range, sizeof range, ", at least %.15g%s%s", row->min,
                 *row->unit ? " " : "", row->unit);
    else
        snprintf(range, sizeof range, ", %.15g to %.15g%s%s", row->min,
                 row->max, *row->unit ? " " : "", row->unit);
    add_text(out, range);
}

static void add_row(struct sbuf *out, const struct conf_row *row)
{
    sbuf_puts(out, ".TP\n.B ");
    add_text(out, row->key);
    sbuf_puts(out, "\n");
    add_type(out, row);
    if (!row->fallback) {
        sbuf_puts(out, "; must be given");
    } else if (*row->fallback) {
        sbuf_puts(out, "; default \\fB");
        add_text(out, row->fallback);
        sbuf_puts(out, "\\fR");
    }
    sbuf_puts(out, ".\n");
    char first[2] = {(char)toupper((unsigned char)row->doc[0]), 0};
    add_text(out, first);
    add_text(out, row->doc + 1);
    sbuf_puts(out, row->secret ? ".\nSecret: never printed.\n" : ".\n");
}

static void add_rows(struct sbuf *out)
{
    char section[64] = "";
    sbuf_puts(out, BEGIN);
    for (int i = 0; i < plan_rows_n; i++) {
        const char *key = plan_rows[i].key;
        size_t n = strcspn(key, ".");
        if (strncmp(section, key, n) || section[n]) {
            snprintf(section, sizeof section, "%.*s", (int)n, key);
            sbuf_printf(out, ".SS %s\n", section);
        }
        add_row(out, &plan_rows[i]);
    }
    sbuf_puts(out, END);
}

/* The page with the list in place of the old one. */
static int replace_list(const char *page, const struct sbuf *list)
{
    struct sbuf out = SBUF_INIT;
    const char *begin = strstr(page, BEGIN), *end = strstr(page, END);
    if (!begin || !end)
        return -1;
    sbuf_add(&out, page, (size_t)(begin - page));
    sbuf_add(&out, list->data, list->len);
    sbuf_puts(&out, end + strlen(END));
    int rc = file_replace(PAGE, out.data, out.len, 0644, NULL);
    sbuf_release(&out);
    return rc;
}

int main(void)
{
    struct sbuf list = SBUF_INIT;
    char *page = file_read(PAGE, 1 << 20, NULL, NULL);
    if (!ok(page != NULL, "the page is there"))
        return tap_done();
    add_rows(&list);
    if (getenv("TESTS_WRITE"))
        ok(!replace_list(page, &list), "written");
    else
        ok(strstr(page, list.data) != NULL, "its keys are those of the rows "
           "(else run this with TESTS_WRITE=1)");
    for (const char *const *name = plan_presets(); *name; name++) {
        struct sbuf text = SBUF_INIT;
        add_text(&text, *name);
        ok(strstr(page, text.data) != NULL, "it has preset %s", *name);
        sbuf_release(&text);
    }
    free(page);
    sbuf_release(&list);
    return tap_done();
}
