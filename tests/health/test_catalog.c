/* catalog: every row is whole, codes are unique and of their form, and the page
 * says the same of each. */
#include "health/catalog.h"

#include <ctype.h>
#include <stdlib.h>

#include "runner/base/file.h"
#include "runner/base/str.h"
#include "tests/tap.h"

/* Codes come from users' eyes in reasons and files: lower case and dashes. */
static int is_code(const char *code)
{
    for (const char *p = code; *p; p++)
        if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) &&
            *p != '-')
            return 0;
    return *code != 0 && strlen(code) <= 40;
}

/* A page's text, as it is read: what roff writes for - and '. */
static void read_as_text(char *page)
{
    char *to = page;
    for (const char *from = page; *from;) {
        bool is_quote = str_starts(from, "\\(aq");
        if (is_quote || str_starts(from, "\\-")) {
            *to++ = is_quote ? '\'' : '-';
            from += is_quote ? 4 : 2;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

static int is_on_page(const char *page, const struct catalog_row *row)
{
    char want[1024];
    bool acts = row->action != FINDING_DO_NOTHING;
    snprintf(want, sizeof want, "\n.B %s\n(%s, %s) %s; %s%s%s%s\n", row->code,
             finding_severity_names[row->severity], row->subject,
             row->message, row->advice, acts ? " [" : "",
             acts ? finding_action_names[row->action] : "", acts ? "]" : "");
    if (strstr(page, want))
        return 1;
    printf("# wanted:%s", want + 1);
    return 0;
}

int main(void)
{
    struct finding finding;
    char *page = file_read(PAGE, 1 << 20, NULL, NULL);
    if (!ok(page != NULL, "the page is there"))
        return tap_done();
    read_as_text(page);
    for (int i = 0; i < F_CODE_N; i++) {
        const struct catalog_row *row = &catalog[i];
        if (!ok(row->code && row->subject && row->message && row->advice,
                "row %d is whole", i))
            continue;
        ok(is_code(row->code), "%s is a code", row->code);
        is_int(catalog_find_code(row->code), i, "found, and the only one");
        ok(islower((unsigned char)row->message[0]) ||
               !strncmp(row->message, "/dev", 4) ||
               isupper((unsigned char)row->message[1]),
           "message begins in lower case: %s", row->message);
        ok(row->message[strlen(row->message) - 1] != '.' &&
               row->advice[strlen(row->advice) - 1] != '.',
           "no full stop");
        ok((row->severity != FINDING_DRAIN && row->severity != FINDING_FAIL) ||
               row->class != ERR_NONE,
           "what is lost is said when it is bad");
        ok(strlen(row->message) < sizeof finding.message &&
               strlen(row->advice) < sizeof finding.advice,
           "fits a finding");
        ok(is_on_page(page, row), "the page says the same");
    }
    free(page);
    catalog_fill(&finding, F_DISK_FULL, "/tmp", "evidence");
    is_str(finding.subject, "/tmp", "subject");
    is_str(finding.evidence, "evidence", "evidence");
    is_int(finding.severity, FINDING_WARN, "severity");
    is_int(catalog_find_code("no-such-code"), -1, "an unknown code");
    return tap_done();
}
