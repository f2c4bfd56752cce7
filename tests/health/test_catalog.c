/* catalog: every row is whole, codes are unique and of their form. */
#include "health/catalog.h"

#include <ctype.h>

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

int main(void)
{
    struct finding finding;
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
    }
    catalog_fill(&finding, F_DISK_FULL, "/tmp", "evidence");
    is_str(finding.subject, "/tmp", "subject");
    is_str(finding.evidence, "evidence", "evidence");
    is_int(finding.severity, FINDING_WARN, "severity");
    is_int(catalog_find_code("no-such-code"), -1, "an unknown code");
    return tap_done();
}
