/* finding - the words for severities; see finding.h. */
#include "health/finding.h"

const char *const finding_severity_names[FINDING_SEVERITY_N] = {
    [FINDING_INFO] = "info",   [FINDING_WARN] = "warn",
    [FINDING_UNKNOWN] = "unknown", [FINDING_DRAIN] = "drain",
    [FINDING_FAIL] = "fail",
};
